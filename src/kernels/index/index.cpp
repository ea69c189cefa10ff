#include <clprim/index.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <clprim/context.hpp>
#include <clprim/error_hook.hpp>
#include <clprim/pointwise.hpp>
#include <kernels/index/axis.hpp>
#include <kernels/index/geometry.hpp>
#include <kernels/index/move.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

void require_index(const Tensor& index, std::string_view name)
{
    require(index.dtype == DataType::int64 || index.dtype == DataType::int32, name,
            ": expected an index of dtype int64 or int32, got ", name_of(index.dtype));
}

// The tensor as seen from an iteration space of another shape: `axis` is chosen by an index, the rest agrees.
Tensor without_axis(const Tensor& tensor, std::size_t axis, const Dims& shape)
{
    Tensor result = tensor;
    result.shape = shape;
    if (axis < result.strides.size())
        result.strides[axis] = 0;
    return result;
}

// A one-dimensional index, broadcast to an iteration space.
Tensor along_axis(const Tensor& index, std::size_t axis, const Dims& shape)
{
    Tensor result = index;
    result.shape = shape;
    result.strides = Dims(shape.size(), 0);
    if (!shape.empty())
        result.strides[axis] = index.dim() ? index.stride(0) : 0;
    return result;
}

std::int64_t size_at(const Tensor& tensor, std::size_t axis) { return tensor.dim() ? tensor.size(axis) : 1; }
std::int64_t stride_at(const Tensor& tensor, std::size_t axis) { return tensor.dim() ? tensor.stride(axis) : 1; }

IndexedAxis indexed(const Tensor& tensor, const Along& along, std::string_view name, const Tensor& index)
{
    return {along.name.empty() ? name : along.name, index, size_at(tensor, along.axis), stride_at(tensor, along.axis),
            along.negative};
}

// Brings `axis` to the end; a tensor without axes gets one.
Tensor entries_last(Tensor tensor, std::size_t axis)
{
    if (tensor.dim() == 0) {
        tensor.shape = {1};
        tensor.strides = {1};
        return tensor;
    }
    for (Dims* dims : {&tensor.shape, &tensor.strides})
        std::rotate(dims->begin() + axis, dims->begin() + axis + 1, dims->end());
    return tensor;
}

void check_shapes(std::string_view name, const Tensor& self, std::size_t axis, const Tensor& index,
                  const Tensor& other)
{
    require_index(index, name);
    require(index.shape == other.shape && index.dim() == self.dim(), name, ": index has shape ",
            to_string(index.shape), ", source or output ", to_string(other.shape), ", the indexed tensor ",
            to_string(self.shape));
    for (std::size_t d = 0; d < index.dim(); ++d)
        require(d == axis || index.size(d) <= self.size(d), name, ": index of shape ", to_string(index.shape),
                " exceeds ", to_string(self.shape), " in dimension ", d);
}

void check_row_shapes(std::string_view name, const Tensor& self, std::size_t axis, const Tensor& index,
                      const Tensor& rows)
{
    require_index(index, name);
    Dims expected = self.shape;
    if (self.dim())
        expected[axis] = index.numel();
    require(index.dim() <= 1 && rows.shape == expected, name, ": ", index.numel(), " indices along dimension ", axis,
            " of ", to_string(self.shape), " do not fit a source or output of ", to_string(rows.shape));
    if (rows.numel() != 0 && self.dim() != 0 && self.size(axis) == 0)
        detail::raise(IndexError(detail::concat(name, ": index out of range for dimension ", axis, " of size 0")));
}

}  // namespace

void index_select(Queue& queue, const Tensor& input, const Along& along, const Tensor& index, const Tensor& out)
{
    detail::check_operands("index_select", {{"input", input}, {"index", index}, {"out", out}});
    check_row_shapes("index_select", input, along.axis, index, out);
    read_through(queue, without_axis(input, along.axis, out.shape),
                 indexed(input, along, "index_select", along_axis(index, along.axis, out.shape)), out);
}

void gather(Queue& queue, const Tensor& input, const Along& along, const Tensor& index, const Tensor& out)
{
    detail::check_operands("gather", {{"input", input}, {"index", index}, {"out", out}});
    check_shapes("gather", input, along.axis, index, out);
    read_through(queue, without_axis(input, along.axis, out.shape), indexed(input, along, "gather", index), out);
}

void scatter(Queue& queue, const Tensor& self, const Along& along, const Tensor& index, const Tensor& source)
{
    detail::check_operands("scatter", {{"self", self}, {"index", index}, {"source", source}});
    check_shapes("scatter", self, along.axis, index, source);
    write_through(queue, without_axis(self, along.axis, index.shape), indexed(self, along, "scatter", index), source);
}

void index_copy(Queue& queue, const Tensor& self, const Along& along, const Tensor& index, const Tensor& source)
{
    detail::check_operands("index_copy", {{"self", self}, {"index", index}, {"source", source}});
    check_row_shapes("index_copy", self, along.axis, index, source);
    write_through(queue, without_axis(self, along.axis, source.shape),
                  indexed(self, along, "index_copy", along_axis(index, along.axis, source.shape)), source);
}

