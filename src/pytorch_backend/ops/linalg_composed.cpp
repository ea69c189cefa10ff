// Linear algebra made of the factorisations and products that the device has.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_check_errors_native.h>
#include <ATen/ops/all.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_matrix_norm.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <ops/linalg.hpp>
#include <ops/outputs.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using Four = std::tuple<Tensor&, Tensor&, Tensor&, Tensor&>;

// ---- least squares ----

struct LeastSquares {
    Tensor solution;            // [..., n, k]
    Tensor rank, singular;      // not of 'gels'
};

// Q and the triangle R of A = Q R or, for more columns than rows, of A^H.
struct Factors {
    Tensor q, r;
    bool wide;
};

Factors factors_of(const Tensor& a)
{
    const bool wide = a.size(-2) < a.size(-1);
    const auto [q, r] = at::linalg_qr(wide ? a.mH() : a);
    return {q, r, wide};
}

// For matrices of full rank: the solution of least squares, or of the smallest norm.
Tensor solve_by_qr(const Factors& f, const Tensor& b)
{
    return f.wide ? f.q.matmul(at::linalg_solve_triangular(f.r.mH(), b, false))
                  : at::linalg_solve_triangular(f.r, f.q.mH().matmul(b), true);
}

// Whether no singular value of any matrix is as small as rcond times the largest: their ratio is below the product of
// the norms of R and its inverse. To know that waits.
bool surely_full_rank(const Factors& f, double rcond)
{
    const Tensor one = at::eye(f.r.size(-1), f.r.options());
    const Tensor inverse = at::linalg_solve_triangular(f.r, one, true);
    const Tensor norms = at::linalg_matrix_norm(f.r) * at::linalg_matrix_norm(inverse);
    return at::all(norms * rcond < 0.5).item<bool>();   // NaN is not
}

// By singular values, of which those up to rcond times the largest count as zero: the solution of the smallest norm.
LeastSquares solve_by_svd(const Tensor& a, const Tensor& b, double rcond)
{
    const auto [u, s, vh] = at::linalg_svd(a, false);
    if (s.size(-1) == 0)
        return {vh.mH().matmul(u.mH().matmul(b)), s.to(at::kLong).sum(-1), s};
    const Tensor kept = s.gt(s.amax(-1, true) * rcond);
    const Tensor inverse = at::where(kept, s.reciprocal(), 0);
    return {vh.mH().matmul(inverse.unsqueeze(-1) * u.mH().matmul(b)), kept.sum(-1), s};
}

// Singular values are found where the driver gives them, or where the rank may not be full.
LeastSquares solve_by(std::string_view driver, const Tensor& a, const Tensor& b, double rcond)
{
    if (driver == "gels")
        return {solve_by_qr(factors_of(a), b), {}, {}};
    if (driver == "gelsy" && a.numel() != 0) {
        const Factors f = factors_of(a);
        if (surely_full_rank(f, std::max(rcond, 0.0)))
            return {solve_by_qr(f, b),
                    at::full(a.sizes().slice(0, a.dim() - 2), f.r.size(-1), f.r.options().dtype(at::kLong)), {}};
    }
    return solve_by_svd(a, b, rcond);
}

std::string_view lstsq_driver(const std::optional<std::string_view>& given)
{
    const std::string_view driver = given.value_or("gelsy");   // as on the CPU: right for matrices of any rank
    TORCH_CHECK(driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss",
                "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got ", driver);
    return driver;
}

// Residuals exist where there are more equations than unknowns and all matrices have full rank: to know that waits.
bool has_residuals(const Tensor& a, std::string_view driver, const Tensor& rank)
{
    if (a.size(-2) <= a.size(-1) || driver == "gelsy")
        return false;
    return driver == "gels" || at::all(rank.eq(a.size(-1))).item<bool>();
}

