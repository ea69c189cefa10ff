#include "onnx/ops/recurrent_layer.hpp"

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>
#include <clprim/recurrent.hpp>

#include "onnx/ops/products.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

// Without the first axis, at one position of it.
Tensor at(const Tensor& t, std::int64_t position)
{
    Tensor result = t;
    result.offset += position * t.stride(0);
    result.shape = Dims(std::span(t.shape.begin() + 1, t.dim() - 1));
    result.strides = Dims(std::span(t.strides.begin() + 1, t.dim() - 1));
    return result;
}

Layer::Layer(Call& call_, std::int64_t gates_) : call(call_), gates(gates_)
{
    const std::string direction = call.string_attribute("direction", "forward");
    call.check(direction == "forward" || direction == "reverse" || direction == "bidirectional", "direction is '",
               direction, "', expected forward, reverse or bidirectional");
    first_reversed = direction == "reverse";
    directions = direction == "bidirectional" ? 2 : 1;
    x = call.contiguous(0);
    call.check(x.dim() == 3 && is_floating_point(x.dtype), "input 0 has shape ", to_string(x.shape),
               ", expected floating point with axes sequence, batch, inputs");
    if (batch_first()) {
        const Tensor turned = x.transpose(0, 1);
        x = call.allocate(turned.shape, turned.dtype);
        copy(call.queue(), turned, x);
    }
    steps = x.size(0);
    batch = x.size(1);
    inputs = x.size(2);
    call.check(call.shape(2).size() == 3, "R has shape ", to_string(call.shape(2)),
               ", expected [directions, gates, hidden]");
    const auto d = static_cast<std::int64_t>(directions);
    if (is_floating_point(storage_type(call.type(2)))) {
        hidden = call.shape(2)[2];
        check_input(1, {d, gates * hidden, inputs});
        check_input(2, {d, gates * hidden, hidden});
    } else {                              // bytes have their last axes turned
        hidden = call.shape(2)[1];
        for (const auto& [input, rows] : {std::pair(std::size_t{1}, inputs), std::pair(std::size_t{2}, hidden)})
            call.check(call.shape(input) == Dims{d, rows, gates * hidden}, "input ", input, " has shape ",
                       to_string(call.shape(input)), ", expected ", to_string(Dims{d, rows, gates * hidden}));
    }
    check_input(3, {d, 2 * gates * hidden});
    call.check(call.integer_attribute("hidden_size", hidden) == hidden, "hidden_size is ",
               call.integer_attribute("hidden_size", hidden), ", but R has ", hidden);
    if (call.has(4)) {
        call.check(call.shape(4) == Dims{batch} && call.type(4) == ElementType::int32,
                   "sequence_lens must be int32 of shape [", batch, "]");
        lengths = call.contiguous(4).reshape({batch, 1});
    }
    const Dims state = batch_first() ? Dims{batch, d, hidden} : Dims{d, batch, hidden};
    for (const std::size_t i : {std::size_t{5}, std::size_t{6}})
        check_input(i, state);
    y = batch_first() ? call.allocate({batch, steps, d, hidden}, x.dtype)
                      : call.allocate({steps, d, batch, hidden}, x.dtype);
    call.output(0, Value(y));
    if (batch_first())
        y = y.permute({1, 2, 0, 3});
}

void Layer::check_input(std::size_t input, const Dims& shape) const
{
    if (!call.has(input))
        return;
    call.check(call.shape(input) == shape, "input ", input, " has shape ", to_string(call.shape(input)), ", expected ",
               to_string(shape));
    call.check(call.type(input) == call.type(0), "input ", input, " is ", name_of(call.type(input)), ", expected ",
               name_of(call.type(0)));
}

Tensor Layer::part(std::size_t input, std::size_t direction) const
{
    return call.has(input) ? at(call.tensor(input), static_cast<std::int64_t>(direction)) : Tensor();
}

Tensor Layer::initial_state(std::size_t input, std::size_t direction) const
{
    const Tensor state = call.allocate({batch, hidden}, x.dtype);
    if (call.has(input))
        copy(call.queue(), at(state_view(call.tensor(input)), static_cast<std::int64_t>(direction)), state);
    else
        fill(call.queue(), state, 0);
    return state;
}

Tensor Layer::state_output(std::size_t output) const
{
    const auto d = static_cast<std::int64_t>(directions);
    const Tensor t = call.allocate(batch_first() ? Dims{batch, d, hidden} : Dims{d, batch, hidden}, x.dtype);
    call.output(output, Value(t));
    return state_view(t);
}

