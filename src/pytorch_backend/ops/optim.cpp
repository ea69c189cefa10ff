// Fused optimiser steps (fused=True) and the scaling of mixed-precision gradients.
#include <ATen/native/ForeachUtils.h>
#include <torch/library.h>

#include <ops/optim.hpp>

namespace torch_ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

// A learning rate comes as a number, or as a tensor that lies on the host or on the device.
struct LearningRate {
    double number = 0;
    at::Tensor tensor;
    LearningRate(double value) : number(value) {}
    LearningRate(const at::Tensor& value)
    {
        if (value.is_cpu())
            number = value.item<double>();
        else
            tensor = value.to(at::kFloat);
    }
};

clprim::StepOptions common(const LearningRate& lr, double weight_decay, bool maximize, const OptionalTensor& grad_scale,
                           const OptionalTensor& found_inf)
{
    clprim::StepOptions options;
    options.lr = lr.number;
    options.lr_tensor = view(OptionalTensor(lr.tensor));
    options.weight_decay = weight_decay;
    options.maximize = maximize;
    options.grad_scale = view(grad_scale);
    options.found_inf = view(found_inf);
    return options;
}

template <bool decoupled, class Rate>
void fused_adam(at::TensorList self, at::TensorList grads, at::TensorList averages, at::TensorList squares,
                at::TensorList max_squares, at::TensorList steps, Rate lr, double beta1, double beta2,
                double weight_decay, double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
                const OptionalTensor& found_inf)
{
    if (self.empty())
        return;
    const LearningRate rate(lr);
    clprim::Adam adam;
    adam.common = common(rate, weight_decay, maximize, grad_scale, found_inf);
    adam.common.eps = eps;
    adam.beta1 = beta1;
    adam.beta2 = beta2;
    adam.decoupled = decoupled;
    clprim::adam_step(current_queue(self[0]), adam,
                      {views(self), views(grads), views(averages), views(squares),
                       amsgrad ? views(max_squares) : clprim::TensorList{}, views(steps)});
}

template <class Rate>
void fused_sgd(at::TensorList self, at::TensorList grads, at::TensorList momenta, double weight_decay, double momentum,
               Rate lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
               const OptionalTensor& grad_scale, const OptionalTensor& found_inf)
{
    if (self.empty())
        return;
    const LearningRate rate(lr);
    clprim::Sgd sgd;
    sgd.common = common(rate, weight_decay, maximize, grad_scale, found_inf);
    sgd.momentum = momentum;
    sgd.dampening = dampening;
    sgd.nesterov = nesterov;
    sgd.first_step = is_first_step;
    clprim::sgd_step(current_queue(self[0]), sgd, views(self), views(grads),
                     momentum != 0 ? views(momenta) : clprim::TensorList{});
}

template <class Rate>
void fused_adagrad(at::TensorList self, at::TensorList grads, at::TensorList sums, at::TensorList steps, Rate lr,
                   double lr_decay, double weight_decay, double eps, bool maximize, const OptionalTensor& grad_scale,
                   const OptionalTensor& found_inf)
{
    if (self.empty())
        return;
    const LearningRate rate(lr);
    clprim::Adagrad adagrad;
    adagrad.common = common(rate, weight_decay, maximize, grad_scale, found_inf);
    adagrad.common.eps = eps;
    adagrad.lr_decay = lr_decay;
    clprim::adagrad_step(current_queue(self[0]), adagrad, {views(self), views(grads), views(sums), views(steps)});
}

// ---- mixed precision ----

void unscale_and_check(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inverse_scale)
{
    if (grads.empty())
        return;
    TORCH_CHECK(inverse_scale.numel() == 1, "inv_scale must be a 1-element tensor.");
    TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
    TORCH_CHECK(inverse_scale.scalar_type() == at::kFloat, "inv_scale must be a float tensor.");
    TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
    // Tensors of one dtype share a launch; one that is not dense is unscaled through a dense copy.
    std::array<clprim::TensorList, clprim::data_type_count> lists;
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;
    for (const at::Tensor& grad : grads) {
        TORCH_CHECK(grad.is_floating_point() && grad.layout() == at::kStrided,
                    "scaled_grads must be dense floating-point tensors");
        const at::Tensor dense = grad.is_non_overlapping_and_dense() ? grad : grad.contiguous();
        if (!dense.is_same(grad))
            copies.emplace_back(grad, dense);
        lists[static_cast<std::size_t>(data_type(grad.scalar_type()))].push_back(view(dense));
    }
    for (const clprim::TensorList& list : lists)
        clprim::unscale_and_check(current_queue(grads[0]), list, view(found_inf), view(inverse_scale));
    for (auto& [grad, dense] : copies)
        grad.copy_(dense);
}

at::Tensor& update_scale(at::Tensor& scale, at::Tensor& tracker, const at::Tensor& found_inf, double growth_factor,
                         double backoff_factor, int64_t growth_interval)
{
    TORCH_CHECK(tracker.numel() == 1, "growth_tracker must be a 1-element tensor.");
    TORCH_CHECK(scale.numel() == 1, "current_scale must be a 1-element tensor.");
    TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
    TORCH_CHECK(tracker.scalar_type() == at::kInt, "growth_tracker must be an int tensor.");
    TORCH_CHECK(scale.scalar_type() == at::kFloat, "current_scale must be a float tensor.");
    TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
    clprim::update_scale(current_queue(scale), {growth_factor, backoff_factor, growth_interval}, view(scale),
                         view(tracker), view(found_inf));
    return scale;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_fused_adam_", (fused_adam<false, double>));
    m.impl("_fused_adam_.tensor_lr", (fused_adam<false, const at::Tensor&>));
    m.impl("_fused_adamw_", (fused_adam<true, double>));
    m.impl("_fused_adamw_.tensor_lr", (fused_adam<true, const at::Tensor&>));
    m.impl("_fused_sgd_", fused_sgd<double>);
    m.impl("_fused_sgd_.tensor_lr", fused_sgd<const at::Tensor&>);
    m.impl("_fused_adagrad_", fused_adagrad<double>);
    m.impl("_fused_adagrad_.tensor_lr", fused_adagrad<const at::Tensor&>);
    m.impl("_amp_foreach_non_finite_check_and_unscale_", unscale_and_check);
    m.impl("_amp_update_scale_", update_scale);
}

}  // namespace torch_ocl
