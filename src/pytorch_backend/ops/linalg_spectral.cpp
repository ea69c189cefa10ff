// QR factorisations, Hermitian eigenvalues and singular values.
#include <ATen/TensorOperators.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_eigh_meta.h>
#include <ATen/ops/_linalg_svd_meta.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_qr_meta.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/linalg.hpp>
#include <torch/library.h>

#include <ops/linalg.hpp>
#include <ops/outputs.hpp>
#include <runtime/structured.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

// ---- QR ----

struct Reflectors {
    Tensor a, tau;   // [batch, m, n], [batch, min(m, n)]
};

Reflectors qr_factor(const Tensor& a)
{
    Reflectors f;
    f.a = work_copy(a);
    f.tau = empty_like_batch(f.a, {std::min(a.size(-1), a.size(-2))}, a.scalar_type());
    clprim::qr_factor(current_queue(a), view(f.a), view(f.tau));
    return f;
}

// The first columns of Q [batch, m, columns].
Tensor make_q(const Reflectors& f, int64_t columns)
{
    const Tensor q =
        at::eye(f.a.size(1), columns, f.a.options()).expand({f.a.size(0), f.a.size(1), columns}).contiguous();
    clprim::apply_reflectors(current_queue(q), view(f.a), view(f.tau), view(q), false);
    return q;
}

TwoOut qr_out(const Tensor& a, std::string_view mode, Tensor& q, Tensor& r)
{
    StructuredOut<at::meta::structured_linalg_qr> op({q, r});
    op.meta(a, mode);
    require_kernel(a, "linalg.qr");
    const Reflectors f = qr_factor(a);
    if (mode != "r")
        deliver(make_q(f, op.output(0).size(-1)), op.output(0));
    op.output(1).copy_(f.a.narrow(1, 0, op.output(1).size(-2)).triu().view(op.output(1).sizes()));
    op.finish();
    return {q, r};
}

