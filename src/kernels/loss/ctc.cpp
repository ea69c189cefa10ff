// Connectionist temporal classification.
#include <clprim/ctc.hpp>

#include <algorithm>
#include <vector>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// ctc_t of ctc.cl
struct Problem {
    cl_ulong batch, steps, classes, positions;
    cl_long blank;
};

Problem checked(const CtcLoss& p)
{
    const Tensor& x = p.log_probs;
    require(x.dim() == 3 && x.is_contiguous() && (x.dtype == DataType::float32 || x.dtype == DataType::float64),
            "ctc_loss: log_probs must be contiguous float32 or float64 [T, N, C], got ", name_of(x.dtype), " ",
            to_string(x.shape));
    require(p.targets.dtype == DataType::int64 && p.targets.is_contiguous() &&
                (p.targets.dim() == 1 || p.targets.dim() == 2),
            "ctc_loss: targets must be contiguous int64 [N, S] or [sum of target_lengths], got ",
            name_of(p.targets.dtype), " ", to_string(p.targets.shape));
    const auto batch = static_cast<std::size_t>(x.size(1));
    require(p.input_lengths.size() == batch && p.target_lengths.size() == batch, "ctc_loss: expected ", batch,
            " input_lengths and target_lengths, got ", p.input_lengths.size(), " and ", p.target_lengths.size());
    require(p.blank >= 0 && p.blank < x.size(2), "ctc_loss: blank must be in [0, ", x.size(2), "), got ", p.blank);
    std::int64_t total = 0;
    const bool rows = p.targets.dim() == 2;
    for (std::size_t n = 0; n < batch; ++n) {
        require(p.input_lengths[n] >= 0 && p.input_lengths[n] <= x.size(0), "ctc_loss: input_lengths[", n, "] is ",
                p.input_lengths[n], ", expected 0 to ", x.size(0));
        require(p.target_lengths[n] >= 0 && (!rows || p.target_lengths[n] <= p.targets.size(1)),
                "ctc_loss: target_lengths[", n, "] is ", p.target_lengths[n], ", targets have shape ",
                to_string(p.targets.shape));
        total += p.target_lengths[n];
    }
    require(rows ? p.targets.size(0) == x.size(1) : p.targets.size(0) == total, "ctc_loss: targets ",
            to_string(p.targets.shape), " do not fit ", batch, " samples of ", total, " labels together");
    return {batch, cl_ulong(x.size(0)), cl_ulong(x.size(2)), cl_ulong(2 * p.longest_target() + 1), p.blank};
}

// [N, 3] = steps, labels, where the labels begin.
Tensor upload_samples(Queue& queue, const CtcLoss& p)
{
    std::vector<std::int64_t> table;
    std::int64_t begin = 0;
    for (std::size_t n = 0; n < p.input_lengths.size(); ++n) {
        table.insert(table.end(), {p.input_lengths[n], p.target_lengths[n], begin});
        begin += p.targets.dim() == 2 ? p.targets.size(1) : p.target_lengths[n];
    }
    Tensor samples =
        queue.context().empty({static_cast<std::int64_t>(p.input_lengths.size()), 3}, DataType::int64, queue);
    queue.write(*samples.memory, 0, table.data(), table.size() * sizeof(std::int64_t));
    return samples;
}

Kernel& kernel(Queue& queue, const char* name, DataType dtype)
{
    return queue.context().program("kernels/loss/ctc.cl", detail::define("X", dtype)).kernel(name);
}

// One work-group for each sample.
Range groups_of(Queue& queue, const Problem& problem)
{
    std::size_t team = detail::team_for(queue.device()).size;
    while (team > 1 && team / 2 >= problem.positions)
        team /= 2;
    return Range::groups(problem.batch, team);
}

void check(const Tensor& t, const Dims& shape, DataType dtype, const char* what)
{
    require(t.shape == shape && t.dtype == dtype && t.is_contiguous(), "ctc_loss: ", what, " must be contiguous ",
            name_of(dtype), " ", to_string(shape), ", got ", name_of(t.dtype), " ", to_string(t.shape));
}

void check_results(const CtcLoss& p, const Problem& g, const Tensor& loss, const Tensor& alpha)
{
    check(loss, {p.log_probs.size(1)}, p.log_probs.dtype, "loss");
    check(alpha, {p.log_probs.size(1), p.log_probs.size(0), std::int64_t(g.positions)}, p.log_probs.dtype, "alpha");
}

}  // namespace

std::int64_t CtcLoss::longest_target() const
{
    return target_lengths.empty() ? 0 : *std::max_element(target_lengths.begin(), target_lengths.end());
}

void ctc_loss(Queue& queue, const CtcLoss& p, const Tensor& loss, const Tensor& alpha)
{
    detail::check_operands("ctc_loss",
                           {{"log_probs", p.log_probs}, {"targets", p.targets}, {"loss", loss}, {"alpha", alpha}});
    const Problem g = checked(p);
    check_results(p, g, loss, alpha);
    if (g.batch == 0)
        return;
    queue.launch(kernel(queue, "ctc_alpha", p.log_probs.dtype), groups_of(queue, g), p.log_probs, p.targets,
                 upload_samples(queue, p), loss, alpha, g, queue.error_buffer(), Queue::error_code("ctc_loss"));
    queue.expect_errors();
}

void ctc_loss_backward(Queue& queue, const CtcLossBackward& problem)
{
    const CtcLoss& p = problem.forward;
    detail::check_operands("ctc_loss_backward",
                           {{"log_probs", p.log_probs}, {"targets", p.targets}, {"loss", problem.loss},
                            {"alpha", problem.alpha}, {"grad_loss", problem.grad_loss},
                            {"grad_log_probs", problem.grad_log_probs}});
    const Problem g = checked(p);
    const Tensor& x = p.log_probs;
    check_results(p, g, problem.loss, problem.alpha);
    check(problem.grad_loss, {x.size(1)}, x.dtype, "grad_loss");
    check(problem.grad_log_probs, x.shape, x.dtype, "grad_log_probs");
    if (x.numel() == 0)
        return;
    const Tensor samples = upload_samples(queue, p), beta = queue.context().empty(problem.alpha.shape, x.dtype, queue);
    const Tensor links = queue.context().empty({x.size(1), std::int64_t(g.positions), 2}, DataType::int32, queue);
    queue.launch(kernel(queue, "ctc_beta", x.dtype), groups_of(queue, g), x, p.targets, samples, beta, g);
    const std::size_t across = std::min<std::size_t>(64, queue.device().max_work_group_size);
    const std::size_t columns = detail::divide_up(g.positions, across);
    queue.launch(kernel(queue, "ctc_links", x.dtype), Range{{columns * across, g.batch, 1}, {across, 1, 1}, 2},
                 p.targets, samples, links, g);
    queue.launch(kernel(queue, "ctc_gradient", x.dtype), Range::linear(x.numel(), 64), x, samples, problem.loss,
                 problem.grad_loss, problem.grad_log_probs, g, cl_int(problem.zero_infinity), cl_ulong(x.numel()));
    queue.launch(kernel(queue, "ctc_gradient_labels", x.dtype),
                 Range{{columns * across, g.steps, g.batch}, {across, 1, 1}, 3}, x, p.targets, samples, links,
                 problem.alpha, beta, problem.loss, problem.grad_loss, problem.grad_log_probs, g);
}

}  // namespace clprim
