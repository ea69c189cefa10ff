#include <clprim/sparse.hpp>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "kernels/linalg/linalg.hpp"
#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// product_t, sampled_t of sparse.cl
struct ProductGeometry {
    cl_ulong rows, width, entries, depth;
    cl_long block[2], dense[3], self[3], out[3];
};
struct SampledGeometry {
    cl_ulong rows, width, lines, columns;
    cl_long left[3], right[3];
};

// solve_t of triangular_solve.cl
struct SolveGeometry {
    cl_long rows, width, entries, strides[2];
    cl_int upper, unit;
};

void take_strides(const Tensor& tensor, cl_long (&to)[3]) { std::copy_n(tensor.strides.begin(), 3, to); }

// The type of factors: integers keep all 64 bits.
std::string scale_type(DataType type)
{
    if (!is_floating_point(type) && !is_complex(type))
        return "long";
    const bool wide = type == DataType::float64 || type == DataType::complex128;
    return std::string(wide ? "double" : "float") + (is_complex(type) ? "2" : "");
}

void add_scale(Launch& launch, std::complex<double> value, DataType type)
{
    const bool wide = type == DataType::float64 || type == DataType::complex128;
    const cl_double2 both = {{value.real(), value.imag()}};
    const cl_float2 narrow = {{static_cast<float>(value.real()), static_cast<float>(value.imag())}};
    if (is_complex(type))
        wide ? launch.arg(both) : launch.arg(narrow);
    else if (!is_floating_point(type))
        launch.arg(static_cast<cl_long>(value.real()));
    else
        wide ? launch.arg(both.s[0]) : launch.arg(narrow.s[0]);
}

Kernel& kernel(Queue& queue, const char* name, DataType values, DataType indices, bool rows_first = false)
{
    std::string flags = detail::define("X", values) + detail::define("I", indices) + " -DSCALE=" + scale_type(values);
    if (is_complex(values))
        flags += " -DCOMPLEX";
    if (values == DataType::boolean)
        flags += " -DBOOLEAN";
    if (rows_first)
        flags += " -DROWS_FIRST";
    return queue.context().program("kernels/sparse/sparse.cl", flags).kernel(name);
}

void check_rows(const SparseRows& a, DataType dtype)
{
    require((a.columns.dtype == DataType::int64 || a.columns.dtype == DataType::int32) && a.columns.dim() == 1 &&
                a.columns.is_contiguous(),
            "sparse: contiguous int64 or int32 columns expected");
    require(!a.values.defined() || (a.values.dtype == dtype && a.values.is_contiguous() &&
                                    (a.values.dim() == 1 || a.values.dim() == 3) &&
                                    a.values.size(0) == a.columns.size(0)),
            "sparse: contiguous values [entries] or [entries, R, C] of the operands' dtype expected");
}

}  // namespace

void sparse_mm(Queue& queue, const SparseRows& a, const Tensor& dense, const Tensor& self, const Tensor& out,
               const SparseScale& scale)
{
    detail::check_operands("sparse_mm", {{"a.pointers", a.pointers}, {"a.columns", a.columns},
                                         {"a.values", a.values, detail::optional}, {"dense", dense},
                                         {"self", self, detail::optional}, {"out", out}});
    check_rows(a, dense.dtype);
    require(a.pointers.dim() == 1 && a.pointers.is_contiguous() && a.pointers.dtype == a.columns.dtype,
            "sparse_mm: contiguous pointers of the dtype of columns expected");
    require(dense.dim() == 3 && out.dim() == 3 && dense.dtype == out.dtype && dense.size(0) == out.size(0) &&
                dense.size(2) == out.size(2) &&
                (!self.defined() || (self.shape == out.shape && self.dtype == out.dtype)),
            "sparse_mm: operands ", to_string(dense.shape), " and ", to_string(out.shape), " do not fit");
    ProductGeometry g{static_cast<cl_ulong>(out.size(1)),
                      static_cast<cl_ulong>(out.size(2)),
                      static_cast<cl_ulong>(a.columns.size(0)),
                      static_cast<cl_ulong>(dense.size(1)),
                      {1, 1},
                      {},
                      {},
                      {}};
    if (a.values.defined() && a.values.dim() == 3)
        std::copy_n(a.values.shape.begin() + 1, 2, g.block);
    const std::int64_t rows = out.size(0) * out.size(1);
    require((a.pointers.size(0) - 1) * g.block[0] == rows, "sparse_mm: ", a.pointers.size(0), " pointers do not fit ",
            rows, " rows");
    if (rows == 0 || g.width == 0)
        return;
    take_strides(dense, g.dense);
    take_strides(out, g.out);
    if (self.defined())
        take_strides(self, g.self);
    // Neighbours along the result's width read neighbours of `dense`; a narrow result spreads its rows instead.
    const bool rows_first = g.width < 8;
    const std::size_t most = std::min<std::size_t>(256, std::bit_floor(queue.device().max_work_group_size));
    const std::size_t x = std::min(most, std::bit_ceil(rows_first ? static_cast<std::size_t>(rows)
                                                                  : static_cast<std::size_t>(g.width)));
    const std::size_t lx = std::max<std::size_t>(std::min<std::size_t>(x, rows_first ? most : 64), 1);
    const std::size_t ly = rows_first ? 1 : most / lx;
    const auto groups = [](std::size_t n, std::size_t size) { return (n + size - 1) / size; };
    const std::size_t first = rows_first ? rows : g.width, second = rows_first ? g.width : rows;
    Launch launch(queue, kernel(queue, "sparse_mm", dense.dtype, a.columns.dtype, rows_first));
    launch.arg(a.pointers).arg(a.columns).arg(a.values).arg(dense).arg(self).arg(out).arg(g).arg(
        static_cast<cl_ulong>(rows));
    launch.arg(cl_int(a.values.defined())).arg(cl_int(self.defined()));
    add_scale(launch, scale.product, dense.dtype);
    add_scale(launch, scale.addend, dense.dtype);
    launch.arg(queue.error_buffer()).arg(Queue::error_code("sparse_mm"));
    launch.run(Range::groups({groups(first, lx), groups(second, ly), 1}, {lx, ly, 1}));
    queue.expect_errors();
}

