#include "onnx/ops/resize_taps.hpp"

#include <algorithm>
#include <cmath>

namespace clprim::onnx {

namespace {

// The coordinate in the input that output o stands for. In float, as ONNX Runtime computes it: where a coordinate is
// almost a whole number or a half, one bit decides which element is the nearest.
float coordinate(const ResizeRule& rule, const ResizeAxis& axis, std::int64_t o)
{
    const auto x = static_cast<float>(o), in = static_cast<float>(axis.in);
    const float length = axis.scale * in;              // may have a fraction, unlike `out`
    const std::string& mode = rule.coordinates;
    if (mode == "asymmetric")
        return x / axis.scale;
    if (mode == "half_pixel")
        return (x + 0.5F) / axis.scale - 0.5F;
    if (mode == "pytorch_half_pixel")
        return axis.out > 1 ? (x + 0.5F) / axis.scale - 0.5F : 0;
    if (mode == "tf_half_pixel_for_nn")
        return (x + 0.5F) / axis.scale;
    if (mode == "align_corners")
        return length == 1 || axis.out == 1 ? 0 : x * (in - 1) / (length - 1);
    if (mode == "half_pixel_symmetric")
        return in / 2 * (1 - static_cast<float>(axis.out) / length) + (x + 0.5F) / axis.scale - 0.5F;
    // tf_crop_and_resize
    const float part = axis.roi_end - axis.roi_begin;
    const float inside = axis.out > 1 ? x * part * (in - 1) / (length - 1) : part * (in - 1) / 2;
    return inside + axis.roi_begin * (in - 1);
}

std::int64_t nearest(const ResizeRule& rule, float scale, float x)
{
    const auto whole = [](float v) { return static_cast<std::int64_t>(v); };
    if (rule.rounding == "floor")
        return whole(std::floor(x));
    if (rule.rounding == "ceil")
        return whole(std::ceil(x));
    if (rule.rounding == "round_prefer_ceil")
        return whole(std::floor(x + 0.5F));
    if (rule.rounding == "round_prefer_floor")
        return whole(std::ceil(x - 0.5F));
    return whole(scale < 1 ? std::ceil(x) : std::floor(x));    // before operator set 11
}

double cubic(double distance, double a)
{
    const double d = std::abs(distance);
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

double triangle(double distance) { return std::max(0.0, 1 - std::abs(distance)); }

void append_nearest(AxisTaps& taps, const ResizeRule& rule, const ResizeAxis& axis, float x)
{
    taps.indices.push_back(
        static_cast<std::int32_t>(std::clamp<std::int64_t>(nearest(rule, axis.scale, x), 0, axis.in - 1)));
}

// Weights of the neighbours begin, begin + 1, ...; those outside of the input stand for the outermost element, or are
// left out. When shrinking with antialias the filter is as much wider as the output is smaller.
void append_weighted(AxisTaps& taps, const ResizeRule& rule, const ResizeAxis& axis, float x)
{
    const double shrink = rule.antialias ? std::min<double>(axis.scale, 1) : 1;
    const double floor = std::floor(x);
    const auto left = static_cast<std::int64_t>(floor) - (floor == x);   // the neighbour on the left, never x itself
    const std::int64_t begin = left + 1 - static_cast<std::int64_t>(taps.taps / 2);
    double total = 0;
    const std::size_t first = taps.weights.size();
    for (std::size_t t = 0; t < taps.taps; ++t) {
        const std::int64_t at = begin + static_cast<std::int64_t>(t);
        const bool outside = at < 0 || at >= axis.in;
        const double distance = (static_cast<double>(at) - x) * shrink;
        const double weight = rule.exclude_outside && outside   ? 0
                              : rule.mode == ResizeMode::linear ? triangle(distance)
                                                                : cubic(distance, rule.cubic_a);
        taps.indices.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(at, 0, axis.in - 1)));
        taps.weights.push_back(weight);
        total += weight;
    }
    if ((rule.exclude_outside || rule.antialias) && total != 0)
        for (std::size_t t = first; t < taps.weights.size(); ++t)
            taps.weights[t] /= total;
}

}  // namespace

bool ResizeAxis::is_identity(const ResizeRule& rule) const
{
    return in == out && scale == 1 && (rule.coordinates != "tf_crop_and_resize" || (roi_begin == 0 && roi_end == 1));
}

AxisTaps resize_taps(const ResizeRule& rule, const ResizeAxis& axis)
{
    AxisTaps taps;
    taps.fill = rule.extrapolation;
    if (rule.mode != ResizeMode::nearest) {
        const double radius = rule.mode == ResizeMode::linear ? 1 : 2;
        const double shrink = rule.antialias ? std::min<double>(axis.scale, 1) : 1;
        taps.taps = static_cast<std::size_t>(-2 * std::floor(-radius / shrink));
    }
    for (std::int64_t o = 0; o < axis.out; ++o) {
        const float x = coordinate(rule, axis, o);
        if (rule.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<float>(axis.in - 1))) {
            taps.indices.insert(taps.indices.end(), taps.taps, -1);
            if (rule.mode != ResizeMode::nearest)
                taps.weights.insert(taps.weights.end(), taps.taps, 0);
        } else if (rule.mode == ResizeMode::nearest) {
            append_nearest(taps, rule, axis, x);
        } else {
            append_weighted(taps, rule, axis, x);
        }
    }
    return taps;
}

ResizeRule resize_rule(const Call& call)
{
    ResizeRule rule;
    const std::string mode = call.string_attribute("mode", "nearest");
    call.check(mode == "nearest" || mode == "linear" || mode == "bilinear" || mode == "cubic", "mode is '", mode,
               "', expected nearest, linear or cubic");
    rule.mode = mode == "nearest" ? ResizeMode::nearest : mode == "cubic" ? ResizeMode::cubic : ResizeMode::linear;
    if (call.opset() < 11)
        return rule;
    rule.coordinates = call.string_attribute("coordinate_transformation_mode", "half_pixel");
    rule.rounding = call.string_attribute("nearest_mode", "round_prefer_floor");
    constexpr std::string_view transformations[] = {"asymmetric",           "half_pixel",    "pytorch_half_pixel",
                                                    "tf_half_pixel_for_nn", "align_corners", "half_pixel_symmetric",
                                                    "tf_crop_and_resize"};
    constexpr std::string_view roundings[] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
    call.check(std::ranges::find(transformations, rule.coordinates) != std::end(transformations),
               "unknown coordinate_transformation_mode '", rule.coordinates, "'");
    call.check(std::ranges::find(roundings, rule.rounding) != std::end(roundings), "unknown nearest_mode '",
               rule.rounding, "'");
    rule.cubic_a = call.float_attribute("cubic_coeff_a", -0.75F);
    rule.extrapolation = call.float_attribute("extrapolation_value", 0);
    rule.exclude_outside = call.integer_attribute("exclude_outside", 0) != 0;
    rule.antialias = call.integer_attribute("antialias", 0) != 0 && rule.mode != ResizeMode::nearest;
    return rule;
}

}  // namespace clprim::onnx
