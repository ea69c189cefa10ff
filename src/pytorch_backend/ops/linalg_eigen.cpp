// Eigenvalues of general matrices; symmetric and Hermitian indefinite systems.
#include <ATen/TensorOperators.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/linalg_ldl_factor_ex_meta.h>
#include <ATen/ops/linalg_ldl_solve_meta.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/linalg.hpp>
#include <clprim/pointwise.hpp>
#include <torch/library.h>

#include <ops/linalg.hpp>
#include <ops/outputs.hpp>
#include <runtime/structured.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

// ---- eigenvalues ----

struct Eigen {
    Tensor values, vectors;   // [..., n], [..., n, n] or undefined
};

// PyTorch promises an error for matrices that are not finite or do not converge: this waits for the device.
Eigen eigen(const Tensor& a, bool with_vectors, const char* name)
{
    at::native::squareCheckInputs(a, name);
    at::native::checkFloatingOrComplex(a, name);
    require_kernel(a, name);
    const c10::OptionalDeviceGuard guard(a.device());
    const at::ScalarType type = c10::toComplexType(a.scalar_type());
    const Tensor work = work_copy(a), info = empty_like_batch(work, {}, at::kInt);
    Eigen result;
    result.values = torch_ocl::empty(a.sizes().slice(0, a.dim() - 1), type, a.device());
    const Tensor values = result.values.view({work.size(0), work.size(1)});
    Tensor vectors;
    if (with_vectors) {
        result.vectors = torch_ocl::empty(a.sizes(), type, a.device());
        vectors = result.vectors.view(work.sizes());
    }
    clprim::eigen(current_queue(a), view(work), view(values), view(std::optional<Tensor>(vectors)), view(info));
    if (info.numel() != 0) {
        const Tensor found = info.cpu();
        TORCH_CHECK(!found.eq(-1).any().item<bool>(), "torch.", name,
                    ": input tensor should not contain infs or NaNs.");
        at::_linalg_check_errors(found, name, a.dim() == 2);
    }
    return result;
}

std::tuple<Tensor, Tensor> eig(const Tensor& a)
{
    const Eigen found = eigen(a, true, "linalg.eig");
    return {found.values, found.vectors};
}

TwoOut eig_out(const Tensor& a, Tensor& values, Tensor& vectors)
{
    at::native::squareCheckInputs(a, "linalg.eig");
    at::native::checkFloatingOrComplex(a, "linalg.eig");
    const at::ScalarType type = c10::toComplexType(a.scalar_type());
    at::native::checkLinalgCompatibleDtype("torch.linalg.eig", values.scalar_type(), type, "eigenvalues");
    at::native::checkLinalgCompatibleDtype("torch.linalg.eig", vectors.scalar_type(), type, "eigenvectors");
    at::native::checkSameDevice("torch.linalg.eig", values, a, "eigenvalues");
    at::native::checkSameDevice("torch.linalg.eig", vectors, a, "eigenvectors");
    const Eigen found = eigen(a, true, "linalg.eig");
    assign(values, found.values);
    assign(vectors, found.vectors);
    return {values, vectors};
}

Tensor eigvals(const Tensor& a) { return eigen(a, false, "linalg.eigvals").values; }

Tensor& eigvals_out(const Tensor& a, Tensor& values)
{
    at::native::squareCheckInputs(a, "linalg.eigvals");
    at::native::checkFloatingOrComplex(a, "linalg.eigvals");
    at::native::checkLinalgCompatibleDtype("torch.linalg.eigvals", values.scalar_type(),
                                           c10::toComplexType(a.scalar_type()), "eigenvalues");
    at::native::checkSameDevice("torch.linalg.eigvals", values, a, "eigenvalues");
    return assign(values, eigvals(a));
}

// ---- LDL ----

ThreeOut ldl_factor_ex_out(const Tensor& a, bool hermitian, bool check_errors, Tensor& ld, Tensor& pivots, Tensor& info)
{
    StructuredOut<at::meta::structured_linalg_ldl_factor_ex> op({ld, pivots, info});
    op.meta(a, hermitian, check_errors);
    const Tensor work = work_copy(a.tril()), rows = empty_like_batch(work, {work.size(1)}, at::kInt),
                 codes = empty_like_batch(work, {}, at::kInt);
    clprim::ldl_factor(current_queue(a), view(work), view(rows), view(codes), hermitian);
    deliver(work, op.output(0));
    deliver(rows, op.output(1));
    deliver(codes, op.output(2));
    op.finish();
    if (check_errors)
        at::_linalg_check_errors(info, "torch.linalg.ldl_factor_ex", a.dim() == 2);
    return {ld, pivots, info};
}

Tensor& ldl_solve_out(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian, Tensor& out)
{
    StructuredOut<at::meta::structured_linalg_ldl_solve> op({out});
    op.meta(ld, pivots, b, hermitian);
    const at::IntArrayRef batch = batch_sizes(op.output());
    std::vector<int64_t> pivot_sizes = batch.vec();
    pivot_sizes.push_back(pivots.size(-1));
    const Tensor factors = work_copy(ld, batch), x = work_copy(b, batch);
    const Tensor rows = pivots.to(at::kInt).expand(pivot_sizes).contiguous().view({factors.size(0), pivots.size(-1)});
    const auto size = static_cast<double>(ld.size(-1));
    clprim::require_within(current_queue(rows), view(rows), -size, size,
                           "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2). Did you properly pass "
                           "the result of ldl_factor?");
    clprim::ldl_solve(current_queue(b), view(factors), view(rows), view(x), hermitian);
    deliver(x, op.output());
    op.finish();
    return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("linalg_eig", eig);
    m.impl("linalg_eig.out", eig_out);
    m.impl("_linalg_eigvals", eigvals);
    m.impl("linalg_eigvals.out", eigvals_out);
    m.impl("linalg_ldl_factor_ex.out", ldl_factor_ex_out);
    m.impl("linalg_ldl_solve.out", ldl_solve_out);
}

}  // namespace
}  // namespace torch_ocl
