// Launches cpu_small.cl and cpu_small_rows.cl.
#include <algorithm>

#include <fmt/format.h>

#include <kernels/gemm/cpu_packed.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t most_lines = 64, most_depth = 64;   // what packed rows of cpu_small.cl and the first cache hold
constexpr std::int64_t rows_step = 80, tile_rows = 8;      // A_STEP and TILE_ROWS there
constexpr std::int64_t most_products = 32 * 32 * 32;       // beyond, blocks of cpu_packed are worth their price

constexpr std::int64_t most_by_vector = 32;                // rows and columns of a matrix times a vector

// small_plan of cpu_small.cl.
struct SmallPlan {
    std::int64_t each;
    std::int32_t plain;
};

std::int64_t parts_of(const GemmProblem& problem) { return is_complex(problem.dtype) ? 2 : 1; }

// Whether nothing needs to be packed: rows of what is computed in, and nothing before a matrix.
bool has_rows(const GemmProblem& p)
{
    const auto rows = [](const MatrixLayout& layout, std::int64_t columns) {
        return (layout.column == 1 || columns == 1) && layout.row >= 0 && layout.batch >= 0;
    };
    return parts_of(p) == 1 && stores_sums(p.dtype) && rows(p.a, p.k) && rows(p.b, p.n) &&
           (p.c.column == 1 || p.n == 1) && (!p.add_d || p.d.column <= 1 || p.n == 1);
}

// A transposed matrix times a vector is the vector times its rows.
bool turned(const GemmProblem& problem)
{
    return problem.n == 1 && !has_rows(problem) && has_rows(transposed(problem));
}

// Whether rows are better than reading once: most of a vector's lanes are for nothing in a matrix times a vector.
bool suits_vector(const GemmProblem& p)
{
    return (has_rows(p) || turned(p)) &&
           (p.m == 1 || turned(p) || std::max(p.m, p.k) <= most_by_vector) &&
           std::max(p.m, p.n) * p.k <= most_by_vector * most_by_vector;
}

bool is_plain(const GemmProblem& problem)
{
    return problem.c.column == 1 && !problem.add_d && problem.activation == Activation::none &&
           complex_value(problem.alpha) == 1.0;
}

}  // namespace

Rejection cpu_small_rejects(const GemmProblem& problem, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "for CPU devices";
    if (problem.batch == 1 || problem.k == 0)
        return "no batch, or k is 0";
    if (is_complex(problem.dtype) && size_of(problem.dtype) == 4)
        return "complex numbers of two bytes a part";
    const std::int64_t parts = parts_of(problem);
    if (parts == 1 && std::min(problem.m, problem.n) == 1 && !suits_vector(problem))
        return "a vector";   // which cpu_dot reads once
    if (std::max(problem.m, problem.n) > most_lines || problem.k * parts > most_depth ||
        problem.m * problem.n * problem.k > most_products)
        return "large matrices";
    return std::nullopt;
}

void cpu_small(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const GemmProblem problem = turned(asked) ? transposed(asked) : asked;
    const GemmTensors tensors = turned(asked) ? transposed(given) : given;
    const std::int64_t parts = parts_of(problem);
    const DataType sum_type = gemm_compute_type(parts == 2 ? part_type(problem.dtype) : problem.dtype);
    const auto element = static_cast<std::int64_t>(size_of(sum_type)), columns = tile_bytes / element;
    const bool in_place = has_rows(problem);
    const std::int64_t lanes = problem.n <= 4 ? 4 : problem.n <= 8 ? 8 : tile_bytes / 2 / element;   // of rows in place
    const std::string options = gemm_options(parts == 2 ? sum_type : problem.dtype);
    const Program& program = in_place ? queue.context().program("kernels/gemm/cpu_small_rows.cl",
                                                                fmt::format("{} -DLANES={}", options, lanes))
                                      : queue.context().program("kernels/gemm/cpu_small.cl",
                                                                fmt::format("{} -DPARTS={}", options, parts));

    // As many work-items as keep all cores busy, none for less than some ten thousand cycles.
    const std::int64_t rows = round_up(problem.m, 4), panels = divide_up(problem.n * parts, columns);
    const std::int64_t cycles = 100 + 4 * rows + panels * problem.k * parts * (4 + 2 * rows);
    const std::int64_t cores = std::max(1u, queue.device().compute_units);
    const std::int64_t wanted = std::clamp<std::int64_t>(problem.batch * cycles / 10000, 1, 4 * cores);
    const SmallPlan plan{divide_up(problem.batch, wanted), is_plain(problem)};

    Launch launch(queue, program.kernel("multiply"));
    GemmArguments arguments = gemm_arguments(problem);
    if (parts == 2) {
        for (MatrixLayout* layout : {&arguments.a, &arguments.b, &arguments.c, &arguments.d})
            *layout = in_parts(*layout);
        launch.arg(part(tensors.a, 0)).arg(part(tensors.b, 0)).arg(part(tensors.c, 0)).arg(part(tensors.d, 0));
    } else {
        launch.arg(tensors.a).arg(tensors.b).arg(tensors.c).arg(tensors.d);
    }
    launch.arg(arguments);
    add_scalars(launch, problem);
    launch.arg(plan);
    if (!in_place)
        launch.arg(LocalMemory{static_cast<std::size_t>(
            element * (tile_rows * columns + problem.k * parts * columns + round_up(rows, tile_rows) * rows_step))});
    launch.run(Range::groups(static_cast<std::size_t>(divide_up(problem.batch, plan.each))));
}

}  // namespace clprim::detail
