// RNN, GRU and LSTM. Small LSTM and GRU layers with the default activations are one kernel (kernels/recurrent). For the
// others one product computes the input's part of all gates of all steps; each step adds the state's part and runs one
// elementwise kernel over the gates.
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/recurrent_layer.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// One direction while it runs.
struct Pass {
    Layer& layer;
    std::size_t direction;
    Tensor projected;                 // [T, N, gates H]: the input's part, then all of it
    Tensor recurrent;                 // R [gates H, H]
    Tensor h, c;                      // [N, H]
    const RecurrentActivation* activations;

    Pass(Layer& layer_, std::size_t direction_, const Tensor& of_all);

    Queue& queue() const { return layer.call.queue(); }
    // `count` gates from `first` on, of step t.
    Tensor gates(std::int64_t t, std::int64_t first, std::int64_t count = 1) const
    {
        return at(projected, t).slice(1, first * layer.hidden, (first + count) * layer.hidden);
    }
    Tensor rows(std::int64_t first, std::int64_t count) const
    {
        return recurrent.slice(0, first * layer.hidden, (first + count) * layer.hidden).transpose(0, 1);
    }
    void add_product(const Tensor& state, std::int64_t first, std::int64_t count, std::int64_t t) const
    {
        const Tensor to = gates(t, first, count);
        gemm(queue(), gemm_problem(state, rows(first, count), to, to), state, rows(first, count), to, to);
    }
    std::string gate(const std::string& name, const std::string& sum, const RecurrentActivation& activation) const
    {
        const bool clipped = layer.call.has_attribute("clip");
        return "T " + name + " = " + sum + ";" + (clipped ? " " + name + " = fmin(fmax(" + name + ", -w0), w0);" : "") +
               " " + name + " = " + activation.of(name) + ";";
    }
    void finish_step(std::int64_t t, std::vector<Tensor> inputs, const std::string& code) const;
};

Pass::Pass(Layer& layer_, std::size_t direction_, const Tensor& of_all) : layer(layer_), direction(direction_)
{
    recurrent = layer.part(2, direction);
    h = layer.initial_state(5, direction);
    activations = &layer.activations[direction * layer.activations.size() / layer.directions];
    projected = at(of_all.permute({2, 0, 1, 3}), static_cast<std::int64_t>(direction));
}

// The code computes `next` (and y1, the next cell) from the inputs. Sequences that ended keep their state and put out
// 0.
void Pass::finish_step(std::int64_t t, std::vector<Tensor> inputs, const std::string& code) const
{
    const Tensor out = at(at(layer.y, t), static_cast<std::int64_t>(direction));
    std::vector<Tensor> outputs{h};
    if (c.defined())
        outputs.push_back(c);
    outputs.push_back(out);
    const std::string y = detail::concat("y", outputs.size() - 1);
    std::string text = code;
    if (layer.lengths.defined()) {
        const std::string length = detail::concat("x", inputs.size()), before = detail::concat("x", inputs.size() + 1);
        const std::string cell = detail::concat("x", inputs.size() + 2);
        inputs.push_back(layer.lengths);
        inputs.push_back(h);
        if (c.defined())
            inputs.push_back(c);
        text += " int ended = w1 >= " + length + "; y0 = ended ? " + before + " : next; " + y + " = ended ? 0 : next;" +
                (c.defined() ? " y1 = ended ? " + cell + " : cell;" : "");
    } else {
        text += " y0 = next; " + y + " = next;" + std::string(c.defined() ? " y1 = cell;" : "");
    }
    const Scalar numbers[] = {layer.call.float_attribute("clip", 0), static_cast<double>(t)};
    pointwise(queue(), inputs, outputs, numbers, text);
}

template <class Step>
void run_layer(Layer& layer, std::int64_t separate, bool cells, const Step& step)
{
    layer.last_h = layer.state_output(1);
    if (cells)
        layer.last_c = layer.state_output(2);
    const Tensor of_all = projected(layer, separate);
    for (std::size_t d = 0; d < layer.directions; ++d) {
        Pass pass(layer, d, of_all);
        if (cells)
            pass.c = layer.initial_state(6, d);
        if (layer.y.numel())
            for (std::int64_t i = 0; i < layer.steps; ++i)
                step(pass, layer.reversed(d) ? layer.steps - 1 - i : i);
        if (pass.h.numel() == 0)
            continue;
        copy(layer.call.queue(), pass.h, at(layer.last_h, static_cast<std::int64_t>(d)));
        if (cells)
            copy(layer.call.queue(), pass.c, at(layer.last_c, static_cast<std::int64_t>(d)));
    }
}

