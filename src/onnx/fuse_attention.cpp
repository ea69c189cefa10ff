// Attention that exporters write as products and a softmax becomes one node, which stores no scores:
//
//   softmax(q k^T * scale + mask) v
//
// The scale, by product or quotient, and the mask may be missing; q and k may be multiplied by numbers, also by those
// that the graph computes (the root of the scale, by PyTorch's exporter of traces).
#include <algorithm>
#include <array>
#include <optional>

#include "onnx/call.hpp"
#include "onnx/constants.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

class AttentionFusion {
public:
    explicit AttentionFusion(Rewriter& rewriter) : rewriter_(rewriter) {}

    void run()
    {
        for (std::size_t i = 0; i < rewriter_.size(); ++i)
            if (!rewriter_.dead(i) && is(&rewriter_.node(i), "Softmax", 1))
                fuse(rewriter_.node(i));
        rewriter_.finish();
    }

private:
    // What leads from the product of queries and keys to the softmax.
    struct Scores {
        const Node* product = nullptr;
        const Node* scaled = nullptr;
        const Node* masked = nullptr;
        float scale = 1;
        int mask = absent;
    };

    static bool is(const Node* node, std::string_view op_type, std::size_t inputs)
    {
        return node && node->domain.empty() && !node->body && node->op_type == op_type && node->opset >= 7 &&
               node->inputs.size() == inputs && std::ranges::find(node->inputs, absent) == node->inputs.end() &&
               node->outputs.size() == 1 && node->outputs[0] != absent;
    }

    // The node that writes what only `reader` reads, and that once.
    const Node* writer_for(int slot, const Node& reader)
    {
        return rewriter_.only_reader(slot) == &reader && std::ranges::count(reader.inputs, slot) == 1
                   ? rewriter_.writer(slot)
                   : nullptr;
    }

    std::optional<float> number(int slot) const
    {
        const Value* value = rewriter_.constant(slot);
        if (!value || !is_host_tensor(*value) || value->type() != ElementType::float32 || value->numel() != 1 ||
            value->dim() > 2)            // scores have three axes or more
            return std::nullopt;
        return *reinterpret_cast<const float*>(value->host_bytes());
    }

    // A product, or one times or by a number.
    std::optional<Scores> scaled_product(const Node* node)
    {
        if (is(node, "MatMul", 2))
            return Scores{.product = node};
        const bool times = is(node, "Mul", 2);
        if (!times && !is(node, "Div", 2))
            return std::nullopt;
        for (const std::size_t i : {0u, 1u}) {
            const auto factor = number(node->inputs[1 - i]);
            const Node* product = factor && (times || i == 0) ? writer_for(node->inputs[i], *node) : nullptr;
            if (is(product, "MatMul", 2))
                return Scores{.product = product, .scaled = node, .scale = times ? *factor : 1 / *factor};
        }
        return std::nullopt;
    }

    std::optional<Scores> scores(const Node& softmax)
    {
        const Node* node = writer_for(softmax.inputs[0], softmax);
        if (!is(node, "Add", 2))
            return node ? scaled_product(node) : std::nullopt;
        for (const std::size_t i : {0u, 1u}) {
            const Node* before = writer_for(node->inputs[i], *node);
            auto found = before ? scaled_product(before) : std::nullopt;
            if (!found)
                continue;
            found->masked = node;
            found->mask = node->inputs[1 - i];
            return found;
        }
        return std::nullopt;
    }

    // An operand of the product of queries and keys, without what it is multiplied by where that is one number: known,
    // or a root, which is one where the graph computes a scale.
    struct Operand {
        int slot = absent;
        const Node* times = nullptr;
        float known = 1;
        int factor = absent;
    };

    Operand operand(int slot, const Node& product)
    {
        const Node* times = writer_for(slot, product);
        if (!is(times, "Mul", 2) || times->inputs[0] == times->inputs[1])
            return {slot};
        if (const auto known = number(times->inputs[1]))
            return {times->inputs[0], times, *known};
        if (is(rewriter_.writer(times->inputs[1]), "Sqrt", 1))
            return {times->inputs[0], times, 1, times->inputs[1]};
        return {slot};
    }

    void fuse(const Node& softmax)
    {
        if (softmax.opset < 13 ? attribute_of<std::int64_t>(softmax, "axis", 1) != -1
                               : attribute_of<std::int64_t>(softmax, "axis", -1) != -1)
            return;
        const Node* weighted = rewriter_.only_reader(softmax.outputs[0]);
        if (!is(weighted, "MatMul", 2) || weighted->inputs[0] != softmax.outputs[0] ||
            weighted->inputs[1] == softmax.outputs[0])
            return;
        const auto found = scores(softmax);
        if (!found)
            return;
        const Operand q = operand(found->product->inputs[0], *found->product),
                      k = operand(found->product->inputs[1], *found->product);
        std::vector<std::size_t> members;
        for (const Node* member :
             {q.times, k.times, found->product, found->scaled, found->masked, &softmax, weighted})
            if (member)
                members.push_back(rewriter_.position(*member));
        std::ranges::sort(members);
        Node fused;
        fused.domain = "clprim";
        fused.op_type = "Attention";
        fused.opset = 1;
        fused.name = found->product->name + ".." + weighted->name;
        fused.inputs = {q.slot, k.slot, weighted->inputs[1], found->mask, q.factor, k.factor};
        while (fused.inputs.back() == absent)
            fused.inputs.pop_back();
        fused.outputs = weighted->outputs;
        fused.attributes["scale"] = found->scale * q.known * k.known;
        // Heads that are put together again lie so from the start.
        fused.attributes["joins"] =
            static_cast<std::int64_t>(is(rewriter_.only_reader(weighted->outputs[0]), "Transpose", 1));
        const GraphRef operators = rewriter_.body_of(members, fused.inputs);
        Rewriter inside(*operators);
        fuse_elementwise(inside);
        fused.attributes["operators"] = operators;
        fused.row = find_operator(fused.domain, fused.op_type, 1);
        rewriter_.replace(members, std::move(fused));
    }

    Rewriter& rewriter_;
};

}  // namespace

void fuse_attention(Rewriter& rewriter) { AttentionFusion(rewriter).run(); }

}  // namespace clprim::onnx
