// Triangular systems, and those of LU and Cholesky factors.
#include <algorithm>

#include <clprim/copy.hpp>

#include "kernels/linalg/linalg.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

using namespace detail;

constexpr const char* columns_file = "kernels/linalg/columns.cl";

// A triangular matrix as it is solved with: with these strides, of conjugated elements or not.
struct System {
    Tensor a;
    bool upper = false, unit = false, conjugated = false;
};

// X from B by one or two such matrices of the same memory, with exchanges of rows before or after. Without B it is the
// unit matrix.
struct Systems {
    System first, second;
    int count = 0;
    Tensor pivots;
    bool opposite = false;
};

void check_systems(const Systems& s, const char* name, const Tensor& b, const Tensor& x)
{
    const Tensor& a = s.first.a;
    check_matrices(a, name);
    check_matrices(x, name);
    const std::int64_t batch = a.size(0), n = a.size(1);
    require(a.size(2) == n && x.size(0) == batch && x.size(1) == n && a.dtype == x.dtype, name,
            ": expected matrices [batch, n, n] and [batch, n, k] of one dtype, got ", to_string(a.shape), " and ",
            to_string(x.shape));
    require(!b.defined() || (b.shape == x.shape && b.dtype == x.dtype), name, ": b ", to_string(b.shape), " and x ",
            to_string(x.shape), " must have one shape and dtype");
    if (s.pivots.defined())
        check_dense(s.pivots, {batch, n}, DataType::int32, concat(name, ": pivots").c_str());
}

// B, or the unit matrix, into X.
void place(Queue& queue, const Tensor& b, const Tensor& x)
{
    if (b.defined()) {
        if (b.memory != x.memory || b.offset != x.offset || b.strides != x.strides)
            copy(queue, b, x);
        return;
    }
    fill(queue, x, 0);
    fill(queue, Tensor(x.memory, x.offset, x.dtype, {x.size(0), std::min(x.size(1), x.size(2))},
                       {x.stride(0), x.stride(1) + x.stride(2)}), 1);
}

// A block of rows at a time by `solve(corner, rows)`; products change the rest.
template <class Solve>
void solve_in_blocks(Queue& queue, const System& s, std::int64_t size, const Tensor& x, const Solve& solve)
{
    const std::int64_t n = s.a.size(1), blocks = divide_up(n, size);
    const Tensor a = blocks > 1 && s.conjugated ? conjugated(queue, s.a) : s.a;
    const bool conjugate = blocks > 1 ? false : s.conjugated;
    for (std::int64_t step = 0; step < blocks; ++step) {
        const std::int64_t begin = (s.upper ? blocks - 1 - step : step) * size, end = std::min(n, begin + size);
        const Tensor rows = x.slice(1, begin, end);
        solve(System{block(a, begin, end, begin, end), s.upper, s.unit, conjugate}, rows);
        if (s.upper)
            subtract_product(queue, block(a, 0, begin, begin, end), rows, x.slice(1, 0, begin));
        else
            subtract_product(queue, block(a, end, n, begin, end), rows, x.slice(1, end, n));
    }
}

// ---- on CPUs ----

// system_t and solve_t of cpu_triangular.cl
struct SystemArgument {
    MatrixStrides a;
    cl_int upper, unit, conjugated, unused;
};
struct SolveArgument {
    SystemArgument first, second;
    MatrixStrides b, x;
    cl_int n, columns, systems, batch, each, count, opposite, unused;
};

SystemArgument argument_of(const System& s)
{
    if (!s.a.defined())
        return {};
    return {strides_of(s.a), s.upper, s.unit, s.conjugated, 0};
}

// Whether elements of rows or columns lie together.
bool in_lines(const System& s) { return !s.a.defined() || s.a.stride(1) == 1 || s.a.stride(2) == 1; }

