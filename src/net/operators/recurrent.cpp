// LSTM and GRU: the inputs' part of all gates is one product, then a product and a cell for each step, and the way
// back.
#include <clprim/gemm.hpp>
#include <clprim/recurrent.hpp>
#include <clprim/reduce.hpp>
#include <clprim/sequence_layers.hpp>

#include "net/fields.hpp"
#include "net/operators/initialize.hpp"

namespace clprim {

template <class F>
void fields(F& f, LSTMConfig& c)
{
    f.required("hidden", c.hidden);
}
template <class F>
void fields(F& f, GRUConfig& c)
{
    f.required("hidden", c.hidden);
}

namespace {

void product(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c)
{
    gemm(queue, gemm_problem(a, b, c), a, b, c);
}

// Step t of a tensor [T, N, ...].
Tensor step_of(const Tensor& t, std::int64_t step)
{
    Tensor result = t.slice(0, step, step + 1);
    return result.reshape({t.size(1), t.size(2)});
}

// What both kinds share. Everything within is [T, N, ...].
template <class Config, std::int64_t gates, std::int64_t kept>
class Recurrent : public ConfiguredOperator<Config> {
public:
    Recurrent(const char* type, const Config& c) : ConfiguredOperator<Config>(type, c)
    {
        require(c.hidden > 0, "option \"hidden\" must be positive, got ", c.hidden);
    }
    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        const Dims& x = inputs[0].shape;
        require(x.size() == 3 && x.product() > 0, "input must have shape [N, T, features], got ", to_string(x));
        return {{{x[0], x[1], hidden()}, inputs[0].dtype}};
    }
    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override
    {
        const DataType type = inputs[0].dtype;
        const std::int64_t rows = gates * hidden();
        return {{{rows, inputs[0].shape[2]}, type}, {{rows, hidden()}, type}, {{rows}, type}, {{rows}, type}};
    }
    // x by steps, states after every step (of LSTM also of cells), gates after their functions.
    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        const Dims& x = inputs[0].shape;
        const DataType type = inputs[0].dtype;
        const auto by_steps = [&](std::int64_t width) { return TensorSpec{{x[1], x[0], width}, type, false}; };
        return {by_steps(x[2]), by_steps(hidden()), by_steps(hidden()), by_steps(kept * hidden())};
    }
    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState& random) override
    {
        uniform_by_fan_in(queue, parameters, hidden(), random);
    }
    void forward(const OperatorCall& call) override
    {
        Queue& queue = call.queue;
        const Tensor& x = call.inputs[0];
        const std::int64_t batch = x.size(0), steps = x.size(1);
        const auto temporary = [&](const Dims& shape) { return queue.context().empty(shape, x.dtype, queue); };
        std::vector<Tensor> own(call.saved.begin(), call.saved.end());
        if (own.empty())
            for (const std::int64_t width : {x.size(2), hidden(), hidden(), kept * hidden()})
                own.push_back(temporary({steps, batch, width}));
        copy(queue, x.transpose(0, 1), own[0]);
        const Tensor projected = temporary({steps, batch, gates * hidden()});
        const Tensor recurrent = temporary({batch, gates * hidden()});
        product(queue, own[0].reshape({steps * batch, x.size(2)}), call.parameters[0].transpose(0, 1),
                projected.reshape({steps * batch, gates * hidden()}));
        const Tensor zeros = temporary({batch, hidden()});
        fill(queue, zeros, 0);
        for (std::int64_t t = 0; t < steps; ++t) {
            const Tensor before = t ? step_of(own[1], t - 1) : zeros;
            product(queue, before, call.parameters[1].transpose(0, 1), recurrent);
            const Gates sums{step_of(projected, t), recurrent, call.parameters[2], call.parameters[3]};
            run_cell(queue, sums, own, t, before, t && gates == 4 ? step_of(own[2], t - 1) : zeros);
        }
        copy(queue, own[1].transpose(0, 1), call.outputs[0]);
    }
    void backward(const OperatorCall& call) override
    {
        Queue& queue = call.queue;
        const Tensor &x = call.saved[0], &states = call.saved[1];
        const std::int64_t steps = x.size(0), batch = x.size(1), rows = steps * batch, width = gates * hidden();
        const auto temporary = [&](const Dims& shape) { return queue.context().empty(shape, x.dtype, queue); };
        const Tensor dy = temporary({steps, batch, hidden()}), d_input = temporary({steps, batch, width});
        const Tensor d_hidden = gates == 4 ? d_input : temporary({steps, batch, width});
        copy(queue, call.output_gradients[0].transpose(0, 1), dy);
        const Tensor zeros = temporary({batch, hidden()});
        fill(queue, zeros, 0);
        Tensor carried;                                   // gradient of the cell's state, or of the state itself
        for (std::int64_t t = steps; t-- > 0;) {
            const Tensor next = temporary({batch, hidden()});
            cell_backward(queue, call.saved, t, t && gates == 4 ? step_of(call.saved[2], t - 1) : zeros,
                          {step_of(dy, t), carried, step_of(d_input, t), step_of(d_hidden, t), next});
            carried = next;
            if (t == 0)
                continue;
            // Onto the gradient of the state before.
            const Tensor target = step_of(dy, t - 1), gradient = step_of(d_hidden, t);
            const Tensor& w = call.parameters[1];
            gemm(queue, gemm_problem(gradient, w, target, target), gradient, w, target, target);
            if (gates == 3)
                pointwise(queue, {target, carried}, {target}, {}, "y0 = x0 + x1;");
        }
        const Tensor flat_input = d_input.reshape({rows, width}), flat_hidden = d_hidden.reshape({rows, width});
        if (call.input_gradients[0].defined()) {
            const Tensor dx = temporary(x.shape);
            product(queue, flat_input, call.parameters[0], dx.reshape({rows, x.size(2)}));
            copy(queue, dx.transpose(0, 1), call.input_gradients[0]);
        }
        if (call.parameter_gradients[0].defined())
            product(queue, flat_input.transpose(0, 1), x.reshape({rows, x.size(2)}), call.parameter_gradients[0]);
        if (const Tensor& dw = call.parameter_gradients[1]; dw.defined()) {
            if (steps == 1)
                fill(queue, dw, 0);
            else
                product(queue, d_hidden.slice(0, 1, steps).reshape({rows - batch, width}).transpose(0, 1),
                        states.slice(0, 0, steps - 1).reshape({rows - batch, hidden()}), dw);
        }
        for (std::size_t i = 2; i < 4; ++i)
            if (call.parameter_gradients[i].defined()) {
                const Input inputs[] = {i == 2 ? flat_input : flat_hidden};
                const Tensor sums[] = {call.parameter_gradients[i].reshape({1, width})};
                reduce(queue, reduce_row("sum"), {inputs, sums, {}, x.dtype});
            }
    }

