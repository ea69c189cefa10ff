// Operators that cheaper ones compute.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "onnx/call.hpp"
#include "onnx/constants.hpp"
#include "onnx/four_bit_blocks.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

// The exponent of a power, if it is one number that never changes.
std::optional<float> exponent_of(Rewriter& rewriter, const Node& node)
{
    if (!node.domain.empty() || node.body || node.op_type != "Pow" || node.opset < 7 || node.inputs.size() != 2 ||
        std::ranges::find(node.inputs, absent) != node.inputs.end())
        return std::nullopt;
    const Value* value = rewriter.constant(node.inputs[1]);
    if (!value || !value->is_tensor() || value->type() != ElementType::float32 || !value->on_host() ||
        value->numel() != 1 || value->dim() > 1)      // of more axes than the base it would lend it some
        return std::nullopt;
    return *reinterpret_cast<const float*>(value->host_bytes());
}

const Value* host_constant(Rewriter& rewriter, const Node& node, std::size_t input, ElementType type)
{
    const bool given = input < node.inputs.size() && node.inputs[input] != absent;
    const Value* value = given ? rewriter.constant(node.inputs[input]) : nullptr;
    return value && value->is_tensor() && value->type() == type && value->on_host() ? value : nullptr;
}

bool is_given(const Node* node, std::string_view op_type, std::size_t inputs)
{
    return node && node->domain.empty() && !node->body && node->op_type == op_type && node->inputs.size() == inputs &&
           std::ranges::find(node->inputs, absent) == node->inputs.end();
}

// Whether the numbers of a shape are sizes, none of them to be found by Reshape itself.
bool holds_sizes(Rewriter& rewriter, int slot)
{
    if (const Value* value = rewriter.constant(slot)) {
        if (!is_host_tensor(*value) || value->type() != ElementType::int64)
            return false;
        const std::span sizes(reinterpret_cast<const std::int64_t*>(value->host_bytes()),
                              static_cast<std::size_t>(value->numel()));
        return std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; });
    }
    const Node* writer = rewriter.writer(slot);
    if (!writer || !writer->domain.empty())
        return false;
    return writer->op_type == "Shape" ||
           (writer->op_type == "Concat" &&
            std::ranges::all_of(writer->inputs, [&](int part) { return holds_sizes(rewriter, part); }));
}

// Shape of what Reshape makes of it is what that one reads, so that nobody may read its result.
std::optional<Node> shape_that_was_given(Rewriter& rewriter, const Node& node)
{
    const Node* reshape = is_given(&node, "Shape", 1) ? rewriter.writer(node.inputs[0]) : nullptr;
    if (!is_given(reshape, "Reshape", 2) || attribute_of<std::int64_t>(*reshape, "allowzero", 0) == 0 ||
        attribute_of<std::int64_t>(node, "start", 0) != 0 || node.attributes.contains("end") ||
        !holds_sizes(rewriter, reshape->inputs[1]))
        return std::nullopt;
    Node copy = node;
    copy.op_type = "Identity";
    copy.inputs = {reshape->inputs[1]};
    copy.attributes.clear();
    copy.row = find_operator("", "Identity", copy.opset);
    return copy;
}

// com.microsoft's MatMulFpQ4 of weights that never change as its MatMulNBits, which has kernels for them.
std::optional<Node> product_of_blocks(Rewriter& rewriter, const Node& node)
{
    if (node.domain != "com.microsoft" || node.op_type != "MatMulFpQ4" || node.body)
        return std::nullopt;
    const Value* bytes = host_constant(rewriter, node, 1, ElementType::uint8);
    const Value* shape = host_constant(rewriter, node, 2, ElementType::int64);
    const auto given = node.attributes.find("blk_quant_type");
    const std::int64_t one = 1, *type = given == node.attributes.end() ? &one
                                                                       : std::get_if<std::int64_t>(&given->second);
    if (!bytes || !shape || !type || shape->numel() != 2)
        return std::nullopt;
    const auto* sizes = reinterpret_cast<const std::int64_t*>(shape->host_bytes());
    const FourBitBlocks blocks{sizes[0], sizes[1], *type};
    if (!blocks.valid() || bytes->numel() != blocks.bytes())     // an error of the run
        return std::nullopt;
    ApartBlocks b = apart(blocks, {reinterpret_cast<const std::uint8_t*>(bytes->host_bytes()),
                                   static_cast<std::size_t>(blocks.bytes())});
    Node product = node;
    product.op_type = "MatMulNBits";
    product.inputs = {node.inputs[0], rewriter.add_constant(std::move(b.values)),
                      rewriter.add_constant(std::move(b.scales))};
    if (!b.zeros.is_none())
        product.inputs.push_back(rewriter.add_constant(std::move(b.zeros)));
    product.attributes = {{"K", blocks.k}, {"N", blocks.n}, {"block_size", FourBitBlocks::length}};
    product.row = find_operator(product.domain, product.op_type, product.opset);
    return product;
}

