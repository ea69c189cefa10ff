// Linear systems: LU and Cholesky factorisations, determinants, inverses, triangular systems.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_det_meta.h>
#include <ATen/ops/_linalg_slogdet_meta.h>
#include <ATen/ops/_linalg_solve_ex_meta.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_cholesky_ex_meta.h>
#include <ATen/ops/linalg_inv_ex_meta.h>
#include <ATen/ops/linalg_lu_factor_ex_meta.h>
#include <ATen/ops/linalg_lu_meta.h>
#include <ATen/ops/linalg_lu_solve_meta.h>
#include <ATen/ops/lu_unpack_meta.h>
#include <ATen/ops/triangular_solve_meta.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/determinant.hpp>
#include <clprim/linalg.hpp>
#include <clprim/pointwise.hpp>
#include <torch/library.h>

#include <ops/linalg.hpp>
#include <ops/outputs.hpp>
#include <runtime/structured.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using Four = std::tuple<Tensor&, Tensor&, Tensor&, Tensor&>;

// ---- LU ----

struct Lu {
    Tensor lu, pivots, info;   // [batch, m, n], [batch, min(m, n)], [batch]
};

Tensor batched(const Tensor& a) { return as_batch(a, batch_sizes(a)); }

// Factors of rows that lie together, with the pivots and codes of an operator's outputs.
Lu factor_into(const Tensor& a, bool pivot, const Tensor& pivots, const Tensor& info)
{
    const Tensor x = batched(a);
    Lu f;
    f.lu = torch_ocl::empty(x.sizes(), a.scalar_type(), a.device());
    f.pivots = pivots.defined() ? in_place_of(pivots, {x.size(0), std::min(a.size(-1), a.size(-2))})
                                : empty_like_batch(f.lu, {std::min(a.size(-1), a.size(-2))}, at::kInt);
    f.info = info.defined() ? in_place_of(info, {x.size(0)}) : empty_like_batch(f.lu, {}, at::kInt);
    clprim::lu_factor(current_queue(a), view(x), view(f.lu), view(f.pivots), view(f.info), pivot);
    if (pivots.defined())
        settle(f.pivots, pivots);
    if (info.defined())
        settle(f.info, info);
    return f;
}

Lu factor(const Tensor& a, bool pivot = true) { return factor_into(a, pivot, {}, {}); }

// All factors in the outputs of an operator, where `info` may be undefined.
Lu factor_in(const Tensor& a, bool pivot, const Tensor& lu, const Tensor& pivots, const Tensor& info)
{
    const BatchOutput factors(lu);
    const Tensor x = batched(a);
    Lu f;
    f.lu = factors.matrices();
    f.pivots = in_place_of(pivots, {x.size(0), std::min(a.size(-1), a.size(-2))});
    f.info = info.defined() ? in_place_of(info, {x.size(0)}) : empty_like_batch(x, {}, at::kInt);
    clprim::lu_factor(current_queue(a), view(x), view(f.lu), view(f.pivots), view(f.info), pivot);
    factors.finish();
    settle(f.pivots, pivots);
    if (info.defined())
        settle(f.info, info);
    return f;
}

void check_info(const Tensor& info, const char* name, const Tensor& a)
{
    at::_linalg_check_errors(info, name, a.dim() == 2);
}

ThreeOut lu_factor_ex_out(const Tensor& a, bool pivot, bool check_errors, Tensor& lu, Tensor& pivots, Tensor& info)
{
    StructuredOut<at::meta::structured_linalg_lu_factor_ex> op({lu, pivots, info});
    op.meta(a, pivot, check_errors);
    factor_in(a, pivot, op.output(0), op.output(1), op.output(2));
    op.finish();
    if (check_errors)
        check_info(info, "torch.linalg.lu_factor_ex", a);
    return {lu, pivots, info};
}

// The permutation P [batch, m, m] of A = P L U.
Tensor permutation(const Tensor& pivots, int64_t rows, at::ScalarType type)
{
    const auto options = pivots.options().dtype(at::kFloat);
    const Tensor p = at::eye(rows, options).expand({pivots.size(0), rows, rows}).contiguous();
    clprim::exchange_rows(current_queue(pivots), view(p), view(pivots), true);
    return p.to(type);
}

// Results of size 0 are not wanted.
void unpack(const Tensor& lu, const Tensor& l, const Tensor& u)
{
    const int64_t k = std::min(lu.size(-1), lu.size(-2));
    if (l.defined()) {
        l.copy_(lu.narrow(-1, 0, k).tril(-1));
        l.diagonal(0, -2, -1).fill_(1);
    }
    if (u.defined())
        u.copy_(lu.narrow(-2, 0, k).triu());
}

