// Negative log likelihood; cross_entropy is composed of log_softmax and this.
#include <ATen/core/Reduction.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/loss.hpp>
#include <torch/library.h>

#include <runtime/output.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// The contiguous operands of one call, kept alive together with clprim's view of them.
struct Operands {
    at::Tensor x, target, weight;
    clprim::NllLoss problem;

    Operands(const at::Tensor& self, const at::Tensor& target_, const OptionalTensor& weight_, int64_t reduction,
             int64_t ignore_index)
        : x(self.dim() == 1 ? self.contiguous().unsqueeze(0) : self.contiguous()), target(target_.contiguous())
    {
        TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(x.scalar_type()), "\"nll_loss\" not implemented for '",
                                    c10::toString(x.scalar_type()), "'");
        TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
                    "expected scalar type Long but found ", c10::toString(target.scalar_type()));
        if (weight_ && weight_->defined()) {
            weight = weight_->contiguous();
            TORCH_CHECK(weight.scalar_type() == x.scalar_type(), "expected scalar type ",
                        c10::toString(x.scalar_type()), " but found ", c10::toString(weight.scalar_type()));
        }
        problem = {view(x), view(target), weight.defined() ? view(weight) : clprim::Tensor(), ignore_index,
                   static_cast<clprim::Reduction>(reduction)};
    }
};

void forward(const Operands& operands, const at::Tensor& output, const at::Tensor& total_weight)
{
    const Output loss(output);
    clprim::nll_loss(current_queue(operands.x), operands.problem, view(loss.tensor()), view(total_weight));
    loss.finish();
    if (operands.problem.reduction == clprim::Reduction::none)
        total_weight.zero_();
}

void backward(const Operands& operands, const at::Tensor& grad_output, const at::Tensor& total_weight,
              const at::Tensor& grad_input)
{
    const Output result(grad_input);
    const at::Tensor dy = grad_output.contiguous();
    clprim::Tensor written = view(result.tensor());
    written.shape = operands.problem.x.shape;   // a sample without batch gets one
    written.strides = operands.problem.x.strides;
    clprim::nll_loss_backward(current_queue(operands.x), operands.problem, view(dy), view(total_weight), written);
    result.finish();
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                          const OptionalTensor& weight, int64_t reduction,
                                                          int64_t ignore_index, at::Tensor& output,
                                                          at::Tensor& total_weight)
{
    StructuredOut<at::meta::structured_nll_loss_forward> op({output, total_weight});
    op.meta(self, target, weight.has_value() ? at::OptionalTensorRef(*weight) : at::OptionalTensorRef(), reduction,
            ignore_index);
    const bool single = self.dim() == 1 && reduction == at::Reduction::None;
    forward(Operands(self, target, weight, single ? int64_t(at::Reduction::Sum) : reduction, ignore_index),
            op.output(0), op.output(1));
    op.finish();
    return {output, total_weight};
}

at::Tensor& nll_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                  const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                  const at::Tensor& total_weight, at::Tensor& grad_input)
{
    StructuredOut<at::meta::structured_nll_loss_backward> op({grad_input});
    op.meta(grad_output, self, target, weight.has_value() ? at::OptionalTensorRef(*weight) : at::OptionalTensorRef(),
            reduction, ignore_index, total_weight);
    backward(Operands(self, target, weight, reduction, ignore_index), grad_output, total_weight, op.output());
    op.finish();
    return grad_input;
}

void check_spatial(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight)
{
    TORCH_CHECK(target.dim() == 3, "only batches of spatial targets supported (3D tensors) but got targets of "
                "dimension: ", target.dim());
    TORCH_CHECK(self.dim() == 4, "only batches of spatial inputs supported (4D tensors), but got input of dimension: ",
                self.dim());
    TORCH_CHECK(!weight || !weight->defined() || weight->numel() == self.size(1),
                "weight tensor should be defined either for all or no classes");
    TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
                "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss2d_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                            const OptionalTensor& weight, int64_t reduction,
                                                            int64_t ignore_index, at::Tensor& output,
                                                            at::Tensor& total_weight)
{
    check_spatial(self, target, weight);
    const c10::OptionalDeviceGuard guard(self.device());
    at::native::resize_output(output, reduction == at::Reduction::None ? target.sizes() : at::IntArrayRef());
    at::native::resize_output(total_weight, {});
    forward(Operands(self, target, weight, reduction, ignore_index), output, total_weight);
    return {output, total_weight};
}

std::tuple<at::Tensor, at::Tensor> nll_loss2d_forward(const at::Tensor& self, const at::Tensor& target,
                                                      const OptionalTensor& weight, int64_t reduction,
                                                      int64_t ignore_index)
{
    at::Tensor output = empty({0}, self.scalar_type(), self.device());
    at::Tensor total_weight = empty({0}, self.scalar_type(), self.device());
    nll_loss2d_forward_out(self, target, weight, reduction, ignore_index, output, total_weight);
    return {output, total_weight};
}

at::Tensor& nll_loss2d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                    const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                    const at::Tensor& total_weight, at::Tensor& grad_input)
{
    check_spatial(self, target, weight);
    TORCH_CHECK(total_weight.numel() == 1, "expected total_weight to be a single element tensor, got: ",
                total_weight.sizes(), " (", total_weight.numel(), " elements)");
    const c10::OptionalDeviceGuard guard(self.device());
    at::native::resize_output(grad_input, self.sizes());
    backward(Operands(self, target, weight, reduction, ignore_index), grad_output, total_weight, grad_input);
    return grad_input;
}

at::Tensor nll_loss2d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                               const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                               const at::Tensor& total_weight)
{
    at::Tensor grad_input = empty(self.sizes(), self.scalar_type(), self.device());
    return nll_loss2d_backward_out(grad_output, self, target, weight, reduction, ignore_index, total_weight,
                                   grad_input);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("nll_loss_forward.output", nll_loss_forward_out);
    m.impl("nll_loss_backward.grad_input", nll_loss_backward_out);
    m.impl("nll_loss2d_forward.output", nll_loss2d_forward_out);
    m.impl("nll_loss2d_forward", nll_loss2d_forward);
    m.impl("nll_loss2d_backward.grad_input", nll_loss2d_backward_out);
    m.impl("nll_loss2d_backward", nll_loss2d_backward);
}

}  // namespace
}  // namespace torch_ocl
