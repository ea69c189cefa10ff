// The cells that PyTorch's LSTM and GRU call on accelerators, which have no CPU kernel to fall back to.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/recurrent.hpp>
#include <torch/library.h>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor matrix(const Tensor& like, int64_t columns) { return at::empty({like.size(0), columns}, like.options()); }

clprim::Gates gates_of(const Tensor& input, const Tensor& hidden, const OptionalTensor& input_bias,
                       const OptionalTensor& hidden_bias)
{
    return {view(input), view(hidden), view(input_bias), view(hidden_bias)};
}

// Gates in the order i, f, g, o; the activated gates are the workspace for backward.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias)
{
    const c10::OptionalDeviceGuard guard(cx.device());
    const int64_t size = cx.size(1);
    const Tensor hy = matrix(cx, size), cy = matrix(cx, size), workspace = matrix(cx, 4 * size);
    clprim::lstm_cell(current_queue(cx), gates_of(input_gates, hidden_gates, input_bias, hidden_bias),
                      {view(cx), view(hy), view(cy), view(workspace)});
    return {hy, cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias)
{
    if (!(grad_hy && grad_hy->defined()) && !(grad_cy && grad_cy->defined()))
        return {};
    const c10::OptionalDeviceGuard guard(cx.device());
    const Tensor grad_gates = matrix(cx, 4 * cx.size(1)), grad_cx = matrix(cx, cx.size(1));
    clprim::lstm_cell_backward(current_queue(cx), {view(cx), {}, view(cy), view(workspace)},
                               {view(grad_hy), view(grad_cy), view(grad_gates), view(grad_cx)});
    return {grad_gates, grad_cx, has_bias ? grad_gates.sum(at::IntArrayRef{0}) : Tensor()};
}

// Gates in the order r, z, n. The workspace for backward is r, z, n, hx and the hidden part of n.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias)
{
    const c10::OptionalDeviceGuard guard(hx.device());
    const int64_t size = hx.size(1);
    const Tensor hy = matrix(hx, size), workspace = matrix(hx, 5 * size);
    clprim::gru_cell(current_queue(hx), gates_of(input_gates, hidden_gates, input_bias, hidden_bias),
                     {view(hx), view(hy), view(workspace)});
    return {hy, workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias)
{
    const c10::OptionalDeviceGuard guard(grad_hy.device());
    const int64_t size = grad_hy.size(1);
    const Tensor input = matrix(grad_hy, 3 * size), hidden = matrix(grad_hy, 3 * size), hx = matrix(grad_hy, size);
    clprim::gru_cell_backward(current_queue(grad_hy), view(workspace),
                              {view(grad_hy), view(input), view(hidden), view(hx)});
    if (!has_bias)
        return {input, hidden, hx, Tensor(), Tensor()};
    return {input, hidden, hx, input.sum(at::IntArrayRef{0}), hidden.sum(at::IntArrayRef{0})};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_thnn_fused_lstm_cell", lstm_cell);
    m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
    m.impl("_thnn_fused_gru_cell", gru_cell);
    m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace
}  // namespace torch_ocl
