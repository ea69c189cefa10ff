#include "onnx/ops/loop_translation.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <clprim/context.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/fused_activation.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Place = SmallLoop::Value::Place;
using Step = SmallLoop::Step;

// A body that is no small loop.
struct Unfit {};
void need(bool condition)
{
    if (!condition)
        throw Unfit{};
}

bool serves(ElementType type)
{
    return type == ElementType::float32 || type == ElementType::int64 || type == ElementType::boolean;
}

class Translator {
public:
    Translator(const Call& call, const LoopOperands& operands) : call_(call), operands_(operands), body_(*operands.body)
    {
    }

    LoopTranslation translate()
    {
        declare_inputs();
        for (const Node& node : body_.nodes)
            add(node);
        std::size_t output = 0;
        if (operands_.is_loop) {
            loop_.condition = of(body_.outputs[output++]);
            need(loop_.values[loop_.condition].dtype == DataType::boolean && count(loop_.condition) == 1);
            if (loop_.condition == condition_ || holds(loop_.condition))
                loop_.condition = no_value;
        }
        for (const std::size_t value : result_.carried) {
            const std::size_t next = of(body_.outputs[output++]);
            need(loop_.values[next].shape == loop_.values[value].shape &&
                 loop_.values[next].dtype == loop_.values[value].dtype);
            need(next == value || std::ranges::find(result_.carried, next) == result_.carried.end());
            loop_.carried.push_back({value, next});
        }
        for (std::size_t k = 0; output < body_.outputs.size(); ++k)
            loop_.scanned.push_back({of(body_.outputs[output++]),
                                     k < operands_.results_backwards.size() && operands_.results_backwards[k]});
        need(loop_.scanned.empty() || loop_.condition == no_value);
        need(is_small(loop_, call_.queue().device()));
        result_.program = std::make_shared<SmallLoopProgram>(call_.queue().context(), std::move(loop_));
        return std::move(result_);
    }

private:
    std::size_t declare(int slot, Place place, DataType dtype, Dims shape)
    {
        loop_.values.push_back({place, dtype, std::move(shape)});
        values_[slot] = loop_.values.size() - 1;
        return loop_.values.size() - 1;
    }

    void declare_inputs()
    {
        std::size_t input = 0;
        need(body_.inputs.size() == 2 * operands_.is_loop + operands_.carried.size() + operands_.sequences.size());
        if (operands_.is_loop) {
            declare(body_.inputs[input++], Place::iteration, DataType::int64, {});
            // What the body reads of it holds: else there is no iteration.
            condition_ = declare(body_.inputs[input++], Place::outside, DataType::boolean, {});
            result_.constants[condition_] = Value::scalar(true);
        }
        for (const Value& value : operands_.carried) {
            need(value.is_tensor() && serves(value.type()));
            result_.carried.push_back(
                declare(body_.inputs[input++], Place::carried, storage_type(value.type()), value.shape()));
        }
        for (std::size_t k = 0; k < operands_.sequences.size(); ++k) {
            const Tensor& sequence = operands_.sequences[k];
            need(serves(element_type(sequence.dtype)));
            const std::size_t value = declare(body_.inputs[input++], Place::element, sequence.dtype,
                                              Dims(std::span<const std::int64_t>(sequence.shape).subspan(1)));
            loop_.values[value].backwards = operands_.sequences_backwards[k];
            result_.sequences.push_back(value);
        }
        std::set<int> inputs(body_.inputs.begin(), body_.inputs.end());
        for (const auto& [slot, value] : body_.constants)
            need(!inputs.contains(slot));            // an input with a default
    }

    // The value of a slot; constants and captured ones are declared when they are first read.
    std::size_t of(int slot)
    {
        need(slot != absent);
        if (const auto known = values_.find(slot); known != values_.end())
            return known->second;
        const Value* value = constant(slot);
        const auto captured = std::ranges::find(body_.captures, slot, &std::pair<int, int>::second);
        if (!value && captured != body_.captures.end())
            value = &call_.outer(captured->first);
        need(value && value->is_tensor() && serves(value->type()));
        const std::size_t result = declare(slot, Place::outside, storage_type(value->type()), value->shape());
        if (constant(slot))
            result_.constants[result] = *value;
        else
            result_.captured[result] = captured->first;
        return result;
    }

