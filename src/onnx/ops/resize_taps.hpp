// Where Resize reads: coordinates, neighbours and weights of one axis.
#pragma once

#include <clprim/resample.hpp>

#include "onnx/call.hpp"

namespace clprim::onnx {

enum class ResizeMode { nearest, linear, cubic };

// What the attributes of Resize say; defaults are those of operator set 10 and of Upsample.
struct ResizeRule {
    ResizeMode mode = ResizeMode::nearest;
    std::string coordinates = "asymmetric", rounding = "simple";
    double cubic_a = -0.75, extrapolation = 0;
    bool exclude_outside = false, antialias = false;
};

struct ResizeAxis {
    std::int64_t in = 1, out = 1;
    float scale = 1;                       // out / in, or the scale that was given
    float roi_begin = 0, roi_end = 1;      // in parts of the axis; tf_crop_and_resize only

    bool is_identity(const ResizeRule& rule) const;
};

ResizeRule resize_rule(const Call& call);

AxisTaps resize_taps(const ResizeRule& rule, const ResizeAxis& axis);

}  // namespace clprim::onnx
