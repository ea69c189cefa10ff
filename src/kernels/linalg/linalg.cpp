// LU, Cholesky and QR factorisations.
#include "kernels/linalg/linalg.hpp"

#include <algorithm>

#include <clprim/copy.hpp>
#include <clprim/error_hook.hpp>
#include <clprim/gemm.hpp>
#include <clprim/sequence.hpp>
#include "core/operands.hpp"

namespace clprim {
namespace detail {

void check_matrices(const Tensor& a, const char* name)
{
    const bool known = a.dtype == DataType::float32 || a.dtype == DataType::float64 || a.dtype == DataType::complex64 ||
                       a.dtype == DataType::complex128;
    require(a.dim() == 3, name, ": expected matrices [batch, rows, columns], got ", to_string(a.shape));
    require_dtype(known || a.numel() == 0, '"', name, "\" not implemented for '", name_of(a.dtype),
                  "', only for matrices of float32, float64, complex64 and complex128");
    require(a.size(1) < (std::int64_t{1} << 30) && a.size(2) < (std::int64_t{1} << 30), name, ": matrices ",
            to_string(a.shape), " are too large");
}

void check_dense(const Tensor& t, const Dims& shape, DataType dtype, const char* what)
{
    require(t.shape == shape && t.dtype == dtype && t.is_contiguous(), what, " must be contiguous ", name_of(dtype),
            " ", to_string(shape), ", got ", name_of(t.dtype), " ", to_string(t.shape));
}

std::size_t linalg_team(const Device& device)
{
    return std::min<std::size_t>(device.kind == DeviceKind::cpu ? 16 : 256, device.max_work_group_size);
}

std::string linalg_options(DataType dtype, std::size_t team)
{
    return define("X", dtype) + define("REAL", real_type(dtype)) + (is_complex(dtype) ? " -DCOMPLEX" : "") +
           concat(" -DTEAM=", team);
}

std::string cpu_options(DataType dtype)
{
    return linalg_options(dtype, 1) + (real_type(dtype) == DataType::float64 ? " -DNAME=double" : " -DNAME=float");
}

Kernel& linalg_kernel(Queue& queue, const char* file, const char* name, DataType dtype)
{
    return queue.context().program(file, linalg_options(dtype, linalg_team(queue.device()))).kernel(name);
}

Range over_columns(const Queue& queue, std::int64_t columns, std::int64_t batch)
{
    const std::size_t local = std::min<std::size_t>(columns < 16 ? 4 : 16, queue.device().max_work_group_size);
    const auto groups = static_cast<std::size_t>(divide_up(columns, static_cast<std::int64_t>(local)));
    return Range{{groups * local, static_cast<std::size_t>(batch), 1}, {local, 1, 1}, 2};
}

void subtract_product(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c)
{
    if (c.numel() == 0 || a.size(2) == 0)
        return;
    GemmProblem problem = gemm_problem(a, b, c, c);
    problem.alpha = -1;
    problem.beta = 1;
    gemm(queue, problem, a, b, c, c);
}

Tensor conjugated(Queue& queue, const Tensor& a)
{
    if (!is_complex(a.dtype) || a.numel() == 0)
        return a;
    const Tensor result = queue.context().empty(a.shape, a.dtype, queue);
    copy(queue, a, result, {.conjugate = true});
    return result;
}

}  // namespace detail

namespace {

using namespace detail;

// panel_t of factor.cl
struct Panel {
    cl_int m, n, begin, end;
};

Panel panel_of(const Tensor& a, std::int64_t begin, std::int64_t end)
{
    return {cl_int(a.size(1)), cl_int(a.size(2)), cl_int(begin), cl_int(end)};
}

// A kernel that owns matrices, and a work-group for each of `batch`.
Kernel& factor_kernel(Queue& queue, const char* name, DataType dtype, const char* file = "kernels/linalg/cpu_factor.cl")
{
    if (queue.device().kind != DeviceKind::cpu)
        return linalg_kernel(queue, "kernels/linalg/factor.cl", name, dtype);
    return queue.context().program(file, cpu_options(dtype)).kernel(name);
}

Kernel& reflector_kernel(Queue& queue, const char* name, DataType dtype)
{
    return factor_kernel(queue, name, dtype, "kernels/linalg/cpu_reflect.cl");
}

Range factor_range(const Queue& queue, std::int64_t batch)
{
    const Device& device = queue.device();
    return Range::groups(static_cast<std::size_t>(batch), device.kind == DeviceKind::cpu ? 1 : linalg_team(device));
}

// Columns of a panel: on CPUs small matrices are one.
std::int64_t panel_width(const Queue& queue, std::int64_t columns)
{
    constexpr std::int64_t small = 128;   // rows of cholesky_corner
    return queue.device().kind == DeviceKind::cpu && columns <= small ? columns : linalg_block;
}

// The rows of a Cholesky factor below its square block [begin, end): X L^H = B, which is conj(L) X^T = B^T.
void solve_below(Queue& queue, const Tensor& a, std::int64_t begin, std::int64_t end)
{
    const Tensor rows = block(a, end, a.size(1), begin, end);
    triangular_solve(queue, conjugated(queue, block(a, begin, end, begin, end)), false, false, rows.transpose(1, 2));
}

void zero(Queue& queue, const Tensor& t)
{
    if (t.numel() != 0)
        fill(queue, t, 0);
}

constexpr std::int64_t reflector_block = 32;   // BLOCK of cpu_reflect.cl

// Whether `count` reflectors are applied as products of matrices.
bool in_blocks(const Queue& queue, std::int64_t count)
{
    return queue.device().kind == DeviceKind::cpu && count >= 2 * reflector_block;
}

// The reflectors [begin, end) of a, whose adjoint is asked for or not, times the rows c that they change.
void apply_block(Queue& queue, const Tensor& a, const Tensor& tau, std::int64_t begin, std::int64_t end, bool adjoint,
                 const Tensor& c)
{
    const Dims shape{a.size(0), a.size(1) - begin, reflector_block};
    const Tensor conjugates = queue.context().empty(shape, a.dtype, queue),
                 scaled = queue.context().empty(shape, a.dtype, queue),
                 x = queue.context().empty({a.size(0), end - begin, c.size(2)}, a.dtype, queue);
    queue.launch(reflector_kernel(queue, "reflector_block", a.dtype), factor_range(queue, a.size(0)), a, tau,
                 conjugates, scaled, panel_of(a, begin, end), cl_int(tau.size(1)), cl_int(adjoint));
    const Tensor v = conjugates.slice(2, 0, end - begin).transpose(1, 2);
    gemm(queue, gemm_problem(v, c, x), v, c, x);
    subtract_product(queue, scaled.slice(2, 0, end - begin), x, c);
}

constexpr std::int64_t small_most = 8, small_lanes = 16;   // MOST and LANES of cpu_small.cl

// Whether many small matrices are factored a matrix in each lane of vectors.
bool in_lanes(const Queue& queue, const Tensor& a)
{
    return queue.device().kind == DeviceKind::cpu && a.numel() != 0 && a.size(0) >= 4 * small_lanes &&
           a.size(0) < (std::int64_t{1} << 31) && a.size(1) <= small_most && a.size(2) <= small_most;
}

Kernel& lanes_kernel(Queue& queue, const char* name, DataType dtype)
{
    return queue.context()
        .program("kernels/linalg/cpu_small.cl", cpu_options(dtype) + concat(" -DMOST=", small_most))
        .kernel(name);
}

Range lanes_range(const Tensor& a)
{
    return Range::groups(static_cast<std::size_t>(divide_up(a.size(0), small_lanes)), 1);
}

// shape_t of cpu_small.cl
struct SmallShape {
    cl_int m, n, batch;
};

SmallShape small_shape(const Tensor& a) { return {cl_int(a.size(1)), cl_int(a.size(2)), cl_int(a.size(0))}; }

void check_from(const Tensor& x, const Tensor& a, const char* name)
{
    require(x.shape == a.shape && x.dtype == a.dtype, name, ": x ", name_of(x.dtype), ' ', to_string(x.shape),
            " and a ", name_of(a.dtype), ' ', to_string(a.shape), " must agree");
}

// Memory for a factorisation in place: `a` where it lies without gaps.
Tensor working(Queue& queue, const Tensor& x, const Tensor& a)
{
    const Tensor work = a.is_contiguous() ? a : queue.context().empty(a.shape, a.dtype, queue);
    if (x.memory != work.memory || x.offset != work.offset || x.strides != work.strides)
        copy(queue, x, work);
    return work;
}

}  // namespace

void lu_factor(Queue& queue, const Tensor& x, const Tensor& a, const Tensor& pivots, const Tensor& info, bool pivot)
{
    detail::check_operands("lu_factor", {{"x", x}, {"a", a}, {"pivots", pivots, detail::optional}, {"info", info}});
    check_matrices(x, "lu_factor");
    check_from(x, a, "lu_factor");
    if (in_lanes(queue, a)) {
        check_dense(pivots, {a.size(0), std::min(a.size(1), a.size(2))}, DataType::int32, "lu_factor: pivots");
        check_dense(info, {a.size(0)}, DataType::int32, "lu_factor: info");
        queue.launch(lanes_kernel(queue, "small_lu", a.dtype), lanes_range(a), x, strides_of(x), a, strides_of(a),
                     pivots, info, small_shape(a), cl_int(pivot));
        return;
    }
    const Tensor work = working(queue, x, a);
    lu_factor(queue, work, pivots, info, pivot);
    if (!a.is_contiguous())
        copy(queue, work, a);
}

void cholesky(Queue& queue, const Tensor& x, const Tensor& a, const Tensor& info)
{
    detail::check_operands("cholesky", {{"x", x}, {"a", a}, {"info", info}});
    check_matrices(x, "cholesky");
    check_from(x, a, "cholesky");
    if (in_lanes(queue, a)) {
        require(a.size(1) == a.size(2), "cholesky: expected square matrices, got ", to_string(a.shape));
        check_dense(info, {a.size(0)}, DataType::int32, "cholesky: info");
        queue.launch(lanes_kernel(queue, "small_cholesky", a.dtype), lanes_range(a), x, strides_of(x), a,
                     strides_of(a), info, small_shape(a));
        return;
    }
    const Tensor work = working(queue, x, a);
    cholesky(queue, work, info);
    triangle(queue, work, 0, false, work);
    if (!a.is_contiguous())
        copy(queue, work, a);
}

void lu_factor(Queue& queue, const Tensor& a, const Tensor& pivots, const Tensor& info, bool pivot)
{
    detail::check_operands("lu_factor", {{"a", a}, {"pivots", pivots, detail::optional}, {"info", info}});
    check_matrices(a, "lu_factor");
    const std::int64_t batch = a.size(0), m = a.size(1), n = a.size(2), count = std::min(m, n);
    check_dense(a, a.shape, a.dtype, "lu_factor: a");
    check_dense(pivots, {batch, count}, DataType::int32, "lu_factor: pivots");
    check_dense(info, {batch}, DataType::int32, "lu_factor: info");
    if (a.numel() == 0 || queue.device().kind != DeviceKind::cpu)   // kernels for CPUs write 0 themselves
        zero(queue, info);
    if (a.numel() == 0)
        return;
    Kernel& kernel = factor_kernel(queue, "lu_panel", a.dtype);
    const Range groups = factor_range(queue, batch);
    const std::int64_t width = panel_width(queue, count);
    for (std::int64_t begin = 0; begin < count; begin += width) {
        const std::int64_t end = std::min(count, begin + width);
        queue.launch(kernel, groups, a, pivots, info, panel_of(a, begin, end), cl_int(pivot));
        if (end < n) {
            triangular_solve(queue, block(a, begin, end, begin, end), false, true, block(a, begin, end, end, n));
            subtract_product(queue, block(a, end, m, begin, end), block(a, begin, end, end, n),
                             block(a, end, m, end, n));
        }
    }
}

void cholesky(Queue& queue, const Tensor& a, const Tensor& info)
{
    detail::check_operands("cholesky", {{"a", a}, {"info", info}});
    check_matrices(a, "cholesky");
    const std::int64_t batch = a.size(0), n = a.size(1);
    check_dense(a, {batch, n, n}, a.dtype, "cholesky: a");
    check_dense(info, {batch}, DataType::int32, "cholesky: info");
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    if (a.numel() == 0 || !cpu)
        zero(queue, info);
    if (a.numel() == 0)
        return;
    Kernel& kernel = factor_kernel(queue, cpu ? "cholesky_corner" : "cholesky_panel", a.dtype);
    const Range groups = factor_range(queue, batch);
    const std::int64_t width = panel_width(queue, n);
    for (std::int64_t begin = 0; begin < n; begin += width) {
        const std::int64_t end = std::min(n, begin + width);
        queue.launch(kernel, groups, a, info, panel_of(a, begin, end));
        if (cpu && end < n)
            solve_below(queue, a, begin, end);
        // A block column at a time, from its diagonal on: the upper triangle is spared but for the diagonal blocks.
        for (std::int64_t left = end; left < n; left += width) {
            const std::int64_t right = std::min(n, left + width);
            subtract_product(queue, block(a, left, n, begin, end),
                             conjugated(queue, block(a, left, right, begin, end)).transpose(1, 2),
                             block(a, left, n, left, right));
        }
    }
}

void qr_factor(Queue& queue, const Tensor& a, const Tensor& tau)
{
    detail::check_operands("qr_factor", {{"a", a}, {"tau", tau}});
    check_matrices(a, "qr_factor");
    const std::int64_t count = std::min(a.size(1), a.size(2));
    check_dense(a, a.shape, a.dtype, "qr_factor: a");
    check_dense(tau, {a.size(0), count}, a.dtype, "qr_factor: tau");
    if (a.numel() == 0)
        return;
    Kernel& kernel = reflector_kernel(queue, "householder", a.dtype);
    const Range groups = factor_range(queue, a.size(0));
    if (queue.device().kind != DeviceKind::cpu)
        return queue.launch(kernel, groups, a, tau, panel_of(a, 0, count));
    const std::int64_t n = a.size(2);
    if (!in_blocks(queue, count))
        return queue.launch(kernel, groups, a, tau, panel_of(a, 0, count), cl_int(n), cl_int(count));
    for (std::int64_t begin = 0; begin < count; begin += reflector_block) {
        const std::int64_t end = std::min(count, begin + reflector_block);
        queue.launch(kernel, groups, a, tau, panel_of(a, begin, end), cl_int(end), cl_int(count));
        if (end < n)
            apply_block(queue, a, tau, begin, end, true, block(a, begin, a.size(1), end, n));
    }
}

void apply_reflectors(Queue& queue, const Tensor& reflectors, const Tensor& tau, const Tensor& c, bool adjoint)
{
    detail::check_operands("apply_reflectors", {{"reflectors", reflectors}, {"tau", tau}, {"c", c}});
    check_matrices(reflectors, "apply_reflectors");
    check_matrices(c, "apply_reflectors");
    check_dense(reflectors, reflectors.shape, c.dtype, "apply_reflectors: reflectors");
    require(tau.dim() == 2 && tau.size(1) <= std::min(reflectors.size(1), reflectors.size(2)) &&
                c.size(0) == reflectors.size(0) && c.size(1) == reflectors.size(1),
            "apply_reflectors: reflectors ", to_string(reflectors.shape), ", tau ", to_string(tau.shape), " and c ",
            to_string(c.shape), " do not fit");
    check_dense(tau, {c.size(0), tau.size(1)}, c.dtype, "apply_reflectors: tau");
    if (c.numel() == 0 || tau.numel() == 0)
        return;
    if (const std::int64_t count = tau.size(1); in_blocks(queue, count) && c.size(2) >= reflector_block) {
        const std::int64_t blocks = divide_up(count, reflector_block);
        for (std::int64_t step = 0; step < blocks; ++step) {
            const std::int64_t begin = (adjoint ? step : blocks - 1 - step) * reflector_block;
            apply_block(queue, reflectors, tau, begin, std::min(count, begin + reflector_block), adjoint,
                        c.slice(1, begin, c.size(1)));
        }
        return;
    }
    queue.launch(linalg_kernel(queue, "kernels/linalg/columns.cl", "apply_reflectors", c.dtype),
                 over_columns(queue, c.size(2), c.size(0)), reflectors, tau, c, strides_of(c), cl_int(c.size(1)),
                 cl_int(reflectors.size(2)), cl_int(tau.size(1)), cl_int(c.size(2)), cl_int(adjoint));
}

}  // namespace clprim
