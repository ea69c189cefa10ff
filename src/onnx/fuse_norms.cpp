// Norms of rows that exporters write as means, squares and roots become one node, which reads each row once:
//
//   (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight + bias      layer norm
//   x / sqrt(mean(x^2) + epsilon) * weight                                     root mean square
//
// with means along the last axis; the division may be a product with 1 / sqrt.
#include <algorithm>
#include <optional>

#include "onnx/call.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

class NormFusion {
public:
    explicit NormFusion(Rewriter& rewriter) : rewriter_(rewriter) {}

    void run()
    {
        for (std::size_t i = 0; i < rewriter_.size(); ++i)
            if (!rewriter_.dead(i) && is(&rewriter_.node(i), "Sqrt", 1))
                fuse(rewriter_.node(i));
        rewriter_.finish();
    }

private:
    static bool is(const Node* node, std::string_view op_type, std::size_t inputs)
    {
        return node && node->domain.empty() && !node->body && node->op_type == op_type &&
               node->inputs.size() >= inputs && std::ranges::find(node->inputs, absent) == node->inputs.end() &&
               node->outputs.size() == 1 && node->outputs[0] != absent && (op_type != "Add" || node->opset >= 7) &&
               (op_type != "Mul" || node->opset >= 7);
    }

    // The node that writes what only `reader` reads.
    const Node* writer_for(int slot, const Node& reader)
    {
        return rewriter_.only_reader(slot) == &reader ? rewriter_.writer(slot) : nullptr;
    }

    template <class T>
    const T* data(int slot, ElementType type, std::int64_t count) const
    {
        const Value* value = rewriter_.constant(slot);
        if (!value || !value->is_tensor() || value->type() != type || !value->on_host() || value->numel() != count)
            return nullptr;
        return reinterpret_cast<const T*>(value->host_bytes());
    }

    // Of the input that is one number; `other` is the other one.
    std::optional<float> number(const Node& node, int& other) const
    {
        for (const std::size_t i : {0u, 1u})
            if (const float* found = data<float>(node.inputs[i], ElementType::float32, 1)) {
                if (rewriter_.constant(node.inputs[i])->dim() > 1)
                    return std::nullopt;
                other = node.inputs[1 - i];
                return *found;
            }
        return std::nullopt;
    }

    // Along the last axis, which stays.
    bool is_mean(const Node* node) const
    {
        if (!is(node, "ReduceMean", 1) || attribute_of<std::int64_t>(*node, "keepdims", 1) != 1)
            return false;
        if (node->inputs.size() == 2) {
            const auto* axis = data<std::int64_t>(node->inputs[1], ElementType::int64, 1);
            return axis && *axis == -1;
        }
        const auto* axes = find_attribute<std::vector<std::int64_t>>(*node, "axes");
        return axes && *axes == std::vector<std::int64_t>{-1};
    }

    // A vector that never changes, beside `slot`; `count` 0: of any length.
    int vector_beside(const Node& node, int slot, std::int64_t count) const
    {
        if (std::ranges::count(node.inputs, slot) != 1)
            return absent;
        const int other = node.inputs[node.inputs[0] == slot];
        const Value* value = rewriter_.constant(other);
        const bool fits = value && value->is_tensor() && value->type() == ElementType::float32 && value->dim() == 1 &&
                          value->numel() > 1 && (count == 0 || value->numel() == count);
        return fits ? other : absent;
    }

    // What `d` is divided by the root into: the last of the nodes that `members` gains; null if it is not.
    const Node* divided(int d, const Node& root, std::vector<const Node*>& members)
    {
        const int slot = root.outputs[0];
        const Node* next = rewriter_.only_reader(slot);
        if (is(next, "Div", 2) && next->inputs[0] == d && next->inputs[1] == slot) {
            members.push_back(next);
            return next;
        }
        int other = absent;
        const bool inverse = is(next, "Reciprocal", 1) || (is(next, "Div", 2) && next->inputs[1] == slot &&
                                                           number(*next, other) == 1.0f && other == slot);
        const Node* product = inverse ? rewriter_.only_reader(next->outputs[0]) : nullptr;
        if (!is(product, "Mul", 2) || std::ranges::count(product->inputs, d) != 1 ||
            std::ranges::count(product->inputs, next->outputs[0]) != 1)
            return nullptr;
        members.insert(members.end(), {next, product});
        return product;
    }

    // Whether nobody but the nodes `readers` sees a value.
    bool seen_by(int slot, std::vector<const Node*> readers) const
    {
        return !rewriter_.exposed(slot) && std::ranges::all_of(rewriter_.readers(slot), [&](std::size_t i) {
            return std::ranges::find(readers, &rewriter_.node(i)) != readers.end();
        });
    }

    void fuse(const Node& root)
    {
        const Node* sum = writer_for(root.inputs[0], root);
        int mean_slot = absent;
        const auto epsilon = is(sum, "Add", 2) ? number(*sum, mean_slot) : std::nullopt;
        const Node* mean = epsilon ? writer_for(mean_slot, *sum) : nullptr;
        const Node* square = is_mean(mean) ? writer_for(mean->inputs[0], *mean) : nullptr;
        if (!is(square, "Mul", 2) || square->inputs[0] != square->inputs[1])
            return;
        const int d = square->inputs[0];
        std::vector<const Node*> members{square, mean, sum, &root};
        const Node* normal = divided(d, root, members);
        const Node* scaled = normal ? rewriter_.only_reader(normal->outputs[0]) : nullptr;
        const int weight = is(scaled, "Mul", 2) ? vector_beside(*scaled, normal->outputs[0], 0) : absent;
        if (weight == absent)
            return;
        members.push_back(scaled);
        int x = d, bias = absent;
        const Node* centred = rewriter_.writer(d);
        const Node* middle = is(centred, "Sub", 2) ? writer_for(centred->inputs[1], *centred) : nullptr;
        const bool centres = is_mean(middle) && middle->inputs[0] == centred->inputs[0] &&
                             seen_by(d, {square, normal});
        if (centres) {
            x = centred->inputs[0];
            members.insert(members.begin(), {middle, centred});
            const Node* shifted = rewriter_.only_reader(scaled->outputs[0]);
            if (is(shifted, "Add", 2))
                bias = vector_beside(*shifted, scaled->outputs[0], rewriter_.constant(weight)->numel());
            if (bias != absent)
                members.push_back(shifted);
        }
        replace(members, {x, weight, bias}, *epsilon, centres);
    }

    void replace(const std::vector<const Node*>& members, std::vector<int> inputs, float epsilon, bool centres)
    {
        std::vector<std::size_t> places;
        for (const Node* member : members)
            places.push_back(rewriter_.position(*member));
        std::ranges::sort(places);
        if (inputs.back() == absent)
            inputs.pop_back();
        Node fused = rewriter_.own_node_for("LayerNorm", places, std::move(inputs));
        fused.attributes["epsilon"] = epsilon;
        fused.attributes["rms"] = static_cast<std::int64_t>(!centres);
        rewriter_.replace(places, std::move(fused));
    }

    Rewriter& rewriter_;
};

}  // namespace

void fuse_norms(Rewriter& rewriter) { NormFusion(rewriter).run(); }

}  // namespace clprim::onnx