    bool holds(std::size_t value) const
    {
        const auto found = result_.constants.find(value);
        return found != result_.constants.end() && found->second.on_host() &&
               *found->second.host_bytes() != std::byte{0};
    }

    const Value* constant(int slot) const
    {
        const auto found = std::ranges::find(body_.constants, slot, &std::pair<int, Value>::first);
        return found == body_.constants.end() ? nullptr : &found->second;
    }

    const SmallLoop::Value& value(const Step& step, std::size_t k) const { return loop_.values[step.inputs[k]]; }
    std::int64_t count(std::size_t v) const { return loop_.values[v].shape.product(); }

    void finish(Step step, const Node& node, DataType dtype, Dims shape)
    {
        step.output = declare(node.outputs[0], Place::computed, dtype, std::move(shape));
        loop_.steps.push_back(std::move(step));
    }

    void add(const Node& node)
    {
        need(!node.body && node.outputs.size() == 1 && node.outputs[0] != absent && !node.inputs.empty());
        if (node.domain.empty() && node.op_type == "Identity") {
            values_[node.outputs[0]] = of(node.inputs[0]);
            return;
        }
        const bool own = node.domain == "clprim";
        need(own || node.domain.empty());
        if (own ? node.op_type == "Linear" : node.op_type == "MatMul")
            return add_product(node);
        if (!own && (node.op_type == "ReduceSum" || node.op_type == "ReduceMean" || node.op_type == "ReduceMax" ||
                     node.op_type == "ReduceMin"))
            return add_reduction(node);
        add_elementwise(node, own);
    }

    void add_elementwise(const Node& node, bool own)
    {
        Step step;
        Dims shape;
        for (const int slot : node.inputs) {
            step.inputs.push_back(of(slot));
            shape = broadcast(shape, loop_.values[step.inputs.back()].shape);
        }
        const DataType type = value(step, 0).dtype, last = value(step, step.inputs.size() - 1).dtype;
        const auto alike = [&](std::size_t from) {
            return std::ranges::all_of(std::span(step.inputs).subspan(from), [&](std::size_t v) {
                return loop_.values[v].dtype == last;
            });
        };
        DataType result = type;
        if (own && node.op_type != "Gelu") {
            const auto* integers = find_attribute<std::vector<std::int64_t>>(node, "integers");
            need(node.op_type == "Elementwise" && type == DataType::float32 && alike(0) &&
                 !node.attributes.contains("result") &&
                 !(integers && std::ranges::any_of(*integers, [](std::int64_t integer) { return integer != 0; })));
            step.code = std::get<std::string>(node.attributes.at("code"));
        } else if (node.op_type == "Cast") {
            need(type != DataType::float32 && attribute_of(node, "to", std::int64_t{0}) ==
                                                  static_cast<std::int64_t>(ElementType::float32));
            step.code = "y0 = (float)x0;";
            result = DataType::float32;
        } else if (node.op_type == "Where") {
            need(step.inputs.size() == 3 && type == DataType::boolean && alike(1));
            step.code = "y0 = x0 != 0 ? x1 : x2;";
            result = last;
        } else if (const char* code = predicate_code(node)) {
            need(alike(0));
            step.code = code;
            result = DataType::boolean;
        } else {
            need(alike(0) && type != DataType::boolean);
            step.code = row_code(node, type);
        }
        finish(std::move(step), node, result, std::move(shape));
    }

