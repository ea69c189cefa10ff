// Reading and writing through index tensors.
#include <algorithm>
#include <numeric>

#include <clprim/copy.hpp>
#include <clprim/index.hpp>
#include <clprim/scan.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/host_pick.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Ints = std::vector<std::int64_t>;

Tensor index_tensor(const Call& call, std::size_t i)
{
    const ElementType type = call.type(i);
    call.check(type == ElementType::int64 || type == ElementType::int32, "input ", i, " must be int64 or int32, is ",
               name_of(type));
    return call.tensor(i);
}

Tensor with_shape(Tensor tensor, const Dims& shape, const Dims& strides)
{
    tensor.shape = shape;
    tensor.strides = strides;
    return tensor;
}

// `other` padded by axes of stride 0 so that it spans `shape` with its axes at `first`.
Tensor spread(const Tensor& other, std::size_t first, const Dims& shape)
{
    Dims strides(shape.size(), 0);
    for (std::size_t d = 0; d < other.dim(); ++d)
        strides[first + d] = other.strides[d];
    return with_shape(other, shape, strides);
}

// ---- Gather ----

Dims gathered_shape(const Call& call, std::size_t axis)
{
    Dims shape;
    for (std::size_t d = 0; d < axis; ++d)
        shape.push_back(call.shape(0)[d]);
    for (const std::int64_t size : call.shape(1))
        shape.push_back(size);
    for (std::size_t d = axis + 1; d < call.input(0).dim(); ++d)
        shape.push_back(call.shape(0)[d]);
    return shape;
}

void gather(Call& call)
{
    const std::size_t axis = call.axis(call.integer_attribute("axis", 0), call.input(0).dim());
    const Tensor x = call.tensor(0);
    const Dims shape = gathered_shape(call, axis);
    if (call.input(1).on_host() && call.input(1).numel() == 1) {       // one slice, seen where it lies
        const std::int64_t size = x.shape[axis], given = call.integer(1), i = given < 0 ? given + size : given;
        require<IndexError>(i >= 0 && i < size, "Gather: index ", given, " is out of range for size ", size);
        const std::size_t more = call.shape(1).size();
        Tensor view(x.memory, x.offset + i * x.strides[axis], x.dtype, shape, Dims(shape.size(), 1));
        for (std::size_t d = 0; d < x.dim(); ++d)
            if (d != axis)
                view.strides[d < axis ? d : d + more - 1] = x.strides[d];
        return call.output(0, Value(view, call.type(0)));
    }
    const Tensor index = index_tensor(call, 1);
    const Tensor y = call.output_tensor(0, shape, call.type(0));
    if (y.numel() == 0)
        return;
    Dims strides(shape.size(), 0);
    for (std::size_t d = 0; d < x.dim(); ++d)
        if (d != axis)
            strides[d < axis ? d : d + index.dim() - 1] = x.strides[d];
    read_through(call.queue(), with_shape(x, shape, strides),
                 {"Gather", spread(index, axis, shape), x.shape[axis], x.strides[axis]}, y);
}

void gather_on_host(Call& call)
{
    const std::size_t axis = call.axis(call.integer_attribute("axis", 0), call.input(0).dim());
    const Dims& from = call.shape(0);
    Ints index = call.ints(1);
    for (std::int64_t& i : index) {
        require<IndexError>(i >= -from[axis] && i < from[axis], "Gather: index ", i, " is out of range for size ",
                            from[axis]);
        i += i < 0 ? from[axis] : 0;
    }
    std::int64_t inner = 1;
    for (std::size_t d = axis + 1; d < from.size(); ++d)
        inner *= from[d];
    const auto count = static_cast<std::int64_t>(index.size());
    call.output(0, pick(call.input(0), gathered_shape(call, axis), [&](std::int64_t i) {
                    return (i / inner / count * from[axis] + index[static_cast<std::size_t>(i / inner % count)]) *
                               inner +
                           i % inner;
                }));
}

void gather_elements(Call& call)
{
    const std::size_t axis = call.axis(call.integer_attribute("axis", 0), call.input(0).dim());
    const Tensor y = call.output_tensor(0, call.shape(1), call.type(0));
    if (y.numel())
        clprim::gather(call.queue(), call.tensor(0), axis, index_tensor(call, 1), y);
}

