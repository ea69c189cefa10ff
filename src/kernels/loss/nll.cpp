#include <clprim/loss.hpp>

#include "kernels/team.hpp"
#include "core/operands.hpp"
#include "core/gpu_rate.hpp"

namespace clprim {
namespace {

// nll_t of nll.cl
struct Problem {
    cl_ulong batch;
    cl_uint classes, inner;
    cl_long ignore_index;
};

Problem checked(const NllLoss& p)
{
    require(p.x.dim() >= 2 && p.target.numel() * p.x.size(1) == p.x.numel(), "nll_loss: target ",
            to_string(p.target.shape), " does not fit input ", to_string(p.x.shape));
    require(p.x.is_contiguous() && p.target.is_contiguous(), "nll_loss: tensors must be contiguous");
    require(!p.weight.defined() || (p.weight.numel() == p.x.size(1) && p.weight.dtype == p.x.dtype &&
                                    p.weight.is_contiguous()),
            "nll_loss: weight must be contiguous, of the input's dtype, with one element per class");
    require(is_floating_point(p.x.dtype), "nll_loss: floating-point input expected, got ", name_of(p.x.dtype));
    require(p.target.dtype == DataType::int64 || p.target.dtype == DataType::uint8,
            "nll_loss: target must be int64 or uint8, got ", name_of(p.target.dtype));
    std::int64_t inner = 1;
    for (std::size_t i = 2; i < p.x.dim(); ++i)
        inner *= p.x.size(i);
    require(inner < std::int64_t{1} << 32 && p.x.size(1) < std::int64_t{1} << 31,
            "nll_loss: samples of 2^32 targets or more are not supported, got input ", to_string(p.x.shape));
    return {cl_ulong(p.x.size(0)), cl_uint(p.x.size(1)), cl_uint(inner), p.ignore_index};
}

const Program& program(Queue& queue, const NllLoss& p, detail::Team team)
{
    return queue.context().program("kernels/loss/nll.cl",
                                   detail::define("X", p.x.dtype) + detail::define("T", p.target.dtype) +
                                       detail::define_team({1, team.size}, detail::accumulate_type(p.x.dtype)));
}

}  // namespace

void nll_loss(Queue& queue, const NllLoss& p, const Tensor& loss, const Tensor& total_weight)
{
    detail::check_operands("nll_loss", {{"x", p.x}, {"target", p.target}, {"weight", p.weight, detail::optional},
                                        {"loss", loss}, {"total_weight", total_weight}});
    const Problem problem = checked(p);
    const bool each = p.reduction == Reduction::none;
    detail::require_elements("nll_loss", {"loss", loss}, each ? p.target.numel() : 1, p.x.dtype);
    if (!each)
        detail::require_elements("nll_loss", {"total_weight", total_weight}, 1, p.x.dtype);
    const detail::Team team = detail::team_for(queue.device());
    const Program& built = program(queue, p, team);
    const BufferArgument errors = queue.error_buffer();
    const cl_int code = Queue::error_code("nll_loss");
    const std::int64_t items = p.target.numel();
    if (each) {
        if (items == 0)
            return;
        queue.launch(built.kernel("nll_each"), Range::linear(items, 64), p.x, p.target, p.weight, problem, errors,
                     code, loss);
    } else {
        // A GPU's team takes four items of each member in the time of two loads; a launch takes as long as some ten.
        const bool cpu = queue.device().kind == DeviceKind::cpu;
        const std::int64_t groups = detail::resident_items(queue.device()) / team.size;
        const std::int64_t most = cpu ? 256 : std::clamp<std::int64_t>(groups, 64, 1024);
        const std::int64_t least = cpu ? 4096 : items <= 8192 ? 8192 : 1024;
        const std::int64_t part = std::max(least, detail::divide_up(items, most));
        const cl_uint parts = std::max<std::int64_t>(1, detail::divide_up(items, part));
        Tensor partial;
        if (parts > 1)
            partial = queue.context().empty({2, parts}, detail::accumulate_type(p.x.dtype), queue);
        queue.launch(built.kernel("nll_partial"), Range::groups(parts, team.size), p.x, p.target, p.weight, problem,
                     errors, code, partial, cl_ulong(part), cl_int(p.reduction), loss, total_weight);
        if (parts > 1)
            queue.launch(built.kernel("nll_total"), Range::groups(1, team.size), partial, parts,
                         cl_int(p.reduction), loss, total_weight);
    }
    queue.expect_errors();
}

void nll_loss_backward(Queue& queue, const NllLoss& p, const Tensor& grad_output, const Tensor& total_weight,
                       const Tensor& grad_input)
{
    detail::check_operands("nll_loss_backward", {{"target", p.target}, {"weight", p.weight, detail::optional},
                                                 {"grad_output", grad_output}, {"total_weight", total_weight},
                                                 {"grad_input", grad_input}});
    const Problem problem = checked(p);
    const std::int64_t losses = p.reduction == Reduction::none ? p.target.numel() : 1;
    detail::require_elements("nll_loss_backward", {"grad_output", grad_output}, losses, p.x.dtype);
    if (p.reduction == Reduction::mean)
        detail::require_elements("nll_loss_backward", {"total_weight", total_weight}, 1, p.x.dtype);
    require(grad_input.shape == p.x.shape && grad_input.is_contiguous() && grad_input.dtype == p.x.dtype,
            "nll_loss_backward: grad_input must be contiguous and like the input");
    if (grad_input.numel() == 0)
        return;
    const bool rows = problem.inner == 1;
    Range range = Range::linear(rows ? problem.classes : problem.inner, 64);
    range.dims = 2;
    range.global[1] = problem.batch;
    range.local[1] = 1;
    const Program& built = program(queue, p, detail::team_for(queue.device()));
    if (rows && queue.device().kind == DeviceKind::cpu) {
        const cl_uint each = std::max<cl_uint>(16384 / std::max<cl_uint>(problem.classes, 1), 1);
        queue.launch(built.kernel("nll_backward_rows"), Range::groups((problem.batch + each - 1) / each, 1), p.target,
                     p.weight, problem, cl_int(p.reduction), grad_output, total_weight, grad_input, each);
        return;
    }
    queue.launch(built.kernel(rows ? "nll_backward_rows" : "nll_backward_planes"), range, p.target, p.weight, problem,
                 cl_int(p.reduction), grad_output, total_weight, grad_input);
}

}  // namespace clprim