    // Rows' code beside their numbers. What rows say of integers is mostly another code.
    static std::string row_code(const Node& node, DataType type)
    {
        const ElementwiseCode row = elementwise_code(node);
        static const std::set<std::string_view> whole{"Add", "Sub", "Mul"};
        need(row.code && node.op_type != "ChannelAffine" &&
             (type == DataType::float32 || whole.contains(node.op_type)));
        std::string code;
        for (std::size_t i = 0; i < row.numbers.size(); ++i)
            code += type == DataType::float32 ? fmt::format("const T w{} = (T){:#.9g}f; ", i, row.numbers[i])
                                              : fmt::format("const long w{} = {}; ", i, row.numbers[i]);
        return code + row.code;
    }

    void add_product(const Node& node)
    {
        Step step;
        step.kind = Step::Kind::product;
        for (const int slot : node.inputs)
            step.inputs.push_back(of(slot));
        for (const std::size_t v : step.inputs)
            need(loop_.values[v].dtype == DataType::float32);
        need(step.inputs.size() >= 2);
        const Dims &a = value(step, 0).shape, &b = value(step, 1).shape;
        need(a.size() >= 2 && b.size() == 2 && a.back() == b[0]);
        Dims shape = a;
        shape[shape.size() - 1] = b[1];
        need(step.inputs.size() == 2 || value(step, 2).shape == Dims{b[1]});
        finish(std::move(step), node, DataType::float32, shape);
        if (const auto name = attribute_of<std::string>(node, "activation", ""); !name.empty()) {
            Step activation;
            activation.inputs.push_back(of(node.outputs[0]));
            const ActivationRow* known = fused_activation(name);
            need(known);
            activation.code = pointwise_row(known->row).code;
            finish(std::move(activation), node, DataType::float32, std::move(shape));
        }
    }

    // Over all axes, or the last ones.
    void add_reduction(const Node& node)
    {
        Step step;
        step.kind = Step::Kind::reduction;
        step.inputs.push_back(of(node.inputs[0]));
        need(value(step, 0).dtype == DataType::float32);
        const Dims& x = value(step, 0).shape;
        std::vector<std::int64_t> axes = attribute_of(node, "axes", std::vector<std::int64_t>());
        if (node.inputs.size() > 1 && node.inputs[1] != absent) {
            const Value* given = constant(node.inputs[1]);
            need(given && given->on_host() && given->type() == ElementType::int64);
            const auto* numbers = reinterpret_cast<const std::int64_t*>(given->host_bytes());
            axes.assign(numbers, numbers + given->numel());
        }
        need(!axes.empty() || !attribute_of(node, "noop_with_empty_axes", std::int64_t{0}));
        std::vector<bool> over(x.size(), axes.empty());
        for (const std::int64_t axis : axes)
            over[call_.axis(axis, x.size())] = true;
        Dims shape;
        bool reduced = false;
        for (std::size_t d = 0; d < x.size(); ++d) {
            need(x[d] == 1 || over[d] || !reduced);
            if (over[d]) {
                reduced = reduced || x[d] != 1;
                step.inner *= x[d];
            }
            if (!over[d] || attribute_of(node, "keepdims", std::int64_t{1}))
                shape.push_back(over[d] ? 1 : x[d]);
        }
        const bool most = node.op_type == "ReduceMax", extreme = most || node.op_type == "ReduceMin";
        step.code = most ? "sum = maximum(sum, x);" : extreme ? "sum = minimum(sum, x);" : "sum += x;";
        step.from = most ? "-INFINITY" : extreme ? "INFINITY" : "0";
        step.mean = node.op_type == "ReduceMean";
        finish(std::move(step), node, DataType::float32, std::move(shape));
    }

    const Call& call_;
    const LoopOperands& operands_;
    const Graph& body_;
    SmallLoop loop_;
    LoopTranslation result_;
    std::map<int, std::size_t> values_;              // by slot of the body
    std::size_t condition_ = no_value;
};

}  // namespace

LoopTranslation translated_loop(const Call& call, const LoopOperands& operands)
{
    try {
        return Translator(call, operands).translate();
    } catch (const Unfit&) {
        return {};
    } catch (const InvalidArgument&) {               // which the loop itself says with the name of the node
        return {};
    }
}

}  // namespace clprim::onnx
