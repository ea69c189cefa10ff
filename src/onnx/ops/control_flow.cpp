// If, Loop and Scan. Their subgraphs run on the same queue; only a condition that lies on the device is waited for.
#include <clprim/concat.hpp>
#include <clprim/pointwise.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/small_loops.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Values = std::vector<Value>;

bool condition(const Value& value, Queue& queue)
{
    require(value.numel() == 1, "a condition must have one element, has shape ", to_string(value.shape()));
    return value.to_ints(queue)[0] != 0;
}

// Concatenates slices of one element along the axis. Small ones go eight a launch: launches are what they cost.
void gather(Queue& queue, std::span<const Tensor> slices, std::size_t axis, const Tensor& out)
{
    constexpr std::size_t together = 8;
    constexpr std::int64_t small = 1 << 14;
    std::size_t done = 0;
    if (size_of(out.dtype) == 4 && slices[0].numel() <= small && out.numel() > 0)
        for (; done + together <= slices.size(); done += together) {
            std::vector<Tensor> from(slices.begin() + done, slices.begin() + done + together), to;
            for (std::size_t i = 0; i < together; ++i) {
                const auto begin = static_cast<std::int64_t>(done + i);
                to.push_back(out.slice(axis, begin, begin + 1));
                from[i].dtype = to[i].dtype = DataType::uint32;     // bits are moved, not numbers
            }
            pointwise(queue, from, to, {},
                      "y0 = x0; y1 = x1; y2 = x2; y3 = x3; y4 = x4; y5 = x5; y6 = x6; y7 = x7;");
        }
    if (done < slices.size())
        concat(queue, slices.subspan(done), axis,
               out.slice(axis, static_cast<std::int64_t>(done), static_cast<std::int64_t>(slices.size())));
}

// Slices of equal shape next to each other along a new axis.
Value stack(const Call& call, const Values& slices, std::size_t axis)
{
    require(!slices.empty(), "a scan output of no iterations has no known shape");
    std::vector<Tensor> tensors;
    Dims shape;
    for (std::size_t i = 0; i < slices[0].dim() + 1; ++i)
        shape.push_back(i == axis ? static_cast<std::int64_t>(slices.size()) : slices[0].shape()[i - (i > axis)]);
    Dims unit = shape;
    unit[axis] = 1;
    for (const Value& slice : slices) {
        require(slice.shape() == slices[0].shape() && slice.type() == slices[0].type(),
                "the slices of a scan output have "
                "different shapes or types: ",
                to_string(slice.shape()), " and ", to_string(slices[0].shape()));
        tensors.push_back(slice.reshaped(unit, call.queue()).device(call.queue()));
    }
    Tensor result = call.allocate(shape, tensors[0].dtype);
    gather(call.queue(), tensors, axis, result);
    return Value(result, slices[0].type());
}

// The scan output of no iterations: its item's declared shape, unknown sizes 0, behind an empty axis.
Value empty_stack(const Call& call, const Port& port)
{
    Dims shape{0};
    for (const auto& size : port.shape)
        shape.push_back(std::holds_alternative<std::int64_t>(size) ? std::get<std::int64_t>(size) : 0);
    const ElementType type = port.type == ElementType::undefined ? ElementType::float32 : port.type;
    return Value(call.allocate(shape, storage_type(type)), type);
}

void if_else(Call& call)
{
    const bool taken = condition(call.input(0), call.queue());
    const auto results = call.run(*call.attribute<GraphRef>(taken ? "then_branch" : "else_branch"), {});
    for (std::size_t i = 0; i < call.outputs(); ++i)
        call.output(i, results[i]);
}

