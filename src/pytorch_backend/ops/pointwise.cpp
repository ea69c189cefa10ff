#include <ops/pointwise.hpp>

#include <ATen/Dispatch.h>
#include <c10/util/SmallVector.h>

#include <runtime/errors.hpp>
#include <runtime/float8.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

clprim::Scalar to_scalar(const at::Scalar& value)
{
    if (value.isComplex())
        return clprim::Scalar(static_cast<std::complex<double>>(value.toComplexDouble()));
    if (value.isFloatingPoint())
        return clprim::Scalar(value.toDouble());
    if (value.type() == at::kUInt64)
        return clprim::Scalar(value.toUInt64());
    return clprim::Scalar(value.toLong());
}

namespace {

clprim::Scalar host_number(const at::TensorBase& tensor)
{
    if (!tensor.is_conj() && !tensor.is_neg()) {
        switch (tensor.scalar_type()) {   // what Python's numbers become
        case at::kDouble: return clprim::Scalar(*tensor.const_data_ptr<double>());
        case at::kFloat: return clprim::Scalar(*tensor.const_data_ptr<float>());
        case at::kLong: return clprim::Scalar(*tensor.const_data_ptr<std::int64_t>());
        default: break;
        }
    }
    return to_scalar(at::Tensor(tensor).item());
}

// An operand with the iterator's shape, which is the same for all and may be merged, permuted or broadcast.
clprim::Tensor operand(at::TensorIteratorBase& iter, int k)
{
    const at::TensorBase& tensor = iter.tensor_base(k);
    clprim::Tensor result = view(static_cast<const at::Tensor&>(tensor));
    const auto rank = static_cast<std::size_t>(iter.ndim());
    const auto item = static_cast<std::int64_t>(tensor.element_size());
    const at::IntArrayRef shape = iter.shape(), strides = iter.strides(k);
    result.shape.resize(rank);
    result.strides.resize(rank);
    for (std::size_t d = 0; d < rank; ++d) {
        result.shape[rank - 1 - d] = shape[d];
        result.strides[rank - 1 - d] = strides[d] / item;
    }
    return result;
}

// The same as a tensor, for numbers of eight bits.
at::Tensor operand_tensor(at::TensorIteratorBase& iter, int k)
{
    const at::TensorBase& tensor = iter.tensor_base(k);
    const auto item = static_cast<std::int64_t>(tensor.element_size());
    c10::SmallVector<std::int64_t, 6> shape(iter.shape().rbegin(), iter.shape().rend());
    c10::SmallVector<std::int64_t, 6> strides(iter.strides(k).rbegin(), iter.strides(k).rend());
    for (std::int64_t& stride : strides)
        stride /= item;
    return static_cast<const at::Tensor&>(tensor).as_strided(shape, strides);
}

// A dtype that a row has no code for is refused also where there is nothing to compute.
void require_accepted(const clprim::PointwiseRow& row, clprim::DataType common)
{
    const bool accepted = clprim::is_complex(common) ? row.complex_code != nullptr
                                                     : row.code != nullptr && (row.accepts & clprim::class_of(common));
    TORCH_CHECK_NOT_IMPLEMENTED(accepted, '"', row.name, "\" not implemented for '", clprim::name_of(common), '\'');
}

void enqueue(at::TensorIteratorBase& iter, const clprim::PointwiseRow& row,
             std::initializer_list<clprim::Scalar> scalars, at::ScalarType common, c10::ArrayRef<int> order)
{
    const clprim::DataType common_dtype = data_type(c10::isFloat8Type(common) ? at::kFloat : common);
    if (iter.numel() == 0)
        return require_accepted(row, common_dtype);
    c10::SmallVector<clprim::Input, 4> inputs;
    c10::SmallVector<clprim::Tensor, 2> outputs;
    c10::SmallVector<at::Tensor, 4> wide;   // operands of eight bits as float32
    c10::SmallVector<int, 2> narrowed;      // outputs to convert back, from the front of `wide`
    wide.reserve(static_cast<std::size_t>(iter.ntensors()));
    for (int k = 0; k < iter.noutputs(); ++k) {
        if (is_float8(iter.tensor_base(k))) {
            narrowed.push_back(k);
            outputs.push_back(view(wide.emplace_back(float8_to_float(operand_tensor(iter, k)))));
        }
        else {
            outputs.push_back(operand(iter, k));
        }
    }
    for (int k : order) {
        if (iter.is_cpu_scalar(k))
            inputs.emplace_back(host_number(iter.tensor_base(k)), common_dtype);
        else if (is_float8(iter.tensor_base(k)))
            inputs.emplace_back(view(wide.emplace_back(float8_to_float(operand_tensor(iter, k)))));
        else
            inputs.emplace_back(operand(iter, k));
    }
    translate_errors([&] {
        clprim::pointwise(current_queue(iter.device(0)), row,
                          {{inputs.data(), inputs.size()},
                           {outputs.data(), outputs.size()},
                           {scalars.begin(), scalars.size()},
                           common_dtype});
    });
    for (std::size_t i = 0; i < narrowed.size(); ++i)
        float_to_float8(wide[i], operand_tensor(iter, narrowed[i]));
}

c10::SmallVector<int, 4> input_order(const at::TensorIteratorBase& iter)
{
    c10::SmallVector<int, 4> order;
    for (int k = iter.noutputs(); k < iter.ntensors(); ++k)
        order.push_back(k);
    return order;
}

}  // namespace

void launch(at::TensorIteratorBase& iter, const clprim::PointwiseRow& row,
            std::initializer_list<clprim::Scalar> scalars,
            std::initializer_list<std::reference_wrapper<const at::Tensor>> inputs)
{
    c10::SmallVector<int, 4> order = input_order(iter);
    if (inputs.size() > 0) {
        order.clear();
        for (const at::Tensor& wanted : inputs)
            for (int k = iter.noutputs(); k < iter.ntensors(); ++k)
                if (iter.tensor_base(k).is_same(wanted)) {
                    order.push_back(k);
                    break;
                }
        TORCH_INTERNAL_ASSERT(order.size() == inputs.size());
    }
    enqueue(iter, row, scalars, iter.common_dtype(), order);
}

void launch_as(at::ScalarType common, at::TensorIteratorBase& iter, const clprim::PointwiseRow& row,
               std::initializer_list<clprim::Scalar> scalars)
{
    enqueue(iter, row, scalars, common, input_order(iter));
}

}  // namespace torch_ocl
