// Losses that compare elements, and their gradients.
#include <ops/pointwise.hpp>
#include <ops/reduce.hpp>

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mse_loss_meta.h>
#include <ATen/ops/smooth_l1_loss_meta.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Tensor;

// The three rows of a loss.
struct Loss {
    const clprim::PointwiseRow& elements;
    const clprim::ReduceRow& sum;
    const clprim::ReduceRow& mean;
};
#define CLPRIM_LOSS(name) Loss{CLPRIM_ROW(name), CLPRIM_REDUCE_ROW(name "_sum"), CLPRIM_REDUCE_ROW(name "_mean")}

// The loss over all elements in one pass.
void reduce_loss(const Loss& loss, int64_t reduction, const Tensor& self, const Tensor& target,
                 std::initializer_list<clprim::Scalar> scalars, const Tensor& out)
{
    const Tensor full = self.expand(at::infer_size_dimvector(self.sizes(), target.sizes()));
    launch({reduction == at::Reduction::Mean ? loss.mean : loss.sum, DimMask().set(), at::result_type(self, target),
            scalars},
           {full, target}, {out});
}

// 1, or 1 / n for a mean.
double gradient_scale(int64_t reduction, const Tensor& self)
{
    return reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(self.numel()) : 1.0;
}

// A structured loss. Its meta function makes an output of all elements even where they are reduced: not called there.
template <class Meta, class... Arguments>
Tensor& structured_loss(const Loss& loss, Tensor& out, const Tensor& self, const Tensor& target, int64_t reduction,
                        std::initializer_list<clprim::Scalar> scalars, const Arguments&... arguments)
{
    if (reduction == at::Reduction::None)
        return structured_pointwise<Meta>(out, loss.elements, scalars, self, target, reduction, arguments...);
    at::native::resize_output(out, {});
    reduce_loss(loss, reduction, self, target, scalars, out);
    return out;
}

Tensor& mse_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out)
{
    const at::ScalarType type = at::result_type(self, target);
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(type), "\"mse_loss\" not implemented for '", type, "'");
    return structured_loss<at::meta::structured_mse_loss>(CLPRIM_LOSS("mse_loss"), out, self, target, reduction, {});
}
Tensor& smooth_l1_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, double beta, Tensor& out)
{
    return structured_loss<at::meta::structured_smooth_l1_loss>(CLPRIM_LOSS("smooth_l1_loss"), out, self, target,
                                                                reduction, {beta}, beta);
}

Tensor& huber_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, double delta, Tensor& out)
{
    TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
    if (reduction == at::Reduction::None) {
        auto iter = at::TensorIterator::borrowing_binary_op(out, self, target);
        launch(iter, CLPRIM_ROW("huber_loss"), {delta});
    } else {
        at::native::resize_output(out, {});
        reduce_loss(CLPRIM_LOSS("huber_loss"), reduction, self, target, {delta}, out);
    }
    return out;
}
Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta)
{
    Tensor out = at::empty({0}, self.options());
    return huber_loss_out(self, target, reduction, delta, out);
}

// Gradients: operands broadcast to each other.
Tensor& loss_gradient(const clprim::PointwiseRow& row, Tensors inputs, std::initializer_list<clprim::Scalar> scalars,
                      Tensor& out)
{
    at::TensorIteratorConfig config;
    config.add_output(out);
    for (const Tensor& input : inputs)
        config.add_const_input(input);
    auto iter = config.build();
    launch(iter, row, scalars);
    return out;
}

Tensor& mse_loss_backward_out(const Tensor& dy, const Tensor& self, const Tensor& target, int64_t reduction,
                              Tensor& out)
{
    return loss_gradient(CLPRIM_ROW("mse_loss_backward"), {dy, self, target}, {2 * gradient_scale(reduction, self)},
                         out);
}
Tensor mse_loss_backward(const Tensor& dy, const Tensor& self, const Tensor& target, int64_t reduction)
{
    Tensor out = at::empty({0}, self.options());
    return mse_loss_backward_out(dy, self, target, reduction, out);
}
Tensor& smooth_l1_loss_backward_out(const Tensor& dy, const Tensor& self, const Tensor& target, int64_t reduction,
                                    double beta, Tensor& out)
{
    return loss_gradient(CLPRIM_ROW("smooth_l1_loss_backward"), {dy, self, target},
                         {gradient_scale(reduction, self), beta}, out);
}
Tensor& huber_loss_backward_out(const Tensor& dy, const Tensor& self, const Tensor& target, int64_t reduction,
                                double delta, Tensor& out)
{
    return loss_gradient(CLPRIM_ROW("huber_loss_backward"), {dy, self, target},
                         {gradient_scale(reduction, self), delta}, out);
}