// body(iteration, condition, carried...) -> condition, carried..., scanned...
void loop(Call& call)
{
    const Graph& body = *call.attribute<GraphRef>("body");
    const std::int64_t trips = call.has(0) ? call.integer(0) : std::numeric_limits<std::int64_t>::max();
    Value go_on = call.has(1) ? call.input(1) : Value::scalar(true);
    Values carried;
    for (std::size_t i = 2; i < call.inputs(); ++i)
        carried.push_back(call.has(i) ? call.input(i) : Value());
    call.check(body.outputs.size() >= 1 + carried.size(), "the body returns ", body.outputs.size(),
               " values, expected a condition and ", carried.size(), " carried ones");
    // A first condition on the host that does not hold leaves nothing to launch.
    if (!go_on.on_host() || condition(go_on, call.queue()))
        if (const auto results = small_loop(call, {&body, true, trips, go_on, carried, {}, {}, {}})) {
            for (std::size_t i = 0; i < results->size(); ++i)
                call.output(i, (*results)[i]);
            return;
        }
    std::vector<Values> scanned(body.outputs.size() - 1 - carried.size());
    for (std::int64_t i = 0; i < trips && condition(go_on, call.queue()); ++i) {
        Values arguments{Value::scalar(i), go_on};
        arguments.insert(arguments.end(), carried.begin(), carried.end());
        Values results = call.run(body, arguments);
        go_on = results[0];
        std::copy_n(results.begin() + 1, carried.size(), carried.begin());
        for (std::size_t k = 0; k < scanned.size(); ++k)
            scanned[k].push_back(results[1 + carried.size() + k]);
    }
    for (std::size_t i = 0; i < carried.size(); ++i)
        call.output(i, carried[i]);
    for (std::size_t k = 0; k < scanned.size(); ++k)
        if (call.wants(carried.size() + k))
            call.output(carried.size() + k, scanned[k].empty()
                                                ? empty_stack(call, body.output_ports[1 + carried.size() + k])
                                                : stack(call, scanned[k], 0));
}

// Element `i` along an axis, which disappears.
Value element(const Value& value, std::size_t axis, std::int64_t i, Queue& queue)
{
    Tensor slice = value.device(queue).slice(axis, i, i + 1);
    Dims shape, strides;
    for (std::size_t d = 0; d < slice.dim(); ++d)
        if (d != axis) {
            shape.push_back(slice.shape[d]);
            strides.push_back(slice.strides[d]);
        }
    slice.shape = shape;
    slice.strides = strides;
    return Value(slice, value.type());
}

std::int64_t listed(const std::vector<std::int64_t>& list, std::size_t i) { return i < list.size() ? list[i] : 0; }

// By one launch, of sequences along axis 0, if it can be.
std::optional<Values> small_scan(Call& call, LoopOperands operands, std::span<const Value> sequences,
                                 const std::vector<std::size_t>& axes)
{
    const auto output_axes = call.ints_attribute("scan_output_axes");
    const auto input_back = call.ints_attribute(call.opset() < 9 ? "directions" : "scan_input_directions");
    const auto output_back = call.ints_attribute("scan_output_directions");
    for (std::size_t k = 0; k < sequences.size(); ++k) {
        if (axes[k] != 0)
            return std::nullopt;
        const Tensor sequence = sequences[k].device(call.queue());
        if (!sequence.is_contiguous())
            return std::nullopt;
        operands.sequences.push_back(sequence);
        operands.sequences_backwards.push_back(listed(input_back, k) != 0);
    }
    for (std::size_t k = 0; k + operands.carried.size() < operands.body->outputs.size(); ++k) {
        if (listed(output_axes, k) != 0)
            return std::nullopt;
        operands.results_backwards.push_back(listed(output_back, k) != 0);
    }
    return small_loop(call, operands);
}

