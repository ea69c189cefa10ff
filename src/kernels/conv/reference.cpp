#include <kernels/conv/problem.hpp>

namespace clprim::conv {

Rejection rejects_reference(const Call&, const Device&) { return {}; }

void run_reference(Queue& queue, const Call& call)
{
    const Program& program = queue.context().program("kernels/conv/reference.cl", dtype_options(call));
    const Range range = Range::linear(static_cast<std::size_t>(call.result().numel()), 64);
    switch (call.pass) {
    case ConvPass::forward:
        queue.launch(program.kernel("conv_forward"), range, call.x, call.w, call.bias, call.epilogue, call.y,
                     call.problem);
        break;
    case ConvPass::backward_data:
        queue.launch(program.kernel("conv_backward_data"), range, call.y, call.w, call.bias, call.epilogue, call.x,
                     call.problem);
        break;
    case ConvPass::backward_weight:
        queue.launch(program.kernel("conv_backward_weight"), range, call.x, call.y, call.w, call.problem);
        break;
    }
}

}  // namespace clprim::conv