void reduce_weighted_cross_entropy(int64_t reduction, const Tensor& self, const Tensor& target, const Tensor& weight,
                                   const Tensor& out)
{
    const clprim::ReduceRow& row = reduction == at::Reduction::Mean
                                       ? CLPRIM_REDUCE_ROW("binary_cross_entropy_weight_mean")
                                       : CLPRIM_REDUCE_ROW("binary_cross_entropy_weight_sum");
    const Tensor full = weight.expand(self.sizes());
    launch({row, DimMask().set(), at::result_type(self, target), {}}, {self, target, full}, {out});
}

bool weighted(const std::optional<Tensor>& weight) { return weight && weight->defined(); }

Tensor& binary_cross_entropy_out(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight,
                                 int64_t reduction, Tensor& out)
{
    TORCH_CHECK(self.sizes() == target.sizes(), "Using a target size (", target.sizes(),
                ") that is different to the input size (", self.sizes(),
                ") is deprecated. Please ensure they have the same size.");
    TORCH_CHECK(self.scalar_type() == target.scalar_type(), "Found dtype ", target.scalar_type(), " but expected ",
                self.scalar_type());
    if (reduction != at::Reduction::None) {
        at::native::resize_output(out, {});
        if (weighted(weight))
            reduce_weighted_cross_entropy(reduction, self, target, *weight, out);
        else
            reduce_loss(CLPRIM_LOSS("binary_cross_entropy"), reduction, self, target, {}, out);
        return out;
    }
    if (weighted(weight))
        return loss_gradient(CLPRIM_ROW("binary_cross_entropy_weight"), {self, target, *weight}, {}, out);
    return loss_gradient(CLPRIM_ROW("binary_cross_entropy"), {self, target}, {}, out);
}
Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight,
                            int64_t reduction)
{
    Tensor out = at::empty({0}, self.options());
    return binary_cross_entropy_out(self, target, weight, reduction, out);
}
Tensor& binary_cross_entropy_backward_out(const Tensor& dy, const Tensor& self, const Tensor& target,
                                          const std::optional<Tensor>& weight, int64_t reduction, Tensor& out)
{
    const double scale = gradient_scale(reduction, self);
    if (weighted(weight))
        return loss_gradient(CLPRIM_ROW("binary_cross_entropy_weight_backward"), {dy, self, target, *weight}, {scale},
                             out);
    return loss_gradient(CLPRIM_ROW("binary_cross_entropy_backward"), {dy, self, target}, {scale}, out);
}
Tensor binary_cross_entropy_backward(const Tensor& dy, const Tensor& self, const Tensor& target,
                                     const std::optional<Tensor>& weight, int64_t reduction)
{
    Tensor out = at::empty({0}, self.options());
    return binary_cross_entropy_backward_out(dy, self, target, weight, reduction, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("mse_loss.out", &mse_loss_out);
    m.impl("mse_loss_backward", &mse_loss_backward);
    m.impl("mse_loss_backward.grad_input", &mse_loss_backward_out);
    m.impl("smooth_l1_loss.out", &smooth_l1_loss_out);
    m.impl("smooth_l1_loss_backward.grad_input", &smooth_l1_loss_backward_out);
    m.impl("huber_loss", &huber_loss);
    m.impl("huber_loss.out", &huber_loss_out);
    m.impl("huber_loss_backward.out", &huber_loss_backward_out);
    m.impl("binary_cross_entropy", &binary_cross_entropy);
    m.impl("binary_cross_entropy.out", &binary_cross_entropy_out);
    m.impl("binary_cross_entropy_backward", &binary_cross_entropy_backward);
    m.impl("binary_cross_entropy_backward.grad_input", &binary_cross_entropy_backward_out);
}

}  // namespace torch_ocl
