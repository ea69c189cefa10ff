// Resize and Upsample: separable, one axis after the other.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/resize_taps.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

std::vector<float> floats(const Call& call, std::size_t i)
{
    std::vector<float> result;
    for (const double v : call.input(i).to_doubles(call.queue()))
        result.push_back(static_cast<float>(v));
    return result;
}

std::vector<std::size_t> resized_axes(const Call& call, std::size_t dims)
{
    std::vector<std::size_t> axes;
    for (const std::int64_t axis : call.ints_attribute("axes"))
        axes.push_back(call.axis(axis, dims));
    if (axes.empty()) {
        axes.resize(dims);
        std::iota(axes.begin(), axes.end(), std::size_t{0});
    }
    return axes;
}

// One scale for all axes: as large (not_larger) or small (not_smaller) as lets every size be kept to.
void keep_aspect_ratio(const Call& call, std::vector<ResizeAxis>& axes)
{
    const std::string policy = call.string_attribute("keep_aspect_ratio_policy", "stretch");
    call.check(policy == "stretch" || policy == "not_larger" || policy == "not_smaller",
               "keep_aspect_ratio_policy is '", policy, "', expected stretch, not_larger or not_smaller");
    if (policy == "stretch" || axes.empty())
        return;
    float scale = axes[0].scale;
    for (const ResizeAxis& axis : axes)
        scale = policy == "not_larger" ? std::min(scale, axis.scale) : std::max(scale, axis.scale);
    for (ResizeAxis& axis : axes) {
        axis.scale = scale;
        const float out = scale * static_cast<float>(axis.in) + 0.5F;
        call.check(out >= 0 && out < float(1 << 30), "an axis of ", axis.in, " cannot get ", out, " elements");
        axis.out = static_cast<std::int64_t>(out);
    }
}

void set_sizes(const Call& call, std::vector<ResizeAxis>& axes, const std::vector<std::int64_t>& sizes)
{
    call.check(sizes.size() == axes.size(), "there are ", sizes.size(), " sizes for ", axes.size(), " axes");
    for (std::size_t i = 0; i < axes.size(); ++i) {
        call.check(sizes[i] >= 0 && sizes[i] < (1 << 30), "an axis of ", axes[i].in, " cannot get size ", sizes[i]);
        axes[i].out = sizes[i];
        axes[i].scale = static_cast<float>(sizes[i]) / static_cast<float>(axes[i].in);
    }
    keep_aspect_ratio(call, axes);
}

void set_scales(const Call& call, std::vector<ResizeAxis>& axes, const std::vector<float>& scales)
{
    call.check(scales.size() == axes.size(), "there are ", scales.size(), " scales for ", axes.size(), " axes");
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const double out = std::floor(static_cast<float>(axes[i].in) * scales[i]);
        call.check(scales[i] > 0 && out < double(1 << 30), "a scale is ", scales[i], " for an axis of ", axes[i].in);
        axes[i].scale = scales[i];
        axes[i].out = static_cast<std::int64_t>(out);
    }
}

// The order of axes in which a dense tensor is row-major.
std::vector<std::size_t> memory_order(const Tensor& x)
{
    std::vector<std::size_t> order(x.dim());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return x.stride(a) > x.stride(b); });
    return order;
}

Tensor permuted(const Tensor& x, const std::vector<std::size_t>& order)
{
    Tensor result = x;
    for (std::size_t i = 0; i < order.size(); ++i) {
        result.shape[i] = x.size(order[i]);
        result.strides[i] = x.stride(order[i]);
    }
    return result;
}

// How often an axis repeats each of its elements, 0 if it does something else.
std::int64_t repetitions(const AxisTaps& taps, const ResizeAxis& axis)
{
    const std::int64_t factor = axis.in > 0 ? axis.out / axis.in : 0;
    bool repeats = factor > 0 && factor * axis.in == axis.out && taps.weights.empty();
    for (std::int64_t o = 0; repeats && o < axis.out; ++o)
        repeats = taps.indices[static_cast<std::size_t>(o)] == o / factor;
    return repeats ? factor : 0;
}

// Every axis that repeats its elements is two in both: the elements, and their repetitions, which stand still in x.
void repeat_by_copy(Queue& queue, const Tensor& x, const Tensor& y, const Dims& factors)
{
    Tensor from = x, to = y;
    from.shape = to.shape = from.strides = to.strides = {};
    for (std::size_t i = 0; i < x.dim(); ++i) {
        from.shape.push_back(x.size(i));
        from.strides.push_back(x.stride(i));
        to.strides.push_back(y.stride(i) * factors[i]);
        if (factors[i] > 1) {
            from.shape.push_back(factors[i]);
            from.strides.push_back(0);
            to.strides.push_back(y.stride(i));
        }
    }
    to.shape = from.shape;
    copy(queue, from, to);
}