// Element types of values, as far as they follow from inputs, constants and operators that keep them.
class Types {
public:
    explicit Types(const Graph& graph)
    {
        for (std::size_t i = 0; i < graph.inputs.size() && i < graph.input_ports.size(); ++i)
            if (graph.input_ports[i].kind == Port::Kind::tensor)
                types_[graph.inputs[i]] = graph.input_ports[i].type;
        for (const auto& [slot, value] : graph.constants)
            if (value.is_tensor())
                types_[slot] = value.type();
    }

    ElementType of(int slot) const
    {
        const auto found = types_.find(slot);
        return found == types_.end() ? ElementType::undefined : found->second;
    }

    // To be called of each node in turn.
    void see(const Node& node)
    {
        static const std::set<std::string_view> keeping{
            "Add",   "Clip",   "Concat",  "Div",       "Erf",     "Exp",       "Expand",             "Gather",
            "Gelu",  "Gemm",   "MatMul",  "Mul",       "Neg",     "Pow",       "LayerNormalization", "ReduceMean",
            "Relu",  "Reshape", "Sigmoid", "Slice",    "Softmax", "Split",     "RMSNormalization",   "Sqrt",
            "Sub",   "Squeeze", "Tanh",    "Transpose", "Unsqueeze"};
        static const std::set<std::string_view> testing{"And",   "Equal", "Greater", "GreaterOrEqual", "IsInf",
                                                        "IsNaN", "Less",  "Not",     "LessOrEqual",    "Or"};
        ElementType type = ElementType::undefined;
        if (!node.domain.empty() || node.body || node.inputs.empty())
            return;
        if (node.op_type == "Cast")
            type = static_cast<ElementType>(attribute_of<std::int64_t>(node, "to", 0));
        else if (keeping.contains(node.op_type))
            type = of(node.inputs[0]);
        else if (node.op_type == "Where" && node.inputs.size() == 3)
            type = of(node.inputs[1]);
        else if (testing.contains(node.op_type))
            type = ElementType::boolean;
        for (std::size_t i = 0; i < node.outputs.size() && (i == 0 || node.op_type == "Split"); ++i)
            if (node.outputs[i] != absent)
                types_[node.outputs[i]] = type;
    }

private:
    std::map<int, ElementType> types_;
};

// Finds nodes whose result is one of their operands, in the order of the graph.
class Copies {
public:
    explicit Copies(const Graph& graph) : types_(graph)
    {
        for (const auto& [slot, value] : graph.constants)
            if (is_host_tensor(value))
                constants_[slot] = &value;
        for (const int slot : graph.inputs)              // an input's initializer is a default only
            constants_.erase(slot);
    }

    // The slot of that operand, or absent. To be asked of each node in turn.
    int original(const Node& node)
    {
        types_.see(node);
        const bool plain = node.domain.empty() && !node.body && node.outputs.size() == 1 && node.outputs[0] != absent &&
                           !node.inputs.empty() && node.inputs[0] != absent;
        if (!plain)
            return absent;
        if (node.op_type == "Identity" || converts_nothing(node))
            return node.inputs[0];
        if (node.op_type == "Squeeze")
            return unsqueezed(node);
        if (node.op_type == "Unsqueeze")
            if (const auto given = axes(node); given && !given->empty())
                unsqueezes_[node.outputs[0]] = {node.inputs[0], *given};
        return unchanged(node);
    }

private:
    bool converts_nothing(const Node& node) const
    {
        const ElementType type = types_.of(node.inputs[0]);
        return node.op_type == "Cast" && type != ElementType::undefined &&
               static_cast<std::int64_t>(type) == attribute_of<std::int64_t>(node, "to", 0);
    }

