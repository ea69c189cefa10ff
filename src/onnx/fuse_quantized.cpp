// Models whose operators stand between DequantizeLinear and QuantizeLinear compute with the integers themselves: such a
// convolution or product becomes one with exact sums that quantises its result, an addition goes from bytes to bytes,
// and what only moves or compares elements does so with their bytes. To be run before constants are folded: weights are
// still integers then.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <clprim/error.hpp>

#include "onnx/call.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

std::int64_t int_of(const Node& node, std::string_view name, std::int64_t otherwise)
{
    return attribute_of(node, name, otherwise);
}

int input_of(const Node& node, std::size_t i) { return i < node.inputs.size() ? node.inputs[i] : absent; }

bool is(const Node& node, std::string_view op_type)
{
    return node.domain.empty() && !node.body && node.op_type == op_type && node.outputs.size() == 1 &&
           node.outputs[0] != absent && !node.inputs.empty() && node.inputs[0] != absent;
}

bool is_byte(ElementType type) { return type == ElementType::int8 || type == ElementType::uint8; }

// What DequantizeLinear reads or QuantizeLinear writes: slots, and the number of scales.
struct Quantised {
    std::size_t node = 0;
    int value = absent, scale = absent, zero = absent;
    std::int64_t scales = 1;
};

class QuantisedFusion {
public:
    explicit QuantisedFusion(Rewriter& rewriter) : rewriter_(rewriter) {}

    void run()
    {
        for (std::size_t i = 0; i < rewriter_.size(); ++i) {
            if (rewriter_.dead(i))
                continue;
            const Node& node = rewriter_.node(i);
            if (is(node, "Conv"))
                fuse_product(i, "QLinearConv", 0);
            else if (is(node, "Gemm") && plain_gemm(node))
                fuse_product(i, "QLinearGemm", int_of(node, "transB", 0) ? 0 : 1);
            else if (is(node, "MatMul"))
                fuse_product(i, "QLinearGemm", 1);
            else if (is(node, "Add"))
                fuse_addition(i);
            else if (keeps_elements(node))
                fuse_movement(i);
        }
    }

private:
    static bool plain_gemm(const Node& node)
    {
        const auto *alpha = find_attribute<float>(node, "alpha"), *beta = find_attribute<float>(node, "beta");
        return int_of(node, "transA", 0) == 0 && (!alpha || *alpha == 1) && (!beta || *beta == 1);
    }

    static bool keeps_elements(const Node& node)
    {
        static const std::set<std::string_view> names{"MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze",
                                                      "Unsqueeze"};
        return names.contains(node.op_type) && is(node, node.op_type) &&
               (node.op_type != "MaxPool" || node.opset >= 12);
    }

    const float* floats(int slot, std::int64_t& count) const
    {
        const Value* value = slot == absent ? nullptr : rewriter_.constant(slot);
        if (!value || !value->is_tensor() || value->type() != ElementType::float32 || !value->on_host() ||
            value->dim() > 1)
            return nullptr;
        count = value->numel();
        return reinterpret_cast<const float*>(value->host_bytes());
    }

    // Scale and zero point of a node: constants, of one element or along `axis`.
    std::optional<Quantised> parameters(const Node& node, std::int64_t axis) const
    {
        Quantised result{rewriter_.position(node), node.inputs[0], input_of(node, 1), input_of(node, 2)};
        if (!floats(result.scale, result.scales) || int_of(node, "block_size", 0) || int_of(node, "output_dtype", 0) ||
            int_of(node, "precision", 0) || (result.scales != 1 && (axis < 0 || int_of(node, "axis", 1) != axis)))
            return std::nullopt;
        const Value* zero = result.zero == absent ? nullptr : rewriter_.constant(result.zero);
        if (result.zero != absent && (!zero || !zero->is_tensor() || zero->numel() != result.scales))
            return std::nullopt;
        return result;
    }

    // The integers behind `slot`; their zero point tells of which type they are.
    std::optional<Quantised> dequantised(int slot, std::int64_t axis = -1)
    {
        const Node* node = rewriter_.writer(slot);
        if (!node || !is(*node, "DequantizeLinear"))
            return std::nullopt;
        auto result = parameters(*node, axis);
        if (!result)
            return std::nullopt;
        if (const Value* value = rewriter_.constant(result->value))
            return value->is_tensor() && is_byte(value->type()) ? result : std::nullopt;
        return result->zero != absent && is_byte(rewriter_.constant(result->zero)->type()) ? result : std::nullopt;
    }