void scatter_reduce(Queue& queue, const Tensor& self, const Along& along, const Tensor& index, const Tensor& source,
                    IndexReduce reduce)
{
    detail::check_operands("scatter_reduce", {{"self", self}, {"index", index}, {"source", source}});
    check_shapes("scatter_reduce", self, along.axis, index, source);
    reduce_through(queue, entries_last(without_axis(self, along.axis, index.shape), along.axis),
                   indexed(self, along, "scatter_reduce", entries_last(index, along.axis)),
                   entries_last(source, along.axis), reduce);
}

void index_reduce(Queue& queue, const Tensor& self, const Along& along, const Tensor& index, const Tensor& source,
                  IndexReduce reduce)
{
    detail::check_operands("index_reduce", {{"self", self}, {"index", index}, {"source", source}});
    check_row_shapes("index_reduce", self, along.axis, index, source);
    reduce_through(queue, entries_last(without_axis(self, along.axis, source.shape), along.axis),
                   indexed(self, along, "index_reduce",
                           entries_last(along_axis(index, along.axis, source.shape), along.axis)),
                   entries_last(source, along.axis), reduce);
}

void add_keys(Queue& queue, const Tensor& keys, const IndexedAxis& axis, bool first)
{
    detail::check_operands("add_keys", {{"keys", keys}, {"index", axis.index}});
    require_index(axis.index, axis.name);
    require(keys.dtype == DataType::int64, axis.name, ": keys are int64");
    if (keys.numel() == 0)
        return;
    Geometry g({&keys, &axis.index});
    std::string shared;
    if (queue.device().kind == DeviceKind::gpu) {
        if (keys.buffer_offset() % 4 == 0 && axis.index.buffer_offset() % 4 == 0 && g.share_neighbours(4, 0b11u))
            shared = " -DQUADS";
        else
            g.share(4);
        if (axis.size * std::max<std::int64_t>(std::abs(axis.stride), 1) <= std::numeric_limits<std::int32_t>::max())
            shared += " -DNEAR";
    }
    const std::string options = "-DINDEX=" + std::string(name_of(axis.index.dtype)) + g.options() + shared +
                                (first ? "" : " -DADD");
    Launch launch(queue, queue.context().program("kernels/index/keys.cl", options).kernel("add_keys"));
    launch.arg(keys).arg(axis.index).arg(AxisArgument(axis)).arg(queue.error_buffer())
        .arg(Queue::error_code(axis.name));
    g.set_argument(launch);
    launch.run(Range::linear(g.numel(), 64));
    queue.expect_errors();
}

void add_keys(Queue& queue, const Tensor& keys, const IndexedAxis& first, const IndexedAxis& second)
{
    if (queue.device().kind != DeviceKind::cpu || first.index.dtype != second.index.dtype) {
        add_keys(queue, keys, first, true);
        add_keys(queue, keys, second, false);
        return;
    }
    detail::check_operands("add_keys", {{"keys", keys}, {"index", first.index}, {"index", second.index}});
    require_index(first.index, first.name);
    require(keys.dtype == DataType::int64, first.name, ": keys are int64");
    if (keys.numel() == 0)
        return;
    const Geometry g({&keys, &first.index, &second.index});
    const std::string options = "-DINDEX=" + std::string(name_of(first.index.dtype)) + g.options();
    Launch launch(queue, queue.context().program("kernels/index/cpu_keys.cl", options).kernel("add_two_keys"));
    launch.arg(keys).arg(first.index).arg(second.index).arg(AxisArgument(first)).arg(AxisArgument(second))
        .arg(queue.error_buffer()).arg(Queue::error_code(first.name));
    g.set_argument(launch);
    launch.run(Range::linear(g.numel(), 64));
    queue.expect_errors();
}

void masked_fill(Queue& queue, const Tensor& self, const Tensor& mask, const Tensor& value)
{
    detail::check_operands("masked_fill", {{"self", self}, {"mask", mask}, {"value", value}});
    require(mask.dtype == DataType::boolean, "masked_fill: the mask has dtype ", name_of(mask.dtype));
    require(self.dtype == value.dtype, "masked_fill: dtypes ", name_of(self.dtype), " and ", name_of(value.dtype),
            " differ");
    if (self.numel() == 0)
        return;
    const bool small = size_of(self.dtype) < 16;
    if (queue.device().kind == DeviceKind::cpu && small && self.is_non_overlapping_and_dense()) {
        // Vectors of all elements are written faster than some elements one by one.
        Tensor raw = self, filling = value;
        raw.dtype = filling.dtype = detail::raw_type(size_of(self.dtype)).dtype;
        const Tensor inputs[] = {mask, filling, raw};
        pointwise(queue, inputs, {&raw, 1}, {}, "y0 = x0 ? x1 : x2;");
        return;
    }
    Geometry g({&self, &mask, &value});
    std::string shared;
    if (queue.device().kind == DeviceKind::gpu) {
        if (small && mask.buffer_offset() % 4 == 0 && g.share_neighbours(4, 0b011u))
            shared = " -DQUADS";
        else
            g.share(4);
        shared += g.last_is_still() ? " -DSTILL" : "";
    }
    const std::string options =
        std::string("-DELEMENT=") + detail::raw_type(size_of(self.dtype)).name + g.options() + shared;
    Launch launch(queue, queue.context().program("kernels/index/masked.cl", options).kernel("masked_fill"));
    launch.arg(self).arg(mask).arg(value);
    g.set_argument(launch);
    launch.run(Range::linear(g.numel(), 64));
}

}  // namespace clprim