ThreeOut linalg_lu_out(const Tensor& a, bool pivot, Tensor& p, Tensor& l, Tensor& u)
{
    StructuredOut<at::meta::structured_linalg_lu> op({p, l, u});
    op.meta(a, pivot);
    const Lu f = factor(a, pivot);
    if (pivot)
        deliver(permutation(f.pivots, a.size(-2), a.scalar_type()), op.output(0));
    unpack(f.lu.view(a.sizes()), op.output(1), op.output(2));
    op.finish();
    return {p, l, u};
}

ThreeOut lu_unpack_out(const Tensor& lu, const Tensor& pivots, bool unpack_data, bool unpack_pivots, Tensor& p,
                       Tensor& l, Tensor& u)
{
    StructuredOut<at::meta::structured_lu_unpack> op({p, l, u});
    op.meta(lu, pivots, unpack_data, unpack_pivots);
    if (unpack_data)
        unpack(lu, op.output(1), op.output(2));
    if (unpack_pivots) {
        const Tensor flat = pivots.contiguous().view({c10::multiply_integers(batch_sizes(lu)), pivots.size(-1)});
        clprim::require_within(current_queue(flat), view(flat), 1, static_cast<double>(lu.size(-2)),
                               "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive. Did you "
                               "properly pass the result of lu_factor?");
        deliver(permutation(flat, lu.size(-2), lu.scalar_type()), op.output(0));
    }
    op.finish();
    return {p, l, u};
}

// Solves with factors [batch, n, n] of A: X of A X = B, A^H X = B or, from the right, X A = B.
void solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint, const Tensor& out)
{
    const BatchOutput x(out);
    const Tensor rhs = as_batch(b, batch_sizes(out));
    clprim::Queue& queue = current_queue(out);
    if (left) {
        clprim::lu_solve(queue, view(lu), view(pivots), view(rhs), view(x.matrices()), adjoint);
    } else {   // X A = B is A^H X^H = B^H
        const Tensor turned = work_copy(rhs.mH());
        clprim::lu_solve(queue, view(lu), view(pivots), view(turned), !adjoint);
        x.matrices().copy_(turned.mH());
    }
    x.finish();
}

Tensor& lu_solve_out(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint, Tensor& out)
{
    StructuredOut<at::meta::structured_linalg_lu_solve> op({out});
    op.meta(lu, pivots, b, left, adjoint);
    if (op.output().numel() == 0) {   // nothing of any dtype
        op.finish();
        return out;
    }
    const at::IntArrayRef batch = batch_sizes(op.output());
    std::vector<int64_t> pivot_sizes = batch.vec();
    pivot_sizes.push_back(pivots.size(-1));
    const Tensor factors = as_batch(lu, batch);
    const Tensor rows = pivots.expand(pivot_sizes).contiguous().view({factors.size(0), pivots.size(-1)});
    clprim::require_within(current_queue(rows), view(rows), 1, static_cast<double>(lu.size(-2)),
                           "Pivots given to lu_solve must all be greater or equal to 1 and smaller or equal to "
                           "LU.size(-2). Did you properly pass the result of lu_factor?");
    solve(factors, rows, b, left, adjoint, op.output());
    op.finish();
    return out;
}

Four solve_ex_out(const Tensor& a, const Tensor& b, bool left, bool check_errors, Tensor& result, Tensor& lu,
                  Tensor& pivots, Tensor& info)
{
    StructuredOut<at::meta::structured__linalg_solve_ex> op({result, lu, pivots, info});
    op.meta(a, b, left, check_errors);
    const Lu f = factor_into(a, true, op.output(2), op.output(3));
    deliver(f.lu, op.output(1));
    // A right-hand side of one dimension less is a vector for each matrix.
    const bool vector = at::native::linalg_solve_is_vector_rhs(a, b);
    const Tensor columns = vector ? b.unsqueeze(-1) : b, out = vector ? op.output(0).unsqueeze(-1) : op.output(0);
    const at::IntArrayRef batch = batch_sizes(out);
    Tensor factors = f.lu, rows = f.pivots;
    if (c10::multiply_integers(batch) != factors.size(0)) {
        factors = as_batch(f.lu.view(a.sizes()), batch);
        rows = work_copy(f.pivots.view(op.output(2).sizes()).unsqueeze(-1), batch).squeeze(-1);
    }
    solve(factors, rows, columns, left, false, out);
    op.finish();
    if (check_errors)
        check_info(info, "torch.linalg.solve_ex", a);
    return {result, lu, pivots, info};
}

