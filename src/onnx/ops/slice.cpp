// Parts of tensors, borders around them, and tensors made from positions.
#include <algorithm>
#include <limits>

#include <clprim/copy.hpp>
#include <clprim/index.hpp>
#include <clprim/pad.hpp>
#include <clprim/sequence.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/host_pick.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Ints = std::vector<std::int64_t>;

// ---- Slice ----

// Per axis of the input: first element, step, number of elements.
struct SliceRange {
    std::int64_t begin = 0, step = 1, count = 0;
};

std::vector<SliceRange> slice_ranges(const Call& call)
{
    const Dims& shape = call.shape(0);
    const Ints starts = call.ints_of(1, "starts"), ends = call.ints_of(2, "ends");
    Ints axes = call.ints_of(3, "axes");
    const Ints steps = call.has(4) ? call.ints(4) : Ints(starts.size(), 1);
    if (axes.empty() && !call.has_ints(3, "axes"))
        for (std::size_t i = 0; i < starts.size(); ++i)
            axes.push_back(static_cast<std::int64_t>(i));
    call.check(ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
               "starts, ends, axes and steps have different lengths");
    std::vector<SliceRange> ranges(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d)
        ranges[d].count = shape[d];
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const std::size_t axis = call.axis(axes[i], shape.size());
        const std::int64_t size = shape[axis], step = steps[i];
        call.check(step != 0, "a step is 0");
        // numpy's rules: backward slices run from at most size - 1 to at least -1, the place before the first.
        const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
        const auto bounded = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, lowest, highest); };
        const std::int64_t begin = bounded(starts[i]), end = bounded(ends[i]);
        const std::int64_t span = step > 0 ? end - begin : begin - end;
        const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
        ranges[axis] = {begin, step,
                        span <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride) + 1};
        if (ranges[axis].count <= 1)
            ranges[axis].step = 1;
    }
    return ranges;
}

// Forward slices are views; kernels take no negative strides, so backward ones are flipped.
void slice(Call& call)
{
    Tensor x = call.tensor(0);
    Ints backward;
    const auto ranges = slice_ranges(call);
    for (std::size_t d = 0; d < ranges.size(); ++d) {
        const SliceRange& range = ranges[d];
        const bool flipped = range.step < 0;
        if (range.count)
            x.offset += (flipped ? range.begin + (range.count - 1) * range.step : range.begin) * x.strides[d];
        x.shape[d] = range.count;
        x.strides[d] *= flipped ? -range.step : range.step;
        if (flipped)
            backward.push_back(static_cast<std::int64_t>(d));
    }
    if (backward.empty() || x.numel() == 0)
        return call.output(0, Value(x, call.type(0)));
    const Tensor y = call.output_tensor(0, x.shape, call.type(0));
    flip(call.queue(), x, backward, y);
}

void slice_on_host(Call& call)
{
    const Dims from = contiguous_strides(call.shape(0));
    Dims shape, strides;
    std::int64_t offset = 0;
    const auto ranges = slice_ranges(call);
    for (std::size_t d = 0; d < ranges.size(); ++d) {
        shape.push_back(ranges[d].count);
        strides.push_back(ranges[d].step * from[d]);
        offset += ranges[d].begin * from[d];
    }
    call.output(0, pick_strided(call.input(0), shape, strides, offset));
}

// ---- Pad ----

struct Border {
    Ints begin, end;   // per axis, negative: cropped
};

Border border(const Call& call)
{
    const std::size_t dims = call.input(0).dim();
    const Ints pads = call.ints_of(1, call.has_attribute("paddings") ? "paddings" : "pads");
    Border result{Ints(dims), Ints(dims)};
    call.check_sizes(pads, "pads");
    if (!call.has(3)) {
        call.check(pads.size() == 2 * dims, "expected ", 2 * dims, " pads, got ", pads.size());
        std::copy_n(pads.begin(), dims, result.begin.begin());
        std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(dims), dims, result.end.begin());
        return result;
    }
    const Ints axes = call.ints(3);
    call.check(pads.size() == 2 * axes.size(), "expected ", 2 * axes.size(), " pads, got ", pads.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::size_t axis = call.axis(axes[i], dims);
        result.begin[axis] = pads[i];
        result.end[axis] = pads[axes.size() + i];
    }
    return result;
}

