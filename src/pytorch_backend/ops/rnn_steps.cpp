#include <ops/rnn_steps.hpp>

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_thnn_fused_gru_cell.h>
#include <ATen/ops/_thnn_fused_gru_cell_backward.h>
#include <ATen/ops/_thnn_fused_lstm_cell.h>
#include <ATen/ops/_thnn_fused_lstm_cell_backward_impl.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <ops/rnn_launch.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Stepped {
    State state;
    Tensor workspace;   // of the gradient
};

// By operators that have every kind of derivative.
State plain_step(const Steps& s, const Tensor& gates, const State& state, const Tensor& product)
{
    if (s.cell == Cell::lstm) {
        const std::vector<Tensor> g = (gates + product).chunk(4, 1);   // i, f, g, o
        const Tensor c = at::sigmoid(g[1]) * state.c + at::sigmoid(g[0]) * at::tanh(g[2]);
        return {at::sigmoid(g[3]) * at::tanh(c), c};
    }
    const std::vector<Tensor> i = gates.chunk(3, 1), h = product.chunk(3, 1);   // r, z, n
    const Tensor fresh = at::tanh(i[2] + at::sigmoid(i[0] + h[0]) * h[2]);
    return {fresh + at::sigmoid(i[1] + h[1]) * (state.h - fresh), {}};
}

Stepped step(const Steps& s, const Tensor& gates, const State& state, const Tensor& hidden)
{
    switch (s.cell) {
    case Cell::lstm: {
        const Tensor product = at::mm(state.h, hidden);
        Stepped next;
        if (s.plain)
            next.state = plain_step(s, gates, state, product);
        else
            std::tie(next.state.h, next.state.c, next.workspace) =
                at::_thnn_fused_lstm_cell(gates, product, state.c);
        if (s.projection.defined())
            next.state.h = at::mm(next.state.h, s.projection.t());
        return next;
    }
    case Cell::gru: {
        const Tensor product =
            s.hidden_bias.defined() ? at::addmm(s.hidden_bias, state.h, hidden) : at::mm(state.h, hidden);
        if (s.plain)
            return {plain_step(s, gates, state, product), {}};
        auto [h, workspace] = at::_thnn_fused_gru_cell(gates, product, state.h);
        return {{h, {}}, workspace};
    }
    case Cell::tanh:
        return {{at::tanh(at::addmm(gates, state.h, hidden)), {}}, {}};
    case Cell::relu:
        break;
    }
    return {{at::relu(at::addmm(gates, state.h, hidden)), {}}, {}};
}

Tensor walk(const Steps& s, State& state, variable_list* cells, variable_list* workspaces)
{
    const std::vector<Tensor> gates = s.gates.unbind(0);
    // Products of few rows read rows of weights faster than columns: worth a copy for more than a few steps.
    const Tensor hidden = gates.size() > 8 ? s.hidden.t().contiguous() : s.hidden.t();
    std::vector<Tensor> states(gates.size());
    for (size_t i = 0; i < gates.size(); ++i) {
        const size_t t = s.reversed ? gates.size() - 1 - i : i;
        Stepped next = step(s, gates[t], state, hidden);
        state = std::move(next.state);
        states[t] = state.h;
        if (cells) {
            cells->push_back(state.c);
            workspaces->push_back(std::move(next.workspace));
        }
    }
    return at::stack(states, 0);
}

// What a step hands back: to its gates, to its hidden product, and to the state before it beside that product.
struct StepGradient {
    Tensor gates, hidden, h, c;
};

StepGradient step_backward(Cell cell, const State& grad, const State& before, const State& after,
                           const Tensor& workspace)
{
    switch (cell) {
    case Cell::lstm: {
        auto [gates, c, bias] =
            at::_thnn_fused_lstm_cell_backward_impl(grad.h, grad.c, before.c, after.c, workspace, false);
        return {gates, gates, {}, c};
    }
    case Cell::gru: {
        auto [gates, hidden, h, input_bias, hidden_bias] =
            at::_thnn_fused_gru_cell_backward(grad.h, workspace, false);
        return {gates, hidden, h, {}};
    }
    case Cell::tanh: {
        const Tensor sum = at::tanh_backward(grad.h, after.h);
        return {sum, sum, {}, {}};
    }
    case Cell::relu:
        break;
    }
    const Tensor sum = at::threshold_backward(grad.h, after.h, 0);
    return {sum, sum, {}, {}};
}

Tensor sum_of(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }

struct StepsAsOne : torch::autograd::Function<StepsAsOne> {
    // Results: all states, the last one, and LSTM's last c.
    static variable_list forward(AutogradContext* context, const Tensor& gates, const Tensor& hidden,
                                 const std::optional<Tensor>& bias, const Tensor& h,
                                 const std::optional<Tensor>& c, int64_t cell, bool reversed)
    {
        const Steps steps{static_cast<Cell>(cell), reversed, gates, hidden, bias.value_or(Tensor()), {}, false};
        State state{h, c.value_or(Tensor())};
        variable_list cells, workspaces;
        Tensor y;
        const bool one_launch = takes_steps_kernel(steps, state, true);
        if (one_launch) {
            Launched launched = launch_steps(steps, state, true);
            y = launched.y;
            state = launched.last;
            cells = {launched.cells};
            workspaces = {launched.saved};
        } else {
            y = walk(steps, state, &cells, &workspaces);
        }
        variable_list saved{gates, hidden, steps.hidden_bias, h, c.value_or(Tensor()), y};
        saved.insert(saved.end(), cells.begin(), cells.end());
        saved.insert(saved.end(), workspaces.begin(), workspaces.end());
        context->save_for_backward(std::move(saved));
        context->saved_data["cell"] = cell;
        context->saved_data["reversed"] = reversed;
        context->saved_data["one_launch"] = one_launch;
        context->set_materialize_grads(false);
        return state.c.defined() ? variable_list{y, state.h, state.c} : variable_list{y, state.h};
    }