namespace {

// What is made of a weight or bias, once where it never changes.
template <class Make>
Tensor derived_of(const Layer& layer, std::size_t input, const char* key, const Make& make)
{
    Prepared* kept = layer.call.prepared(input);
    return kept ? kept->get(layer.call.queue(), key, make) : make();
}

// Weights [D, G H, K] as [D, K, G H].
Tensor columns(const Layer& layer, std::size_t input)
{
    return derived_of(layer, input, "columns", [&] {
        const Tensor source = layer.call.tensor(input).transpose(1, 2);
        Tensor result = layer.call.allocate(source.shape, source.dtype);
        copy(layer.call.queue(), source, result);
        return result;
    });
}

// The biases [D, G H] of both parts, of the last `separate` gates those of the input's part alone.
Tensor joint_bias(const Layer& layer, std::int64_t separate)
{
    return derived_of(layer, 3, separate ? "input's" : "joint", [&] {
        const Tensor both = layer.call.tensor(3);
        const std::int64_t width = layer.gates * layer.hidden, joint = width - separate * layer.hidden;
        Tensor result = layer.call.allocate({both.size(0), width}, both.dtype);
        pointwise(layer.call.queue(), {both.slice(1, 0, joint), both.slice(1, width, width + joint)},
                  {result.slice(1, 0, joint)}, {}, "y0 = x0 + x1;");
        if (separate)
            copy(layer.call.queue(), both.slice(1, joint, width), result.slice(1, joint, width));
        return result;
    });
}

}  // namespace

Tensor projected(const Layer& layer, std::int64_t separate)
{
    const Call& call = layer.call;
    const auto directions = static_cast<std::int64_t>(layer.directions);
    const std::int64_t rows = layer.steps * layer.batch, width = layer.gates * layer.hidden;
    Tensor result = call.allocate({layer.steps, layer.batch, directions, width}, layer.x.dtype);
    if (result.numel() == 0)
        return result;
    const Tensor x = layer.x.reshape({rows, layer.inputs}), sums = result.reshape({rows, directions * width});
    const Tensor weights = call.contiguous(1).reshape({directions * width, layer.inputs}).transpose(0, 1);
    const Tensor bias = call.has(3) ? joint_bias(layer, separate).reshape({directions * width}) : Tensor();
    if (as_convolution(call, x, weights, bias, sums))
        return result;
    const Tensor added = bias.defined() ? bias.reshape({1, directions * width}).expand(sums.shape) : Tensor();
    GemmProblem problem = gemm_problem(x, weights, sums, added);
    problem.prepared_b = call.prepared(1);
    gemm(call.queue(), problem, x, weights, sums, added);
    return result;
}

namespace {

// Whether the kernel reads the bytes that the recurrent weights were made of. Where they are not multiplied as such
// each sequence and direction is walked through by one core, which pays for large states as long as a product for all
// sequences would not take less time, as measured, and not most cores were idle.
bool takes_bytes_of(const Layer& layer)
{
    const Device& device = layer.call.queue().device();
    const std::int64_t walks = layer.batch * static_cast<std::int64_t>(layer.directions);
    return layer.call.node().recurrent_bytes && layer.x.dtype == DataType::float32 &&
           takes_bytes(device, layer.hidden) &&
           (multiplies_bytes(device) || layer.hidden <= most_recurrent_hidden ||
            (layer.batch <= 2 && 2 * walks >= device.compute_units));
}

// Whether a walk by panels is faster than a product for each step.
bool walks_panels(const Layer& layer, RecurrentLayer::Cell cell)
{
    const auto kind = cell == RecurrentLayer::Cell::lstm ? RecurrentCell::lstm : RecurrentCell::gru;
    const auto walks = layer.batch * static_cast<std::int64_t>(layer.directions);
    return takes_panels(layer.call.queue().device(), cell, layer.x.dtype) &&
           takes_recurrent_steps(layer.call.queue().device(), kind, {layer.steps, walks, layer.hidden},
                                 layer.x.dtype, false);
}

std::shared_ptr<const RecurrentBytes> packed(const Call& call, const char* key, std::size_t input,
                                             const QuantizedMatrix& matrix)
{
    return call.derived(key, [&] {
        Queue& queue = call.queue();
        // The bytes come to the device for as long as they are packed.
        const Value& given = matrix.bytes.is_none() ? call.input(input) : matrix.bytes;
        const Value bytes = given.reshaped(given.shape(), queue);
        return pack_bytes(queue, {bytes.device(queue), matrix.scales.device(queue), matrix.zeros.device(queue), {}});
    });
}

// The numbers that the bytes stand for are not read: a session may let them go.
void takes_place_of(const Call& call, std::size_t input, const RecurrentBytes& bytes)
{
    if (Prepared* kept = call.prepared(input))
        kept->get(call.queue(), "bytes", [&] { return bytes.bytes; }, Prepared::Keeps::all);
}

}  // namespace