void sparse_sampled(Queue& queue, const SparseRows& a, const Tensor& rows, const Tensor& left, const Tensor& right,
                    const Tensor& out, const SparseScale& scale)
{
    detail::check_operands("sparse_sampled", {{"a.columns", a.columns}, {"a.values", a.values, detail::optional},
                                              {"rows", rows}, {"left", left}, {"right", right}, {"out", out}});
    check_rows(a, left.dtype);
    require(left.dim() == 3 && right.dim() == 3 && left.dtype == right.dtype && out.dtype == left.dtype &&
                left.dtype != DataType::boolean && left.size(2) == right.size(1) && left.size(0) == right.size(0),
            "sparse_sampled: operands ", to_string(left.shape), " and ", to_string(right.shape), " do not fit");
    require(rows.shape == a.columns.shape && rows.dtype == a.columns.dtype && rows.is_contiguous() &&
                out.shape == a.columns.shape && out.is_contiguous(),
            "sparse_sampled: rows and results, one for each entry, expected");
    if (out.numel() == 0)
        return;
    SampledGeometry g{static_cast<cl_ulong>(left.size(1)), static_cast<cl_ulong>(left.size(2)),
                      static_cast<cl_ulong>(left.size(0) * left.size(1)), static_cast<cl_ulong>(right.size(2)), {}, {}};
    take_strides(left, g.left);
    take_strides(right, g.right);
    Launch launch(queue, kernel(queue, "sparse_sampled", left.dtype, a.columns.dtype));
    launch.arg(a.columns).arg(rows).arg(a.values).arg(left).arg(right).arg(out).arg(g);
    launch.arg(static_cast<cl_ulong>(out.numel())).arg(cl_int(a.values.defined()));
    add_scale(launch, scale.product, left.dtype);
    add_scale(launch, scale.addend, left.dtype);
    launch.arg(queue.error_buffer()).arg(Queue::error_code("sparse_sampled"));
    launch.run(Range::linear(out.numel(), 64));
    queue.expect_errors();
}

void sparse_triangular_solve(Queue& queue, const SparseRows& a, bool upper, bool unit, const Tensor& b)
{
    const char* name = "sparse_triangular_solve";
    detail::check_operands(name, {{"a.pointers", a.pointers}, {"a.columns", a.columns}, {"a.values", a.values},
                                  {"b", b}});
    check_rows(a, b.dtype);
    require(b.dtype == DataType::float32 || b.dtype == DataType::float64 || b.dtype == DataType::complex64 ||
                b.dtype == DataType::complex128,
            name, ": float32, float64, complex64 or complex128 expected, got ", name_of(b.dtype));
    require(a.pointers.dim() == 1 && a.pointers.is_contiguous() && a.pointers.dtype == a.columns.dtype &&
                a.values.dim() == 1 && b.dim() == 2 && a.pointers.size(0) == b.size(0) + 1,
            name, ": single values of as many rows as b ", to_string(b.shape), " expected");
    if (b.numel() == 0)
        return;
    const SolveGeometry g{b.size(0), b.size(1), a.columns.size(0), {b.stride(0), b.stride(1)}, upper, unit};
    // As many work-items to a row as it has terms on average; on CPUs one, which waits for nobody.
    const bool alone = queue.device().kind == DeviceKind::cpu;
    const auto terms = std::bit_floor(static_cast<std::uint64_t>(g.entries / g.rows + 1));
    const std::uint64_t lanes = alone ? 1 : std::min<std::uint64_t>(terms, 32);
    const std::uint64_t columns = alone ? 1 : std::min(std::bit_ceil(static_cast<std::uint64_t>(g.width)), 32 / lanes);
    const std::string flags = detail::define("X", b.dtype) + detail::define("REAL", detail::real_type(b.dtype)) +
                              detail::define("I", a.columns.dtype) + (is_complex(b.dtype) ? " -DCOMPLEX" : "") +
                              fmt::format(" -DLANES={} -DCOLUMNS={} -DTEAM={}", lanes, columns, lanes * columns);
    Launch launch(queue, queue.context().program("kernels/sparse/triangular_solve.cl", flags).kernel(name));
    launch.arg(a.pointers).arg(a.columns).arg(a.values).arg(b).arg(g);
    launch.arg(queue.error_buffer()).arg(Queue::error_code(name));
    launch.run(Range::groups({(static_cast<std::size_t>(g.width) + columns - 1) / columns, 1, 1}, {lanes, columns, 1}));
    queue.expect_errors();
}

}  // namespace clprim
