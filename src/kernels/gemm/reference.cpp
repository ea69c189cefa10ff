// The obvious product, and what implementations that split k end with.
#include <kernels/gemm/problem.hpp>

namespace clprim::detail {
namespace {

const Program& combine_program(Queue& queue, DataType type)
{
    return queue.context().program("kernels/gemm/combine.cl", gemm_options(type));
}

Range range_of(const GemmProblem& problem)
{
    return Range::linear(static_cast<std::size_t>(problem.batch * problem.m * problem.n), 64);
}

}  // namespace

Rejection reference_rejects(const GemmProblem& problem, const Device&)
{
    if (is_complex(problem.dtype))
        return "complex";
    return std::nullopt;
}

void reference(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    Launch launch(queue, combine_program(queue, problem.dtype).kernel("reference"));
    launch.arg(tensors.a).arg(tensors.b).arg(tensors.c).arg(tensors.d).arg(gemm_arguments(problem));
    add_scalars(launch, problem);
    launch.run(range_of(problem));
}

void combine_partial_products(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors,
                              const Tensor& partial, std::int32_t splits)
{
    Launch launch(queue, combine_program(queue, problem.dtype).kernel("combine"));
    launch.arg(tensors.c).arg(tensors.d).arg(partial).arg(gemm_arguments(problem));
    add_scalars(launch, problem);
    launch.arg(splits);
    launch.run(range_of(problem));
}

}  // namespace clprim::detail