// One pass over the scan inputs: body(states..., elements...) -> states..., scanned...
Values scan_once(Call& call, std::span<const Value> states, std::span<const Value> sequences, std::size_t outputs)
{
    const Graph& body = *call.attribute<GraphRef>("body");
    const auto input_axes = call.ints_attribute("scan_input_axes"),
               output_axes = call.ints_attribute("scan_output_axes");
    const auto input_back = call.ints_attribute(call.opset() < 9 ? "directions" : "scan_input_directions");
    const auto output_back = call.ints_attribute("scan_output_directions");
    call.check(!sequences.empty(), "there is no scan input");
    std::int64_t length = -1;
    std::vector<std::size_t> axes;
    for (std::size_t k = 0; k < sequences.size(); ++k) {
        axes.push_back(call.axis(listed(input_axes, k), sequences[k].dim()));
        const std::int64_t here = sequences[k].shape()[axes[k]];
        call.check(length < 0 || length == here, "scan inputs have lengths ", length, " and ", here);
        length = here;
    }
    call.check(body.outputs.size() == outputs && outputs >= states.size(), "the body returns ", body.outputs.size(),
               " values, expected ", outputs, " of which ", states.size(), " are states");
    if (const auto results = small_scan(call, {&body, false, length, {}, states, {}, {}, {}}, sequences, axes))
        return *results;
    Values carried(states.begin(), states.end());
    std::vector<Values> scanned(outputs - states.size());
    for (std::int64_t i = 0; i < length; ++i) {
        Values arguments = carried;
        for (std::size_t k = 0; k < sequences.size(); ++k)
            arguments.push_back(
                element(sequences[k], axes[k], listed(input_back, k) ? length - 1 - i : i, call.queue()));
        Values results = call.run(body, arguments);
        std::copy_n(results.begin(), carried.size(), carried.begin());
        for (std::size_t k = 0; k < scanned.size(); ++k)
            scanned[k].push_back(results[carried.size() + k]);
    }
    for (std::size_t k = 0; k < scanned.size(); ++k) {
        if (scanned[k].empty()) {
            carried.push_back(empty_stack(call, body.output_ports[states.size() + k]));
            continue;
        }
        if (listed(output_back, k))
            std::ranges::reverse(scanned[k]);
        carried.push_back(stack(call, scanned[k], call.axis(listed(output_axes, k), scanned[k][0].dim() + 1)));
    }
    return carried;
}

void scan(Call& call)
{
    const auto count = static_cast<std::size_t>(call.attribute<std::int64_t>("num_scan_inputs"));
    call.check(count >= 1 && count <= call.inputs(), "num_scan_inputs is ", count, " of ", call.inputs(), " inputs");
    Values inputs;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        inputs.push_back(call.input(i));
    const std::size_t states = inputs.size() - count;
    const Values results =
        scan_once(call, std::span(inputs).first(states), std::span(inputs).last(count), call.outputs());
    for (std::size_t i = 0; i < call.outputs(); ++i)
        call.output(i, results[i]);
}

// Operator set 8: everything has a batch axis in front, and input 0 may hold lengths.
void scan_batched(Call& call)
{
    const auto count = static_cast<std::size_t>(call.attribute<std::int64_t>("num_scan_inputs"));
    call.check(count >= 1 && count < call.inputs(), "num_scan_inputs is ", count, " of ", call.inputs() - 1, " inputs");
    const std::size_t states = call.inputs() - 1 - count;
    call.check(call.shape(1).size() > 0, "input 1 has no batch axis");
    const std::int64_t batch = call.shape(1)[0];
    const auto lengths = call.has(0) ? call.ints(0) : std::vector<std::int64_t>();
    call.check(!call.has(0) || static_cast<std::int64_t>(lengths.size()) == batch, "there are ", lengths.size(),
               " sequence lengths for ", batch, " sequences");
    std::vector<Values> results(call.outputs());
    for (std::int64_t b = 0; b < batch; ++b) {
        Values inputs;
        for (std::size_t i = 1; i < call.inputs(); ++i)
            inputs.push_back(element(call.input(i), 0, b, call.queue()));
        if (call.has(0))
            for (std::size_t k = states; k < inputs.size(); ++k)
                inputs[k] = Value(inputs[k].device(call.queue()).slice(0, 0, lengths[static_cast<std::size_t>(b)]),
                                  inputs[k].type());
        const Values one =
            scan_once(call, std::span(inputs).first(states), std::span(inputs).last(count), call.outputs());
        for (std::size_t i = 0; i < one.size(); ++i)
            results[i].push_back(one[i]);
    }
    for (std::size_t i = 0; i < results.size(); ++i)
        if (call.wants(i))
            call.output(i, stack(call, results[i], 0));
}

const OperatorRow control_flow_rows[] = {
    {"If", 1, if_else},
    {"Loop", 1, loop},
    {"Scan", 8, scan_batched},
    {"Scan", 9, scan},
};

}  // namespace

std::span<const OperatorRow> control_flow_operators() { return control_flow_rows; }

}  // namespace clprim::onnx
