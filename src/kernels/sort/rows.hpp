// Rows that are sorted, and how kernels of kernels/sort take them.
#pragma once

#include <string>

#include <clprim/context.hpp>
#include <kernels/index/geometry.hpp>

namespace clprim::detail {

inline const char* key_option(DataType dtype)
{
    switch (dtype) {
    case DataType::float32:
    case DataType::float16:
    case DataType::bfloat16: return " -DKEY_float";
    case DataType::float64: return " -DKEY_double -DWIDE";
    case DataType::int64: return " -DKEY_long -DWIDE";
    case DataType::uint64: return " -DKEY_ulong -DWIDE";
    case DataType::int8:
    case DataType::int16:
    case DataType::int32: return " -DKEY_int";
    default: return " -DKEY_uint";
    }
}

inline bool is_wide(DataType dtype) { return size_of(dtype) == 8; }

// One sort: rows of n elements along an axis, the first `keep` of which are wanted.
struct Rows {
    const Tensor &input, &values, &indices;
    std::size_t axis;
    bool descending;
    std::int64_t n, keep;
    Geometry starts;   // first elements of the rows: operands input, values, indices

    static Geometry make_starts(Tensor input, Tensor values, Tensor indices, std::size_t axis)
    {
        for (Tensor* tensor : {&input, &values, &indices})
            if (tensor->dim())
                tensor->shape[axis] = 1;
        return Geometry({&input, &values, &indices});
    }
    Rows(const Tensor& input_, const Tensor& values_, const Tensor& indices_, std::size_t axis_, bool descending_)
        : input(input_), values(values_), indices(indices_), axis(axis_), descending(descending_),
          n(input.dim() ? input.size(axis) : 1), keep(values.dim() ? values.size(axis) : 1),
          starts(make_starts(input, values, indices, axis))
    {
    }

    std::int64_t count() const { return starts.numel(); }
    cl_long stride(const Tensor& tensor) const { return tensor.dim() ? tensor.stride(axis) : 0; }
    std::string options() const
    {
        return "-DT=" + std::string(name_of(input.dtype)) + key_option(input.dtype) +
               (descending ? " -DDESCENDING" : "") + starts.options();
    }
    Tensor workspace(Queue& queue, std::int64_t items) const
    {
        if (!is_wide(input.dtype))
            return queue.context().empty({items}, DataType::uint64, queue);
        // Two words each. There is no name for them but one of sixteen bytes, which devices without fp64 do not give.
        const Tensor words = queue.context().empty({2 * items}, DataType::uint64, queue);
        return {words.memory, DataType::complex128, {items}};
    }
};

// ROWS_OF_ITEMS of items.cl.
inline void add_operands(Launch& launch, const Rows& rows, const Tensor& from, const Tensor& to)
{
    launch.arg(rows.input).arg(rows.stride(rows.input));
    if (from.defined())
        launch.arg(from);
    if (to.defined())
        launch.arg(to);
    else
        launch.arg(rows.values).arg(rows.stride(rows.values)).arg(rows.indices).arg(rows.stride(rows.indices));
}

}  // namespace clprim::detail