// ---- GatherND and ScatterND: the last axis of the index holds coordinates ----

struct Coordinates {
    Tensor keys;             // offsets into the indexed tensor in runs of elements, spread over `space`
    std::int64_t run = 0;
    Tensor rest;             // the indexed tensor seen from `space`
    Dims space;
};

// `batch` leading axes are common to both. `in_runs`: keys count the longest runs there are instead of elements.
Coordinates coordinates(Call& call, const Tensor& x, std::size_t batch, bool in_runs)
{
    const std::string& name = call.node().op_type;
    const Tensor index = index_tensor(call, 1);
    call.check(index.dim() > batch && x.dim() > batch, "batch_dims ", batch, " exceeds the inputs' dimensions");
    const auto width = static_cast<std::size_t>(index.shape.back());
    call.check(batch + width <= x.dim(), "indices have ", width, " coordinates, the data ", x.dim() - batch, " axes");
    Dims outer = index.shape, outer_strides = index.strides;
    outer.resize(index.dim() - 1);
    outer_strides.resize(index.dim() - 1);
    for (std::size_t d = 0; d < batch; ++d)
        call.check(outer[d] == x.shape[d], "data of shape ", to_string(x.shape), " and indices of shape ",
                   to_string(index.shape), " differ in batch axis ", d);
    Coordinates result;
    for (std::size_t k = 0; in_runs && k < width; ++k)
        result.run = std::gcd(result.run, x.strides[batch + k]);
    result.run = std::max<std::int64_t>(result.run, 1);
    result.keys = call.allocate(outer, DataType::int64);
    if (width == 0)
        fill(call.queue(), result.keys, 0.0);
    if (result.keys.numel())
        for (std::size_t k = 0; k < width; ++k) {
            Tensor part = with_shape(index, outer, outer_strides);
            part.offset += static_cast<std::int64_t>(k) * index.strides.back();
            const std::int64_t stride = x.strides[batch + k] / result.run;
            add_keys(call.queue(), result.keys, {name, part, x.shape[batch + k], stride}, k == 0);
        }
    result.space = outer;
    Dims strides(outer.size(), 0);
    for (std::size_t d = 0; d < batch; ++d)
        strides[d] = x.strides[d];
    for (std::size_t d = batch + width; d < x.dim(); ++d) {
        result.space.push_back(x.shape[d]);
        strides.push_back(x.strides[d]);
    }
    result.keys = spread(result.keys, 0, result.space);
    result.rest = with_shape(x, result.space, strides);
    return result;
}

void gather_nd(Call& call)
{
    const Tensor x = call.tensor(0);
    const auto batch = static_cast<std::size_t>(call.integer_attribute("batch_dims", 0));
    const Coordinates at = coordinates(call, x, batch, true);
    const Tensor y = call.output_tensor(0, at.space, call.type(0));
    if (y.numel())
        read_through(call.queue(), at.rest, {"GatherND", at.keys, index_is_key, at.run}, y);
}

struct ScatterReduction {
    std::string_view name;
    IndexReduce reduce;
};

IndexReduce reduction(const Call& call)
{
    static constexpr ScatterReduction known[] = {{"none", IndexReduce::assign}, {"add", IndexReduce::sum},
        {"mul", IndexReduce::product}, {"max", IndexReduce::maximum}, {"min", IndexReduce::minimum}};
    const std::string name = call.string_attribute("reduction", "none");
    for (const ScatterReduction& row : known)
        if (row.name == name)
            return row.reduce;
    call.fail("reduction ", name, " is none of none, add, mul, max, min");
}

// A copy of input 0 as output 0, to be written into.
Tensor copied_output(Call& call)
{
    const Tensor y = call.output_tensor(0, call.shape(0), call.type(0));
    if (y.numel())
        copy(call.queue(), call.tensor(0), y);
    return y;
}

