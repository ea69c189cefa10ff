// Shapes and views: where it can, the result is the input's memory seen with other strides.
#include <algorithm>

#include <clprim/copy.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/host_pick.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Ints = std::vector<std::int64_t>;

void identity(Call& call) { call.output(0, call.has(0) ? call.input(0) : Value()); }

void shape(Call& call)
{
    const Dims& sizes = call.shape(0);
    const auto dims = static_cast<std::int64_t>(sizes.size());
    const auto bounded = [&](std::int64_t axis) {
        return std::clamp(axis < 0 ? axis + dims : axis, std::int64_t{0}, dims);
    };
    const std::int64_t begin = bounded(call.integer_attribute("start", 0));
    const std::int64_t end = std::max(begin, bounded(call.integer_attribute("end", dims)));
    call.output(0, Value::ints({sizes.begin() + begin, sizes.begin() + end}));
}

void size(Call& call) { call.output(0, Value::scalar(call.input(0).numel())); }

void reshape(Call& call)
{
    const Ints wanted = call.ints_of(1, "shape");
    const bool allow_zero = call.integer_attribute("allowzero", 0) != 0;
    const Dims& from = call.shape(0);
    Dims to;
    std::size_t unknown = wanted.size();
    std::int64_t known = 1;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        std::int64_t size = wanted[i];
        call.check(size >= -1, "sizes must be at least -1, got ", to_string(Dims(wanted)));
        if (size == 0 && !allow_zero) {
            call.check(i < from.size(), "size 0 at axis ", i, " copies a size that ", to_string(from), " lacks");
            size = from[i];
        }
        if (size == -1) {
            call.check(unknown == wanted.size(), "only one size may be -1, got ", to_string(Dims(wanted)));
            unknown = i;
        } else
            call.check(!__builtin_mul_overflow(known, size, &known), "sizes ", to_string(Dims(wanted)),
                       " are too large");
        to.push_back(size);
    }
    if (unknown < wanted.size()) {
        call.check(known > 0 && from.product() % known == 0, "cannot reshape ", to_string(from), " to ",
                   to_string(Dims(wanted)));
        to[unknown] = from.product() / known;
    }
    call.output(0, call.input(0).reshaped(to, call.queue()));
}

void flatten(Call& call)
{
    const Dims& from = call.shape(0);
    const std::int64_t given = call.integer_attribute("axis", 1);
    const std::size_t axis =
        given == static_cast<std::int64_t>(from.size()) ? from.size() : call.axis(given, from.size());
    Dims to{1, 1};
    for (std::size_t i = 0; i < from.size(); ++i)
        to[i < axis ? 0 : 1] *= from[i];
    call.output(0, call.input(0).reshaped(to, call.queue()));
}

void squeeze(Call& call)
{
    const Dims& from = call.shape(0);
    std::vector<bool> gone(from.size());
    if (call.has_ints(1, "axes"))
        for (const std::int64_t given : call.ints_of(1, "axes")) {
            const std::size_t axis = call.axis(given, from.size());
            call.check(from[axis] == 1, "axis ", axis, " of ", to_string(from), " has not size 1");
            gone[axis] = true;
        }
    else
        for (std::size_t i = 0; i < from.size(); ++i)
            gone[i] = from[i] == 1;
    Dims to;
    for (std::size_t i = 0; i < from.size(); ++i)
        if (!gone[i])
            to.push_back(from[i]);
    call.output(0, call.input(0).reshaped(to, call.queue()));
}

void unsqueeze(Call& call)
{
    const Dims& from = call.shape(0);
    const Ints axes = call.ints_of(1, "axes");
    std::vector<bool> fresh(from.size() + axes.size());
    for (const std::int64_t given : axes) {
        const std::size_t axis = call.axis(given, fresh.size());
        call.check(!fresh[axis], "axis ", given, " is given twice");
        fresh[axis] = true;
    }
    Dims to;
    std::size_t next = 0;
    for (const bool is_new : fresh)
        to.push_back(is_new ? 1 : from[next++]);
    call.output(0, call.input(0).reshaped(to, call.queue()));
}

std::vector<std::size_t> permutation(const Call& call)
{
    const std::size_t dims = call.input(0).dim();
    const Ints given = call.ints_attribute("perm");
    std::vector<std::size_t> order(dims);
    if (given.empty()) {
        for (std::size_t i = 0; i < dims; ++i)
            order[i] = dims - 1 - i;
        return order;
    }
    call.check(given.size() == dims, "perm has ", given.size(), " axes, the input ", dims);
    std::vector<bool> seen(dims);
    for (std::size_t i = 0; i < dims; ++i) {
        order[i] = call.axis(given[i], dims);
        call.check(!seen[order[i]], "perm ", to_string(Dims(given)), " names an axis twice");
        seen[order[i]] = true;
    }
    return order;
}