// All rows in one launch.
void solve_at_once(Queue& queue, const Systems& s, const Tensor& b, const Tensor& x)
{
    const std::int64_t batch = x.size(0), n = x.size(1), columns = x.size(2);
    const DataType real = real_type(x.dtype);
    const std::int64_t lanes = std::clamp<std::int64_t>(queue.device().native_float_lanes, 4, 16) * 4 /
                               static_cast<std::int64_t>(size_of(real));
    const bool single = columns <= (b.defined() ? 4 : 1) && !is_complex(x.dtype) && s.count > 0 &&
                        in_lines(s.first) && in_lines(s.second);
    const std::int64_t width = single ? 1 : is_complex(x.dtype) ? lanes : 2 * lanes, strips = divide_up(columns, width),
                       wanted = std::int64_t{8} * queue.device().compute_units,
                       each = std::max<std::int64_t>(1, batch * strips / wanted), groups = divide_up(batch, each);
    const Tensor z = queue.context().empty({groups * strips, n, single ? 1 : 2 * lanes}, real, queue);
    const Program& program = queue.context().program("kernels/linalg/cpu_triangular.cl",
                                                     cpu_options(x.dtype) + concat(" -DLANES=", lanes));
    const SolveArgument argument{argument_of(s.first), argument_of(s.second),
                                 b.defined() ? strides_of(b) : MatrixStrides{}, strides_of(x), cl_int(n),
                                 cl_int(columns), s.count, cl_int(batch), cl_int(each),
                                 s.pivots.defined() ? cl_int(s.pivots.size(1)) : 0, s.opposite, 0};
    queue.launch(program.kernel(single ? "solve_columns" : "solve"),
                 Range::groups({static_cast<std::size_t>(strips), static_cast<std::size_t>(groups), 1}, {1, 1, 1}),
                 s.first.a, b, x, s.pivots, z, argument);
}

// Rows that are solved at once: what a strip reads of them stays near, and products take over beyond.
std::int64_t rows_at_once(const Tensor& x)
{
    constexpr std::int64_t near = 256, beyond = 128;
    return x.size(2) <= 4 ? 1 << 20 : x.size(1) <= near ? near : beyond;
}

void solve_on_cpu(Queue& queue, const Systems& s, const Tensor& b, const Tensor& x)
{
    const std::int64_t n = x.size(1), size = rows_at_once(x);
    if (n <= size)
        return solve_at_once(queue, s, b, x);
    if (s.pivots.defined() && !s.opposite) {
        Systems exchange{.first = {s.first.a}, .second = {}, .count = 0, .pivots = s.pivots, .opposite = false};
        solve_at_once(queue, exchange, b, x);
    } else {
        place(queue, b, x);
    }
    const auto solve = [&](const System& corner, const Tensor& rows) {
        solve_at_once(queue, {.first = corner, .second = {}, .count = 1, .pivots = {}, .opposite = false}, rows, rows);
    };
    solve_in_blocks(queue, s.first, size, x, solve);
    if (s.count > 1)
        solve_in_blocks(queue, s.second, size, x, solve);
    if (s.pivots.defined() && s.opposite)
        solve_at_once(queue, {.first = {s.first.a}, .second = {}, .count = 0, .pivots = s.pivots, .opposite = true}, x,
                      x);
}

// ---- on GPUs ----

void solve_on_gpu(Queue& queue, const Systems& s, const Tensor& b, const Tensor& x)
{
    if (s.pivots.defined() && !x.is_contiguous()) {   // rows are exchanged where they lie together
        const Tensor dense = queue.context().empty(x.shape, x.dtype, queue);
        solve_on_gpu(queue, s, b, dense);
        return copy(queue, dense, x);
    }
    Kernel& kernel = linalg_kernel(queue, columns_file, "triangular_solve", x.dtype);
    const std::int64_t batch = x.size(0), columns = x.size(2);
    const auto solve = [&](const System& corner, const Tensor& rows) {
        queue.launch(kernel, over_columns(queue, columns, batch), corner.a, strides_of(corner.a), rows,
                     strides_of(rows), cl_int(corner.a.size(1)), cl_int(columns), cl_int(corner.upper),
                     cl_int(corner.unit));
    };
    place(queue, b, x);
    if (s.pivots.defined() && !s.opposite)
        exchange_rows(queue, x, s.pivots, false);
    for (int i = 0; i < s.count; ++i) {
        System system = i == 0 ? s.first : s.second;
        if (system.conjugated)
            system = {conjugated(queue, system.a), system.upper, system.unit, false};
        solve_in_blocks(queue, system, linalg_block, x, solve);
    }
    if (s.pivots.defined() && s.opposite)
        exchange_rows(queue, x, s.pivots, true);
}