// reduce_through combines along the last axis in order, so all updates must lie on it: rows of the rest are made equal
// lines by moving the index axes to the end, as one axis.
void scatter_nd(Call& call)
{
    const IndexReduce reduce = reduction(call);
    const Tensor y = copied_output(call);
    const Coordinates at = coordinates(call, y, 0, false);
    const Tensor updates = call.contiguous(2);
    call.check(updates.shape == at.space, "updates have shape ", to_string(updates.shape), ", expected ",
               to_string(at.space));
    call.check(call.type(2) == call.type(0), "updates are ", name_of(call.type(2)), ", expected ",
               name_of(call.type(0)));
    if (updates.numel() == 0)
        return;
    const std::size_t outer = call.input(1).dim() - 1;
    std::int64_t count = 1;
    for (std::size_t d = 0; d < outer; ++d)
        count *= at.space[d];
    Dims lines, self_strides, key_strides, update_strides;
    for (std::size_t d = outer; d < at.space.size(); ++d) {
        lines.push_back(at.space[d]);
        self_strides.push_back(at.rest.strides[d]);
        key_strides.push_back(0);
        update_strides.push_back(updates.strides[d]);
    }
    std::int64_t inner = lines.product();
    lines.push_back(count);
    self_strides.push_back(0);
    key_strides.push_back(1);                                    // keys were allocated row-major
    update_strides.push_back(inner);
    reduce_through(call.queue(), with_shape(at.rest, lines, self_strides),
                   {"ScatterND", with_shape(at.keys, lines, key_strides), index_is_key, 1},
                   with_shape(updates, lines, update_strides), reduce);
}

void scatter_elements(Call& call)
{
    const std::size_t axis = call.axis(call.integer_attribute("axis", 0), call.input(0).dim());
    const IndexReduce reduce = reduction(call);
    const Tensor y = copied_output(call), index = index_tensor(call, 1), updates = call.tensor(2);
    call.check(call.type(2) == call.type(0), "updates are ", name_of(call.type(2)), ", expected ",
               name_of(call.type(0)));
    if (index.numel())
        scatter_reduce(call.queue(), y, axis, index, updates, reduce);
}

// A cache [batch, ..., length, ...] takes up `update` from position write_indices[batch] on.
void tensor_scatter(Call& call)
{
    const std::size_t axis = call.axis(call.integer_attribute("axis", -2), call.input(0).dim());
    const std::string mode = call.string_attribute("mode", "linear");
    call.check(axis > 0, "axis 0 is the batch");
    call.check(call.shape(1).size() == call.shape(0).size(), "update has shape ", to_string(call.shape(1)),
               ", the cache ", to_string(call.shape(0)));
    const Tensor y = copied_output(call), update = call.tensor(1);
    const std::int64_t batch = y.shape[0], steps = update.shape[axis], length = y.shape[axis];
    const Ints begin = call.has(2) ? call.ints(2) : Ints(static_cast<std::size_t>(batch));
    call.check(static_cast<std::int64_t>(begin.size()) == batch, "write_indices has ", begin.size(),
               " entries, the batch ", batch);
    Ints positions;
    for (const std::int64_t first : begin)
        for (std::int64_t i = 0; i < steps; ++i) {
            call.check(first >= 0 && length > 0 && (mode == "circular" || first <= length - steps), "position ", first,
                       " leaves no room for ", steps, " steps in ", length);
            positions.push_back((first % length + i) % length);
        }
    Tensor index = Value::ints(positions).device(call.queue());
    Dims strides(update.dim(), 0);
    strides[0] = steps;
    strides[axis] = 1;
    if (update.numel())
        scatter(call.queue(), y, axis, with_shape(index, update.shape, strides), update);
}

// ---- the rest ----

void nonzero(Call& call)
{
    const Tensor x = call.contiguous(0);
    const auto dims = static_cast<std::int64_t>(x.dim());
    std::int64_t count = 0;
    NonzeroCounts counts;
    if (x.numel()) {
        counts = nonzero_count(call.queue(), x);
        count = last_integer(call, counts.totals);
    }
    Tensor y = call.output_tensor(0, {dims, count}, ElementType::int64);
    if (count && dims)
        nonzero_write(call.queue(), x, counts, with_shape(y, {count, dims}, {1, count}));
}

