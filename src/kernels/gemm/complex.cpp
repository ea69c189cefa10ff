// Complex products by four real ones on views of the real and imaginary parts:
//     re = Re A Re B - Im A Im B,  im = Re A Im B + Im A Re B,  C = alpha (re + i im) + beta D.
#include <kernels/gemm/gpu_cut.hpp>
#include <kernels/team.hpp>

namespace clprim::detail {
Rejection complex_planes_rejects(const GemmProblem& problem, const Device&)
{
    if (!is_complex(problem.dtype))
        return "for complex numbers";
    if (size_of(problem.dtype) == 4)
        return "complex numbers of two bytes a part";
    return std::nullopt;
}

void complex_planes(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    const DataType type = part_type(problem.dtype);
    const Tensor re = queue.context().empty({problem.batch, problem.m, problem.n}, type, queue);
    const Tensor im = queue.context().empty({problem.batch, problem.m, problem.n}, type, queue);

    GemmProblem real = problem;
    real.dtype = type;
    real.a = in_parts(problem.a);
    real.b = in_parts(problem.b);
    real.c = real.d = {problem.n, 1, problem.m * problem.n};
    real.beta = 1;
    const auto add_product = [&](int a_part, int b_part, const Tensor& plane, Scalar sign, bool first) {
        real.alpha = sign;
        gemm(queue, real, part(tensors.a, a_part), part(tensors.b, b_part), plane, first ? Tensor() : plane);
    };
    add_product(0, 0, re, 1, true);
    add_product(1, 1, re, -1, false);
    add_product(0, 1, im, 1, true);
    add_product(1, 0, im, 1, false);

    const Program& program = queue.context().program(
        "kernels/gemm/complex.cl",
        detail::concat("-DX=", name_of(problem.dtype), " -DREAL=", opencl_compute_type(type), " -DOFFSET=",
                       offset_type(problem)));
    Launch launch(queue, program.kernel("combine_planes"));
    launch.arg(tensors.c).arg(tensors.d).arg(re).arg(im).arg(gemm_arguments(problem));
    add_scalars(launch, problem);
    const auto batch = static_cast<std::size_t>(problem.batch), m = static_cast<std::size_t>(problem.m),
               n = static_cast<std::size_t>(problem.n);
    launch.run(queue.device().kind == DeviceKind::cpu ? Range::linear(batch * m * n, 64)
                                                      : plane_range(queue.device(), n, m, batch));
}

}  // namespace clprim::detail
