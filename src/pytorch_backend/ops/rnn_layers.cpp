// torch.lstm, gru, rnn_tanh and rnn_relu of whole sequences. ATen's own multiply every step's input by itself unless
// the tensors are the CPU's; here that is one product for all steps, with what biases may be added there. Packed
// sequences (the overloads `data`) are ATen's.
#include <algorithm>
#include <array>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <ops/rnn_steps.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using at::TensorList;

struct Layers {
    bool biases;
    int64_t count;
    double dropout;
    bool train, bidirectional, batch_first;
};

// Of one direction of a layer.
struct Weights {
    Tensor input, hidden, input_bias, hidden_bias, projection;
};

const char* name_of(Cell cell)
{
    static constexpr const char* names[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
    return names[static_cast<int>(cell)];
}

std::array<Tensor, 5> operands(const Steps& steps, const State& state)
{
    return {steps.gates, steps.hidden, steps.hidden_bias, state.h, state.c};
}

bool wants_more_than_gradients(const Steps& steps, const State& state)
{
    return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerBackMode) ||
           std::ranges::any_of(operands(steps, state), [](const Tensor& tensor) {
               return tensor.defined() && tensor._fw_grad(0).defined();
           });
}

bool wants_gradients(const Steps& steps, const State& state)
{
    return at::GradMode::is_enabled() && std::ranges::any_of(operands(steps, state), [](const Tensor& tensor) {
               return tensor.defined() && tensor.requires_grad();
           });
}

// All steps of x [T, N, I] in one direction, [T, N, P], with the state after the last one in `state`.
Tensor walk(Cell cell, const Tensor& x, State& state, const Weights& w, bool reversed)
{
    // The hidden part of GRU's third gate is multiplied before it is added, and its bias with it.
    const bool together = cell != Cell::gru && w.hidden_bias.defined();
    const Tensor gates = at::linear(x, w.input, together ? w.input_bias + w.hidden_bias : w.input_bias);
    // Autocast has rounded what it multiplied.
    const auto alike = [&](const Tensor& t) { return t.defined() ? t.to(gates.scalar_type()) : t; };
    Steps steps{cell, reversed, gates, alike(w.hidden), together ? Tensor() : alike(w.hidden_bias),
                alike(w.projection), false};
    state = {alike(state.h), alike(state.c)};
    steps.plain = wants_more_than_gradients(steps, state);
    const bool as_one = !steps.plain && !w.projection.defined() && wants_gradients(steps, state);
    return as_one ? walk_steps_as_one(steps, state) : walk_steps(steps, state);
}

void check(Cell cell, const Tensor& input, TensorList hx, TensorList params, const Layers& layers, size_t each)
{
    const char* name = name_of(cell);
    const int64_t directions = layers.bidirectional ? 2 : 1;
    const size_t states = cell == Cell::lstm ? 2 : 1, weights = each * layers.count * directions;
    TORCH_CHECK(hx.size() == states, name, ": expected ", states, " initial states, got ", hx.size());
    TORCH_CHECK(input.dim() == 3, name, ": expected an input of 3 dimensions, got ", input.sizes());
    TORCH_CHECK(input.size(layers.batch_first ? 1 : 0) > 0, name, ": Expected sequence length to be larger than 0");
    TORCH_CHECK(layers.count > 0, name, ": num_layers must be positive, got ", layers.count);
    TORCH_CHECK(params.size() == weights, name, ": expected ", weights, " weights and biases for ", layers.count,
                " layers of ", directions, " directions, got ", params.size());
    const int64_t batch = input.size(layers.batch_first ? 0 : 1);
    for (const Tensor& state : hx)
        TORCH_CHECK(state.dim() == 3 && state.size(0) == layers.count * directions && state.size(1) == batch, name,
                    ": expected initial states of [", layers.count * directions, ", ", batch, ", hidden], got ",
                    state.sizes());
    for (TensorList list : {hx, params})
        for (const Tensor& tensor : list)
            TORCH_CHECK(tensor.device() == input.device() && tensor.scalar_type() == input.scalar_type(), name,
                        ": Input and parameter tensors are not at the same device or of the same dtype, found ",
                        input.device(), " ", input.scalar_type(), " and ", tensor.device(), " ",
                        tensor.scalar_type());
}

struct Results {
    Tensor y, h, c;
};

Results recurrent(Cell cell, const Tensor& input, TensorList hx, TensorList params, const Layers& layers)
{
    const bool projects = cell == Cell::lstm && hx.size() == 2 && hx[0].dim() == 3 && hx[1].dim() == 3 &&
                          hx[0].size(2) != hx[1].size(2);
    const size_t each = 2 + (layers.biases ? 2 : 0) + (projects ? 1 : 0);
    check(cell, input, hx, params, layers, each);
    Tensor x = layers.batch_first ? input.transpose(0, 1) : input;
    std::vector<Tensor> last_h, last_c;
    size_t at = 0;   // of a direction of a layer
    for (int64_t layer = 0; layer < layers.count; ++layer) {
        std::vector<Tensor> directions;
        for (const bool reversed : {false, true}) {
            if (reversed && !layers.bidirectional)
                continue;
            const Tensor* p = params.begin() + at * each;
            const Weights w{p[0], p[1], layers.biases ? p[2] : Tensor(), layers.biases ? p[3] : Tensor(),
                            projects ? p[each - 1] : Tensor()};
            State state{hx[0].select(0, static_cast<int64_t>(at)), {}};
            if (cell == Cell::lstm)
                state.c = hx[1].select(0, static_cast<int64_t>(at));
            directions.push_back(walk(cell, x, state, w, reversed));
            last_h.push_back(state.h);
            if (cell == Cell::lstm)
                last_c.push_back(state.c);
            ++at;
        }
        x = layers.bidirectional ? at::cat(directions, -1) : directions[0];
        if (layers.dropout != 0 && layers.train && layer + 1 < layers.count)
            x = at::dropout(x, layers.dropout, true);
    }
    return {layers.batch_first ? x.transpose(0, 1) : x, at::stack(last_h, 0),
            cell == Cell::lstm ? at::stack(last_c, 0) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, TensorList hx, TensorList params, bool biases,
                                        int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first)
{
    auto [y, h, c] = recurrent(Cell::lstm, input, hx, params,
                               {biases, layers, dropout, train, bidirectional, batch_first});
    return {y, h, c};
}

template <Cell cell>
std::tuple<Tensor, Tensor> of_one_state(const Tensor& input, const Tensor& hx, TensorList params, bool biases,
                                        int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first)
{
    auto [y, h, c] = recurrent(cell, input, hx, params, {biases, layers, dropout, train, bidirectional, batch_first});
    return {y, h};
}

void register_layers(torch::Library& m)
{
    m.impl("lstm.input", lstm);
    m.impl("gru.input", of_one_state<Cell::gru>);
    m.impl("rnn_tanh.input", of_one_state<Cell::tanh>);
    m.impl("rnn_relu.input", of_one_state<Cell::relu>);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_layers(m); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { register_layers(m); }

}  // namespace
}  // namespace torch_ocl