    struct Ending {
        std::vector<std::size_t> nodes;          // activation and QuantizeLinear
        Quantised result;
        std::optional<std::int64_t> low, high;   // of the activation
    };

    // What quantises `slot`, with a Relu or Clip before it.
    std::optional<Ending> ending(int slot)
    {
        Ending end;
        const Node* next = rewriter_.only_reader(slot);
        const Node* activation = nullptr;
        if (next && (is(*next, "Relu") || (is(*next, "Clip") && next->opset >= 11)) && next->inputs[0] == slot) {
            activation = next;
            end.nodes.push_back(rewriter_.position(*next));
            slot = next->outputs[0];
            next = rewriter_.only_reader(slot);
        }
        if (!next || !is(*next, "QuantizeLinear") || next->inputs[0] != slot)
            return std::nullopt;
        const auto result = parameters(*next, -1);
        if (!result || (result->zero != absent && !is_byte(rewriter_.constant(result->zero)->type())))
            return std::nullopt;
        end.result = *result;
        end.nodes.push_back(rewriter_.position(*next));
        if (activation && !set_bounds(*activation, end))
            return std::nullopt;
        return end;
    }

    // Rounding keeps order: quantising what is bounded is bounding what is quantised.
    bool set_bounds(const Node& activation, Ending& end) const
    {
        std::int64_t count = 0;
        const float scale = *floats(end.result.scale, count);
        std::int64_t zero = 0;
        if (end.result.zero != absent) {
            const Value* value = rewriter_.constant(end.result.zero);
            if (!value->on_host())
                return false;
            const auto byte = static_cast<std::uint8_t>(*value->host_bytes());
            zero = value->type() == ElementType::int8 ? static_cast<std::int8_t>(byte) : byte;
        }
        const auto quantised = [&](float bound) {
            return static_cast<std::int64_t>(std::clamp(std::nearbyint(bound / scale), -65536.0f, 65536.0f)) + zero;
        };
        if (activation.op_type == "Relu") {
            end.low = zero;
            return true;
        }
        for (const std::size_t i : {1u, 2u}) {
            if (input_of(activation, i) == absent)
                continue;
            const float* bound = floats(input_of(activation, i), count);
            if (!bound || count != 1 || std::isnan(*bound))
                return false;
            (i == 1 ? end.low : end.high) = quantised(*bound);
        }
        return true;
    }

    // Integers in units of both scales, if `slot` holds such; `bias` is absent where there is none.
    bool integer_bias(int slot, const Quantised& x, const Quantised& w, Quantised& bias)
    {
        if (slot == absent)
            return true;
        const Node* node = rewriter_.writer(slot);
        if (!node || !is(*node, "DequantizeLinear"))
            return false;
        const auto found = parameters(*node, 0);
        const auto is_one_axis = [&](int value) {
            const Value* constant = rewriter_.constant(value);
            return constant && constant->is_tensor() && constant->type() == ElementType::int32 && constant->dim() == 1;
        };
        if (!found || !is_one_axis(found->value) || !all_zero(found->zero))
            return false;
        std::int64_t count = 0;
        const float *unit = floats(found->scale, count), *of_x = floats(x.scale, count), *of_w = floats(w.scale, count);
        for (std::int64_t i = 0; i < std::max(found->scales, w.scales); ++i) {
            const float product = *of_x * of_w[w.scales == 1 ? 0 : i];
            if (!(std::abs(unit[found->scales == 1 ? 0 : i] - product) <= 1e-4f * std::abs(product)))
                return false;
        }
        bias = *found;
        return true;
    }

    bool all_zero(int slot) const
    {
        if (slot == absent)
            return true;
        const Value* value = rewriter_.constant(slot);
        if (!value->on_host() || value->type() != ElementType::int32)
            return false;
        const auto* zeros = reinterpret_cast<const std::int32_t*>(value->host_bytes());
        return std::all_of(zeros, zeros + value->numel(), [](std::int32_t zero) { return zero == 0; });
    }