TwoOut inv_ex_out(const Tensor& a, bool check_errors, Tensor& inverse, Tensor& info)
{
    StructuredOut<at::meta::structured_linalg_inv_ex> op({inverse, info});
    op.meta(a, check_errors);
    const Lu f = factor_into(a, true, {}, op.output(1));
    const BatchOutput x(op.output(0));
    clprim::lu_solve(current_queue(a), view(f.lu), view(f.pivots), {}, view(x.matrices()), false);
    x.finish();
    op.finish();
    if (check_errors)
        check_info(info, "linalg.inv_ex", a);
    return {inverse, info};
}

// PyTorch's gradients of determinants take it for granted that the factors are those of the transposed matrix where a
// real matrix is contiguous.
Tensor as_for_backward(const Tensor& a) { return a.is_contiguous() && !a.is_complex() ? a.mT() : a; }

// +1 or -1 for an even or odd number of exchanges.
Tensor parity(const Tensor& pivots)
{
    const Tensor places = at::arange(1, pivots.size(-1) + 1, pivots.options());
    return 1 - 2 * pivots.ne(places).sum(-1).remainder(2);
}

ThreeOut det_out(const Tensor& a, Tensor& result, Tensor& lu, Tensor& pivots)
{
    StructuredOut<at::meta::structured__linalg_det> op({result, lu, pivots});
    op.meta(a);
    const Lu f = factor_in(as_for_backward(a), true, op.output(1), op.output(2), {});
    const Tensor y = in_place_of(op.output(0), {f.lu.size(0)});
    clprim::lu_determinant(current_queue(a), view(f.lu), view(f.pivots), view(y));
    settle(y, op.output(0));
    op.finish();
    return {result, lu, pivots};
}

Four slogdet_out(const Tensor& a, Tensor& sign, Tensor& logabsdet, Tensor& lu, Tensor& pivots)
{
    StructuredOut<at::meta::structured__linalg_slogdet> op({sign, logabsdet, lu, pivots});
    op.meta(a);
    const Lu f = factor_in(as_for_backward(a), true, op.output(2), op.output(3), {});
    const Tensor diagonal = f.lu.diagonal(0, 1, 2);
    deliver(diagonal.sgn().prod(-1).mul_(parity(f.pivots)), op.output(0));
    deliver(diagonal.abs().log_().sum(-1), op.output(1));
    op.finish();
    return {sign, logabsdet, lu, pivots};
}

// ---- Cholesky ----

TwoOut cholesky_ex_out(const Tensor& a, bool upper, bool check_errors, Tensor& l, Tensor& info)
{
    StructuredOut<at::meta::structured_linalg_cholesky_ex> op({l, info});
    op.meta(a, upper, check_errors);
    const BatchOutput out(op.output(0));
    const Tensor x = batched(a), codes = in_place_of(op.output(1), {x.size(0)});
    // U of A = U^H U is the transposed factor of A's transpose.
    const auto turned = [&](const Tensor& t) { return view(upper ? t.mT() : t); };
    clprim::cholesky(current_queue(a), turned(x), turned(out.matrices()), view(codes));
    out.finish();
    settle(codes, op.output(1));
    op.finish();
    if (check_errors)
        check_info(info, "torch.linalg.cholesky_ex", a);
    return {l, info};
}

Tensor cholesky_solve_helper(const Tensor& b, const Tensor& factor, bool upper)
{
    require_kernel(b, "cholesky_solve");
    const c10::OptionalDeviceGuard guard(b.device());
    const at::IntArrayRef batch = batch_sizes(b);
    const Tensor x = empty_columns(batch, b.size(-2), b.size(-1), b), rhs = as_batch(b, batch),
                 triangle = as_batch(factor, batch_sizes(factor));
    const BatchOutput out(x);
    clprim::cholesky_solve(current_queue(b), view(triangle), upper, view(rhs), view(out.matrices()));
    return x;
}

Tensor cholesky_inverse(const Tensor& factor, bool upper)
{
    at::native::squareCheckInputs(factor, "cholesky_inverse");
    require_kernel(factor, "cholesky_inverse");
    const c10::OptionalDeviceGuard guard(factor.device());
    const at::IntArrayRef batch = batch_sizes(factor);
    const int64_t n = factor.size(-1);
    const Tensor work = as_batch(factor, batch), x = empty_columns(batch, n, n, factor);
    const BatchOutput out(x);
    clprim::cholesky_solve(current_queue(factor), view(work), upper, {}, view(out.matrices()));
    if (factor.numel() != 0) {
        const Tensor zero = work.diagonal(0, 1, 2).eq(0);
        if (zero.any().item<bool>())   // an error that names the first of them
            check_info(zero.to(at::kInt).argmax(1).add(1).mul(zero.any(1)).to(at::kInt), "cholesky_inverse", factor);
    }
    return x;
}

