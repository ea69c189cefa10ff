// Complex products on CPU devices as one real product of twice as many columns and twice as long sums (cpu_complex.cl).
#include <algorithm>

#include <clprim/copy.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::detail {
namespace {

bool is_real(const Scalar& scalar) { return complex_value(scalar).imag() == 0; }

// Rows of C must be contiguous, of this product or of the transposed one.
bool turned(const GemmProblem& problem) { return problem.c.column != 1; }

// B as a real matrix, and its layout: by columns where B lies so or has few of them, as sums along k then go by
// vectors.
Tensor widened(Queue& queue, const GemmProblem& p, const Tensor& b, MatrixLayout& layout)
{
    const bool columns = p.n <= 4 || (p.b.row == 1 && p.b.column != 1);
    const std::int64_t lines = columns ? p.n : p.k, length = columns ? p.k : p.n;
    const MatrixLayout parts = in_parts(p.b);
    const Tensor wide = queue.context().empty({p.batch * lines * length * 4}, part_type(p.dtype), queue);
    layout = columns ? MatrixLayout{1, 2 * p.k, lines * length * 4} : MatrixLayout{2 * p.n, 1, lines * length * 4};

    const std::int64_t each = std::max<std::int64_t>(1, 4096 / length);
    const Program& program = queue.context().program(
        "kernels/gemm/cpu_complex.cl",
        concat("-DREAL=", opencl_compute_type(part_type(p.dtype)), columns ? " -DCOLUMNS" : ""));
    queue.launch(program.kernel("widen"),
                 Range::groups({static_cast<std::size_t>(divide_up(lines, each)), static_cast<std::size_t>(p.batch), 1},
                               {1, 1, 1}),
                 part(b, 0), wide, cl_long(lines), cl_long(length), cl_long(columns ? parts.column : parts.row),
                 cl_long(columns ? parts.row : parts.column), cl_long(parts.batch), cl_long(each));
    return wide;
}

}  // namespace

Rejection cpu_complex_rejects(const GemmProblem& problem, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "for CPU devices";
    if (!is_complex(problem.dtype) || size_of(problem.dtype) == 4)
        return "for complex numbers of whole floats";
    if (problem.k == 0)
        return "k is 0";
    if (!is_real(problem.alpha) || (problem.add_d && !is_real(problem.beta)))
        return "complex scalars";
    const GemmProblem p = turned(problem) ? transposed(problem) : problem;
    if (p.c.column != 1 || (p.add_d && p.d.column != 1))
        return "no contiguous rows of C and D";
    return std::nullopt;
}

// Of few rows, writing B out takes longer than reading it four times.
Rejection cpu_complex_advises_against(const GemmProblem& problem, const Device&)
{
    const GemmProblem p = turned(problem) ? transposed(problem) : problem;
    if (p.m > 1 && p.m <= 4 && p.n > 4 && p.b.row != 1)
        return "few rows";
    return std::nullopt;
}

void cpu_complex(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const GemmProblem problem = turned(asked) ? transposed(asked) : asked;
    const GemmTensors tensors = turned(asked) ? transposed(given) : given;
    GemmProblem real = problem;
    real.dtype = part_type(problem.dtype);
    real.n *= 2;
    real.k *= 2;
    real.alpha = complex_value(problem.alpha).real();
    real.beta = complex_value(problem.beta).real();
    const Tensor wide = widened(queue, problem, tensors.b, real.b);

    Tensor a = tensors.a;
    MatrixLayout rows = problem.a;
    if (rows.column != 1) {
        const Tensor view(a.memory, a.offset, a.dtype, {problem.batch, problem.m, problem.k},
                          {rows.batch, rows.row, rows.column});
        a = queue.context().empty(view.shape, a.dtype, queue);
        copy(queue, view, a);
        rows = {problem.k, 1, problem.m * problem.k};
    }
    const auto as_real = [](const MatrixLayout& layout) { return MatrixLayout{2 * layout.row, 1, 2 * layout.batch}; };
    real.a = as_real(rows);
    real.c = as_real(problem.c);
    real.d = as_real(problem.d);
    gemm(queue, real, part(a, 0), wide, part(tensors.c, 0), problem.add_d ? part(tensors.d, 0) : Tensor());
}

}  // namespace clprim::detail
