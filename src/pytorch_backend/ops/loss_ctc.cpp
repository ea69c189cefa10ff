// Connectionist temporal classification loss.
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/ctc.hpp>
#include <torch/library.h>

#include <ops/outputs.hpp>
#include <runtime/errors.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

// One call's operands, kept alive together with clprim's view of them.
struct CtcOperands {
    Tensor log_probs, targets;
    clprim::CtcLoss problem;

    CtcOperands(const Tensor& log_probs_, const Tensor& targets_, at::IntArrayRef input_lengths,
             at::IntArrayRef target_lengths, int64_t blank)
        : log_probs(log_probs_.contiguous()), targets(targets_.to(at::kLong).contiguous())
    {
        TORCH_CHECK(log_probs.dim() == 3, "ctc_loss expected log_probs [T, N, C], got ", log_probs.sizes());
        TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
        TORCH_CHECK_NOT_IMPLEMENTED(log_probs.scalar_type() == at::kFloat || log_probs.scalar_type() == at::kDouble,
                                    "\"ctc_loss\" not implemented for '", c10::toString(log_probs.scalar_type()),
                                    "'");
        TORCH_CHECK(targets_.scalar_type() == at::kLong || targets_.scalar_type() == at::kInt,
                    "ctc_loss expected targets of dtype int64 or int32, got ", targets_.scalar_type());
        TORCH_CHECK(targets.dim() == 1 || targets.dim() == 2, "targets should be 1-D or 2-D, got ", targets.sizes());
        problem = {view(log_probs), view(targets), input_lengths, target_lengths, blank};
    }
};

Two ctc_loss(const Tensor& log_probs, const Tensor& targets, at::IntArrayRef input_lengths,
             at::IntArrayRef target_lengths, int64_t blank, bool)
{
    const c10::OptionalDeviceGuard guard(log_probs.device());
    const CtcOperands o(log_probs, targets, input_lengths, target_lengths, blank);
    const Tensor loss = torch_ocl::empty({log_probs.size(1)}, log_probs.scalar_type(), log_probs.device());
    const int64_t positions = 2 * std::max<int64_t>(o.problem.longest_target(), 0) + 1;
    const Tensor alpha = torch_ocl::empty({log_probs.size(1), log_probs.size(0), positions}, log_probs.scalar_type(),
                                          log_probs.device());
    translate_errors([&] { clprim::ctc_loss(current_queue(log_probs), o.problem, view(loss), view(alpha)); });
    return {loss, alpha};
}

Tensor ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                         at::IntArrayRef input_lengths, at::IntArrayRef target_lengths, const Tensor& loss,
                         const Tensor& log_alpha, int64_t blank, bool zero_infinity)
{
    const c10::OptionalDeviceGuard guard(log_probs.device());
    const CtcOperands o(log_probs, targets, input_lengths, target_lengths, blank);
    const Tensor dy = grad.contiguous(), nll = loss.contiguous(), alpha = log_alpha.contiguous();
    const Tensor dx = at::empty_like(o.log_probs);
    translate_errors([&] {
        clprim::ctc_loss_backward(current_queue(log_probs),
                                  {o.problem, view(nll), view(alpha), view(dy), view(dx), zero_infinity});
    });
    return dx;
}

// Lengths decide how much memory is needed: those that lie on the device are waited for.
Tensor on_host(const Tensor& lengths, const char* name)
{
    TORCH_CHECK(at::isIntegralType(lengths.scalar_type(), false), name, " must be integral");
    return lengths.to(at::Device(at::kCPU), at::kLong).contiguous();
}

at::IntArrayRef numbers(const Tensor& lengths)
{
    return {lengths.const_data_ptr<int64_t>(), static_cast<std::size_t>(lengths.numel())};
}

Two ctc_loss_tensor(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                    const Tensor& target_lengths, int64_t blank, bool zero_infinity)
{
    const Tensor steps = on_host(input_lengths, "input_lengths"), labels = on_host(target_lengths, "target_lengths");
    return ctc_loss(log_probs, targets, numbers(steps), numbers(labels), blank, zero_infinity);
}

Tensor ctc_loss_backward_tensor(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                                const Tensor& input_lengths, const Tensor& target_lengths, const Tensor& loss,
                                const Tensor& log_alpha, int64_t blank, bool zero_infinity)
{
    const Tensor steps = on_host(input_lengths, "input_lengths"), labels = on_host(target_lengths, "target_lengths");
    return ctc_loss_backward(grad, log_probs, targets, numbers(steps), numbers(labels), loss, log_alpha, blank,
                             zero_infinity);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_ctc_loss", ctc_loss);
    m.impl("_ctc_loss.Tensor", ctc_loss_tensor);
    m.impl("_ctc_loss_backward", ctc_loss_backward);
    m.impl("_ctc_loss_backward.Tensor", ctc_loss_backward_tensor);
}

}  // namespace
}  // namespace torch_ocl
