// What cpu_packed and cpu_amx share: the blocks of C that their planners try, and the launch of their kernels.
#pragma once

#include <algorithm>
#include <span>

#include <kernels/gemm/cpu_packed.hpp>

namespace clprim::detail {

struct BlockSizes {
    std::span<const std::int64_t> row_limits, column_limits;   // ascending
    std::int64_t rows, columns;                                // of a tile: blocks are whole tiles
};

// consider(rows, columns) for blocks within each pair of limits, all of a size; none twice where one block is enough.
template <class Consider>
void for_block_sizes(const GemmProblem& p, const BlockSizes& sizes, const Consider& consider)
{
    const std::int64_t all_rows = round_up(p.m, sizes.rows), all_columns = round_up(p.n, sizes.columns);
    for (const std::int64_t row_limit : sizes.row_limits) {
        const std::int64_t row_blocks = divide_up(all_rows, row_limit);
        const std::int64_t block_rows = round_up(divide_up(all_rows, row_blocks), sizes.rows);
        for (const std::int64_t column_limit : sizes.column_limits) {
            const std::int64_t column_blocks = divide_up(all_columns, std::max(column_limit, sizes.columns));
            consider(block_rows, round_up(divide_up(all_columns, column_blocks), sizes.columns));
            if (column_blocks == 1)
                break;
        }
        if (row_blocks == 1)
            break;
    }
}

// The cheaper plan of both ways round: C = A B, and C' = B' A'.
template <class Planner>
auto cheapest_plan(const GemmProblem& problem, const Device& device)
{
    decltype(Planner::best) best;
    for (const bool turned : {false, true}) {
        Planner planner(problem, turned, device);
        planner.consider_all();
        if (planner.best.cost < best.cost)
            best = planner.best;
    }
    return best;
}

// Whether the kernel's sums are the result and can rest in C while they grow.
inline bool sums_are_results(const GemmProblem& problem)
{
    return stores_sums(problem.dtype) && problem.c.column == 1 && !problem.add_d &&
           problem.activation == Activation::none && problem.alpha.to_double() == 1;
}

template <class Cut>
std::int64_t block_count(const GemmProblem& problem, const Cut& cut)
{
    return divide_up(problem.m, cut.block_rows) * divide_up(problem.n, cut.block_columns) * cut.splits * problem.batch;
}

struct BlockOperands {
    const GemmTensors& tensors;
    const Tensor& panels;
    bool panels_hold_b;
    DataType sum_type;
    std::size_t local_bytes;
};

// Runs "multiply", a work-group a block, and adds up the parts of a k that was split.
template <class Cut>
void multiply_blocks(Queue& queue, const Program& program, const GemmProblem& problem, const Cut& cut,
                     const BlockOperands& operands)
{
    const GemmTensors& tensors = operands.tensors;
    Tensor sums;
    if (cut.splits > 1 || (!cut.plain && cut.depth < problem.k))
        sums = queue.context().empty({cut.splits * problem.batch * problem.m * problem.n}, operands.sum_type, queue);
    Launch launch(queue, program.kernel("multiply"));
    // What its owner gave back, since the panels hold all of it, cannot be an argument.
    launch.arg(tensors.a).arg(operands.panels_hold_b ? operands.panels : tensors.b).arg(operands.panels);
    launch.arg(tensors.c).arg(tensors.d).arg(sums);
    launch.arg(gemm_arguments(problem)).arg(cut);
    add_scalars(launch, problem);
    launch.arg(LocalMemory{operands.local_bytes});
    launch.run(Range::groups(static_cast<std::size_t>(block_count(problem, cut))));
    if (cut.splits > 1)
        combine_partial_products(queue, problem, tensors, sums, static_cast<std::int32_t>(cut.splits));
}

}  // namespace clprim::detail
