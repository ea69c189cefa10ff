// Trees of elementwise operators become one node: its code for the generator, and the operators themselves as a
// subgraph for operands that the code is not made for.
#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include <clprim/error.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

constexpr std::size_t most_operators = 24, most_operands = 8;

constexpr auto to_float = static_cast<std::int64_t>(ElementType::float32);

// From integers to float32, if what it reads are integers.
bool is_conversion(const Node& node)
{
    return node.domain.empty() && !node.body && node.op_type == "Cast" && node.inputs.size() == 1 &&
           node.outputs.size() == 1 && attribute_of(node, "to", std::int64_t{0}) == to_float;
}

struct Tree {
    std::vector<std::size_t> members;                // nodes, the last one writes the result
    std::vector<int> operands;                       // slots read from outside, but for quantisers' constants
};

bool quantises(const Node& node) { return node.op_type == "QuantizeLinear"; }

// QuantizeLinear or DequantizeLinear between float32 and bytes, with constants for all elements.
bool is_quantiser(const Rewriter& rewriter, const Node& node)
{
    if (!node.domain.empty() || node.body || (!quantises(node) && node.op_type != "DequantizeLinear") ||
        node.inputs.size() != 3 || node.outputs.size() != 1)
        return false;
    for (const char* name : {"block_size", "output_dtype", "precision"})
        if (attribute_of(node, name, std::int64_t{0}) != 0)
            return false;
    const auto is_number = [&](int slot, auto&& accepts) {
        const Value* value = slot == absent ? nullptr : rewriter.constant(slot);
        return value && value->is_tensor() && value->numel() == 1 && value->on_host() && accepts(value->type());
    };
    return is_number(node.inputs[1], [](ElementType type) { return type == ElementType::float32; }) &&
           is_number(node.inputs[2],
                     [](ElementType type) { return type == ElementType::int8 || type == ElementType::uint8; });
}

ElementType byte_type(const Rewriter& rewriter, const Node& quantiser)
{
    return rewriter.constant(quantiser.inputs[2])->type();
}

// Sums of int32 and bytes in float32 are exact, and what lies beyond the bounds is the nearer one, no number the lower.
std::string quantiser_code(const Rewriter& rewriter, const Node& node)
{
    float scale = 0;
    std::memcpy(&scale, rewriter.constant(node.inputs[1])->host_bytes(), sizeof(scale));
    const bool is_signed = byte_type(rewriter, node) == ElementType::int8;
    const auto byte = std::to_integer<std::uint8_t>(*rewriter.constant(node.inputs[2])->host_bytes());
    const int zero = is_signed ? static_cast<std::int8_t>(byte) : byte, low = is_signed ? -128 : 0;
    return quantises(node) ? fmt::format("y0 = fmin(fmax(rint(x0 / {:#.9g}f) + {}, {}.0f), {}.0f);", scale, zero, low,
                                         low + 255)
                           : fmt::format("y0 = (x0 - {}) * {:#.9g}f;", zero, scale);
}

// The inputs of a node that its code reads.
std::span<const int> read_by(const Rewriter& rewriter, const Node& node)
{
    return std::span(node.inputs).first(is_quantiser(rewriter, node) ? 1 : node.inputs.size());
}

// Which slots hold sums of integers: products of bytes, and such with something added, all of int32.
std::vector<bool> integer_sums(Rewriter& rewriter)
{
    std::vector<bool> sums(rewriter.graph().slots.size());
    const auto is_sum = [&](int slot) { return slot != absent && sums[static_cast<std::size_t>(slot)]; };
    for (std::size_t i = 0; i < rewriter.size(); ++i) {
        const Node& node = rewriter.node(i);
        if (rewriter.dead(i) || !node.domain.empty() || node.body || node.outputs.size() != 1 ||
            node.outputs[0] == absent)
            continue;
        sums[static_cast<std::size_t>(node.outputs[0])] =
            node.op_type == "MatMulInteger" || node.op_type == "ConvInteger" ||
            (node.op_type == "Add" && node.opset >= 7 && std::ranges::any_of(node.inputs, is_sum));
    }
    return sums;
}

