// Launches cpu_packed.cl.
#include <fmt/format.h>

#include <kernels/gemm/cpu_packed.hpp>

namespace clprim::detail {

Rejection cpu_packed_rejects(const GemmProblem& problem, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "for CPU devices";
    if (is_complex(problem.dtype))
        return "complex";
    if (problem.k == 0)
        return "k is 0";
    if (device.local_memory < (64 << 10))
        return "less than 64 KiB of local memory";
    return std::nullopt;
}

void cpu_packed(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    cpu_packed_by(cpu_plan(problem, queue.device()), queue, problem, tensors);
}

void cpu_packed_by(const CpuPlan& plan, Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const GemmProblem problem = plan.turned ? transposed(asked) : asked;
    const GemmTensors tensors = plan.turned ? transposed(given) : given;
    CpuKernelPlan cut = plan.kernel;
    const DataType sum_type = gemm_compute_type(problem.dtype);
    const std::int64_t element = static_cast<std::int64_t>(size_of(sum_type)), columns = tile_bytes / element;
    const std::int64_t tile_rows = cpu_tile_rows(problem.dtype);
    cut.plain = stores_sums(problem.dtype) && problem.c.column == 1 && !problem.add_d &&
                problem.activation == Activation::none && problem.alpha.to_double() == 1;
    const Program& program = queue.context().program(
        "kernels/gemm/cpu_packed.cl", fmt::format("{} -DTILE_ROWS={}", gemm_options(problem.dtype), tile_rows));
    const GemmArguments arguments = gemm_arguments(problem);
    const auto groups = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    const std::int64_t blocks = divide_up(problem.m, cut.block_rows) * divide_up(problem.n, cut.block_columns) *
                                cut.splits * problem.batch;

    Tensor panels, sums;
    if (cut.panels_place == panels_own)
        panels = queue.context().empty({blocks * cut.depth * cut.block_columns}, sum_type, queue);
    if (cut.panels_place == panels_shared) {
        panels = queue.context().empty({problem.batch * problem.k * round_up(problem.n, columns)}, sum_type, queue);
        queue.launch(program.kernel("pack_b"),
                     Range::groups({groups(divide_up(problem.n, columns)), groups(divide_up(problem.k, cut.depth)),
                                    groups(problem.batch)}, {1, 1, 1}),
                     tensors.b, panels, arguments, cut);
    }
    if (cut.splits > 1 || (!cut.plain && cut.depth < problem.k))
        sums = queue.context().empty({cut.splits * problem.batch * problem.m * problem.n}, sum_type, queue);

    const std::int64_t local = tile_rows * columns + cut.strip * a_step +
                               (cut.panels_place == panels_local    ? cut.depth * cut.block_columns
                                : cut.panels_place == panels_single ? cut.depth * columns
                                                                    : 0);
    {
        Launch launch(queue, program.kernel("multiply"));
        launch.arg(tensors.a).arg(tensors.b).arg(panels).arg(tensors.c).arg(tensors.d).arg(sums);
        launch.arg(arguments).arg(cut);
        add_scalars(launch, problem);
        launch.arg(LocalMemory{static_cast<std::size_t>(local * element)});
        launch.run(Range::groups(groups(blocks)));
    }
    if (cut.splits > 1)
        combine_partial_products(queue, problem, tensors, sums, static_cast<std::int32_t>(cut.splits));
}

}  // namespace clprim::detail