void solve(Queue& queue, const Systems& s, const char* name, const Tensor& b, const Tensor& x)
{
    check_systems(s, name, b, x);
    if (x.numel() == 0)
        return;
    if (queue.device().kind == DeviceKind::cpu)
        solve_on_cpu(queue, s, b, x);
    else
        solve_on_gpu(queue, s, b, x);
}

}  // namespace

void exchange_rows(Queue& queue, const Tensor& b, const Tensor& pivots, bool opposite)
{
    detail::check_operands("exchange_rows", {{"b", b}, {"pivots", pivots}});
    check_matrices(b, "exchange_rows");
    check_dense(b, b.shape, b.dtype, "exchange_rows: b");
    require(pivots.dim() == 2 && pivots.size(1) <= b.size(1), "exchange_rows: pivots ", to_string(pivots.shape),
            " do not fit b ", to_string(b.shape));
    check_dense(pivots, {b.size(0), pivots.size(1)}, DataType::int32, "exchange_rows: pivots");
    if (b.numel() != 0)
        queue.launch(linalg_kernel(queue, columns_file, "exchange_rows", b.dtype),
                     over_columns(queue, b.size(2), b.size(0)), b, pivots, cl_int(b.size(1)), cl_int(b.size(2)),
                     cl_int(pivots.size(1)), cl_int(opposite));
}

void triangular_solve(Queue& queue, const Tensor& a, bool upper, bool unit, const Tensor& b)
{
    triangular_solve(queue, a, upper, unit, b, b);
}

void triangular_solve(Queue& queue, const Tensor& a, bool upper, bool unit, const Tensor& b, const Tensor& x)
{
    detail::check_operands("triangular_solve", {{"a", a}, {"b", b}, {"x", x}});
    solve(queue, {.first = {a, upper, unit}, .second = {}, .count = 1, .pivots = {}, .opposite = false},
          "triangular_solve", b, x);
}

void lu_solve(Queue& queue, const Tensor& lu, const Tensor& pivots, const Tensor& b, bool adjoint)
{
    detail::check_operands("lu_solve", {{"b", b}});
    lu_solve(queue, lu, pivots, b, b, adjoint);
}

void lu_solve(Queue& queue, const Tensor& lu, const Tensor& pivots, const Tensor& b, const Tensor& x, bool adjoint)
{
    detail::check_operands("lu_solve", {{"lu", lu}, {"pivots", pivots}, {"b", b, detail::optional}, {"x", x}});
    check_matrices(lu, "lu_solve");
    const bool conjugate = is_complex(lu.dtype);
    const Tensor turned = lu.transpose(1, 2);
    if (adjoint)
        solve(queue, {{turned, false, false, conjugate}, {turned, true, true, conjugate}, 2, pivots, true}, "lu_solve",
              b, x);
    else
        solve(queue, {{lu, false, true}, {lu, true, false}, 2, pivots, false}, "lu_solve", b, x);
}

void cholesky_solve(Queue& queue, const Tensor& factor, bool upper, const Tensor& b, const Tensor& x)
{
    detail::check_operands("cholesky_solve", {{"factor", factor}, {"b", b, detail::optional}, {"x", x}});
    check_matrices(factor, "cholesky_solve");
    const bool conjugate = is_complex(factor.dtype);
    const System own{factor, upper, false, false}, other{factor.transpose(1, 2), !upper, false, conjugate};
    solve(queue, {upper ? other : own, upper ? own : other, 2, {}, false}, "cholesky_solve", b, x);
}

}  // namespace clprim
