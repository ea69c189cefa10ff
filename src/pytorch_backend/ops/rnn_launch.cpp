#include <ops/rnn_launch.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/recurrent.hpp>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

Tensor contiguous(const Tensor& t) { return t.defined() ? t.contiguous() : t; }

// What both ways read or write; all of it is contiguous.
clprim::RecurrentSteps kernel_steps(const Steps& steps, const State& state, const Launched& launched)
{
    clprim::RecurrentSteps p;
    p.cell = steps.cell;
    p.reversed = steps.reversed;
    p.h = view(state.h);
    p.c = view(std::optional(state.c));
    p.y = view(launched.y);
    p.cells = view(std::optional(launched.cells));
    p.saved = view(std::optional(launched.saved));
    return p;
}

}  // namespace

bool takes_steps_kernel(const Steps& steps, const State& state, bool backward)
{
    if (steps.plain || steps.projection.defined())
        return false;
    for (const Tensor* t : {&steps.gates, &steps.hidden, &steps.hidden_bias, &state.h, &state.c})
        if (t->defined() && t->scalar_type() != at::kFloat)
            return false;
    return clprim::takes_recurrent_steps(current_queue(steps.gates).device(), steps.cell,
                                         {steps.gates.size(0), state.h.size(0), state.h.size(1)},
                                         clprim::DataType::float32, backward);
}

Launched launch_steps(const Steps& steps, const State& given, bool saves)
{
    const c10::OptionalDeviceGuard guard(steps.gates.device());
    const State state{contiguous(given.h), contiguous(given.c)};
    const Tensor gates = steps.gates.contiguous(), weights = steps.hidden.contiguous();
    const Tensor bias = contiguous(steps.hidden_bias);
    const int64_t count = gates.size(0), batch = gates.size(1), hidden = state.h.size(1);
    const bool is_lstm = steps.cell == Cell::lstm;
    Launched launched;
    launched.y = at::empty({count, batch, hidden}, gates.options());
    launched.last.h = at::empty({batch, hidden}, gates.options());
    if (is_lstm)
        launched.last.c = at::empty({batch, hidden}, gates.options());
    if (is_lstm && saves)
        launched.cells = at::empty({count, batch, hidden}, gates.options());
    if (saves && (is_lstm || steps.cell == Cell::gru))
        launched.saved = at::empty({count, batch, 4 * hidden}, gates.options());
    clprim::RecurrentSteps p = kernel_steps(steps, state, launched);
    p.gates = view(gates);
    p.hidden_bias = view(std::optional(bias));
    p.last_h = view(launched.last.h);
    p.last_c = view(std::optional(launched.last.c));
    clprim::recurrent_steps(current_queue(gates), p, view(weights));
    return launched;
}

LaunchedBack launch_back(const Steps& steps, const State& given, const Launched& launched, const Tensor& grad_y,
                         const State& grad_last)
{
    const c10::OptionalDeviceGuard guard(launched.y.device());
    const State first{contiguous(given.h), contiguous(given.c)};
    const Tensor weights = steps.hidden.contiguous(), dy = contiguous(grad_y);
    const int64_t count = launched.y.size(0), batch = launched.y.size(1), hidden = launched.y.size(2);
    const auto options = launched.y.options();
    const auto carried = [&](const Tensor& last) {
        const Tensor both = at::zeros({2, batch, hidden}, options);
        if (last.defined())
            both[0].copy_(last);
        return both;
    };
    const Tensor h = carried(grad_last.h), c = steps.cell == Cell::lstm ? carried(grad_last.c) : Tensor();
    LaunchedBack back;
    back.gates = at::empty({count, batch, weights.size(0)}, options);
    back.hidden = steps.cell == Cell::gru ? at::empty_like(back.gates) : back.gates;
    clprim::recurrent_steps_backward(
        current_queue(weights), kernel_steps(steps, first, launched), view(weights),
        {view(std::optional(dy)), view(h), view(std::optional(c)), view(back.gates),
         steps.cell == Cell::gru ? view(back.hidden) : clprim::Tensor()});
    back.before.h = h[count % 2];
    if (c.defined())
        back.before.c = c[count % 2];
    return back;
}

}  // namespace torch_ocl