// All axes at once where they repeat; undefined if they do not.
Tensor repeat_axes(Call& call, const Tensor& x, std::span<const std::pair<std::size_t, ResizeAxis>> axes,
                   const ResizeRule& rule)
{
    if (rule.mode != ResizeMode::nearest || x.dim() < 2 || axes.empty() || x.dim() + axes.size() > 8)
        return {};
    Dims factors(x.dim(), 1), shape = x.shape;
    bool last_two = true;
    for (const auto& [axis, how] : axes) {
        factors[axis] = repetitions(resize_taps(rule, how), how);
        if (factors[axis] == 0)
            return {};
        shape[axis] = how.out;
        last_two &= axis + 2 >= x.dim();
    }
    const Tensor y = call.allocate(shape, x.dtype);
    if (last_two)
        resample_repeat(call.queue(), x, y, factors[x.dim() - 2], factors[x.dim() - 1]);
    else if (y.numel())
        repeat_by_copy(call.queue(), x, y, factors);
    return y;
}

// What leaves most to save comes first: axes that shrink, then those that grow along memory, so that rows are moved
// whole in the end. Between axes sums stay in the type that they are kept in.
Tensor resize_axes(Call& call, Tensor x, std::vector<std::pair<std::size_t, ResizeAxis>> axes, const ResizeRule& rule)
{
    std::erase_if(axes, [&](const auto& axis) { return axis.second.is_identity(rule); });
    std::ranges::sort(axes, [](const auto& a, const auto& b) {
        const bool shrinks = a.second.scale < 1;
        return shrinks != (b.second.scale < 1) ? shrinks : shrinks ? a.first < b.first : a.first > b.first;
    });
    if (Tensor y = repeat_axes(call, x, axes, rule); y.defined())
        return y;
    const DataType type = x.dtype, sums = type == DataType::float64 ? type : DataType::float32;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        Dims shape = x.shape;
        shape[axes[i].first] = axes[i].second.out;
        const bool moves = rule.mode == ResizeMode::nearest, last = i + 1 == axes.size();
        const Tensor y = call.allocate(shape, moves || last ? type : sums);
        if (y.numel())
            resample_axis(call.queue(), x, y, axes[i].first, resize_taps(rule, axes[i].second));
        x = y;
    }
    return x;
}

void run_resize(Call& call, const std::vector<std::size_t>& axes, const std::vector<ResizeAxis>& rules)
{
    const ResizeRule rule = resize_rule(call);
    call.check(rule.mode == ResizeMode::nearest || is_floating_point(storage_type(call.type(0))) ||
                   is_integral(storage_type(call.type(0))),
               "cannot interpolate ", name_of(call.type(0)));
    Tensor x = call.tensor(0);
    if (!x.is_non_overlapping_and_dense())
        x = call.contiguous(0);
    const std::vector<std::size_t> order = memory_order(x);
    std::vector<std::pair<std::size_t, ResizeAxis>> steps;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        call.check(rules[i].out >= 0 && rules[i].out < (1 << 30) && (rules[i].in > 0 || rules[i].out == 0),
                   "an axis of ", rules[i].in, " cannot get size ", rules[i].out);
        steps.emplace_back(std::ranges::find(order, axes[i]) - order.begin(), rules[i]);
    }
    Tensor dense = permuted(x, order);
    dense.strides = contiguous_strides(dense.shape);
    const Tensor y = resize_axes(call, dense, steps, rule);
    std::vector<std::size_t> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        back[order[i]] = i;
    call.output(0, Value(permuted(y, back), call.type(0)));
}

std::vector<ResizeAxis> axes_of(const Call& call, const std::vector<std::size_t>& axes)
{
    std::vector<ResizeAxis> result(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i)
        result[i].in = result[i].out = call.shape(0)[axes[i]];
    return result;
}

// Operator set 11 on: region, scales, sizes.
void resize(Call& call)
{
    const std::vector<std::size_t> axes = resized_axes(call, call.shape(0).size());
    std::vector<ResizeAxis> rules = axes_of(call, axes);
    const bool has_scales = call.has(2) && call.input(2).numel() > 0,
               has_sizes = call.has(3) && call.input(3).numel() > 0;
    call.check(has_scales != has_sizes, "expected either scales or sizes");
    if (has_scales)
        set_scales(call, rules, floats(call, 2));
    else
        set_sizes(call, rules, call.ints(3));
    if (call.string_attribute("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize") {
        call.check(call.has(1) && call.input(1).numel() == 2 * static_cast<std::int64_t>(axes.size()),
                   "tf_crop_and_resize needs a roi with beginnings and ends of ", axes.size(), " axes");
        const std::vector<float> roi = floats(call, 1);
        for (std::size_t i = 0; i < axes.size(); ++i) {
            rules[i].roi_begin = roi[i];
            rules[i].roi_end = roi[axes.size() + i];
        }
    }
    run_resize(call, axes, rules);
}

// Upsample and the first Resize: scales alone, an attribute at first.
void upsample(Call& call)
{
    const std::vector<std::size_t> axes = resized_axes(call, call.shape(0).size());
    std::vector<ResizeAxis> rules = axes_of(call, axes);
    set_scales(call, rules, call.has(1) ? floats(call, 1) : call.attribute<std::vector<float>>("scales"));
    run_resize(call, axes, rules);
}

const OperatorRow resize_rows[] = {
    {"Resize", 10, upsample},
    {"Resize", 11, resize},
    {"Upsample", 1, upsample},
};

}  // namespace

std::span<const OperatorRow> resize_operators() { return resize_rows; }

}  // namespace clprim::onnx
