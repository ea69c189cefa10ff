#include "onnx/ops/windows.hpp"

#include <clprim/context.hpp>

namespace clprim::onnx {

std::int64_t Windows::count(std::size_t axis, std::int64_t in) const
{
    const std::int64_t room = in + pad_begin[axis] + pad_end[axis] - extent(axis);
    if (room < 0)
        return 0;
    std::int64_t result = (ceil_mode ? room + stride[axis] - 1 : room) / stride[axis] + 1;
    if (ceil_mode && (result - 1) * stride[axis] >= in + pad_begin[axis])
        --result;
    return result;
}

Dims Windows::output_shape(const Dims& x, std::int64_t channels) const
{
    Dims result{x[0], channels};
    for (std::size_t i = 0; i + 2 < x.size(); ++i)
        result.push_back(count(i, x[i + 2]));
    return result;
}

Dims spatial_attribute(const Call& call, std::string_view name, std::size_t count, std::int64_t otherwise)
{
    const auto list = call.ints_attribute(name);
    if (list.empty())
        return Dims(count, otherwise);
    call.check(list.size() == count, name, " has ", list.size(), " entries, expected ", count);
    return Dims(list);
}

Dims spatial_sizes(const Call& call, const Dims& x)
{
    call.check(x.size() >= 3, "input 0 has shape ", to_string(x), ", expected N, C and at least one spatial axis");
    return Dims(std::span(x.begin() + 2, x.size() - 2));
}

Windows windows(const Call& call, const Dims& x, Dims kernel)
{
    const Dims in = spatial_sizes(call, x);
    const std::size_t axes = in.size();
    Windows w;
    const auto given = call.ints_attribute("kernel_shape");
    call.check(!given.empty() || !kernel.empty(), "attribute kernel_shape is missing");
    w.kernel = kernel.empty() ? Dims(given) : kernel;
    call.check(w.kernel.size() == axes, "kernel_shape ", to_string(w.kernel), " has not one entry for each of ", axes,
               " spatial axes");
    call.check(given.empty() || Dims(given) == w.kernel, "kernel_shape ", to_string(Dims(given)),
               " differs from the kernel of the weights, ", to_string(w.kernel));
    w.stride = spatial_attribute(call, "strides", axes, 1);
    w.dilation = spatial_attribute(call, "dilations", axes, 1);
    const Dims pads = spatial_attribute(call, "pads", 2 * axes, 0);
    w.pad_begin = w.pad_end = Dims(axes, 0);
    const std::string mode = call.string_attribute("auto_pad", "NOTSET");
    call.check(mode == "NOTSET" || mode == "VALID" || mode == "SAME_UPPER" || mode == "SAME_LOWER", "auto_pad is '",
               mode, "', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
    constexpr std::int64_t most = 1 << 30;
    for (std::size_t i = 0; i < axes; ++i) {
        call.check(w.kernel[i] > 0 && w.kernel[i] < most && w.stride[i] > 0 && w.stride[i] < most &&
                       w.dilation[i] > 0 && w.dilation[i] < most / w.kernel[i],
                   "kernel ", to_string(w.kernel), ", strides ", to_string(w.stride), " and dilations ",
                   to_string(w.dilation), " must be positive");
        if (mode == "NOTSET") {
            w.pad_begin[i] = pads[i];
            w.pad_end[i] = pads[axes + i];
            call.check(pads[i] >= 0 && pads[i] < most && pads[axes + i] >= 0 && pads[axes + i] < most, "pads ",
                       to_string(pads), " must not be negative");
        } else if (mode != "VALID") {
            const std::int64_t out = (in[i] + w.stride[i] - 1) / w.stride[i];
            const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * w.stride[i] + w.extent(i) - in[i]);
            w.pad_begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
            w.pad_end[i] = total - w.pad_begin[i];
        }
    }
    return w;
}

Tensor dense_image(const Call& call, std::size_t i)
{
    const Tensor tensor = call.tensor(i);
    return tensor.is_channels_last() ? tensor : call.contiguous(i);
}

Tensor image(const Call& call, std::size_t i)
{
    const Tensor tensor = call.tensor(i);
    if (tensor.numel() && tensor.dim() >= 3) {
        if (tensor.slice(0, 0, 1).is_contiguous())
            return tensor;
        // Pixels of a wider image: each axis goes on where the one within it ends.
        bool adjacent = tensor.size(1) == 1 || tensor.stride(1) == 1;
        for (std::size_t i = tensor.dim() - 1; adjacent && i > 2; --i)
            adjacent = tensor.stride(i - 1) == tensor.stride(i) * tensor.size(i);
        if (adjacent && tensor.stride(tensor.dim() - 1) >= tensor.size(1))
            return tensor;
    }
    return dense_image(call, i);
}

Tensor output_image(const Call& call, const Dims& shape, DataType dtype, bool channels_last)
{
    const Tensor placed = call.placed(shape, dtype, channels_last);
    return placed.defined() ? placed : allocate_image(call, shape, dtype, channels_last);
}

Tensor allocate_image(const Call& call, const Dims& shape, DataType dtype, bool channels_last)
{
    Tensor result = call.allocate(shape, dtype);
    if (channels_last) {
        result.strides[1] = 1;
        std::int64_t stride = shape[1];
        for (std::size_t i = shape.size(); i-- > 2; stride *= shape[i])
            result.strides[i] = stride;
        result.strides[0] = stride;
    }
    return result;
}

}  // namespace clprim::onnx