// The element outside in memory; nothing where only `fill` makes it of an attribute.
std::span<const std::byte> pad_value(const Call& call, DataType type)
{
    static constexpr std::array<std::byte, 16> zero{};
    if (!call.has(2))
        return std::span(zero).first(call.float_attribute("value", 0) == 0 ? size_of(type) : 0);
    const Value& value = call.input(2);
    call.check(value.numel() == 1 && value.type() == call.type(0), "constant_value must be one ",
               name_of(call.type(0)));
    return {value.bytes(call.queue()), size_of(type)};
}

void pad_constant(Call& call, const Border& pads)
{
    Dims shape;
    for (std::size_t d = 0; d < call.shape(0).size(); ++d)
        shape.push_back(call.shape(0)[d] + pads.begin[d] + pads.end[d]);
    call.check(std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; }), "pads leave shape ",
               to_string(shape));
    const auto is_zero = [](std::int64_t pad) { return pad == 0; };
    if (std::ranges::all_of(pads.begin, is_zero) && std::ranges::all_of(pads.end, is_zero))
        return call.output(0, call.input(0));
    const Tensor x = call.tensor(0), y = call.output_tensor(0, shape, call.type(0));
    const auto element = pad_value(call, y.dtype);
    if (y.numel() == 0)
        return;
    Tensor inside = y;                   // of it, and of x
    Tensor kept = x;
    for (std::size_t d = 0; d < x.dim(); ++d) {
        const std::int64_t cropped = std::max<std::int64_t>(0, -pads.begin[d]),
                           count = x.shape[d] - cropped - std::max<std::int64_t>(0, -pads.end[d]);
        if (count <= 0) {
            inside = Tensor();
            break;
        }
        kept = kept.slice(d, cropped, cropped + count);
        const std::int64_t at = std::max<std::int64_t>(0, pads.begin[d]);
        inside = inside.slice(d, at, at + count);
    }
    if (!element.empty() && inside.defined())
        return clprim::pad_constant(call.queue(), x, y, Dims(pads.begin), element);
    if (element.empty())
        fill(call.queue(), y, call.float_attribute("value", 0));
    else
        fill(call.queue(), y, element);
    if (inside.defined())
        copy(call.queue(), kept, inside);
}

// The element that stands at position i, which may lie outside of [0, size).
std::int64_t mirrored(std::int64_t i, std::int64_t size, std::string_view mode)
{
    if (mode == "edge")
        return std::clamp(i, std::int64_t{0}, size - 1);
    if (mode == "wrap")
        return (i % size + size) % size;
    if (size == 1)
        return 0;
    const std::int64_t period = 2 * (size - 1), at = (i % period + period) % period;   // reflect
    return at < size ? at : period - at;
}

// One axis after the other, so that corners come out right.
void pad_from_itself(Call& call, const Border& pads, std::string_view mode)
{
    Tensor x = call.tensor(0);
    for (std::size_t d = 0; d < x.dim(); ++d) {
        if (pads.begin[d] == 0 && pads.end[d] == 0)
            continue;
        const std::int64_t size = x.shape[d], padded = size + pads.begin[d] + pads.end[d];
        call.check(padded >= 0 && (size > 0 || padded == 0), "cannot pad axis ", d, " of size ", size, " by ", mode);
        Dims shape = x.shape;
        shape[d] = padded;
        const Tensor y = call.allocate(shape, x.dtype);   // before the host makes a list of as many
        Ints origin;
        for (std::int64_t i = 0; i < padded; ++i)
            origin.push_back(mirrored(i - pads.begin[d], size, mode));
        if (y.numel())
            index_select(call.queue(), x, d, Value::ints(origin).device(call.queue()), y);
        x = y;
    }
    call.output(0, Value(x, call.type(0)));
}

void pad(Call& call)
{
    const std::string mode = call.string_attribute("mode", "constant");
    const Border pads = border(call);
    if (mode == "constant")
        return pad_constant(call, pads);
    call.check(mode == "reflect" || mode == "edge" || mode == "wrap", "mode ", mode,
               " is none of constant, reflect, edge, wrap");
    pad_from_itself(call, pads, mode);
}

// ---- tensors made from positions ----

void constant(Call& call)
{
    Value value = constant_value(call.node());
    call.check(!value.is_none(), "no value");
    call.output(0, std::move(value));
}

