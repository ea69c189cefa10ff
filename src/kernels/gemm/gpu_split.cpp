// Operands that are written anew for matrix engines (gpu_split.cl) before gpu_matrix.cl multiplies them: those of
// float32 products of reduced precision, with results of float32, and those whose lines begin at odd places.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <kernels/gemm/gpu_cut.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::detail {
namespace {

// split_problem of gpu_split.cl.
template <class Index>
struct SplitArgumentsOf {
    Index lines, depth, line_step, k_step, batch_step, lines_padded, depth_padded;

    template <class To>
    SplitArgumentsOf<To> as() const
    {
        return {static_cast<To>(lines), static_cast<To>(depth), static_cast<To>(line_step), static_cast<To>(k_step),
                static_cast<To>(batch_step), static_cast<To>(lines_padded), static_cast<To>(depth_padded)};
    }
};
using SplitArguments = SplitArgumentsOf<std::int64_t>;

// Whether 32 bits hold every offset, with room for groups that reach over the end.
bool is_near(const SplitArguments& p, std::int64_t batches, std::int64_t parts)
{
    constexpr std::int64_t most = std::int64_t{1} << 30;
    return std::abs(p.line_step) * p.lines_padded + std::abs(p.k_step) * p.depth_padded +
                   std::abs(p.batch_step) * batches < most &&
           batches * p.lines_padded * p.depth_padded * parts < most;
}

struct SplitMatrix {
    Tensor numbers;
    std::int64_t depth = 0;     // k of the product of parts
    MatrixLayout layout;        // row: a line; column: along k
};

// Lines with steps along k; padded so that engines read eight neighbours at a time.
SplitMatrix split(Queue& queue, const Tensor& from, const SplitArguments& asked, std::int64_t batch, bool second,
                  std::int64_t parts, bool bits = false)
{
    SplitArguments p = asked;
    p.lines_padded = round_up(p.lines, 8);
    p.depth_padded = round_up(p.depth, 8);
    const bool along_k = p.line_step != 1 || p.k_step == 1;
    const std::int64_t batches = p.batch_step == 0 ? 1 : batch;
    SplitMatrix result;
    result.depth = parts * p.depth_padded;
    result.numbers = queue.context().empty({batches * p.lines_padded * result.depth},
                                           bits ? from.dtype : DataType::bfloat16, queue);
    result.layout = along_k ? MatrixLayout{result.depth, 1, 0} : MatrixLayout{1, p.lines_padded, 0};
    result.layout.batch = batches == 1 ? 0 : p.lines_padded * result.depth;
    const bool near32 = is_near(p, batches, parts);
    const Program& program = queue.context().program(
        "kernels/gemm/gpu_split.cl", fmt::format("-DINDEX={} -DPARTS={} -DSECOND={:d} -DALONG_K={:d} -DNEAR={:d}{}",
                                                 near32 ? "int" : "long", parts, second, along_k,
                                                 (along_k ? p.k_step : p.line_step) == 1, bits ? " -DBITS" : ""));
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    const std::int64_t near = along_k ? p.depth_padded : p.lines_padded;
    const std::int64_t far = along_k ? p.lines_padded : p.depth_padded;
    const Range range = Range::groups({size(divide_up(near / 4, 64)), size(far), size(batches)}, {64, 1, 1});
    if (near32)
        queue.launch(program.kernel("split_matrix"), range, from, result.numbers, p.as<cl_int>());
    else
        queue.launch(program.kernel("split_matrix"), range, from, result.numbers, p);
    return result;
}

SplitArguments lines_of_a(const GemmProblem& p) { return {p.m, p.k, p.a.row, p.a.column, p.a.batch, 0, 0}; }
SplitArguments lines_of_b(const GemmProblem& p) { return {p.n, p.k, p.b.column, p.b.row, p.b.batch, 0, 0}; }

// Which operands are padded. Where one has zeros behind its last k, the other one needs them as well: NaN may lie
// there.
struct Padding {
    bool depth, a, b;

    Padding(const GemmProblem& p, const GemmTensors& t)
        : depth(p.k % 8 != 0 && (a_along_k(p) || b_along_k(p))), a(depth || !a_in_groups(8, p, t)),
          b(depth || !b_in_groups(8, p, t))
    {
    }
};

}  // namespace

bool pays_to_pad(const GemmProblem& problem, const GemmTensors& tensors)
{
    const Padding pads(problem, tensors);
    const std::int64_t lines = (pads.a ? problem.m : 0) + (pads.b ? problem.n : 0);   // equally long ones
    return lines > 0 && (std::min(problem.m, problem.n) >= 64 || 2 * lines <= problem.m + problem.n);
}

void pad_operands(Queue& queue, GemmProblem& p, GemmTensors& t)
{
    const auto [depth, pads_a, pads_b] = Padding(p, t);
    SplitMatrix a, b;
    if (pads_a)
        a = split(queue, t.a, lines_of_a(p), p.batch, false, 1, true);
    if (pads_b)
        b = split(queue, t.b, lines_of_b(p), p.batch, true, 1, true);
    if (pads_a)
        t.a = a.numbers, p.a = a.layout;
    if (pads_b)
        t.b = b.numbers, p.b = {b.layout.column, b.layout.row, b.layout.batch};
    if (depth)
        p.k = a.depth;
    p.prepared_a = p.prepared_b = nullptr;
}

Rejection gpu_split_rejects(const GemmProblem& problem, const Device& device)
{
    if (problem.dtype != DataType::float32 || problem.precision == Float32Precision::highest)
        return "for float32 of reduced precision";
    if (problem.k == 0)
        return "k is 0";
    return matrix_engine_rejects(DataType::bfloat16, device);
}

Rejection gpu_split_advises_against(const GemmProblem& problem, const Device& device)
{
    if (auto advice = gpu_matrix_advises_against(problem, device))
        return advice;
    if (!matrix_engine(device).named && std::min(problem.m, problem.n) < 64)
        return "mostly splitting";
    return std::nullopt;
}

void gpu_split(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    gpu_split_by(matrix_engine(queue.device()), queue, problem, tensors);
}

void gpu_split_by(MatrixEngineChoice engine, Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    const std::int64_t parts = problem.precision == Float32Precision::medium ? 1 : 3;
    const SplitMatrix a = split(queue, tensors.a, lines_of_a(problem), problem.batch, false, parts);
    const SplitMatrix b = split(queue, tensors.b, lines_of_b(problem), problem.batch, true, parts);
    GemmProblem short_problem = problem;
    short_problem.dtype = DataType::bfloat16;
    short_problem.k = a.depth;
    short_problem.a = a.layout;
    short_problem.b = {b.layout.column, b.layout.row, b.layout.batch};
    short_problem.prepared_a = short_problem.prepared_b = nullptr;
    gpu_matrix_in(engine, gemm_cut(engine, short_problem, queue.device()), queue, short_problem,
                  {a.numbers, b.numbers, tensors.c, tensors.d}, true);
}

}  // namespace clprim::detail
