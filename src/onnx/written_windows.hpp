// Windows of a net's convolutions and poolings as attributes of ONNX.
#pragma once

#include "onnx/written_operator.hpp"

namespace clprim::onnx {

// pads or auto_pad, kernel_shape, strides, dilations.
template <class Config>
WrittenAttributes window(const Config& c)
{
    const auto all = [&](const Dims& values, std::int64_t fallback, const char* option) {
        return list(per_axis(values, c.spatial, fallback, option));
    };
    WrittenAttributes result{{"kernel_shape", all(c.kernel, 1, "kernel")}, {"strides", all(c.stride, 1, "stride")},
                             {"dilations", all(c.dilate, 1, "dilate")}};
    if (const AutoPad rule = auto_pad_from(c.auto_pad); rule != AutoPad::none) {
        result.push_back({"auto_pad", rule == AutoPad::valid        ? "VALID"
                                      : rule == AutoPad::same_upper ? "SAME_UPPER"
                                                                    : "SAME_LOWER"});
        return result;
    }
    Ints pads = all(c.pad, 0, "pad");
    const Ints end = c.pad_end.empty() ? pads : all(c.pad_end, 0, "pad_end");
    pads.insert(pads.end(), end.begin(), end.end());
    result.push_back({"pads", pads});
    return result;
}

}  // namespace clprim::onnx
