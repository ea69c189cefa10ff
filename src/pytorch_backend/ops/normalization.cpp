// Batch norm in its several spellings.
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/norm.hpp>
#include <torch/library.h>

#include <ops/normalization_parameters.hpp>
#include <ops/outputs.hpp>
#include <runtime/output.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

struct BatchNormArguments {
    at::Tensor weight, bias, running_mean, running_var;
    bool training;
    double momentum, eps;
};

void batch_norm_into(const at::Tensor& input, const BatchNormArguments& a, const at::Tensor& out,
                     const at::Tensor& save_mean, const at::Tensor& save_invstd)
{
    check_floating(input, "batch_norm");
    TORCH_CHECK(a.training || (a.running_mean.defined() && a.running_var.defined()),
                "running_mean and running_var must be defined in evaluation mode");
    check_parameters(input, {a.weight, a.bias, a.running_mean, a.running_var});
    const at::MemoryFormat format = input.suggest_memory_format();
    const at::Tensor x = input.contiguous(format);
    const Output y(out, format), mean(save_mean), invstd(save_invstd);
    const NormParameters parameter(input, {a.weight, a.bias, a.running_mean, a.running_var});
    const at::Tensor weight = parameter(a.weight), bias = parameter(a.bias);
    const at::Tensor running_mean = parameter(a.running_mean), running_var = parameter(a.running_var);
    clprim::BatchNorm problem;
    problem.x = view(x);
    problem.y = view(y.tensor());
    problem.weight = optional_view(weight);
    problem.bias = optional_view(bias);
    problem.running_mean = optional_view(running_mean);
    problem.running_var = optional_view(running_var);
    problem.save_mean = view(mean.tensor());
    problem.save_invstd = view(invstd.tensor());
    problem.training = a.training;
    problem.momentum = a.momentum;
    problem.eps = a.eps;
    clprim::batch_norm(current_queue(input), problem);
    y.finish();
    mean.finish();
    invstd.finish();
    for (const auto& [used, own] : {std::pair(running_mean, a.running_mean), std::pair(running_var, a.running_var)})
        if (a.training && own.defined() && !used.is_same(own))
            own.copy_(used);
}

Three batch_norm(const at::Tensor& input, const BatchNormArguments& arguments)
{
    const c10::OptionalDeviceGuard guard(input.device());
    const at::Tensor out = at::empty_like(input, input.options(), input.suggest_memory_format());
    // In evaluation, too, as PyTorch's shapes for compilation and CUDA have it; the CPU has none there.
    const at::Tensor save_mean = empty({input.size(1)}, statistics_type(input), input.device());
    const at::Tensor save_invstd = empty({input.size(1)}, statistics_type(input), input.device());
    batch_norm_into(input, arguments, out, save_mean, save_invstd);
    return {out, save_mean, save_invstd};
}

ThreeOut batch_norm_out(const at::Tensor& input, const BatchNormArguments& arguments, at::Tensor& out,
                        at::Tensor& save_mean, at::Tensor& save_invstd)
{
    const auto [y, mean, invstd] = batch_norm(input, arguments);
    return {assign_output(out, y), assign_output(save_mean, mean), assign_output(save_invstd, invstd)};
}

// ---- spellings ----

Three batch_norm_forward(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                         double momentum, double eps)
{
    return batch_norm(input, {defined_or_empty(weight), defined_or_empty(bias), defined_or_empty(running_mean),
                              defined_or_empty(running_var), training, momentum, eps});
}

ThreeOut forward_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                     const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                     double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
                     at::Tensor& save_invstd)
{
    return batch_norm_out(input,
                          {defined_or_empty(weight), defined_or_empty(bias), defined_or_empty(running_mean),
                           defined_or_empty(running_var), training, momentum, eps},
                          out, save_mean, save_invstd);
}

