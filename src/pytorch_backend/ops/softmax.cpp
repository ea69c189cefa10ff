// Softmax and log-softmax.
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>
#include <clprim/softmax.hpp>
#include <torch/library.h>

#include <runtime/output.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

template <class Meta, bool log>
at::Tensor& softmax_out(const at::Tensor& self, int64_t dim, bool half_to_float, at::Tensor& out)
{
    StructuredOut<Meta> op({out});
    op.meta(self, dim, half_to_float);
    if (self.numel() == 0) {
        op.finish();
        return out;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), '"', log ? "log_softmax" : "softmax",
                                "\" not implemented for '", c10::toString(self.scalar_type()), "'");
    const Output y(op.output());
    clprim::softmax(current_queue(self), view(self.contiguous()), view(y.tensor()), static_cast<int>(dim), log);
    y.finish();
    op.finish();
    return out;
}

template <class Meta, bool log>
at::Tensor& softmax_backward_out(const at::Tensor& grad_output, const at::Tensor& output, int64_t dim,
                                 at::ScalarType input_dtype, at::Tensor& grad_input)
{
    StructuredOut<Meta> op({grad_input});
    op.meta(grad_output, output, dim, input_dtype);
    const Output result(op.output());
    const at::Tensor dy = grad_output.contiguous(), y = output.contiguous();
    clprim::softmax_backward(current_queue(output),
                             {view(dy), view(y), view(result.tensor()), static_cast<int>(dim), log});
    result.finish();
    op.finish();
    return grad_input;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_softmax.out", softmax_out<at::meta::structured__softmax, false>);
    m.impl("_log_softmax.out", softmax_out<at::meta::structured__log_softmax, true>);
    m.impl("_softmax_backward_data.out", softmax_backward_out<at::meta::structured__softmax_backward_data, false>);
    m.impl("_log_softmax_backward_data.out",
           softmax_backward_out<at::meta::structured__log_softmax_backward_data, true>);
}

}  // namespace
}  // namespace torch_ocl
