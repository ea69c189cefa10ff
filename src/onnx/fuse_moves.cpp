// Rolled images that are cut into windows, as exporters write Swin, become one copy: a Concat of the two parts of a
// tensor in each other's place, with what else stands before and behind it and only moves elements (a second one,
// Reshape, Transpose, Slice). What moves where is found by the first run of a shape.
#include <algorithm>
#include <optional>

#include "onnx/attention_products.hpp"
#include "onnx/call.hpp"
#include "onnx/constants.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

class MoveFusion {
public:
    explicit MoveFusion(Rewriter& rewriter) : rewriter_(rewriter) {}

    void run()
    {
        for (std::size_t i = 0; i < rewriter_.size(); ++i)
            if (!rewriter_.dead(i))
                if (auto roll = rolls(rewriter_.node(i)))
                    fuse(std::move(*roll));
        rewriter_.finish();
    }

private:
    // Nodes in order, which read `from` and write `to`.
    struct Chain {
        std::vector<const Node*> nodes;
        int from = absent, to = absent;
    };

    bool constants_behind(const Node& node, std::size_t first) const
    {
        return std::all_of(node.inputs.begin() + static_cast<std::ptrdiff_t>(first), node.inputs.end(), [&](int slot) {
            const Value* value = rewriter_.constant(slot);
            return value && is_host_tensor(*value) && value->type() == ElementType::int64;
        });
    }

    bool is_slice(const Node* node) const
    {
        return (is_plain_node(node, "Slice", 4) || is_plain_node(node, "Slice", 5)) && node->opset >= 10 &&
               constants_behind(*node, 1);
    }

    // A Concat of two Slices of what nobody else reads from them.
    std::optional<Chain> rolls(const Node& node)
    {
        if (!is_plain_node(&node, "Concat", 2) || attribute_of<std::int64_t>(node, "axis", 0) == -1)
            return std::nullopt;
        const Node *first = writer_for(rewriter_, node.inputs[0], node),
                   *second = writer_for(rewriter_, node.inputs[1], node);
        if (!is_slice(first) || !is_slice(second) || first == second || first->inputs[0] != second->inputs[0])
            return std::nullopt;
        return Chain{{first, second, &node}, first->inputs[0], node.outputs[0]};
    }

    // One node that moves elements.
    std::optional<Chain> moves(const Node* node)
    {
        const bool one = is_plain_node(node, "Transpose", 1) || is_slice(node) ||
                         (is_plain_node(node, "Reshape", 2) && constants_behind(*node, 1));
        if (one)
            return Chain{{node}, node->inputs[0], node->outputs[0]};
        return node ? rolls(*node) : std::nullopt;
    }

    bool seen_by(int slot, const std::vector<const Node*>& readers) const
    {
        return !rewriter_.exposed(slot) && std::ranges::all_of(rewriter_.readers(slot), [&](std::size_t reader) {
            return std::ranges::find(readers, &rewriter_.node(reader)) != readers.end();
        });
    }

    // The one behind a value, if nothing else reads it.
    std::optional<Chain> behind(int slot)
    {
        if (rewriter_.exposed(slot) || rewriter_.readers(slot).empty())
            return std::nullopt;
        const Node& reader = rewriter_.node(rewriter_.readers(slot)[0]);
        auto next = rewriter_.readers(slot).size() == 1 ? moves(&reader) : std::nullopt;
        if (!next) {
            const Node* joined = rewriter_.only_reader(reader.outputs[0]);
            next = joined ? rolls(*joined) : std::nullopt;
        }
        return next && next->from == slot && seen_by(slot, next->nodes) ? next : std::nullopt;
    }

    void fuse(Chain chain)
    {
        for (;;) {
            const Node* writer = rewriter_.writer(chain.from);
            const auto before = seen_by(chain.from, chain.nodes) ? moves(writer) : std::nullopt;
            if (!before)
                break;
            chain.nodes.insert(chain.nodes.begin(), before->nodes.begin(), before->nodes.end());
            chain.from = before->from;
        }
        while (const auto next = behind(chain.to)) {
            chain.nodes.insert(chain.nodes.end(), next->nodes.begin(), next->nodes.end());
            chain.to = next->to;
        }
        std::vector<std::size_t> places;
        for (const Node* node : chain.nodes)
            places.push_back(rewriter_.position(*node));
        rewriter_.replace(places, rewriter_.own_node_for("Moves", places, {chain.from}));
    }

    Rewriter& rewriter_;
};

}  // namespace

void fuse_moves(Rewriter& rewriter) { MoveFusion(rewriter).run(); }

}  // namespace clprim::onnx