void rnn(Call& call)
{
    Layer layer(call, 1);
    layer.activations = recurrent_activations(call, {"tanh"}, layer.directions);
    run_layer(layer, 0, false, [](const Pass& pass, std::int64_t t) {
        pass.add_product(pass.h, 0, 1, t);
        pass.finish_step(t, {pass.gates(t, 0)}, pass.gate("next", "x0", pass.activations[0]));
    });
}

void lstm(Call& call)
{
    Layer layer(call, 4);
    layer.check_input(7, {static_cast<std::int64_t>(layer.directions), 3 * layer.hidden});
    layer.activations = recurrent_activations(call, {"sigmoid", "tanh", "tanh"}, layer.directions);
    if (is_small_and_plain(layer, RecurrentLayer::Cell::lstm))
        return run_as_one(layer, RecurrentLayer::Cell::lstm);
    const bool coupled = call.integer_attribute("input_forget", 0) != 0, peeps = call.has(7);
    run_layer(layer, 0, true, [&](const Pass& pass, std::int64_t t) {
        pass.add_product(pass.h, 0, 4, t);
        std::vector<Tensor> inputs;
        for (const std::int64_t gate : {0, 1, 2, 3})              // input, output, forget, cell
            inputs.push_back(pass.gates(t, gate));
        inputs.push_back(pass.c);
        for (const std::int64_t gate : {0, 1, 2}) {
            if (!peeps)
                break;
            Tensor weights =
                pass.layer.part(7, pass.direction).slice(0, gate * layer.hidden, (gate + 1) * layer.hidden);
            weights.strides = {0, weights.stride(0)};
            weights.shape = {1, layer.hidden};
            inputs.push_back(weights);
        }
        const RecurrentActivation *f = &pass.activations[0], *g = f + 1, *h = f + 2;
        const std::string code =
            pass.gate("in", peeps ? "x0 + x5 * x4" : "x0", *f) +
            (coupled ? "T forget = 1 - in;" : pass.gate("forget", peeps ? "x2 + x7 * x4" : "x2", *f)) +
            pass.gate("fresh", "x3", *g) + "T cell = forget * x4 + in * fresh;" +
            pass.gate("out", peeps ? "x1 + x6 * cell" : "x1", *f) + "T next = out * " + h->of("cell") + ";";
        pass.finish_step(t, inputs, code);
    });
}

void gru(Call& call)
{
    Layer layer(call, 3);
    layer.activations = recurrent_activations(call, {"sigmoid", "tanh"}, layer.directions);
    const bool after = call.integer_attribute("linear_before_reset", 0) != 0;
    const auto cell = after ? RecurrentLayer::Cell::gru_linear_before_reset : RecurrentLayer::Cell::gru;
    if (is_small_and_plain(layer, cell))
        return run_as_one(layer, cell);
    const Tensor scratch = call.allocate({layer.batch, layer.hidden}, layer.x.dtype);
    run_layer(layer, after ? 1 : 0, false, [&](const Pass& pass, std::int64_t t) {
        const RecurrentActivation *f = &pass.activations[0], *g = f + 1;
        pass.add_product(pass.h, 0, 2, t);                         // update and reset gates
        const std::string gates = pass.gate("update", "x0", *f);
        std::vector<Tensor> inputs{pass.gates(t, 0), pass.h, pass.gates(t, 2)};
        if (after) {
            Tensor bias;
            if (call.has(3)) {
                bias = pass.layer.part(3, pass.direction).slice(0, 5 * layer.hidden, 6 * layer.hidden);
                bias.strides = {0, bias.stride(0)};
                bias.shape = {1, layer.hidden};
                bias = bias.expand(scratch.shape);
            }
            gemm(pass.queue(), gemm_problem(pass.h, pass.rows(2, 1), scratch, bias), pass.h, pass.rows(2, 1), scratch,
                 bias);
            inputs.push_back(pass.gates(t, 1));
            inputs.push_back(scratch);
            pass.finish_step(t, inputs,
                             gates + pass.gate("reset", "x3", *f) + pass.gate("fresh", "x2 + reset * x4", *g) +
                                 "T next = (1 - update) * fresh + update * x1;");
            return;
        }
        const Tensor sources[] = {pass.gates(t, 1), pass.h};
        const Scalar clip(call.float_attribute("clip", 0));
        pointwise(pass.queue(), sources, std::span(&scratch, 1), std::span(&clip, 1),
                  pass.gate("reset", "x0", *f) + "y0 = reset * x1;");
        pass.add_product(scratch, 2, 1, t);
        pass.finish_step(t, inputs,
                         gates + pass.gate("fresh", "x2", *g) + "T next = (1 - update) * fresh + update * x1;");
    });
}

const OperatorRow recurrent_rows[] = {
    {"RNN", 1, rnn},
    {"GRU", 1, gru},
    {"LSTM", 1, lstm},
};

}  // namespace

std::span<const OperatorRow> recurrent_operators() { return recurrent_rows; }

}  // namespace clprim::onnx
