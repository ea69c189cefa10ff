// The cells that PyTorch's LSTM and GRU call on accelerators. They have no CPU kernel to fall back to; here they are
// put together from other operators of the device.
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias)
{
    return bias && bias->defined() ? gates + *bias : gates;
}

// Gates in the order i, f, g, o; the activated gates are the workspace for backward.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias)
{
    const Tensor gates = with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
    const auto parts = gates.unsafe_chunk(4, 1);
    const Tensor i = at::sigmoid(parts[0]), f = at::sigmoid(parts[1]), g = at::tanh(parts[2]),
                 o = at::sigmoid(parts[3]);
    const Tensor cy = f * cx + i * g;
    return {o * at::tanh(cy), cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias)
{
    const bool from_hy = grad_hy && grad_hy->defined(), from_cy = grad_cy && grad_cy->defined();
    if (!from_hy && !from_cy)
        return {};
    const auto gates = workspace.unsafe_chunk(4, 1);
    const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
    const Tensor tanh_cy = at::tanh(cy);
    Tensor grad_c = from_hy ? *grad_hy * o * (1 - tanh_cy * tanh_cy) : *grad_cy;
    if (from_hy && from_cy)
        grad_c = grad_c + *grad_cy;
    const Tensor grad_i = grad_c * g * (1 - i) * i, grad_f = grad_c * cx * (1 - f) * f,
                 grad_g = grad_c * i * (1 - g * g);
    const Tensor grad_o = from_hy ? *grad_hy * tanh_cy * (1 - o) * o : o * 0;
    const Tensor grad_gates = at::cat({grad_i, grad_f, grad_g, grad_o}, 1);
    return {grad_gates, grad_c * f, has_bias ? grad_gates.sum(at::IntArrayRef{0}) : Tensor()};
}

// Gates in the order r, z, n. The workspace for backward is r, z, n, hx and the hidden part of n.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias)
{
    const auto input = with_bias(input_gates, input_bias).unsafe_chunk(3, 1);
    const auto hidden = with_bias(hidden_gates, hidden_bias).unsafe_chunk(3, 1);
    const Tensor r = at::sigmoid(input[0] + hidden[0]), z = at::sigmoid(input[1] + hidden[1]);
    const Tensor n = at::tanh(input[2] + r * hidden[2]);
    return {n + z * (hx - n), at::cat({r, z, n, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias)
{
    const auto saved = workspace.unsafe_chunk(5, 1);
    const Tensor &r = saved[0], &z = saved[1], &n = saved[2], &hx = saved[3], &hidden_n = saved[4];
    const Tensor grad_z = grad_hy * (hx - n) * (1 - z) * z;
    const Tensor grad_n = grad_hy * (1 - z) * (1 - n * n);
    const Tensor grad_r = grad_n * hidden_n * (1 - r) * r;
    const Tensor grad_input = at::cat({grad_r, grad_z, grad_n}, 1);
    const Tensor grad_hidden = at::cat({grad_r, grad_z, grad_n * r}, 1);
    if (!has_bias)
        return {grad_input, grad_hidden, grad_hy * z, Tensor(), Tensor()};
    return {grad_input, grad_hidden, grad_hy * z, grad_input.sum(at::IntArrayRef{0}),
            grad_hidden.sum(at::IntArrayRef{0})};
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