bool fusable(const Rewriter& rewriter, const Node& node, const std::vector<bool>& sums)
{
    if (is_quantiser(rewriter, node))
        return node.inputs[0] != absent && node.outputs[0] != absent;
    if (is_conversion(node) && node.inputs[0] != absent && sums[static_cast<std::size_t>(node.inputs[0])])
        return true;
    return !node.body && elementwise_code(node).code && node.outputs.size() == 1 && node.outputs[0] != absent &&
           std::ranges::find(node.inputs, absent) == node.inputs.end();
}

std::vector<int> operands_of(Rewriter& rewriter, const std::vector<std::size_t>& members)
{
    std::vector<int> written, operands;
    for (const std::size_t i : members)
        written.push_back(rewriter.node(i).outputs[0]);
    for (const std::size_t i : members)
        for (const int slot : read_by(rewriter, rewriter.node(i)))
            if (std::ranges::find(written, slot) == written.end() &&
                std::ranges::find(operands, slot) == operands.end())
                operands.push_back(slot);
    return operands;
}

// Grows from its root towards the inputs, over values that nothing outside of the tree reads.
Tree grow(Rewriter& rewriter, const std::vector<bool>& taken, const std::vector<bool>& sums, std::size_t root)
{
    Tree tree{{root}, operands_of(rewriter, {root})};
    for (bool grown = true; grown;) {
        grown = false;
        for (const int slot : tree.operands) {
            const Node* writer = rewriter.writer(slot);
            if (!writer || taken[rewriter.position(*writer)] || rewriter.exposed(slot) ||
                tree.members.size() == most_operators || !fusable(rewriter, *writer, sums))
                continue;
            const auto inside = [&](std::size_t reader) {
                return std::ranges::find(tree.members, reader) != tree.members.end();
            };
            if (!std::ranges::all_of(rewriter.readers(slot), inside))
                continue;
            auto members = tree.members;
            const std::size_t place = rewriter.position(*writer);
            members.insert(std::ranges::upper_bound(members, place), place);
            auto operands = operands_of(rewriter, members);
            if (operands.size() > most_operands)
                continue;
            tree = {std::move(members), std::move(operands)};
            grown = true;
            break;
        }
    }
    return tree;
}

// Whether a node of a tree computes with int32 up to its result or, of a conversion, up to that.
bool reads_integers(const Node& node, const std::vector<bool>& sums)
{
    return is_conversion(node) || sums[static_cast<std::size_t>(node.outputs[0])];
}

// Of each operand the type of integers that it has, or 0.
std::vector<std::int64_t> integers_of(Rewriter& rewriter, const Tree& tree, const std::vector<bool>& sums)
{
    std::vector<std::int64_t> result;
    for (const int slot : tree.operands) {
        ElementType type = ElementType::undefined;
        for (const std::size_t i : tree.members) {
            const Node& node = rewriter.node(i);
            if (std::ranges::find(node.inputs, slot) == node.inputs.end())
                continue;
            if (is_quantiser(rewriter, node) && !quantises(node))
                type = byte_type(rewriter, node);
            else if (reads_integers(node, sums))
                type = ElementType::int32;
        }
        result.push_back(static_cast<std::int64_t>(type));
    }
    return result;
}