    // The operand of a sum with nothing, or of a product with one.
    int unchanged(const Node& node) const
    {
        const bool sum = node.op_type == "Add", product = node.op_type == "Mul";
        const bool difference = node.op_type == "Sub", quotient = node.op_type == "Div";
        if (!(sum || product || difference || quotient) || node.opset < 7 || node.inputs.size() != 2)
            return absent;
        const auto neutral = [&](int slot, int other) {
            const auto found = constants_.find(slot);
            // A constant with an axis lends it to operands without.
            return found != constants_.end() && is_number(*found->second, product || quotient ? 1 : 0) &&
                   (found->second->dim() == 0 || (found->second->dim() == 1 && unsqueezes_.contains(other)));
        };
        if (neutral(node.inputs[1], node.inputs[0]))
            return node.inputs[0];
        return (sum || product) && neutral(node.inputs[0], node.inputs[1]) ? node.inputs[1] : absent;
    }

    static bool is_number(const Value& value, int number)
    {
        const auto is = [&]<class T>(T wanted) {
            return is_element<T>(storage_type(value.type())) &&
                   std::memcmp(value.host_bytes(), &wanted, sizeof(T)) == 0;
        };
        return value.numel() == 1 && (is(static_cast<float>(number)) || is(static_cast<double>(number)) ||
                                      is(static_cast<std::int32_t>(number)) || is(static_cast<std::int64_t>(number)));
    }

    int unsqueezed(const Node& node) const
    {
        const auto found = unsqueezes_.find(node.inputs[0]);
        const auto own = axes(node);
        return found != unsqueezes_.end() && own && own == found->second.axes ? found->second.original : absent;
    }

    // Of Squeeze and Unsqueeze, as given: both count axes of the same tensor. Nothing where only a run knows them.
    std::optional<std::vector<std::int64_t>> axes(const Node& node) const
    {
        if (const auto* attribute = find_attribute<std::vector<std::int64_t>>(node, "axes"))
            return *attribute;
        const auto found = node.inputs.size() == 2 ? constants_.find(node.inputs[1]) : constants_.end();
        if (found == constants_.end() || found->second->type() != ElementType::int64)
            return std::nullopt;
        const auto* numbers = reinterpret_cast<const std::int64_t*>(found->second->host_bytes());
        return std::vector(numbers, numbers + found->second->numel());
    }

    struct Unsqueezed {
        int original = absent;
        std::vector<std::int64_t> axes;
    };
    Types types_;
    std::map<int, const Value*> constants_;
    std::map<int, Unsqueezed> unsqueezes_;           // by what they write
};

}  // namespace

void skip_copies(Graph& graph)
{
    const std::set<int> seen_by_others = shared_slots(graph);
    Copies copies(graph);
    std::map<int, int> originals;
    std::erase_if(graph.nodes, [&](Node& node) {
        for (int& slot : node.inputs)
            if (const auto found = originals.find(slot); found != originals.end())
                slot = found->second;
        const int original = copies.original(node);
        if (original == absent)
            return false;
        if (!seen_by_others.contains(node.outputs[0])) {
            originals[node.outputs[0]] = original;
            return true;
        }
        if (node.op_type != "Identity") {
            node.op_type = "Identity";
            node.inputs = {original};
            node.attributes.clear();
            node.row = find_operator("", "Identity", node.opset);
        }
        return false;
    });
}

void simplify(Rewriter& rewriter)
{
    for (std::size_t i = 0; i < rewriter.size(); ++i) {
        Node& node = rewriter.node(i);
        if (auto product = product_of_blocks(rewriter, node)) {
            rewriter.replace({i}, std::move(*product));
            continue;
        }
        if (auto shape = shape_that_was_given(rewriter, node)) {
            rewriter.replace({i}, std::move(*shape));
            continue;
        }
        if (exponent_of(rewriter, node) != 2.0f)
            continue;
        // The type of a power is its base's: the product of it with itself.
        Node product = node;
        product.op_type = "Mul";
        product.inputs = {node.inputs[0], node.inputs[0]};
        product.row = find_operator("", "Mul", product.opset);
        rewriter.replace({i}, std::move(product));
    }
    rewriter.finish();
}

}  // namespace clprim::onnx
