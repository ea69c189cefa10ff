// Margin losses.
#include <clprim/loss.hpp>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

using detail::AccScalar;

// margin_t of margin.cl
struct Problem {
    cl_ulong batch;
    cl_uint classes;
    cl_int power;
};

Problem checked(const MarginLoss& p, std::int64_t targets_per_sample)
{
    require(p.x.dim() == 2 && p.x.size(1) > 0 && p.target.numel() == p.x.size(0) * targets_per_sample,
            "margin_loss: target ", to_string(p.target.shape), " does not fit input ", to_string(p.x.shape));
    require(p.x.is_contiguous() && p.target.is_contiguous() && is_floating_point(p.x.dtype) &&
                p.target.dtype == DataType::int64,
            "margin_loss: contiguous floating-point input and int64 target expected");
    require(!p.weight.defined() || (p.weight.numel() == p.x.size(1) && p.weight.dtype == p.x.dtype &&
                                    p.weight.is_contiguous()),
            "margin_loss: weight must be contiguous, of the input's dtype, with one element per class");
    require(p.power == 1 || p.power == 2, "margin_loss: power must be 1 or 2, got ", p.power);
    return {cl_ulong(p.x.size(0)), cl_uint(p.x.size(1)), p.power};
}

// A CPU's work-item has a sample, on GPUs a group does.
detail::Team team_of(const Device& device) { return {1, detail::team_for(device, 64).size}; }

Kernel& kernel(Queue& queue, const char* name, DataType dtype)
{
    return queue.context()
        .program("kernels/loss/margin.cl",
                 detail::define("X", dtype) +
                     detail::define_team(team_of(queue.device()), detail::accumulate_type(dtype)))
        .kernel(name);
}

Range samples(Queue& queue, const Problem& problem)
{
    const unsigned team = team_of(queue.device()).size;
    return team == 1 ? Range::linear(problem.batch, 64) : Range::groups(problem.batch, team);
}

// Checks what a backward pass has beyond the forward one; the step from sample to sample of grad_output.
cl_ulong step_of(const char* name, const MarginLossBackward& p)
{
    const Tensor& x = p.forward.x;
    const bool one = p.grad_output.numel() == 1;
    detail::require_elements(name, {"grad_output", p.grad_output}, one ? 1 : x.size(0), x.dtype);
    detail::require_elements(name, {"grad_input", p.grad_input}, x.numel(), x.dtype);
    return one ? 0 : 1;
}

}  // namespace

void multi_margin_loss(Queue& queue, const MarginLoss& p, const Tensor& loss)
{
    detail::check_operands("multi_margin_loss", {{"x", p.x}, {"target", p.target},
                                                 {"weight", p.weight, detail::optional}, {"loss", loss}});
    const Problem problem = checked(p, 1);
    detail::require_elements("multi_margin_loss", {"loss", loss}, p.x.size(0), p.x.dtype);
    if (problem.batch == 0)
        return;
    const DataType acc = detail::accumulate_type(p.x.dtype);
    detail::launch(queue, kernel(queue, "multi_margin", p.x.dtype), samples(queue, problem), p.x, p.target,
                   p.weight, problem, AccScalar{p.margin, acc}, queue.error_buffer(),
                   Queue::error_code("multi_margin_loss"), loss);
    queue.expect_errors();
}

void multi_margin_loss_backward(Queue& queue, const MarginLossBackward& p)
{
    const char* name = "multi_margin_loss_backward";
    detail::check_operands(name, {{"x", p.forward.x}, {"target", p.forward.target},
                                  {"weight", p.forward.weight, detail::optional}, {"grad_output", p.grad_output},
                                  {"grad_input", p.grad_input}});
    const Problem problem = checked(p.forward, 1);
    const cl_ulong step = step_of(name, p);
    if (problem.batch == 0)
        return;
    const DataType acc = detail::accumulate_type(p.forward.x.dtype);
    detail::launch(queue, kernel(queue, "multi_margin_backward", p.forward.x.dtype), samples(queue, problem),
                   p.grad_output, p.forward.x, p.forward.target, p.forward.weight, problem,
                   AccScalar{p.forward.margin, acc}, AccScalar{p.scale, acc}, step,
                   p.grad_input);
}

void multilabel_margin_loss(Queue& queue, const MarginLoss& p, const Tensor& loss, const Tensor& is_target)
{
    detail::check_operands("multilabel_margin_loss", {{"x", p.x}, {"target", p.target}, {"loss", loss},
                                                      {"is_target", is_target}});
    const Problem problem = checked(p, p.x.dim() == 2 ? p.x.size(1) : 0);
    detail::require_elements("multilabel_margin_loss", {"loss", loss}, p.x.size(0), p.x.dtype);
    detail::require_elements("multilabel_margin_loss", {"is_target", is_target}, p.x.numel(), p.x.dtype);
    if (problem.batch == 0)
        return;
    queue.launch(kernel(queue, "multilabel_margin", p.x.dtype), samples(queue, problem), p.x, p.target,
                 problem, queue.error_buffer(), Queue::error_code("multilabel_margin_loss"), loss, is_target);
    queue.expect_errors();
}

void multilabel_margin_loss_backward(Queue& queue, const MarginLossBackward& p)
{
    const char* name = "multilabel_margin_loss_backward";
    detail::check_operands(name, {{"x", p.forward.x}, {"target", p.forward.target}, {"is_target", p.is_target},
                                  {"grad_output", p.grad_output}, {"grad_input", p.grad_input}});
    const Problem problem = checked(p.forward, p.forward.x.dim() == 2 ? p.forward.x.size(1) : 0);
    const cl_ulong step = step_of(name, p);
    detail::require_elements(name, {"is_target", p.is_target}, p.forward.x.numel(), p.forward.x.dtype);
    if (problem.batch == 0)
        return;
    const DataType acc = detail::accumulate_type(p.forward.x.dtype);
    detail::launch(queue, kernel(queue, "multilabel_margin_backward", p.forward.x.dtype),
                   samples(queue, problem), p.grad_output, p.forward.x, p.forward.target, p.is_target,
                   problem, AccScalar{p.scale, acc}, step, p.grad_input);
}

}  // namespace clprim