Tensor& cholesky_inverse_out(const Tensor& factor, bool upper, Tensor& out)
{
    return assign(out, torch_ocl::cholesky_inverse(factor, upper));
}

// ---- triangular systems ----

// X of A X = B, or X A = B, over a common batch.
void triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit, const Tensor& out)
{
    const at::IntArrayRef batch = batch_sizes(out);
    const BatchOutput x(out);
    const Tensor matrix = as_batch(a, batch), rhs = as_batch(b, batch);
    clprim::Queue& queue = current_queue(out);
    if (left)
        clprim::triangular_solve(queue, view(matrix), upper, unit, view(rhs), view(x.matrices()));
    else   // X A = B is A^T X^T = B^T
        clprim::triangular_solve(queue, view(matrix).transpose(1, 2), !upper, unit, view(rhs).transpose(1, 2),
                                 view(x.matrices()).transpose(1, 2));
    x.finish();
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular)
{
    at::native::checkInputsSolver(a, b, left, "linalg.solve_triangular");
    require_kernel(a, "linalg.solve_triangular");
    const c10::OptionalDeviceGuard guard(a.device());
    const auto batch = at::infer_size(batch_sizes(a), batch_sizes(b));
    // Columns lie together, as compiled code is promised, unless the matrix could have been taken as it lies.
    const bool rows = a.is_conj() && a.mT().is_contiguous();
    const Tensor x = rows ? empty_columns(batch, b.size(-1), b.size(-2), b).mT()
                          : empty_columns(batch, b.size(-2), b.size(-1), b);
    triangular(a, b, upper, left, unitriangular, x);
    return x;
}

Tensor& solve_triangular_out(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular, Tensor& out)
{
    return assign(out, solve_triangular(a, b, upper, left, unitriangular));
}

TwoOut triangular_solve_out(const Tensor& b, const Tensor& a, bool upper, bool transpose, bool unitriangular, Tensor& x,
                            Tensor& clone)
{
    StructuredOut<at::meta::structured_triangular_solve> op({x, clone});
    op.meta(b, a, upper, transpose, unitriangular);
    require_kernel(a, "triangular_solve");
    const Tensor matrix = transpose ? a.mT() : a;
    triangular(matrix, b, transpose ? !upper : upper, true, unitriangular, op.output(0));
    op.output(1).copy_(a);
    op.finish();
    return {x, clone};
}

#if __has_include(<ATen/ops/cholesky_ops.h>)   // which Python has instead since PyTorch 2.14
Tensor cholesky_factor(const Tensor& a, bool upper)
{
    if (a.numel() == 0)
        return at::empty_like(a, at::MemoryFormat::Contiguous);
    at::native::squareCheckInputs(a, "cholesky");
    require_kernel(a, "cholesky");
    const auto [factor, info] = at::linalg_cholesky_ex(a, upper);
    check_info(info, "cholesky", a);
    return factor;
}

Tensor& cholesky_out(const Tensor& a, bool upper, Tensor& out) { return assign(out, cholesky_factor(a, upper)); }

void register_cholesky(torch::Library& m)
{
    m.impl("cholesky", cholesky_factor);
    m.impl("cholesky.out", cholesky_out);
}
#else
void register_cholesky(torch::Library&) {}
#endif

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    register_cholesky(m);
    m.impl("linalg_lu_factor_ex.out", lu_factor_ex_out);
    m.impl("linalg_lu.out", linalg_lu_out);
    m.impl("lu_unpack.out", lu_unpack_out);
    m.impl("linalg_lu_solve.out", lu_solve_out);
    m.impl("_linalg_solve_ex.result", solve_ex_out);
    m.impl("linalg_inv_ex.inverse", inv_ex_out);
    m.impl("_linalg_det.result", det_out);
    m.impl("_linalg_slogdet.sign", slogdet_out);
    m.impl("linalg_cholesky_ex.L", cholesky_ex_out);
    m.impl("_cholesky_solve_helper", cholesky_solve_helper);
    m.impl("cholesky_inverse", torch_ocl::cholesky_inverse);
    m.impl("cholesky_inverse.out", cholesky_inverse_out);
    m.impl("linalg_solve_triangular", solve_triangular);
    m.impl("linalg_solve_triangular.out", solve_triangular_out);
    m.impl("triangular_solve.X", triangular_solve_out);
}

}  // namespace
}  // namespace torch_ocl
