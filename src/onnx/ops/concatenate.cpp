// Concatenation and splitting. Pieces are views; a whole whose parts were written to their places is one too.
#include <algorithm>
#include <cstring>

#include <clprim/concat.hpp>
#include <clprim/copy.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/host_pick.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Ints = std::vector<std::int64_t>;

struct Concatenation {
    std::size_t axis;
    Dims shape;
};

Concatenation concatenation(const Call& call)
{
    call.check(call.has(0), "there is no input");
    const std::size_t axis = call.axis(call.attribute<std::int64_t>("axis"), call.input(0).dim());
    Dims shape = call.shape(0);
    for (std::size_t i = 1; i < call.inputs(); ++i) {
        const Dims& other = call.shape(i);
        call.check(call.type(i) == call.type(0), "input ", i, " is ", name_of(call.type(i)), ", expected ",
                   name_of(call.type(0)));
        Dims expected = other;
        if (other.size() == shape.size())
            expected[axis] = shape[axis];
        call.check(expected == shape, "input ", i, " of shape ", to_string(other), " does not fit ", to_string(shape),
                   " along axis ", axis);
        shape[axis] += other[axis];
    }
    return {axis, shape};
}

// Parts that lie one after another in one memory, as slices of a whole do, make that whole.
bool lie_together(const std::vector<Tensor>& parts, std::size_t axis)
{
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const Tensor& before = parts[i - 1];
        if (parts[i].memory != before.memory || parts[i].strides != before.strides ||
            parts[i].offset != before.offset + before.size(axis) * before.stride(axis))
            return false;
    }
    return !parts.empty();
}

// Into its place in a larger concatenation, or the buffer that its own parts were written to: only what is not there
// already is copied.
void concatenate_in_place(Call& call, const std::vector<Tensor>& parts, const Tensor& y)
{
    std::int64_t begin = 0;
    for (const Tensor& part : parts) {
        const Tensor slice = y.slice(1, begin, begin + part.size(1));
        if (part.memory != slice.memory || part.offset != slice.offset || part.strides != slice.strides)
            copy(call.queue(), part, slice);
        begin += part.size(1);
    }
}

void concatenate(Call& call)
{
    const auto [axis, shape] = concatenation(call);
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        if (call.input(i).numel())
            parts.push_back(call.tensor(i));
    // Parts in channels_last make a whole in channels_last.
    const bool channels_last = !parts.empty() && shape.size() >= 3 && std::ranges::all_of(parts, [](const Tensor& t) {
        return t.is_channels_last() && !t.is_contiguous();
    });
    if (lie_together(parts, axis)) {
        Tensor y = parts[0];
        y.shape = shape;
        return call.output(0, Value(y, call.type(0)));
    }
    if (const Tensor placed = axis == 1 ? call.placed(shape, storage_type(call.type(0)), channels_last) : Tensor();
        placed.defined()) {
        call.output(0, Value(placed, call.type(0)));
        return concatenate_in_place(call, parts, placed);
    }
    Tensor y = call.allocate(shape, storage_type(call.type(0)));
    if (channels_last)
        y.strides = channels_last_strides(shape);
    call.output(0, Value(y, call.type(0)));
    if (!parts.empty())
        concat(call.queue(), parts, axis, y);
}

void concatenate_on_host(Call& call)
{
    const auto [axis, shape] = concatenation(call);
    // Where each position along the axis comes from.
    std::vector<std::pair<std::size_t, std::int64_t>> origin;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        for (std::int64_t at = 0; at < call.shape(i)[axis]; ++at)
            origin.emplace_back(i, at);
    std::int64_t inner = 1;
    for (std::size_t d = axis + 1; d < shape.size(); ++d)
        inner *= shape[d];
    const std::size_t width = call.type(0) == ElementType::string ? 0 : size_of(storage_type(call.type(0)));
    std::vector<std::string> strings;
    Value result = Value::zeros(call.type(0), shape);
    for (std::int64_t i = 0; i < shape.product(); ++i) {
        const auto [part, at] = origin[static_cast<std::size_t>(i / inner % shape[axis])];
        const Value& source = call.input(part);
        const std::int64_t from = (i / inner / shape[axis] * source.shape()[axis] + at) * inner + i % inner;
        if (width == 0)
            strings.push_back(source.strings()[static_cast<std::size_t>(from)]);
        else
            std::memcpy(result.mutable_bytes() + static_cast<std::size_t>(i) * width,
                        source.host_bytes() + static_cast<std::size_t>(from) * width, width);
    }
    call.output(0, width ? result : Value::strings(shape, std::move(strings)));
}

// Lengths of the pieces: given, or equal (from operator set 18 with a shorter last one).
Ints split_lengths(const Call& call, std::int64_t size)
{
    if (call.has_ints(1, "split"))
        return call.ints_of(1, "split");
    const std::int64_t pieces = call.integer_attribute("num_outputs", static_cast<std::int64_t>(call.outputs()));
    // More pieces than elements only where that many outputs take them.
    const std::int64_t most = std::max(size, static_cast<std::int64_t>(call.outputs()));
    call.check(pieces > 0 && pieces <= most && (call.opset() >= 18 || size % pieces == 0), "cannot split ", size,
               " into ", pieces, " equal pieces");
    const std::int64_t length = (size + pieces - 1) / pieces;
    Ints lengths;
    for (std::int64_t i = 0; i < pieces; ++i)
        lengths.push_back(std::clamp(size - i * length, std::int64_t{0}, length));
    return lengths;
}

template <class Piece>
void split_into(Call& call, Piece&& piece)
{
    const std::size_t axis = call.axis(call.integer_attribute("axis", 0), call.input(0).dim());
    const std::int64_t size = call.shape(0)[axis];
    std::int64_t begin = 0;
    const Ints lengths = split_lengths(call, size);
    call.check(lengths.size() >= call.outputs(), lengths.size(), " pieces for ", call.outputs(), " outputs");
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        call.check(lengths[i] >= 0 && begin + lengths[i] <= size, "pieces ", to_string(Dims(lengths)),
                   " do not fill size ", size);
        call.output(i, piece(axis, begin, begin + lengths[i]));
        begin += lengths[i];
    }
    call.check(begin == size, "pieces ", to_string(Dims(lengths)), " do not fill size ", size);
}

void split(Call& call)
{
    const Tensor x = call.tensor(0);
    split_into(call, [&](std::size_t axis, std::int64_t begin, std::int64_t end) {
        return Value(x.slice(axis, begin, end), call.type(0));
    });
}

void split_on_host(Call& call)
{
    const Dims strides = contiguous_strides(call.shape(0));
    split_into(call, [&](std::size_t axis, std::int64_t begin, std::int64_t end) {
        Dims shape = call.shape(0);
        shape[axis] = end - begin;
        return pick_strided(call.input(0), shape, strides, begin * strides[axis]);
    });
}

const OperatorRow concatenate_rows[] = {
    {"Concat", 1, concatenate, concatenate_on_host},
    {"Split", 1, split, split_on_host},
};

}  // namespace

std::span<const OperatorRow> concatenate_operators() { return concatenate_rows; }

}  // namespace clprim::onnx
