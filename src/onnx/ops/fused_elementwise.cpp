// What fuse_elementwise.cpp and fuse_batch_norm.cpp make.
#include <algorithm>
#include <map>
#include <mutex>

#include "core/lie_alike.hpp"
#include "kernels/integer/byte_table.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/host_math.hpp"
#include "onnx/ops/result_like.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

bool is_affine(const Node& node) { return node.domain == "clprim" && node.op_type == "ChannelAffine"; }

// A vector with an element for each channel, as it broadcasts to N, C, spatial...
Tensor along_channels(const Tensor& vector, const Dims& shape)
{
    Tensor view = vector;
    view.strides = Dims(shape.size(), 0);
    view.strides[1] = vector.stride(0);
    view.shape = Dims(shape.size(), 1);
    view.shape[1] = shape[1];
    return view;
}

// Arithmetic of one number that costs less for each element than a launch does.
bool is_cheap(const Node& node)
{
    return node.op_type == "Mul" || node.op_type == "Add" || node.op_type == "Sub";
}

// The type that all operands have but for integers; float32 where there are such, or quantisers.
ElementType common_type(const Call& call, const std::vector<std::int64_t>& integers)
{
    const bool mixed = std::ranges::any_of(integers, [](std::int64_t type) { return type != 0; });
    return mixed || call.has_attribute("result") ? ElementType::float32 : call.type(0);
}

bool is_quantiser(const Node& node) { return node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear"; }

// Code as a row, which is computed in float32 whatever its operands are. Rows stay where they are.
const PointwiseRow& row_of(const std::string& code, unsigned own_typed)
{
    static std::mutex mutex;
    static std::map<std::pair<std::string, unsigned>, PointwiseRow> rows;
    const std::lock_guard lock(mutex);
    const auto [found, fresh] = rows.try_emplace({code, own_typed}, PointwiseRow{"elementwise", nullptr});
    if (fresh) {
        found->second.code = found->first.first.c_str();
        found->second.own_typed = own_typed;
    }
    return found->second;
}

// One kernel computes every operator for every element of the result. That is right for floating-point operands of one
// dtype beside sums of integers, and worth it if no operator alone would have had fewer elements to compute, but for
// products of scales and bytes that become real.
bool one_kernel(const Call& call, const Graph& operators, Dims& result)
{
    const std::vector<std::int64_t> integers = call.ints_attribute("integers");
    const ElementType type = common_type(call, integers);
    std::vector<Dims> shapes(operators.slots.size());
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        if (!call.input(i).is_tensor() || is_narrow(call.type(i)) ||
            (i < integers.size() && call.type(i) != (integers[i] ? static_cast<ElementType>(integers[i]) : type)))
            return false;
        shapes[static_cast<std::size_t>(operators.inputs[i])] = call.shape(i);
    }
    if (!is_floating_point(storage_type(type)))
        return false;
    for (const Node& node : operators.nodes) {
        Dims shape = shapes[static_cast<std::size_t>(node.inputs[0])];
        if (is_affine(node)) {
            if (shape.size() < 2 || shapes[static_cast<std::size_t>(node.inputs[1])] != Dims{shape[1]})
                return false;
        } else if (!is_quantiser(node)) {
            for (const int slot : node.inputs)
                shape = broadcast(shape, shapes[static_cast<std::size_t>(slot)]);
        }
        shapes[static_cast<std::size_t>(node.outputs[0])] = shape;
    }
    result = shapes[static_cast<std::size_t>(operators.outputs[0])];
    return std::ranges::all_of(operators.nodes, [&](const Node& node) {
        const Dims& shape = shapes[static_cast<std::size_t>(node.outputs[0])];
        return shape == result || node.op_type == "DequantizeLinear" || (shape.product() == 1 && is_cheap(node));
    });
}

bool is_byte(DataType type) { return type == DataType::int8 || type == DataType::uint8; }

// Whether y is a function of one byte each, for which a table is worth it.
bool is_function_of_byte(const Call& call, const std::vector<Tensor>& inputs, const Tensor& y)
{
    return inputs.size() == 1 && is_byte(inputs[0].dtype) && is_byte(y.dtype) && detail::lie_alike(inputs[0], y) &&
           y.is_non_overlapping_and_dense() && detail::byte_table_pays(call.queue().device(), y.numel());
}