private:
    struct StepGradients {
        Tensor state, carried, input, hidden, before;
    };

    std::int64_t hidden() const { return this->config.hidden; }

    static void run_cell(Queue& queue, const Gates& sums, const std::vector<Tensor>& own, std::int64_t t,
                         const Tensor& before, const Tensor& cell_before)
    {
        const Tensor state = step_of(own[1], t), gate = step_of(own[3], t);
        if constexpr (gates == 4)
            lstm_cell(queue, sums, {cell_before, state, step_of(own[2], t), gate});
        else
            gru_cell(queue, sums, {before, state, gate});
    }

    static void cell_backward(Queue& queue, std::span<const Tensor> saved, std::int64_t t, const Tensor& cell_before,
                              const StepGradients& g)
    {
        const Tensor gate = step_of(saved[3], t);
        if constexpr (gates == 4)
            lstm_cell_backward(queue, {cell_before, step_of(saved[1], t), step_of(saved[2], t), gate},
                               {g.state, g.carried, g.input, g.before});
        else
            gru_cell_backward(queue, gate, {g.state, g.input, g.hidden, g.before});
    }
};

using Lstm = Recurrent<LSTMConfig, 4, 4>;
using Gru = Recurrent<GRUConfig, 3, 5>;

}  // namespace

CLPRIM_OPERATOR(LSTMConfig, Lstm, "LSTM")
CLPRIM_OPERATOR(GRUConfig, Gru, "GRU")

}  // namespace clprim