void transpose(Call& call)
{
    Tensor x = call.tensor(0);
    Dims to, strides;
    for (const std::size_t axis : permutation(call)) {
        to.push_back(x.shape[axis]);
        strides.push_back(x.strides[axis]);
    }
    x.shape = to;
    x.strides = strides;
    call.output(0, Value(x, call.type(0)));
}

void transpose_on_host(Call& call)
{
    const Dims& from = call.shape(0);
    const Dims source = contiguous_strides(from);
    Dims to, strides;
    for (const std::size_t axis : permutation(call)) {
        to.push_back(from[axis]);
        strides.push_back(source[axis]);
    }
    call.output(0, pick_strided(call.input(0), to, strides));
}

// Strides with which `from` is seen as the larger shape `to`.
Dims expanded_strides(const Dims& from, const Dims& strides, const Dims& to)
{
    Dims result(to.size(), 0);
    const std::size_t fresh = to.size() - from.size();
    for (std::size_t i = 0; i < from.size(); ++i)
        result[fresh + i] = from[i] == to[fresh + i] ? strides[i] : 0;
    return result;
}

Dims expanded_shape(const Call& call) { return broadcast(call.shape(0), Dims(call.ints(1))); }

void expand(Call& call)
{
    Tensor x = call.tensor(0);
    const Dims to = expanded_shape(call);
    x.strides = expanded_strides(x.shape, x.strides, to);
    x.shape = to;
    call.output(0, Value(x, call.type(0)));
}

void expand_on_host(Call& call)
{
    const Dims to = expanded_shape(call);
    call.output(
        0, pick_strided(call.input(0), to, expanded_strides(call.shape(0), contiguous_strides(call.shape(0)), to)));
}

Ints repeats(const Call& call)
{
    Ints counts = call.ints(1);
    if (call.opset() < 6) {                      // a number and the axis that it is for
        call.check(counts.size() == 1, "tiles has ", counts.size(), " elements, expected 1");
        const std::int64_t count = counts[0];
        counts.assign(call.input(0).dim(), 1);
        counts[call.axis(call.integer(2), counts.size())] = count;
    }
    call.check_sizes(counts, "repeats");
    call.check(counts.size() == call.input(0).dim(), "there are ", counts.size(), " repeats for ", call.input(0).dim(),
               " axes");
    for (const std::int64_t count : counts)
        call.check(count >= 0, "repeats must not be negative, got ", to_string(Dims(counts)));
    return counts;
}

std::int64_t times(const Call& call, std::int64_t count, std::int64_t size)
{
    std::int64_t product = 0;
    call.check(!__builtin_mul_overflow(count, size, &product), count, " repeats of size ", size, " are too many");
    return product;
}

// Every axis becomes a pair (repeat, size), of which the repeat has stride 0.
void tile(Call& call)
{
    const Tensor x = call.tensor(0);
    const Ints counts = repeats(call);
    Dims paired, from, to;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        for (const std::int64_t size : {counts[i], x.shape[i]})
            paired.push_back(size);
        for (const std::int64_t stride : {std::int64_t{0}, x.strides[i]})
            from.push_back(stride);
        to.push_back(times(call, counts[i], x.shape[i]));
    }
    const Tensor y = call.output_tensor(0, to, call.type(0));
    if (y.numel()) {
        Tensor source = x;
        source.shape = paired;
        source.strides = from;
        copy(call.queue(), source, y.reshape(paired));
    }
}

void tile_on_host(Call& call)
{
    const Dims& from = call.shape(0);
    const Ints counts = repeats(call);
    Dims to;
    for (std::size_t i = 0; i < counts.size(); ++i)
        to.push_back(times(call, counts[i], from[i]));
    const Dims strides = contiguous_strides(from);
    call.output(0, pick(call.input(0), to, [&](std::int64_t i) {
        std::int64_t position = 0;
        for (std::size_t d = to.size(); d-- > 0; i /= to[d])
            position += i % to[d] % from[d] * strides[d];
        return position;
    }));
}

const OperatorRow shape_rows[] = {
    {"Identity", 1, identity, identity},
    {"Shape", 1, shape, shape},
    {"Size", 1, size, size},
    {"Reshape", 1, reshape, reshape},
    {"Flatten", 1, flatten, flatten},
    {"Squeeze", 1, squeeze, squeeze},
    {"Unsqueeze", 1, unsqueeze, unsqueeze},
    {"Transpose", 1, transpose, transpose_on_host},
    {"Expand", 8, expand, expand_on_host},
    {"Tile", 1, tile, tile_on_host},
};

}  // namespace

std::span<const OperatorRow> shape_operators() { return shape_rows; }

}  // namespace clprim::onnx