// What a row makes of each byte, in the order of their bits.
Tensor table_of(const Call& call, const PointwiseRow& row, const Tensor& x, DataType type)
{
    Value bytes = Value::zeros(x.dtype == DataType::int8 ? ElementType::int8 : ElementType::uint8, {256});
    for (std::size_t i = 0; i < 256; ++i)
        bytes.mutable_bytes()[i] = static_cast<std::byte>(i);
    const Tensor table = call.allocate({256}, type);
    const Input operand(bytes.device(call.queue()));
    pointwise(call.queue(), row, {std::span(&operand, 1), std::span(&table, 1), {}, DataType::float32});
    return table;
}

void one_by_one(Call& call, const Graph& operators)
{
    std::vector<Value> arguments;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        arguments.push_back(call.input(i));
    call.output(0, call.run(operators, arguments)[0]);
}

void elementwise(Call& call)
{
    const Graph& operators = *call.attribute<GraphRef>("operators");
    Dims shape;
    if (!one_kernel(call, operators, shape))
        return one_by_one(call, operators);
    std::vector<Tensor> inputs;
    const std::vector<std::int64_t> integers = call.ints_attribute("integers");
    for (std::size_t i = 0; i < integers.size(); ++i)
        inputs.push_back(call.tensor(i));
    for (const Node& node : operators.nodes)
        for (std::size_t k = 1; is_affine(node) && k < node.inputs.size(); ++k) {
            const auto operand = std::ranges::find(operators.inputs, node.inputs[k]) - operators.inputs.begin();
            Tensor& vector = inputs[static_cast<std::size_t>(operand)];
            if (vector.dim() == 1)
                vector = along_channels(vector, shape);
        }
    const auto type = static_cast<ElementType>(
        call.integer_attribute("result", static_cast<std::int64_t>(common_type(call, integers))));
    const Tensor y = result_like(call, inputs, shape, storage_type(type));
    call.output(0, Value(y));
    if (y.numel() && call.has_attribute("result")) {
        unsigned own_typed = 0;
        for (std::size_t i = 0; i < integers.size(); ++i)
            own_typed |= (integers[i] == static_cast<std::int64_t>(ElementType::int32) ? 1U : 0U) << i;
        const PointwiseRow& row = row_of(call.attribute<std::string>("code"), own_typed);
        if (is_function_of_byte(call, inputs, y)) {
            const auto table = call.derived("table of bytes", [&] { return table_of(call, row, inputs[0], y.dtype); });
            return detail::look_up_bytes(call.queue(), inputs[0], *table, y);
        }
        const std::vector<Input> operands(inputs.begin(), inputs.end());
        pointwise(call.queue(), row, {operands, std::span(&y, 1), {}, DataType::float32});
    } else if (y.numel())
        pointwise(call.queue(), inputs, std::span(&y, 1), {}, call.attribute<std::string>("code"));
}

// Few numbers that the host has stay there.
void elementwise_on_host(Call& call)
{
    const Graph& operators = *call.attribute<GraphRef>("operators");
    bool here = std::ranges::all_of(operators.nodes, [](const Node& node) { return node.row && node.row->host; });
    for (std::size_t i = 0; i < call.inputs(); ++i)
        here &= call.input(i).numel() <= most_host_floats;
    if (here)
        return one_by_one(call, operators);
    elementwise(call);
}

// x * factor + shift by channels.
void channel_affine(Call& call)
{
    const Tensor x = call.tensor(0);
    call.check(x.dim() >= 2 && call.shape(1) == Dims{x.size(1)} && call.shape(2) == call.shape(1), "input 0 has shape ",
               to_string(x.shape), ", expected ", call.shape(1)[0], " channels");
    std::vector<Tensor> inputs{x};
    for (std::size_t i = 1; i < 3; ++i)
        inputs.push_back(along_channels(call.tensor(i), x.shape));
    const Tensor y = result_like(call, inputs, x.shape, x.dtype);
    call.output(0, Value(y));
    if (y.numel())
        pointwise(call.queue(), inputs, std::span(&y, 1), {}, "y0 = x0 * x1 + x2;");
}

const OperatorRow fused_rows[] = {{"Elementwise", 1, elementwise, elementwise_on_host, "clprim"},
                                  {"ChannelAffine", 1, channel_affine, nullptr, "clprim"}};

}  // namespace

std::span<const OperatorRow> fused_operators() { return fused_rows; }

}  // namespace clprim::onnx