// One block per operator, with the names that its code expects.
std::string code_of(Rewriter& rewriter, const Tree& tree, const std::vector<bool>& sums)
{
    const std::vector<std::int64_t> integers = integers_of(rewriter, tree, sums);
    std::map<int, std::string> names;
    for (std::size_t k = 0; k < tree.operands.size(); ++k)
        names[tree.operands[k]] = fmt::format("a{}", k);
    std::string code;
    for (std::size_t k = 0; k < tree.operands.size(); ++k)
        code += fmt::format("const {1} a{0} = x{0}; ", k,
                            integers[k] == static_cast<std::int64_t>(ElementType::int32) ? "int" : "T");
    for (std::size_t m = 0; m < tree.members.size(); ++m) {
        const Node& node = rewriter.node(tree.members[m]);
        const bool quantiser = is_quantiser(rewriter, node);
        const std::string of_quantiser = quantiser ? quantiser_code(rewriter, node) : "";
        const ElementwiseCode own = quantiser             ? ElementwiseCode{of_quantiser.c_str(), {}}
                                    : is_conversion(node) ? ElementwiseCode{"y0 = (T)x0;", {}}
                                                          : elementwise_code(node);
        const char* const from = reads_integers(node, sums) ? "int" : "T";
        const char* const to = sums[static_cast<std::size_t>(node.outputs[0])] ? "int" : "T";
        const std::string result = fmt::format("v{}", m);
        code += fmt::format("{} {}; {{ ", to, result);
        for (std::size_t i = 0; i < read_by(rewriter, node).size(); ++i)
            code += fmt::format("const {} x{} = {}; ", from, i, names.at(node.inputs[i]));
        for (std::size_t i = 0; i < own.numbers.size(); ++i)
            code += fmt::format("const T w{} = (T){:#.9g}f; ", i, own.numbers[i]);
        code += fmt::format("{} y0; {} {} = y0; }} ", to, own.code, result);
        names[node.outputs[0]] = result;
    }
    return code + fmt::format("y0 = v{};", tree.members.size() - 1);
}

// `inputs`: operands and the constants of quantisers.
GraphRef body_of(Rewriter& rewriter, const Tree& tree, const std::vector<int>& inputs)
{
    auto body = std::make_shared<Graph>();
    std::map<int, int> slots;
    const auto local = [&](int slot) {
        const auto [found, fresh] = slots.emplace(slot, 0);
        if (fresh)
            found->second = body->add_slot(rewriter.graph().slots[static_cast<std::size_t>(slot)]);
        return found->second;
    };
    for (const int slot : inputs)
        body->inputs.push_back(local(slot));
    for (const std::size_t i : tree.members) {
        Node node = rewriter.node(i);
        for (int& slot : node.inputs)
            slot = local(slot);
        node.outputs[0] = local(node.outputs[0]);
        body->nodes.push_back(std::move(node));
    }
    body->outputs = {body->nodes.back().outputs[0]};
    return body;
}

}  // namespace

void fuse_elementwise(Rewriter& rewriter)
{
    const std::vector<bool> sums = integer_sums(rewriter);
    std::vector<bool> taken(rewriter.size());
    std::vector<std::pair<Tree, Node>> fused;
    for (std::size_t root = rewriter.size(); root-- > 0;) {
        if (taken[root] || !fusable(rewriter, rewriter.node(root), sums) ||
            sums[static_cast<std::size_t>(rewriter.node(root).outputs[0])])
            continue;
        const Tree tree = grow(rewriter, taken, sums, root);
        if (tree.members.size() < 2)
            continue;
        for (const std::size_t i : tree.members)
            taken[i] = true;
        const Node& last = rewriter.node(root);
        Node node = own_node("Elementwise", rewriter.node(tree.members[0]).name + ".." + last.name, tree.operands,
                             last.outputs);
        bool bytes = false;
        for (const std::size_t i : tree.members)
            if (const Node& member = rewriter.node(i); is_quantiser(rewriter, member)) {
                bytes = true;
                for (const int slot : {member.inputs[1], member.inputs[2]})
                    if (std::ranges::find(node.inputs, slot) == node.inputs.end())
                        node.inputs.push_back(slot);
            }
        node.attributes["code"] = code_of(rewriter, tree, sums);
        node.attributes["integers"] = integers_of(rewriter, tree, sums);
        if (bytes)
            node.attributes["result"] = static_cast<std::int64_t>(
                is_quantiser(rewriter, last) && quantises(last) ? byte_type(rewriter, last) : ElementType::float32);
        node.attributes["operators"] = body_of(rewriter, tree, node.inputs);
        fused.emplace_back(tree, std::move(node));
    }
    for (auto& [tree, node] : fused)
        rewriter.replace(tree.members, std::move(node));
    rewriter.finish();
}

}  // namespace clprim::onnx