std::tuple<Tensor, Tensor> geqrf(const Tensor& self)
{
    TORCH_CHECK(self.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
    require_kernel(self, "torch.geqrf");
    const c10::OptionalDeviceGuard guard(self.device());
    const Reflectors f = qr_factor(self);
    std::vector<int64_t> sizes = batch_sizes(self).vec();
    sizes.push_back(f.tau.size(1));
    // Columns lie in one piece, as LAPACK leaves them.
    return {f.a.mT().contiguous().mT().view(self.sizes()), f.tau.view(sizes)};
}

TwoOut geqrf_out(const Tensor& self, Tensor& a, Tensor& tau)
{
    const auto [factor, scales] = torch_ocl::geqrf(self);
    assign(a, factor);
    assign(tau, scales);
    return {a, tau};
}

void check_reflectors(const Tensor& a, const Tensor& tau, const char* name)
{
    TORCH_CHECK(a.dim() >= 2, name, ": input must have at least 2 dimensions.");
    TORCH_CHECK(tau.dim() == a.dim() - 1 && tau.sizes().slice(0, tau.dim() - 1) == batch_sizes(a), name,
                ": expected tau of one "
                "dimension less than input and of the same batch, got ",
                tau.sizes(), " and ", a.sizes());
    TORCH_CHECK(tau.scalar_type() == a.scalar_type(), name, ": tau dtype ", tau.scalar_type(),
                " does not match input dtype ", a.scalar_type());
}

// After the checks of shapes: the CPU looks for a kernel last.
Reflectors given_reflectors(const Tensor& a, const Tensor& tau, const char* name)
{
    require_kernel(a, name);
    Reflectors f;
    f.a = work_copy(a);
    f.tau = tau.resolve_conj().contiguous().view({f.a.size(0), tau.size(-1)});
    return f;
}

Tensor householder_product(const Tensor& input, const Tensor& tau)
{
    check_reflectors(input, tau, "torch.linalg.householder_product");
    TORCH_CHECK(input.size(-2) >= input.size(-1),
                "torch.linalg.householder_product: input.shape[-2] must be greater than or "
                "equal to input.shape[-1]");
    TORCH_CHECK(input.size(-1) >= tau.size(-1),
                "torch.linalg.householder_product: input.shape[-1] must be greater than or "
                "equal to tau.shape[-1]");
    const Reflectors f = given_reflectors(input, tau, "torch.linalg.householder_product");
    const c10::OptionalDeviceGuard guard(input.device());
    return make_q(f, input.size(-1)).view(input.sizes());
}

Tensor& householder_product_out(const Tensor& input, const Tensor& tau, Tensor& out)
{
    TORCH_CHECK(c10::canCast(input.scalar_type(), out.scalar_type()), "torch.linalg.householder_product: Expected ",
                "result to be safely castable from ", input.scalar_type(), " dtype, but got result with dtype ",
                out.scalar_type());
    return assign(out, householder_product(input, tau));
}

// Q C, C Q, or with Q^H.
Tensor ormqr(const Tensor& self, const Tensor& tau, const Tensor& other, bool left, bool transpose)
{
    check_reflectors(self, tau, "torch.ormqr");
    TORCH_CHECK(other.dim() == self.dim() && batch_sizes(other) == batch_sizes(self),
                "torch.ormqr: batch dimensions of other "
                "must be those of input, got ",
                other.sizes(), " and ", self.sizes());
    TORCH_CHECK(other.scalar_type() == self.scalar_type(), "torch.ormqr: other dtype ", other.scalar_type(),
                " does not match "
                "input dtype ",
                self.scalar_type());
    const int64_t side = left ? -2 : -1;
    TORCH_CHECK(other.size(side) == self.size(-2), "torch.ormqr: other.shape[", side,
                "] must be equal to input.shape[-2]");
    TORCH_CHECK(tau.size(-1) == std::min(other.size(side), self.size(-1)),
                "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[", side, "], input.shape[-1])");
    const Reflectors f = given_reflectors(self, tau, "torch.ormqr");
    const c10::OptionalDeviceGuard guard(self.device());
    // C Q = (Q^H C^H)^H
    const Tensor c = work_copy(left ? other : other.mH());
    clprim::apply_reflectors(current_queue(self), view(f.a), view(f.tau), view(c), left ? transpose : !transpose);
    return (left ? c : c.mH().resolve_conj().contiguous()).view(other.sizes());
}

Tensor& ormqr_out(const Tensor& self, const Tensor& tau, const Tensor& other, bool left, bool transpose, Tensor& out)
{
    return assign(out, torch_ocl::ormqr(self, tau, other, left, transpose));
}

// ---- eigenvalues ----

TwoOut eigh_out(const Tensor& a, std::string_view uplo, bool compute_v, Tensor& values, Tensor& vectors)
{
    StructuredOut<at::meta::structured__linalg_eigh> op({values, vectors});
    op.meta(a, uplo, compute_v);
    const bool upper = uplo == "U" || uplo == "u";
    Tensor half = upper ? a.triu(1) : a.tril(-1);
    half = half + half.mH();
    half.diagonal(0, -2, -1).copy_(at::isComplexType(a.scalar_type()) ? at::real(a.diagonal(0, -2, -1))
                                                                      : a.diagonal(0, -2, -1));
    const Tensor work = work_copy(half),
                 rows = compute_v ? empty_like_batch(work, {work.size(1), work.size(1)}, a.scalar_type()) : Tensor();
    const Tensor found = empty_like_batch(work, {work.size(1)}, c10::toRealValueType(a.scalar_type()));
    clprim::jacobi_eigh(current_queue(a), view(work), compute_v ? view(rows) : clprim::Tensor(),
                        view(found));
    deliver(found, op.output(0));
    if (compute_v)
        deliver(rows.mH().resolve_conj().contiguous(), op.output(1));
    op.finish();
    if (a.size(-1) > 2)   // LAPACK solves smaller ones without iterations that could fail
        require_finite(found, "linalg.eigh", 1, a.dim() == 2);
    return {values, vectors};
}

// ---- singular values ----

// U S (its columns as rows), V (likewise) and S of matrices with no more columns than rows.
struct Svd {
    Tensor scaled, v, s;
};

Svd jacobi_svd(const Tensor& a)
{
    Svd r;
    r.scaled = work_copy(a.mT());
    const int64_t n = a.size(-1);
    r.v = empty_like_batch(r.scaled, {n, n}, a.scalar_type());
    r.s = empty_like_batch(r.scaled, {n}, c10::toRealValueType(a.scalar_type()));
    clprim::jacobi_svd(current_queue(a), view(r.scaled), view(r.v), view(r.s));
    return r;
}

// U [batch, m, columns] from its multiples: Q of their QR factorisation, which also completes the basis where values
// are 0, with the phases of R's diagonal.
Tensor make_u(const Svd& svd, int64_t columns)
{
    const Reflectors f = qr_factor(svd.scaled.mT());
    const Tensor q = make_q(f, columns), phases = f.a.diagonal(0, 1, 2).sgn();
    const Tensor turn = at::where(phases.eq(0), at::ones({}, phases.options()), phases);
    q.narrow(2, 0, svd.s.size(1)).mul_(turn.unsqueeze(1));
    return q;
}

ThreeOut svd_out(const Tensor& a, bool full_matrices, bool compute_uv, std::optional<std::string_view> driver,
                 Tensor& u, Tensor& s, Tensor& vh)
{
    StructuredOut<at::meta::structured__linalg_svd> op({u, s, vh});
    op.meta(a, full_matrices, compute_uv, driver);
    const bool wide = a.size(-2) < a.size(-1);   // then A^H = V S U^H is factored
    if (a.numel() == 0) {
        if (compute_uv) {   // any orthonormal basis will do
            for (const int i : {0, 2})
                op.output(i).zero_().diagonal(0, -2, -1).fill_(1);
        }
        op.finish();
        return {u, s, vh};
    }
    const Svd r = jacobi_svd(wide ? a.mH() : a);
    deliver(r.s, op.output(1));
    if (compute_uv) {
        const Tensor tall = make_u(r, op.output(wide ? 2 : 0).size(wide ? -2 : -1));   // rows of r.v: columns of V
        const Tensor other = r.v.mT();
        deliver((wide ? other : tall).contiguous(), op.output(0));
        deliver((wide ? tall : other).mH().resolve_conj().contiguous(), op.output(2));
    }
    op.finish();
    require_finite(r.s, "linalg.svd", -4, a.dim() == 2);   // LAPACK's code
    return {u, s, vh};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("linalg_qr.out", qr_out);
    m.impl("geqrf", torch_ocl::geqrf);
    m.impl("geqrf.a", geqrf_out);
    m.impl("linalg_householder_product", householder_product);
    m.impl("linalg_householder_product.out", householder_product_out);
    m.impl("ormqr", torch_ocl::ormqr);
    m.impl("ormqr.out", ormqr_out);
    m.impl("_linalg_eigh.eigenvalues", eigh_out);
    m.impl("_linalg_svd.U", svd_out);
}

}  // namespace
}  // namespace torch_ocl
