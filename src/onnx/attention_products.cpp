#include "onnx/attention_products.hpp"

#include <algorithm>
#include <set>

#include "onnx/constants.hpp"

namespace clprim::onnx {

namespace {

bool given(const Node& node, std::size_t inputs)
{
    return !node.body && node.inputs.size() == inputs && std::ranges::find(node.inputs, absent) == node.inputs.end() &&
           node.outputs.size() == 1 && node.outputs[0] != absent;
}

// Of an operand of a product: whether its first axis is that of rows, and then whether these are its columns.
struct Turn {
    bool first = false, turned = false;

    TrailingAxes axes() const
    {
        const std::int64_t rows = first ? 0 : -2;
        return turned ? TrailingAxes{-1, rows} : first ? TrailingAxes{rows, -1} : TrailingAxes{};
    }
};

// ONNX Runtime's product of matrices that may be turned.
struct FusedProduct {
    Turn a, b;
    float alpha = 1;
};
std::optional<FusedProduct> fused_product(const Node& node)
{
    if (node.domain != "com.microsoft" || node.op_type != "FusedMatMul" || !given(node, 2))
        return std::nullopt;
    const auto flag = [&](const char* name) { return attribute_of<std::int64_t>(node, name, 0) != 0; };
    return FusedProduct{{flag("transBatchA"), flag("transA")},
                        {flag("transBatchB"), flag("transB")},
                        attribute_of(node, "alpha", 1.0f)};
}

// The terms of an Einsum of two operands of equally many axes, each with a letter of its own, the result's last.
std::optional<std::vector<std::string>> terms_of(const Node& node)
{
    const auto* equation = is_plain_node(&node, "Einsum", 2) ? find_attribute<std::string>(node, "equation") : nullptr;
    if (!equation)
        return std::nullopt;
    std::vector<std::string> terms(1);
    for (const char c : *equation)
        if (c == ',' || (c == '-' && terms.size() == 2))
            terms.emplace_back();
        else if (std::isalpha(static_cast<unsigned char>(c)))
            terms.back() += c;
        else if (c != ' ' && !(c == '>' && terms.size() == 3))
            return std::nullopt;
    if (terms.size() != 3 || equation->find("->") == std::string::npos)
        return std::nullopt;
    for (const std::string& term : terms)
        if (term.size() != terms[0].size() || std::set(term.begin(), term.end()).size() != term.size())
            return std::nullopt;
    return terms;
}

// Where the letters of `order` stand in `term`; nothing if one is missing.
std::optional<TrailingAxes> places(const std::string& order, const std::string& term)
{
    TrailingAxes result;
    for (const char letter : order) {
        const auto found = term.find(letter);
        if (found == std::string::npos)
            return std::nullopt;
        result.push_back(static_cast<std::int64_t>(found) - static_cast<std::int64_t>(term.size()));
    }
    return result;
}

// The letter of `term` that `other` lacks, or 0.
char missing(const std::string& term, const std::string& other)
{
    const auto found = term.find_first_not_of(other);
    return found == std::string::npos ? '\0' : term[found];
}

std::optional<ScoreProduct> einsum_of_scores(const Node& node)
{
    const auto terms = terms_of(node);
    if (!terms || (*terms)[2].size() < 3)
        return std::nullopt;
    const std::string& scores = (*terms)[2];
    const std::string heads = scores.substr(0, scores.size() - 2);
    const char row = scores[scores.size() - 2], column = scores.back();
    for (const std::size_t q : {0u, 1u}) {
        const char inner = missing((*terms)[q], scores);
        if (inner == '\0' || (*terms)[q].find(row) == std::string::npos)
            continue;
        const auto q_axes = places(heads + row + inner, (*terms)[q]), k_axes = places(heads + inner + column,
                                                                                      (*terms)[1 - q]);
        if (q_axes && k_axes)
            return ScoreProduct{&node, q, *q_axes, *k_axes};
    }
    return std::nullopt;
}

// Of probabilities that are one operand, with values.
bool einsum_of_values(const Node& node, int probabilities, Ending& ending)
{
    const auto terms = terms_of(node);
    if (!terms || std::ranges::count(node.inputs, probabilities) != 1)
        return false;
    const std::size_t p = node.inputs[0] == probabilities ? 0 : 1;
    const std::string &weights = (*terms)[p], &values = (*terms)[1 - p];
    if (weights.size() < 3)
        return false;
    const std::string heads = weights.substr(0, weights.size() - 2);
    const char row = weights[weights.size() - 2], column = weights.back(), inner = missing(values, weights);
    if (inner == '\0')
        return false;
    const auto v_axes = places(heads + column + inner, values), y_axes = places(heads + row + inner, (*terms)[2]);
    if (!v_axes || !y_axes)
        return false;
    ending.v = node.inputs[1 - p];
    ending.v_axes = *v_axes;
    ending.y_axes = *y_axes;
    return true;
}

// Whether a transposition gives rows and columns each other's place.
bool turns_matrices(const Node* node)
{
    const auto* order = is_plain_node(node, "Transpose", 1) ? find_attribute<std::vector<std::int64_t>>(*node, "perm")
                                                            : nullptr;
    if (!order || order->size() < 3)
        return false;
    const auto last = static_cast<std::int64_t>(order->size()) - 1;
    for (std::int64_t i = 0; i + 1 < last; ++i)
        if ((*order)[static_cast<std::size_t>(i)] != i)
            return false;
    return order->back() == last - 1;
}

bool product_with_values(const Node& node, int probabilities, bool turned_before, Ending& ending)
{
    const auto fused = fused_product(node);
    const bool plain = is_plain_node(&node, "MatMul", 2);
    if (!turned_before && einsum_of_values(node, probabilities, ending))
        return true;
    if (!(plain || (fused && fused->alpha == 1)) || std::ranges::count(node.inputs, probabilities) != 1)
        return false;
    const FusedProduct product = fused.value_or(FusedProduct{});
    const bool second = node.inputs[1] == probabilities;
    const Turn& p = second ? product.b : product.a;
    Turn v = second ? product.a : product.b;
    if (p.first || (turned_before != p.turned) != second)          // p v, or the turned v with the turned p
        return false;
    v.turned = v.turned != second;
    ending.v = node.inputs[second ? 0 : 1];
    ending.v_axes = v.axes();
    ending.y_axes = Turn{.turned = second}.axes();
    return true;
}

// A value is NaN, else it stays: a Where that has 0 instead. The two nodes that read `slot`.
std::vector<const Node*> without_nan(Rewriter& rewriter, int slot)
{
    if (rewriter.exposed(slot) || rewriter.readers(slot).size() != 2)
        return {};
    const Node &test = rewriter.node(rewriter.readers(slot)[0]), &choice = rewriter.node(rewriter.readers(slot)[1]);
    if (!is_plain_node(&test, "IsNaN", 1) || !is_plain_node(&choice, "Where", 3) || choice.inputs[2] != slot ||
        choice.inputs[0] != test.outputs[0] || rewriter.only_reader(test.outputs[0]) != &choice)
        return {};
    const Value* zero = rewriter.constant(choice.inputs[1]);
    if (!zero || !is_host_tensor(*zero) || zero->numel() != 1 || zero->dim() > 3)
        return {};
    const std::byte* bytes = zero->host_bytes();
    const bool nothing = std::all_of(bytes, bytes + size_of(storage_type(zero->type())),
                                     [](std::byte byte) { return byte == std::byte{0}; });
    return nothing ? std::vector{&test, &choice} : std::vector<const Node*>{};
}

}  // namespace

bool is_plain_node(const Node* node, std::string_view op_type, std::size_t inputs)
{
    return node && node->domain.empty() && node->op_type == op_type && node->opset >= 7 && given(*node, inputs);
}

bool is_conversion_of_floats(const Node* node)
{
    static const std::set<ElementType> types{ElementType::float16, ElementType::bfloat16, ElementType::float32,
                                             ElementType::float64};
    return is_plain_node(node, "Cast", 1) &&
           types.contains(static_cast<ElementType>(attribute_of<std::int64_t>(*node, "to", 0)));
}

std::optional<ScoreProduct> score_product(const Node& node)
{
    if (is_plain_node(&node, "MatMul", 2))
        return ScoreProduct{&node, 0, {}, {}};
    if (const auto fused = fused_product(node))
        return ScoreProduct{&node, 0, fused->a.axes(), fused->b.axes(), fused->alpha};
    return einsum_of_scores(node);
}

std::optional<Ending> attention_ending(Rewriter& rewriter, const Node& softmax)
{
    Ending ending;
    int slot = softmax.outputs[0];
    bool turned_before = false;
    for (;;) {
        if (const auto choice = without_nan(rewriter, slot); !choice.empty()) {
            ending.nodes.insert(ending.nodes.end(), choice.begin(), choice.end());
            slot = choice.back()->outputs[0];
            continue;
        }
        const Node* next = rewriter.only_reader(slot);
        if (!next)
            return std::nullopt;
        ending.nodes.push_back(next);
        if (product_with_values(*next, slot, turned_before, ending))
            return ending;
        if (turns_matrices(next) && !turned_before && !ending.reshape)
            turned_before = true;
        else if (is_plain_node(next, "Reshape", 2) && next->inputs[0] == slot && !turned_before && !ending.reshape)
            ending.reshape = next;
        else if (!is_conversion_of_floats(next))
            return std::nullopt;
        slot = next->outputs[0];
    }
}

const Node* writer_for(Rewriter& rewriter, int slot, const Node& reader)
{
    return rewriter.only_reader(slot) == &reader && std::ranges::count(reader.inputs, slot) == 1 ? rewriter.writer(slot)
                                                                                                 : nullptr;
}

Repetition repetition_of(Rewriter& rewriter, int slot, const Node& reader)
{
    Repetition found;
    const Node* node = &reader;
    const auto step_back = [&](const char* op_type, std::size_t inputs) {
        const Node* writer = writer_for(rewriter, slot, *node);
        if (!is_plain_node(writer, op_type, inputs))
            return absent;
        node = writer;
        slot = node->inputs[0];
        found.nodes.insert(found.nodes.begin(), node);
        return node->inputs.back();
    };
    auto& [first, second, split] = found.shapes;
    second = step_back("Reshape", 2);
    if (step_back("Transpose", 1) != absent) {
        const auto* order = find_attribute<std::vector<std::int64_t>>(*node, "perm");
        if (!order)
            return {};
        found.turned = *order;
        split = second;
        second = step_back("Reshape", 2);
    }
    first = second == absent ? absent : step_back("Reshape", 2);
    found.expanded = slot;
    return second != absent && is_plain_node(rewriter.writer(slot), "Expand", 2) ? found : Repetition{};
}

}  // namespace clprim::onnx