Three batch_norm_legit(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                       at::Tensor& running_mean, at::Tensor& running_var, bool training, double momentum, double eps)
{
    return batch_norm_forward(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

ThreeOut batch_norm_legit_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                              at::Tensor& running_mean, at::Tensor& running_var, bool training, double momentum,
                              double eps, at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd)
{
    return forward_out(input, weight, bias, running_mean, running_var, training, momentum, eps, out,
                       save_mean, save_invstd);
}

Three batch_norm_no_stats(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                          bool training, double momentum, double eps)
{
    return batch_norm_forward(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

ThreeOut batch_norm_no_stats_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 bool training, double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
                                 at::Tensor& save_invstd)
{
    return forward_out(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps, out,
                       save_mean, save_invstd);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_with_update(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps)
{
    const auto [y, mean, invstd] =
        batch_norm_forward(input, weight, bias, running_mean, running_var, true, momentum, eps);
    return {y, mean, invstd, torch_ocl::empty({0}, at::kByte, input.device())};
}

// The composite form calls the CPU's kernel by name.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_no_update(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
    const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum, double eps)
{
    const auto [y, mean, invstd] =
        batch_norm_forward(input, weight, bias, running_mean, running_var, false, momentum, eps);
    return {y, mean, invstd, torch_ocl::empty({0}, at::kByte, input.device())};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> batch_norm_with_update_out(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
    at::Tensor& save_invstd, at::Tensor& reserve)
{
    forward_out(input, weight, bias, running_mean, running_var, true, momentum, eps, out, save_mean,
                          save_invstd);
    return {out, save_mean, save_invstd, reserve};
}

// ---- backward ----

Three batch_norm_gradients(const at::Tensor& grad_output, const at::Tensor& input, const OptionalTensor& weight,
                           const OptionalTensor& running_mean, const OptionalTensor& running_var,
                           const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train,
                           double eps, std::array<bool, 3> output_mask)
{
    const c10::OptionalDeviceGuard guard(input.device());
    const at::MemoryFormat format = input.suggest_memory_format();
    const at::Tensor x = input.contiguous(format), dy = grad_output.to(input.scalar_type()).contiguous(format);
    const at::Tensor own_weight = defined_or_empty(weight);
    const at::Tensor own_mean = defined_or_empty(train ? save_mean : running_mean);
    const at::Tensor own_statistic = defined_or_empty(train ? save_invstd : running_var);
    TORCH_CHECK(own_mean.defined() && own_statistic.defined(), "native_batch_norm_backward: ",
                train ? "save_mean and save_invstd" : "running_mean and running_var", " must be defined");
    const NormParameters parameter =
        train ? NormParameters(x, {own_weight}) : NormParameters(x, {own_weight, own_mean, own_statistic});
    const at::Tensor w = parameter(own_weight);
    const at::Tensor mean = train ? own_mean.to(statistics_type(x)).contiguous() : parameter(own_mean);
    const at::Tensor statistic = train ? own_statistic.to(statistics_type(x)).contiguous() : parameter(own_statistic);

    at::Tensor grads[3];
    const at::ScalarType type = parameter.type.value_or(statistics_type(x));
    if (output_mask[0])
        grads[0] = at::empty_like(x, x.options(), format);
    for (int i : {1, 2})
        if (output_mask[i])
            grads[i] = empty({input.size(1)}, type, input.device());
    if (x.numel() == 0) {
        for (int i : {1, 2})
            if (output_mask[i])
                grads[i].zero_();
    } else {
        clprim::batch_norm_backward(current_queue(input),
                                    {view(dy), view(x), optional_view(w), view(mean), view(statistic),
                                     optional_view(grads[0]), optional_view(grads[1]), optional_view(grads[2]), train,
                                     eps});
    }
    for (int i : {1, 2})
        if (output_mask[i] && own_weight.defined())
            grads[i] = grads[i].to(own_weight.scalar_type());
    return {grads[0], grads[1], grads[2]};
}

Three batch_norm_backward(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
                          const OptionalTensor& running_mean, const OptionalTensor& running_var,
                          const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool update, double eps,
                          std::array<bool, 3> output_mask, const at::Tensor&)
{
    return batch_norm_gradients(grad_output, input, weight, running_mean, running_var, save_mean, save_invstd,
                    update, eps, output_mask);
}

// The weights and bias of a convolution that a batch norm in evaluation mode follows, for compiled graphs.
std::tuple<at::Tensor, at::Tensor> fold_batch_norm(const at::Tensor& weight, const OptionalTensor& bias,
                                                   const at::Tensor& gamma, const at::Tensor& beta,
                                                   const at::Tensor& mean, const at::Tensor& variance, double eps)
{
    const c10::OptionalDeviceGuard guard(weight.device());
    for (const at::Tensor* t : {&gamma, &beta, &mean, &variance})
        TORCH_CHECK(t->device() == weight.device(), "fold_batch_norm: tensors on ", weight.device(), " and ",
                    t->device());
    const at::Tensor scaled = at::empty_like(weight), shifted = at::empty_like(mean, at::MemoryFormat::Contiguous);
    clprim::fold_batch_norm(current_queue(weight), {
        .weight = view(weight), .bias = optional_view(defined_or_empty(bias)), .gamma = view(gamma),
        .beta = view(beta), .mean = view(mean), .variance = view(variance), .scaled = view(scaled),
        .shifted = view(shifted), .eps = eps});
    return {scaled, shifted};
}

TORCH_LIBRARY_FRAGMENT(torch_ocl, m)
{
    m.def("fold_batch_norm(Tensor weight, Tensor? bias, Tensor gamma, Tensor beta, Tensor mean, Tensor variance, "
          "float eps) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(torch_ocl, PrivateUse1, m)
{
    m.impl("fold_batch_norm", fold_batch_norm);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("native_batch_norm", batch_norm_forward);
    m.impl("native_batch_norm.out", forward_out);
    m.impl("_native_batch_norm_legit", batch_norm_legit);
    m.impl("_native_batch_norm_legit.out", batch_norm_legit_out);
    m.impl("_native_batch_norm_legit.no_stats", batch_norm_no_stats);
    m.impl("_native_batch_norm_legit.no_stats_out", batch_norm_no_stats_out);
    m.impl("_batch_norm_with_update", batch_norm_with_update);
    m.impl("_batch_norm_with_update.out", batch_norm_with_update_out);
    m.impl("_batch_norm_no_update", batch_norm_no_update);
    m.impl("native_batch_norm_backward", batch_norm_gradients);
    m.impl("batch_norm_backward", batch_norm_backward);
}

}  // namespace
}  // namespace torch_ocl