Dims checked_shape(const Call& call, const Ints& sizes)
{
    double total = 1;
    for (const std::int64_t size : sizes) {
        call.check(size >= 0, "sizes must not be negative, got ", to_string(Dims(sizes)));
        total *= static_cast<double>(size);
    }
    call.check(total < 0x1p40, "shape ", to_string(Dims(sizes)), " is too large");
    return Dims(sizes);
}

Value shape_filler(const Call& call)
{
    const Value value = call.attribute<Value>("value", Value::scalar(0.0f));
    call.check(value.numel() == 1, "value must have one element");
    return value;
}

void constant_of_shape(Call& call)
{
    const Dims shape = checked_shape(call, call.ints(0));
    const Value value = shape_filler(call);
    const Tensor y = call.output_tensor(0, shape, value.type());
    if (y.numel())
        fill(call.queue(), y, std::span(value.bytes(call.queue()), size_of(y.dtype)));
}

constexpr std::int64_t small = 4096;   // elements worth keeping on the host

void constant_of_shape_on_host(Call& call)
{
    const Dims shape = checked_shape(call, call.ints(0));
    if (shape.product() > small)
        return constant_of_shape(call);
    call.output(0, pick(shape_filler(call), shape, [](std::int64_t) { return 0; }));
}

template <class T>
std::int64_t range_length(const Call& call, T start, T limit, T delta)
{
    call.check(delta != 0, "delta is 0");
    const double length =
        std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
    call.check(length < 0x1p40, "the range has ", length, " elements");   // NaN too
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(length));
}

void range(Call& call)
{
    const ElementType type = call.type(0);
    call.check(call.type(1) == type && call.type(2) == type, "start, limit and delta must have one type");
    if (is_integral(storage_type(type))) {
        const std::int64_t start = call.integer(0), delta = call.integer(2);
        const std::int64_t length = range_length(call, start, call.integer(1), delta);
        if (type == ElementType::int64 && length <= small) {
            Ints elements;
            for (std::int64_t i = 0; i < length; ++i)
                elements.push_back(
                    static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + // may wrap after the last
                                              static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(delta)));
            return call.output(0, Value::ints(elements));
        }
        const Tensor y = call.output_tensor(0, {length}, type);
        if (length)
            arange(call.queue(), y, start, delta);
        return;
    }
    const double start = call.number(0), delta = call.number(2);
    const Tensor y = call.output_tensor(0, {range_length(call, start, call.number(1), delta)}, type);
    if (y.numel())
        arange(call.queue(), y, start, delta);
}

void eye_like(Call& call)
{
    const Dims& shape = call.shape(0);
    call.check(shape.size() == 2, "expected a matrix, got shape ", to_string(shape));
    const auto type =
        static_cast<ElementType>(call.integer_attribute("dtype", static_cast<std::int64_t>(call.type(0))));
    const std::int64_t k = std::clamp(call.integer_attribute("k", 0), -shape[0], shape[1]);
    const Tensor y = call.output_tensor(0, shape, type);
    if (y.numel() == 0)
        return;
    fill(call.queue(), y, 0.0);
    const std::int64_t row = std::max<std::int64_t>(0, -k), column = std::max<std::int64_t>(0, k);
    const std::int64_t length = std::min(shape[0] - row, shape[1] - column);
    if (length > 0)
        fill(call.queue(), Tensor(y.memory, row * shape[1] + column, y.dtype, {length}, {shape[1] + 1}), 1.0);
}

void trilu(Call& call)
{
    const Tensor x = call.tensor(0);
    call.check(x.dim() >= 2, "expected at least 2 dimensions, got shape ", to_string(x.shape));
    const Tensor y = call.output_tensor(0, x.shape, call.type(0));
    const std::int64_t k = call.has(1) ? call.integer(1) : 0;
    if (y.numel())
        triangle(call.queue(), x, k, call.integer_attribute("upper", 1) != 0, y);
}

const OperatorRow slice_rows[] = {
    {"Slice", 1, slice, slice_on_host},
    {"Pad", 1, pad},
    {"Constant", 1, constant},
    {"ConstantOfShape", 9, constant_of_shape, constant_of_shape_on_host},
    {"Range", 11, range, range},
    {"EyeLike", 9, eye_like},
    {"Trilu", 14, trilu},
};

}  // namespace

std::span<const OperatorRow> slice_operators() { return slice_rows; }

}  // namespace clprim::onnx