Four lstsq_out(const Tensor& a, const Tensor& b, std::optional<double> rcond, std::optional<std::string_view> given,
               Tensor& solution, Tensor& residuals, Tensor& rank, Tensor& singular_values)
{
    TORCH_CHECK(a.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
    TORCH_CHECK(b.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
    at::native::checkFloatingOrComplex(a, "torch.linalg.lstsq", false);
    TORCH_CHECK(a.scalar_type() == b.scalar_type(),
                "torch.linalg.lstsq: Expected input and other to have the same dtype, but "
                "got input's dtype ",
                a.scalar_type(), " and other's dtype ", b.scalar_type());
    TORCH_CHECK(a.device() == b.device(),
                "torch.linalg.lstsq: Expected all tensors to be on the same device, but found at "
                "least two devices, ",
                a.device(), " and ", b.device(), "!");
    const std::string_view driver = lstsq_driver(given);
    const bool vector = at::native::linalg_solve_is_vector_rhs(a, b);
    const Tensor rhs = vector ? b.unsqueeze(-1) : b;
    TORCH_CHECK(rhs.dim() >= 2 && a.size(-2) == rhs.size(-2),
                "torch.linalg.lstsq: input.size(-2) should match other.size(", vector ? -1 : -2, "), got ", a.sizes(),
                " and ", b.sizes());
    const c10::OptionalDeviceGuard guard(a.device());

    std::vector<int64_t> sizes = at::infer_size(batch_sizes(a), batch_sizes(rhs));
    sizes.insert(sizes.end(), {a.size(-2), a.size(-1)});
    const Tensor wide = a.expand(sizes);
    const double epsilon = c10::toRealValueType(a.scalar_type()) == at::kDouble ? 0x1p-52 : 0x1p-23;
    const double cut = rcond.value_or(epsilon * static_cast<double>(std::max(a.size(-2), a.size(-1))));
    const LeastSquares found = solve_by(driver, wide, rhs, cut);
    check_output_device(residuals, a.device());
    if (has_residuals(a, driver, found.rank))
        assign(residuals, (rhs - wide.matmul(found.solution)).abs().square().sum(-2));
    else
        residuals.resize_({0});
    assign(solution, vector ? found.solution.squeeze(-1) : found.solution);
    assign(rank, found.rank.defined() ? found.rank : torch_ocl::empty({0}, at::kLong, a.device()));
    const bool singular = driver == "gelsd" || driver == "gelss";
    assign(singular_values,
           singular ? found.singular : torch_ocl::empty({0}, singular_values.scalar_type(), a.device()));
    return {solution, residuals, rank, singular_values};
}

// ---- functions of matrices ----

// Taylor's polynomial of degree 18 by Paterson and Stockmeyer's scheme in powers of a^4: seven products.
Tensor taylor_18(const Tensor& a)
{
    double coefficient[19] = {1};
    for (int k = 1; k <= 18; ++k)
        coefficient[k] = coefficient[k - 1] / k;
    const Tensor a2 = a.matmul(a), a3 = a2.matmul(a), a4 = a2.matmul(a2);
    const Tensor one = at::eye(a.size(-1), a.options());
    Tensor sum = coefficient[16] * one + coefficient[17] * a + coefficient[18] * a2;
    for (int k = 12; k >= 0; k -= 4)
        sum = sum.matmul(a4) +
              (coefficient[k] * one + coefficient[k + 1] * a + coefficient[k + 2] * a2 + coefficient[k + 3] * a3);
    return sum;
}

// exp(A) = exp(A / 2^s)^(2^s), where s brings the 1-norm below the bound up to which the polynomial is exact to
// rounding (Higham, Functions of Matrices, 10.3). The largest s of the batch is read: this waits.
Tensor matrix_exp(const Tensor& self)
{
    at::native::squareCheckInputs(self, "linalg.matrix_exp");
    at::native::checkFloatingOrComplex(self, "linalg.matrix_exp", true);
    if (self.numel() == 0)
        return at::empty_like(self, at::MemoryFormat::Contiguous);
    const c10::OptionalDeviceGuard guard(self.device());
    if (self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16)
        return torch_ocl::matrix_exp(self.to(at::kFloat)).to(self.scalar_type());
    const double bound = c10::toRealValueType(self.scalar_type()) == at::kDouble ? 1.09 : 3.01;
    const Tensor norm = self.abs().sum(-2, true).amax(-1, true);
    const Tensor halvings = at::where(norm.isfinite(), at::log2(norm / bound).ceil().clamp_min(0), 0);   // [..., 1, 1]
    const int most = halvings.max().item<int>();
    Tensor result = taylor_18(most > 0 ? self * at::exp2(-halvings) : self);
    for (int k = 0; k < most; ++k)
        result = at::where(halvings.gt(k), result.matmul(result), result);
    return result;
}

// Of a Hermitian positive matrix, from its eigenvalues; the lower triangle is read.
Tensor matrix_sqrth(const Tensor& a)
{
    at::native::squareCheckInputs(a, "linalg.matrix_sqrth");
    at::native::checkFloatingOrComplex(a, "linalg.matrix_sqrth", false);
    const auto [values, vectors] = at::linalg_eigh(a);
    return (vectors * values.sqrt().unsqueeze(-2)).matmul(vectors.mH());
}

// A = U H from A = W S V^H: U = W V^H, H = V S V^H.
Two polar(const Tensor& a)
{
    TORCH_CHECK(a.dim() >= 2 && a.size(-2) >= a.size(-1),
                "linalg.polar: expected matrices with at least as many rows as "
                "columns, got ",
                a.sizes());
    const auto [w, s, vh] = at::linalg_svd(a, false);
    return {w.matmul(vh), (vh.mH() * s.unsqueeze(-2)).matmul(vh)};
}

std::tuple<Tensor&, Tensor&> polar_out(const Tensor& a, Tensor& u, Tensor& h)
{
    const auto [unitary, hermitian] = torch_ocl::polar(a);
    assign(u, unitary);
    assign(h, hermitian);
    return {u, h};
}

// ATen's asks the device whether any is not 0, and then reads that: to read a few of them is one command less.
void check_errors(const Tensor& info, c10::string_view name, bool is_matrix)
{
    constexpr int64_t few = 16384;
    if (info.numel() <= few)
        at::_linalg_check_errors(info.cpu(), name, is_matrix);
    else
        at::native::_linalg_check_errors(info, name, is_matrix);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_linalg_check_errors", check_errors);
    m.impl("linalg_lstsq.out", lstsq_out);
    m.impl("linalg_matrix_exp", matrix_exp);
    m.impl("linalg_matrix_sqrth", matrix_sqrth);
    m.impl("linalg_polar", polar);
    m.impl("linalg_polar.out", polar_out);
}

}  // namespace
}  // namespace torch_ocl
