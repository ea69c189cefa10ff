// Operators on sparse and nested tensors that PyTorch composes of operators on their parts: they serve any device, but
// are registered for PyTorch's own devices alone. The tables name them; a call goes to PyTorch's kernel for such
// tensors of the CPU, with the device's tensors. What touches memory itself there is not named here: it has a kernel of
// its own in sparse_*.cpp, or falls back.
#include <string>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using c10::DispatchKey;

template <DispatchKey cpu>
void shared(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack)
{
    op.redispatchBoxed(c10::DispatchKeySet(cpu), stack);
}

// Functions of each value that keep zeros: f, f_ and f.out.
constexpr std::string_view value_functions[] = {
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor", "frac",
    "log1p", "neg", "rad2deg", "round", "sgn", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"};
constexpr std::string_view both_layouts[] = {
    "_nnz", "_pin_memory", "_to_dense", "_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_csc", "_to_sparse_csr",
    "add.Tensor", "add_.Tensor", "clone", "conj_physical.out", "copy_", "dense_dim", "empty.memory_format",
    "empty_like", "is_pinned", "isinf", "isnan", "isneginf", "isneginf.out", "isposinf", "isposinf.out", "mm",
    "mm.out", "mul.Tensor", "mul_.Tensor", "relu", "relu_", "resize_as_sparse_", "signbit", "signbit.out",
    "sparse_dim", "sum", "sum.dim_IntList", "threshold_backward", "threshold_backward.grad_input", "values",
    "zero_"};
constexpr std::string_view coordinate_operators[] = {
    "_coalesced_", "_dimI", "_dimV", "_indices", "_sparse_broadcast_to", "_sparse_coo_tensor_with_dims",
    "_sparse_coo_tensor_with_dims_and_tensors", "_to_sparse_bsc", "_to_sparse_bsr", "_values", "any", "cat",
    "copy_sparse_to_sparse_", "div.Tensor", "div.Tensor_mode", "div.out", "div.out_mode", "div_.Tensor",
    "div_.Tensor_mode", "floor_divide", "floor_divide.out", "floor_divide_.Tensor", "indices", "is_coalesced",
    "linalg_vector_norm", "mv", "nan_to_num", "nan_to_num.out", "nan_to_num_", "narrow_copy", "native_norm",
    "native_norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "permute",
    "pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "sparse_resize_", "sparse_resize_and_clear_", "sub.Tensor",
    "sub.out", "sub_.Tensor", "unsqueeze", "view_as_complex", "view_as_real", "zeros.out"};
constexpr std::string_view compressed_operators[] = {
    "_conj_physical", "addmm", "angle", "angle.out", "ccol_indices", "col_indices", "conj_physical_",
    "crow_indices", "fill_.Scalar", "mul.Scalar", "mul.out", "mul_.Scalar", "normal_", "resize_", "row_indices",
    "select.int", "select_copy.int", "sparse_mask"};
constexpr std::string_view nested_operators[] = {
    "_nested_from_padded_and_nested_example", "_nested_select_backward", "_nested_tensor_size",
    "_nested_tensor_storage_offsets", "_nested_tensor_strides", "_pin_memory", "_safe_softmax", "_softmax",
    "_softmax_backward_data", "_to_copy", "abs", "abs_", "add.Tensor", "add_.Tensor", "alias", "all.dim", "bmm", "cat",
    "chunk", "clone", "copy_", "cos", "detach", "div.Scalar", "div.Tensor", "embedding", "empty_like", "eq.Scalar",
    "eq.Tensor", "fill_.Scalar", "fill_.Tensor", "ge.Scalar", "gelu", "gelu_", "gelu_backward", "gt.Scalar",
    "is_pinned", "is_same_size", "isinf", "isnan", "isneginf", "isposinf", "linear", "linear_backward", "logical_not",
    "logical_not_", "masked_fill.Scalar", "matmul", "matmul.out", "matmul_backward", "mul.Scalar", "mul.Tensor",
    "mul_.Scalar", "mul_.Tensor", "narrow", "native_dropout", "native_dropout_backward", "neg", "neg_", "normal_",
    "ones_like", "relu", "relu_", "select.int", "sgn", "sgn_", "silu", "silu_", "silu_backward", "sin",
    "split_with_sizes", "sqrt", "squeeze", "squeeze.dim", "squeeze.dims", "sub.Tensor", "tanh", "tanh_",
    "threshold_backward", "to_padded_tensor", "transpose.int", "unbind.int", "unsqueeze",
    "value_selecting_reduction_backward", "values", "view", "where.self", "where.self_out", "zero_"};
// Of strided tensors.
constexpr std::string_view dense_operators[] = {"_to_sparse",     "_to_sparse.sparse_dim", "_to_sparse_csr",
                                                "_to_sparse_csc", "_to_sparse_bsr",        "_to_sparse_bsc",
                                                "_nested_view_from_buffer", "_nested_from_padded",
                                                "_nested_tensor_from_mask"};

template <DispatchKey cpu>
void share(torch::Library& library, std::string_view name)
{
    const std::size_t dot = name.find('.');
    const std::string overload(dot == name.npos ? "" : name.substr(dot + 1));
    const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + std::string(name.substr(0, dot)), overload});
    if (op && op->hasKernelForDispatchKey(cpu))   // some came with later releases of PyTorch
        library.impl(std::string(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&shared<cpu>>());
}

template <DispatchKey cpu, std::size_t count>
void share_all(torch::Library& library, const std::string_view (&names)[count])
{
    for (const std::string_view name : names)
        share<cpu>(library, name);
}

template <DispatchKey cpu>
void share_layouts(torch::Library& library)
{
    for (const std::string_view name : value_functions)
        for (const char* form : {"", "_", ".out"})
            share<cpu>(library, std::string(name) + form);
    share_all<cpu>(library, both_layouts);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m)
{
    share_layouts<DispatchKey::SparseCPU>(m);
    share_all<DispatchKey::SparseCPU>(m, coordinate_operators);
}
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m)
{
    share_layouts<DispatchKey::SparseCsrCPU>(m);
    share_all<DispatchKey::SparseCsrCPU>(m, compressed_operators);
}
TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) { share_all<DispatchKey::NestedTensorCPU>(m, nested_operators); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { share_all<DispatchKey::CPU>(m, dense_operators); }

}  // namespace
}  // namespace torch_ocl