bool is_small_and_plain(const Layer& layer, RecurrentLayer::Cell cell)
{
    const Call& call = layer.call;
    const bool plain = !call.has(7) && !call.has_attribute("clip") && call.integer_attribute("input_forget", 0) == 0;
    for (std::size_t i = 0; i < layer.activations.size(); ++i)
        if (layer.activations[i].name != (i % (layer.activations.size() / layer.directions) == 0 ? "sigmoid" : "tanh"))
            return false;
    return plain && (layer.hidden <= most_recurrent_hidden || takes_bytes_of(layer) || walks_panels(layer, cell)) &&
           layer.x.numel() > 0 && layer.y.numel() > 0 && layer.x.dtype != DataType::float64;
}

bool run_bytes(Call& call)
{
    if (!call.node().recurrent_bytes)
        return false;
    Layer layer(call, 4);
    layer.activations = recurrent_activations(call, {"sigmoid", "tanh", "tanh"}, layer.directions);
    if (!is_small_and_plain(layer, RecurrentLayer::Cell::lstm))
        return false;
    run_as_one(layer, RecurrentLayer::Cell::lstm);
    return true;
}

void run_as_one(Layer& layer, RecurrentLayer::Cell cell)
{
    constexpr std::int64_t few_rows = 8;         // so many are not worth a product of their own
    Call& call = layer.call;
    const bool after = cell == RecurrentLayer::Cell::gru_linear_before_reset;
    RecurrentLayer p;
    p.cell = cell;
    p.reversed = layer.first_reversed;
    const bool bytes = cell == RecurrentLayer::Cell::lstm && takes_bytes_of(layer);
    const bool few = layer.steps * layer.batch <= few_rows && (bytes || layer.hidden <= most_recurrent_hidden);
    if (bytes) {
        const auto of = packed(call, "recurrent bytes", 2, *call.node().recurrent_bytes);
        p.recurrent = of->bytes;
        p.scales = of->scales;
        p.zeros = of->zeros;
        p.progress = of->progress;
        takes_place_of(call, 2, *of);
    } else if (!few && takes_panels(call.queue().device(), cell, layer.x.dtype)) {
        p.panels = derived_of(layer, 2, "panels", [&] { return pack_panels(call.queue(), call.tensor(2), cell); });
    } else {
        p.recurrent = columns(layer, 2);
    }
    if (bytes && multiplies_bytes(call.queue().device()) && layer.inputs <= most_recurrent_bytes) {
        const auto of = packed(call, "input bytes", 1, *call.node().input_bytes);
        takes_place_of(call, 1, *of);
        const auto width = layer.gates * layer.hidden;
        p.bias = call.has(3) ? joint_bias(layer, 0).reshape({static_cast<std::int64_t>(layer.directions), width})
                             : Tensor();
        if (few) {
            p.x = layer.x;
            p.weights = of->bytes;
            p.weight_scales = of->scales;
            p.weight_zeros = of->zeros;
        } else {
            p.projected = call.allocate({layer.steps, layer.batch, static_cast<std::int64_t>(layer.directions), width},
                                        layer.x.dtype);
            project_bytes(call.queue(), layer.x, *of, p.bias, p.projected);
            p.bias = Tensor();
        }
    } else if (few && !bytes) {
        p.x = layer.x;
        p.weights = columns(layer, 1);
        p.bias = call.has(3) ? joint_bias(layer, after ? 1 : 0) : Tensor();
    } else {
        p.projected = projected(layer, after ? 1 : 0);
    }
    if (after && call.has(3))
        p.recurrent_bias = derived_of(layer, 3, "hidden's", [&] {
            const Tensor source = call.tensor(3).slice(1, 5 * layer.hidden, 6 * layer.hidden);
            Tensor result = call.allocate(source.shape, source.dtype);
            copy(call.queue(), source, result);
            return result;
        });
    p.lengths = layer.lengths.defined() ? layer.lengths.reshape({layer.batch}) : Tensor();
    if (call.has(5))
        p.h = layer.state_view(call.contiguous(5));
    p.y = layer.y;
    p.last_h = layer.state_output(1);
    if (cell == RecurrentLayer::Cell::lstm) {
        if (call.has(6))
            p.c = layer.state_view(call.contiguous(6));
        p.last_c = layer.state_output(2);
    }
    recurrent_layer(call.queue(), p);
}

}  // namespace clprim::onnx
