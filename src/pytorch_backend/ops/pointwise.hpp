// From PyTorch's TensorIterator (operands broadcast, dtypes promoted, outputs made) to clprim's pointwise rows.
#pragma once

#include <initializer_list>

#include <ATen/TensorIterator.h>
#include <c10/core/Scalar.h>
#include <clprim/pointwise.hpp>

#include <runtime/structured.hpp>

namespace torch_ocl {

clprim::Scalar to_scalar(const at::Scalar& value);

// Enqueues a row over an iterator's operands, computed in its common dtype. x0, x1, ... are the iterator's inputs in
// its order or, where `inputs` is given, in that order.
void launch(at::TensorIteratorBase& iter, const clprim::PointwiseRow& row,
            std::initializer_list<clprim::Scalar> scalars = {},
            std::initializer_list<std::reference_wrapper<const at::Tensor>> inputs = {});
// The same, computed in `common` whatever the iterator says.
void launch_as(at::ScalarType common, at::TensorIteratorBase& iter, const clprim::PointwiseRow& row,
               std::initializer_list<clprim::Scalar> scalars = {});

// A structured operator whose meta function builds the iterator.
template <class Meta, class... Arguments>
at::Tensor& structured_pointwise(at::Tensor& out, const clprim::PointwiseRow& row,
                                 std::initializer_list<clprim::Scalar> scalars, const Arguments&... arguments)
{
    StructuredOut<Meta> op({out});
    op.meta(arguments...);
    launch(op, row, scalars);
    op.finish();
    return out;
}

// A row, looked up once.
#define CLPRIM_ROW(name)                                                                                               \
    ([]() -> const clprim::PointwiseRow& {                                                                             \
        static const clprim::PointwiseRow& row = clprim::pointwise_row(name);                                          \
        return row;                                                                                                    \
    }())

}  // namespace torch_ocl