void compress(Call& call)
{
    Value x = call.input(0);
    const bool flat = !call.has_attribute("axis");
    if (flat)
        x = x.reshaped({x.numel()}, call.queue());
    const std::size_t axis = flat ? 0 : call.axis(call.integer_attribute("axis", 0), x.dim());
    const Ints condition = call.ints(1);
    Ints chosen;
    for (std::size_t i = 0; i < condition.size(); ++i)
        if (condition[i] && static_cast<std::int64_t>(i) < x.shape()[axis])
            chosen.push_back(static_cast<std::int64_t>(i));
    Dims shape = x.shape();
    shape[axis] = static_cast<std::int64_t>(chosen.size());
    const Tensor y = call.output_tensor(0, shape, call.type(0));
    if (y.numel())
        index_select(call.queue(), x.device(call.queue()), axis, Value::ints(chosen).device(call.queue()), y);
}

void one_hot(Call& call)
{
    const std::int64_t depth = call.has(1) ? static_cast<std::int64_t>(call.number(1)) : 0;
    call.check(depth > 0, "depth must be positive, is ", depth);
    const Tensor index = call.contiguous(0), values = call.contiguous(2);
    call.check(values.numel() == 2, "values must be [off, on]");
    const std::size_t axis = call.axis(call.integer_attribute("axis", -1), index.dim() + 1);
    Dims shape, strides;
    for (std::size_t d = 0; d <= index.dim(); ++d) {
        const std::size_t from = d - (d > axis);
        shape.push_back(d == axis ? depth : index.shape[from]);
        strides.push_back(d == axis ? 0 : index.strides[from]);
    }
    const Tensor y = call.output_tensor(0, shape, call.type(2));
    Ints positions(static_cast<std::size_t>(depth));
    std::iota(positions.begin(), positions.end(), 0);
    Dims along(shape.size(), 0);
    along[axis] = 1;
    Tensor off = with_shape(values, shape, Dims(shape.size(), 0)), on = off;
    on.offset += 1;
    if (y.numel())
        pointwise(call.queue(),
                  std::vector{with_shape(index, shape, strides),
                              with_shape(Value::ints(positions).device(call.queue()), shape, along), off, on},
                  std::vector{y}, std::vector<Scalar>{static_cast<double>(depth)},
                  "y0 = x0 == (typeof_x0)x1 || x0 + (typeof_x0)w0 == (typeof_x0)x1 ? x3 : x2;",
                  std::vector{DataType::int64});
}

void reverse_sequence(Call& call)
{
    const Tensor x = call.tensor(0);
    const auto time = static_cast<std::size_t>(call.integer_attribute("time_axis", 0));
    const auto batch = static_cast<std::size_t>(call.integer_attribute("batch_axis", 1));
    call.check(x.dim() >= 2 && time < 2 && batch < 2 && time != batch, "time_axis and batch_axis must be 0 and 1");
    const Ints lengths = call.ints(1);
    call.check(static_cast<std::int64_t>(lengths.size()) == x.shape[batch], lengths.size(),
               " sequence_lens for a batch of ", x.shape[batch]);
    Ints origin;
    for (const std::int64_t length : lengths) {
        call.check(length >= 0 && length <= x.shape[time], "a sequence of ", length, " steps exceeds ", x.shape[time]);
        for (std::int64_t t = 0; t < x.shape[time]; ++t)
            origin.push_back(t < length ? length - 1 - t : t);
    }
    Dims strides(x.dim(), 0);
    strides[batch] = x.shape[time];
    strides[time] = 1;
    const Tensor y = call.output_tensor(0, x.shape, call.type(0));
    if (y.numel())
        clprim::gather(call.queue(), x, time, with_shape(Value::ints(origin).device(call.queue()), x.shape, strides),
                       y);
}

const OperatorRow index_rows[] = {
    {"Gather", 1, gather, gather_on_host},
    {"GatherElements", 11, gather_elements},
    {"GatherND", 11, gather_nd},
    {"Scatter", 9, scatter_elements},
    {"ScatterElements", 11, scatter_elements},
    {"ScatterND", 11, scatter_nd},
    {"TensorScatter", 24, tensor_scatter},
    {"NonZero", 9, nonzero},
    {"Compress", 9, compress},
    {"OneHot", 9, one_hot},
    {"ReverseSequence", 10, reverse_sequence},
};

}  // namespace

std::span<const OperatorRow> index_operators() { return index_rows; }

}  // namespace clprim::onnx
