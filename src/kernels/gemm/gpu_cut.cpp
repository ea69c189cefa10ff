#include <kernels/gemm/gpu_cut.hpp>

#include <algorithm>
#include <cstdlib>

#include <core/caching_allocator.hpp>

namespace clprim::detail {
namespace {

// From a matrix's first element to beyond its last.
std::int64_t extent(const MatrixLayout& layout, std::int64_t rows, std::int64_t columns)
{
    return (rows - 1) * std::abs(layout.row) + (columns - 1) * std::abs(layout.column) + 1;
}

std::int64_t first_of(const Tensor& tensor) { return static_cast<std::int64_t>(tensor.buffer_offset()); }

std::int64_t farthest(const GemmProblem& p)
{
    return std::max({extent(p.a, p.m, p.k), extent(p.b, p.k, p.n), extent(p.c, p.m, p.n), extent(p.d, p.m, p.n)});
}

// Whether `count` elements may be read from each one of a matrix on: they lie in its buffer.
bool readable_beyond(const Tensor& tensor, std::int64_t count, std::int64_t rows, std::int64_t columns,
                     const MatrixLayout& layout, std::int64_t batch)
{
    if (std::min({layout.row, layout.column, layout.batch}) < 0)
        return false;
    const std::int64_t last = (rows - 1) * layout.row + (columns - 1) * layout.column + (batch - 1) * layout.batch;
    return (tensor.offset + last + count) * static_cast<std::int64_t>(size_of(tensor.dtype)) <=
           static_cast<std::int64_t>(bytes_to_end(*tensor.memory));
}

}  // namespace

bool better_turned(const GemmProblem& p)
{
    if ((p.m == 1) != (p.n == 1))
        return p.n == 1;
    return p.c.column != 1 && p.c.row == 1;
}

GpuCut gpu_cut(const GemmProblem& problem, std::int64_t x, std::int64_t y, std::int64_t splits, std::int64_t step)
{
    GpuCut cut{x, y};
    cut.split_depth = round_up(divide_up(problem.k, std::max<std::int64_t>(splits, 1)), step);
    cut.splits = divide_up(problem.k, cut.split_depth);
    return cut;
}

std::int64_t most_splits(const GemmProblem& problem, std::int64_t step)
{
    constexpr std::int64_t most = 64;
    return std::min(most, divide_up(problem.k, step));
}

Parts best_splits(const GpuRate& rate, const GemmProblem& problem, const Workload& work, std::int64_t step)
{
    const double elements = static_cast<double>(problem.batch) * static_cast<double>(problem.m * problem.n);
    return best_parts(rate, work, elements, most_splits(problem, step), false);
}

void launch_cut(Queue& queue, const Program& program, const GemmProblem& problem, const GemmTensors& tensors,
                const GpuCut& cut, std::array<std::size_t, 2> group)
{
    Tensor partial;
    if (cut.splits > 1)
        partial = queue.context().empty({cut.splits * problem.batch * problem.m * problem.n},
                                        gemm_compute_type(problem.dtype), queue);
    {
        Launch launch(queue, program.kernel("multiply"));
        launch.arg(tensors.a).arg(tensors.b).arg(tensors.c).arg(tensors.d).arg(partial).arg(gemm_arguments(problem));
        add_scalars(launch, problem);
        launch.arg(cut.splits).arg(cut.split_depth);
        const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
        launch.run(Range::groups({size(cut.x), size(cut.y * cut.splits), size(problem.batch)},
                                 {group[0], group[1], 1}));
    }
    if (cut.splits > 1) {
        GemmProblem finish = problem;
        finish.dtype = tensors.c.dtype;   // A and B may be of another one
        combine_partial_products(queue, finish, tensors, partial, static_cast<std::int32_t>(cut.splits));
    }
}

bool in_groups(std::int64_t count, const Tensor& tensor, std::int64_t near_count, std::int64_t near, std::int64_t far,
               std::int64_t batch)
{
    return near == 1 && (near_count | far | batch | static_cast<std::int64_t>(tensor.buffer_offset())) % count == 0;
}

bool a_along_k(const GemmProblem& p) { return p.a.row != 1 || p.a.column == 1; }
bool b_along_k(const GemmProblem& p) { return p.b.column != 1 || p.b.row == 1; }

bool a_in_groups(std::int64_t count, const GemmProblem& p, const GemmTensors& t)
{
    return a_along_k(p) ? in_groups(count, t.a, p.k, p.a.column, p.a.row, p.a.batch)
                        : in_groups(count, t.a, p.m, p.a.row, p.a.column, p.a.batch);
}
bool b_in_groups(std::int64_t count, const GemmProblem& p, const GemmTensors& t)
{
    return b_along_k(p) ? in_groups(count, t.b, p.k, p.b.row, p.b.column, p.b.batch)
                        : in_groups(count, t.b, p.n, p.b.column, p.b.row, p.b.batch);
}

bool operands_in_groups(std::int64_t count, const GemmProblem& p, const GemmTensors& t)
{
    return a_in_groups(count, p, t) && b_in_groups(count, p, t);
}

bool has_neighbours(std::int64_t count, const GemmProblem& p, const GemmTensors& t)
{
    const bool contiguous = (a_along_k(p) ? p.a.column : p.a.row) == 1 && (b_along_k(p) ? p.b.row : p.b.column) == 1;
    return contiguous && readable_beyond(t.a, count, p.m, p.k, p.a, p.batch) &&
           readable_beyond(t.b, count, p.k, p.n, p.b, p.batch);
}

const char* offset_type(const GemmProblem& p) { return farthest(p) < std::int64_t{1} << 31 ? "int" : "long"; }

const char* byte_offset_type(const GemmProblem& p, const GemmTensors& t)
{
    const auto size = static_cast<std::int64_t>(size_of(p.dtype));
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    if (farthest(p) * size >= limit)
        return "long";
    for (const auto& [tensor, layout] : {std::pair{&t.a, &p.a}, {&t.b, &p.b}, {&t.c, &p.c}, {&t.d, &p.d}})
        if (tensor->defined() &&
            (std::min({layout->row, layout->column, layout->batch}) < 0 ||
             (first_of(*tensor) + (p.batch - 1) * layout->batch + farthest(p)) * size >= limit))
            return "int";
    return "uint";
}

}  // namespace clprim::detail
