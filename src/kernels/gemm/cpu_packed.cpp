// Launches cpu_packed.cl.
#include <fmt/format.h>

#include <kernels/gemm/cpu_blocks.hpp>

namespace clprim::detail {

Rejection cpu_packed_rejects(const GemmProblem& problem, const Device& device)
{
    if (const Rejection rejection = cpu_vectors_reject(problem, device))
        return rejection;
    if (device.local_memory < (64 << 10))
        return "less than 64 KiB of local memory";
    return std::nullopt;
}

void cpu_packed(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    cpu_packed_by(cpu_plan(problem, queue.device()), queue, problem, tensors);
}

void cpu_packed_at(Queue& queue, const GemmProblem& problem, const Point& point, const GemmTensors& tensors)
{
    cpu_packed_by(cpu_plan_at(problem, queue.device(), point), queue, problem, tensors);
}

void cpu_packed_by(const CpuPlan& plan, Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const GemmProblem problem = plan.turned ? transposed(asked) : asked;
    const GemmTensors tensors = plan.turned ? transposed(given) : given;
    CpuKernelPlan cut = plan.kernel;
    const DataType sum_type = gemm_compute_type(problem.dtype);
    const std::int64_t element = static_cast<std::int64_t>(size_of(sum_type)), columns = tile_bytes / element;
    const std::int64_t tile_rows = cpu_tile_rows(problem.dtype);
    cut.plain = sums_are_results(problem);
    const Program& program = queue.context().program(
        "kernels/gemm/cpu_packed.cl", fmt::format("{} -DTILE_ROWS={}", gemm_options(problem.dtype), tile_rows));
    const auto groups = [](std::int64_t count) { return static_cast<std::size_t>(count); };

    Tensor panels;
    if (cut.panels_place == panels_own)
        panels = queue.context().empty({block_count(problem, cut) * cut.depth * cut.block_columns}, sum_type, queue);
    if (cut.panels_place == panels_shared) {
        const auto pack = [&] {
            const Tensor packed =
                queue.context().empty({problem.batch * problem.k * round_up(problem.n, columns)}, sum_type, queue);
            queue.launch(program.kernel("pack_b"),
                         Range::groups({groups(divide_up(problem.n, columns)), groups(divide_up(problem.k, cut.depth)),
                                        groups(problem.batch)}, {1, 1, 1}),
                         tensors.b, packed, gemm_arguments(problem), cut);
            return packed;
        };
        panels = keeps_panels(problem)
                     ? problem.prepared_b->get(queue,
                                               fmt::format("gemm_packed {} {} {} {} {} {} {}", name_of(problem.dtype),
                                                           cut.depth, problem.k, problem.n, problem.b.row,
                                                           problem.b.column, tensors.b.offset),
                                               pack, Prepared::Keeps::all)
                     : pack();
    }
    const std::int64_t local = tile_rows * columns + cut.strip * a_step +
                               (cut.panels_place == panels_local    ? cut.depth * cut.block_columns
                                : cut.panels_place == panels_single ? cut.depth * columns
                                                                    : 0);
    multiply_blocks(queue, program, problem, cut,
                    {tensors, panels, cut.panels_place == panels_shared, sum_type,
                     static_cast<std::size_t>(local * element)});
}

}  // namespace clprim::detail