    static variable_list backward(AutogradContext* context, const variable_list& grads)
    {
        if (std::none_of(grads.begin(), grads.end(), [](const Tensor& grad) { return grad.defined(); }))
            return variable_list(7);
        const variable_list saved = context->get_saved_variables();
        const Steps steps{static_cast<Cell>(context->saved_data["cell"].toInt()),
                          context->saved_data["reversed"].toBool(), saved[0], saved[1], saved[2], {}, false};
        const State first{saved[3], saved[4]};
        variable_list results;
        if (at::GradMode::is_enabled()) {
            results = differentiable(steps, first, grads);
        } else if (context->saved_data["one_launch"].toBool()) {
            const State last{grads[1], grads.size() > 2 ? grads[2] : Tensor()};
            const LaunchedBack back = launch_back(steps, first, {saved[5], {}, saved[6], saved[7]}, grads[0], last);
            results = of_operands(steps, first, saved[5], back);
        } else {
            results = walk_back(steps, first, saved, grads);
        }
        results.resize(7);   // none of the cell and the order
        return results;
    }

    // Gradients of gates, hidden, hidden_bias, h and c.
    static variable_list of_operands(const Steps& steps, const State& first, const Tensor& y, const LaunchedBack& back)
    {
        const Tensor rows = back.hidden.flatten(0, 1);
        const Tensor rest = y.narrow(0, steps.reversed ? 1 : 0, y.size(0) - 1), start = first.h.unsqueeze(0);
        const Tensor before = steps.reversed ? at::cat({rest, start}) : at::cat({start, rest});
        return {back.gates, at::mm(rows.t(), before.flatten(0, 1)),
                steps.hidden_bias.defined() ? rows.sum(at::IntArrayRef{0}) : Tensor(), back.before.h, back.before.c};
    }

    static variable_list walk_back(const Steps& steps, const State& first, const variable_list& saved,
                                   const variable_list& grads)
    {
        const Tensor y = saved[5];
        const auto count = static_cast<size_t>(y.size(0));
        const Tensor* cells = &saved[6];
        const Tensor* workspaces = cells + count;
        const auto place = [&](size_t i) { return static_cast<int64_t>(steps.reversed ? count - 1 - i : i); };
        State grad{grads[1], grads.size() > 2 ? grads[2] : Tensor()};
        std::vector<Tensor> gates(count), hidden(count);
        for (size_t i = count; i-- > 0;) {
            if (grads[0].defined())
                grad.h = sum_of(grad.h, grads[0].select(0, place(i)));
            const State before = i ? State{y.select(0, place(i - 1)), cells[i - 1]} : first;
            if (!grad.h.defined() && steps.cell != Cell::lstm)
                grad.h = at::zeros_like(first.h);
            const StepGradient back =
                step_backward(steps.cell, grad, before, {y.select(0, place(i)), cells[i]}, workspaces[i]);
            gates[place(i)] = back.gates;
            hidden[place(i)] = back.hidden;
            grad.h = back.h.defined() ? at::addmm(back.h, back.hidden, steps.hidden)
                                      : at::mm(back.hidden, steps.hidden);
            grad.c = back.c;
        }
        const Tensor all_gates = at::stack(gates, 0);
        return of_operands(steps, first, y,
                           {all_gates, steps.cell == Cell::gru ? at::stack(hidden, 0) : all_gates, grad});
    }

    // The same with a graph, for second derivatives: step by step anew.
    static variable_list differentiable(const Steps& steps, const State& first, const variable_list& grads)
    {
        State state = first;
        const Tensor y = walk(steps, state, nullptr, nullptr);
        variable_list results, result_grads, inputs, found(5);
        const Tensor all[] = {y, state.h, state.c};
        for (size_t i = 0; i < grads.size(); ++i)
            if (grads[i].defined()) {
                results.push_back(all[i]);
                result_grads.push_back(grads[i]);
            }
        const Tensor of[] = {steps.gates, steps.hidden, steps.hidden_bias, first.h, first.c};
        std::vector<size_t> places;
        for (size_t i = 0; i < 5; ++i)
            if (of[i].defined() && of[i].requires_grad()) {
                inputs.push_back(of[i]);
                places.push_back(i);
            }
        if (!results.empty() && !inputs.empty()) {
            const variable_list out = torch::autograd::grad(results, inputs, result_grads, true, true, true);
            for (size_t i = 0; i < out.size(); ++i)
                found[places[i]] = out[i];
        }
        return found;
    }
};

}  // namespace

Tensor walk_steps(const Steps& steps, State& state)
{
    if (!takes_steps_kernel(steps, state, false))
        return walk(steps, state, nullptr, nullptr);
    const Launched launched = launch_steps(steps, state, false);
    state = launched.last;
    return launched.y;
}

Tensor walk_steps_as_one(const Steps& steps, State& state)
{
    const auto given = [](const Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
    variable_list results =
        StepsAsOne::apply(steps.gates, steps.hidden, given(steps.hidden_bias), state.h, given(state.c),
                          static_cast<int64_t>(steps.cell), steps.reversed);
    state = {results[1], results.size() > 2 ? results[2] : Tensor()};
    return results[0];
}

}  // namespace torch_ocl
