// Margin losses. The kernels give a loss per sample; PyTorch's own sum and mean reduce it.
#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/loss.hpp>
#include <torch/library.h>

#include <runtime/output.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// One call's operands as [batch, classes], kept alive together with clprim's view of them.
struct MarginOperands {
    at::Tensor x, target, weight;
    int64_t batch = 0, classes = 0;
    clprim::MarginLoss problem;

    void take(const at::Tensor& self, const at::Tensor& target_)
    {
        TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"margin_loss\" not implemented for '",
                                    c10::toString(self.scalar_type()), "'");
        TORCH_CHECK(target_.scalar_type() == at::kLong, "expected scalar type Long but found ",
                    c10::toString(target_.scalar_type()));
        x = self.contiguous().view({batch, classes});
        target = target_.contiguous();
        problem.x = view(x);
        problem.target = view(target);
    }
    double scale(int64_t reduction) const
    {
        return reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(batch) : 1.0;
    }
};

MarginOperands multi_class(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                           const at::Scalar& margin, const OptionalTensor& weight)
{
    MarginOperands o;
    at::native::multi_margin_loss_shape_check(o.batch, o.classes, self.dim(), self, target, weight);
    TORCH_CHECK(p.toLong() == 1 || p.toLong() == 2, "only p == 1 and p == 2 supported");
    o.take(self, target);
    if (weight && weight->defined()) {
        o.weight = weight->contiguous();
        TORCH_CHECK(o.weight.scalar_type() == o.x.scalar_type(), "expected scalar type ",
                    c10::toString(o.x.scalar_type()), " but found ", c10::toString(o.weight.scalar_type()));
        o.problem.weight = view(o.weight);
    }
    o.problem.power = static_cast<int>(p.toLong());
    o.problem.margin = margin.toDouble();
    return o;
}

MarginOperands multi_label(const at::Tensor& self, const at::Tensor& target)
{
    MarginOperands o;
    at::native::multilabel_margin_loss_shape_check(o.batch, o.classes, self.dim(), self, target);
    o.take(self, target);
    return o;
}

// `one`: where nothing is reduced, the loss is a number.
at::Tensor reduced(const at::Tensor& each, bool one, int64_t reduction)
{
    if (reduction == at::Reduction::Mean)
        return each.mean();
    if (reduction == at::Reduction::Sum)
        return each.sum();
    return one ? each.squeeze(0) : each;
}

at::Tensor& assign(at::Tensor& out, const at::Tensor& value)
{
    at::native::resize_output(out, value.sizes());
    return out.copy_(value);
}

// ---- one class per sample ----

at::Tensor multi_margin(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                             const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction)
{
    const c10::OptionalDeviceGuard guard(self.device());
    const MarginOperands o = multi_class(self, target, p, margin, weight);
    const at::Tensor each = torch_ocl::empty({o.batch}, self.scalar_type(), self.device());
    clprim::multi_margin_loss(current_queue(self), o.problem, view(each));
    return reduced(each, target.dim() == 0, reduction);
}

at::Tensor& multi_margin_loss_out(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                                  const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction,
                                  at::Tensor& out)
{
    return assign(out, multi_margin(self, target, p, margin, weight, reduction));
}

at::Tensor multi_margin_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                      const at::Scalar& p, const at::Scalar& margin, const OptionalTensor& weight,
                                      int64_t reduction)
{
    const c10::OptionalDeviceGuard guard(self.device());
    const MarginOperands o = multi_class(self, target, p, margin, weight);
    const at::Tensor dy = grad_output.contiguous(),
                     dx = torch_ocl::empty(self.sizes(), self.scalar_type(), self.device());
    clprim::multi_margin_loss_backward(current_queue(self), {o.problem, view(dy), view(dx), {}, o.scale(reduction)});
    return dx;
}

at::Tensor& multi_margin_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                                           const OptionalTensor& weight, int64_t reduction, at::Tensor& grad_input)
{
    return assign(grad_input, multi_margin_backward(grad_output, self, target, p, margin, weight, reduction));
}

// ---- several labels per sample ----

std::tuple<at::Tensor, at::Tensor> multilabel_margin_forward(const at::Tensor& self, const at::Tensor& target,
                                                                  int64_t reduction)
{
    const c10::OptionalDeviceGuard guard(self.device());
    const MarginOperands o = multi_label(self, target);
    const at::Tensor each = torch_ocl::empty({o.batch}, self.scalar_type(), self.device());
    const at::Tensor is_target = torch_ocl::empty(target.sizes(), self.scalar_type(), self.device());
    clprim::multilabel_margin_loss(current_queue(self), o.problem, view(each), view(is_target));
    return {reduced(each, target.dim() < 2, reduction), is_target};
}

std::tuple<at::Tensor&, at::Tensor&> multilabel_margin_loss_forward_out(const at::Tensor& self,
                                                                        const at::Tensor& target, int64_t reduction,
                                                                        at::Tensor& output, at::Tensor& is_target)
{
    const auto [loss, labels] = multilabel_margin_forward(self, target, reduction);
    assign(output, loss);
    assign(is_target, labels);
    return {output, is_target};
}

at::Tensor multilabel_margin_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, int64_t reduction, const at::Tensor& is_target)
{
    const c10::OptionalDeviceGuard guard(self.device());
    const MarginOperands o = multi_label(self, target);
    const at::Tensor dy = grad_output.contiguous(), labels = is_target.contiguous();
    const at::Tensor dx = torch_ocl::empty(self.sizes(), self.scalar_type(), self.device());
    clprim::multilabel_margin_loss_backward(current_queue(self),
                                            {o.problem, view(dy), view(dx), view(labels), o.scale(reduction)});
    return dx;
}

at::Tensor& multilabel_margin_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                                const at::Tensor& target, int64_t reduction,
                                                const at::Tensor& is_target, at::Tensor& grad_input)
{
    return assign(grad_input, multilabel_margin_backward(grad_output, self, target, reduction, is_target));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("multi_margin_loss", multi_margin);
    m.impl("multi_margin_loss.out", multi_margin_loss_out);
    m.impl("multi_margin_loss_backward", multi_margin_backward);
    m.impl("multi_margin_loss_backward.grad_input", multi_margin_loss_backward_out);
    m.impl("multilabel_margin_loss_forward", multilabel_margin_forward);
    m.impl("multilabel_margin_loss_forward.output", multilabel_margin_loss_forward_out);
    m.impl("multilabel_margin_loss_backward", multilabel_margin_backward);
    m.impl("multilabel_margin_loss_backward.grad_input", multilabel_margin_loss_backward_out);
}

}  // namespace
}  // namespace torch_ocl