    // A convolution or product with constant weights; where nothing quantises its result that is real.
    void fuse_product(std::size_t i, const std::string& name, std::int64_t weight_axis)
    {
        const Node node = rewriter_.node(i);
        if (node.inputs.size() < 2)
            return;
        const auto x = dequantised(node.inputs[0]), w = dequantised(node.inputs[1], weight_axis);
        Quantised bias;
        if (!x || !w || !rewriter_.constant(w->value) || !integer_bias(input_of(node, 2), *x, *w, bias))
            return;
        const auto rank = rewriter_.constant(w->value)->dim();
        if (name == "QLinearGemm" ? rank != 2 : rank < 3)
            return;
        const auto end = ending(node.outputs[0]);
        Node fused = start(node, name);
        fused.inputs = {x->value, x->scale, x->zero, w->value, w->scale, w->zero,
                        end ? end->result.scale : absent, end ? end->result.zero : absent, bias.value};
        std::vector<std::size_t> members{x->node, w->node};
        if (bias.value != absent)
            members.push_back(bias.node);
        finish(std::move(fused), std::move(members), i, end);
    }

    void fuse_addition(std::size_t i)
    {
        const Node node = rewriter_.node(i);
        const auto a = dequantised(input_of(node, 0)), b = dequantised(input_of(node, 1));
        const auto end = ending(node.outputs[0]);
        if (!a || !b || !end || node.opset < 7 || a->zero == absent || b->zero == absent ||
            end->result.zero == absent ||
            rewriter_.constant(a->zero)->type() != rewriter_.constant(b->zero)->type())
            return;
        Node fused = start(node, "QLinearAdd");
        fused.inputs = {a->value, a->scale, a->zero, b->value, b->scale, b->zero, end->result.scale, end->result.zero};
        finish(std::move(fused), a->node == b->node ? std::vector{a->node} : std::vector{a->node, b->node}, i, end);
    }

    static Node start(const Node& node, const std::string& name)
    {
        Node fused = own_node(name, node.name);
        fused.attributes = node.attributes;
        return fused;
    }

    void finish(Node fused, std::vector<std::size_t> members, std::size_t root, const std::optional<Ending>& end)
    {
        std::vector<std::size_t> taken{root};
        if (end) {
            taken.insert(taken.end(), end->nodes.begin(), end->nodes.end());
            if (end->low)
                fused.attributes["low"] = *end->low;
            if (end->high)
                fused.attributes["high"] = *end->high;
        }
        members.insert(members.end(), taken.begin(), taken.end());
        fused.outputs = rewriter_.node(taken.back()).outputs;
        fused.attributes["operators"] = rewriter_.body_of(members, fused.inputs);
        rewriter_.replace(taken, std::move(fused));
    }

    // DequantizeLinear, what keeps elements, QuantizeLinear by the same numbers.
    void fuse_movement(std::size_t i)
    {
        const Node node = rewriter_.node(i);
        const auto x = dequantised(node.inputs[0]);
        const auto end = ending(node.outputs[0]);
        if (!x || !end || end->nodes.size() != 1 || !same(x->scale, end->result.scale) ||
            !same(x->zero, end->result.zero))
            return;
        Node moved = node;
        moved.inputs[0] = x->value;
        moved.outputs = rewriter_.node(end->nodes[0]).outputs;
        rewriter_.replace({i, end->nodes[0]}, std::move(moved));
    }

    bool same(int a, int b) const
    {
        if (a == b)
            return true;
        const Value* x = a == absent ? nullptr : rewriter_.constant(a);
        const Value* y = b == absent ? nullptr : rewriter_.constant(b);
        return x && y && x->type() == y->type() && x->numel() == 1 && y->numel() == 1 && x->on_host() && y->on_host() &&
               std::equal(x->host_bytes(), x->host_bytes() + size_of(storage_type(x->type())), y->host_bytes());
    }

    Rewriter& rewriter_;
};

}  // namespace

void fuse_quantised(Graph& graph)
{
    if (std::ranges::none_of(graph.nodes, [](const Node& node) { return is(node, "DequantizeLinear"); }))
        return;
    Rewriter rewriter(graph);
    QuantisedFusion(rewriter).run();
    rewriter.finish();
    // Weights that nobody reads as real numbers any more need not become such.
    std::erase_if(graph.nodes, [&](const Node& node) {
        return is(node, "DequantizeLinear") && rewriter.readers(node.outputs[0]).empty() &&
               !rewriter.exposed(node.outputs[0]);
    });
}

}  // namespace clprim::onnx
