// Rotary embeddings that exporters write as products and sums become one node, which reads each number once:
//
//   x * cos + turned(x) * sin                                                with angles for each of x's numbers
//   joined(first * cos - second * sin, second * cos + first * sin)           with angles for each pair
//
// A pair is a number of the first half of the last axis with the one at its place in the second, or two neighbours;
// turned(x) is joined(-second, first). Halves are Slices or a Split, neighbours Slices of every other number; what
// joins them is a Concat, of neighbours two Unsqueezes, a Concat and a Reshape. A Concat with what is not turned is
// part of the node.
#include <algorithm>
#include <optional>

#include "onnx/attention_products.hpp"
#include "onnx/call.hpp"
#include "onnx/constants.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

class RotaryFusion {
public:
    explicit RotaryFusion(Rewriter& rewriter) : rewriter_(rewriter) {}

    void run()
    {
        for (std::size_t i = 0; i < rewriter_.size(); ++i)
            if (!rewriter_.dead(i) && !of_whole(rewriter_.node(i)))
                of_pairs(rewriter_.node(i));
        rewriter_.finish();
    }

private:
    // What a run has to find as it is thought here: axes that are the last one, of x and of joined neighbours.
    struct Found {
        std::vector<const Node*> nodes;
        std::vector<std::int64_t> axes, axes_of_pairs;
        std::int64_t half = 0;           // where x is cut; 0: in the middle
        bool interleaved = false, rest_first = false;
        int shape = absent;              // of the Reshape behind joined neighbours
    };
    struct Pair {
        int first = absent, second = absent;
    };

    std::optional<std::int64_t> integer(int slot) const
    {
        const Value* value = rewriter_.constant(slot);
        if (!value || !is_host_tensor(*value) || value->type() != ElementType::int64 || value->numel() != 1)
            return std::nullopt;
        return *reinterpret_cast<const std::int64_t*>(value->host_bytes());
    }

    // From `begin` on, to `end` or the end of the axis, every `step`-th.
    struct Cut {
        std::int64_t begin, end, axis, step;
    };
    std::optional<Cut> cut(const Node* node) const
    {
        const bool steps = is_plain_node(node, "Slice", 5);
        if ((!steps && !is_plain_node(node, "Slice", 4)) || node->opset < 10)
            return std::nullopt;
        const auto begin = integer(node->inputs[1]), end = integer(node->inputs[2]), axis = integer(node->inputs[3]),
                   step = steps ? integer(node->inputs[4]) : std::optional<std::int64_t>(1);
        return begin && end && axis && step ? std::optional(Cut{*begin, *end, *axis, *step}) : std::nullopt;
    }

    // The tensor of which the two are halves or neighbours.
    int whole(const Pair& pair, Found& found) const
    {
        constexpr std::int64_t beyond = std::int64_t{1} << 31;         // of every axis
        const Node *first = rewriter_.writer(pair.first), *second = rewriter_.writer(pair.second);
        if (first && first == second)
            return split(*first, pair, found);
        const auto a = cut(first), b = cut(second);
        if (!a || !b || first->inputs[0] != second->inputs[0] || a->begin != 0)
            return absent;
        found.interleaved = a->step == 2 && b->step == 2 && b->begin == 1 && a->end >= beyond && b->end >= beyond;
        found.half = found.interleaved ? 0 : a->end;
        if (!found.interleaved && (a->step != 1 || b->step != 1 || a->end <= 0 || b->begin != a->end ||
                                   (b->end < beyond && b->end != 2 * a->end)))
            return absent;
        found.axes.insert(found.axes.end(), {a->axis, b->axis});
        found.nodes.insert(found.nodes.end(), {first, second});
        return first->inputs[0];
    }

    int split(const Node& node, const Pair& pair, Found& found) const
    {
        const bool sized = node.inputs.size() == 2;
        if (!node.domain.empty() || node.body || node.op_type != "Split" || node.opset < 13 || node.inputs.size() > 2 ||
            node.outputs != std::vector{pair.first, pair.second})
            return absent;
        if (sized) {
            const Value* sizes = rewriter_.constant(node.inputs[1]);
            if (!sizes || !is_host_tensor(*sizes) || sizes->type() != ElementType::int64 || sizes->numel() != 2)
                return absent;
            const auto* halves = reinterpret_cast<const std::int64_t*>(sizes->host_bytes());
            if (halves[0] != halves[1] || halves[0] <= 0)
                return absent;
            found.half = halves[0];
        }
        found.interleaved = false;
        found.axes.push_back(attribute_of<std::int64_t>(node, "axis", 0));
        found.nodes.push_back(&node);
        return node.inputs[0];
    }

    // What `joined` has been put together of.
    std::optional<Pair> parts(const Node* joined, Found& found)
    {
        found.nodes.push_back(joined);
        if (is_plain_node(joined, "Concat", 2)) {
            found.axes.push_back(attribute_of<std::int64_t>(*joined, "axis", 0));
            return Pair{joined->inputs[0], joined->inputs[1]};
        }
        const Node* concat = is_plain_node(joined, "Reshape", 2) ? writer_for(rewriter_, joined->inputs[0], *joined)
                                                                 : nullptr;
        if (!is_plain_node(concat, "Concat", 2))
            return std::nullopt;
        found.interleaved = true;
        found.shape = joined->inputs[1];
        found.nodes.push_back(concat);
        found.axes_of_pairs.push_back(attribute_of<std::int64_t>(*concat, "axis", 0));
        Pair pair;
        for (const std::size_t i : {0u, 1u}) {
            const int slot = concat->inputs[i];
            const Node* wider = writer_for(rewriter_, slot, *concat);
            const auto axis = is_plain_node(wider, "Unsqueeze", 2) ? integer(wider->inputs[1]) : std::nullopt;
            if (!axis)
                return std::nullopt;
            found.axes_of_pairs.push_back(*axis);
            found.nodes.push_back(wider);
            (i == 0 ? pair.first : pair.second) = wider->inputs[0];
        }
        return pair;
    }

    // The other factor of a product that only `reader` reads.
    struct Product {
        const Node* node = nullptr;
        int other = absent;
    };
    std::optional<Product> product_with(int slot, int factor, const Node& reader)
    {
        const Node* node = writer_for(rewriter_, slot, reader);
        if (!is_plain_node(node, "Mul", 2) || std::ranges::count(node->inputs, factor) != 1)
            return std::nullopt;
        return Product{node, node->inputs[node->inputs[0] == factor]};
    }

    // x * cos + turned(x) * sin
    bool of_whole(const Node& sum)
    {
        if (!is_plain_node(&sum, "Add", 2))
            return false;
        for (const std::size_t i : {0u, 1u}) {
            const Node* turned = writer_for(rewriter_, sum.inputs[i], sum);
            if (!is_plain_node(turned, "Mul", 2))
                continue;
            for (const std::size_t side : {0u, 1u}) {
                Found found;
                found.nodes = {&sum, turned};
                const int slot = turned->inputs[side];
                const Node* joined = writer_for(rewriter_, slot, *turned);
                const auto pair = joined ? parts(joined, found) : std::nullopt;
                const Node* opposite = pair ? rewriter_.writer(pair->first) : nullptr;
                if (!is_plain_node(opposite, "Neg", 1) || !rewriter_.only_reader(pair->first))
                    continue;
                found.nodes.push_back(opposite);
                const bool neighbours = found.interleaved;
                const int x = whole({pair->second, opposite->inputs[0]}, found);
                const auto plain = x == absent ? std::nullopt : product_with(sum.inputs[1 - i], x, sum);
                if (!plain || neighbours != found.interleaved)
                    continue;
                found.nodes.push_back(plain->node);
                replace(found, {x, plain->other, turned->inputs[1 - side], found.shape}, 0);
                return true;
            }
        }
        return false;
    }

    // joined(first * cos - second * sin, second * cos + first * sin)
    void of_pairs(const Node& joined)
    {
        Found found;
        const auto pair = parts(&joined, found);
        const Node *difference = pair ? rewriter_.writer(pair->first) : nullptr,
                   *sum = pair ? rewriter_.writer(pair->second) : nullptr;
        if (!is_plain_node(difference, "Sub", 2) || !is_plain_node(sum, "Add", 2) ||
            !rewriter_.only_reader(pair->first) || !rewriter_.only_reader(pair->second))
            return;
        found.nodes.insert(found.nodes.end(), {difference, sum});
        const Node* product = writer_for(rewriter_, difference->inputs[0], *difference);
        for (const std::size_t side : {0u, 1u}) {
            if (!is_plain_node(product, "Mul", 2))
                return;
            const int first = product->inputs[side], cosines = product->inputs[1 - side];
            for (const std::size_t i : {0u, 1u}) {
                const auto turned = product_with(sum->inputs[i], first, *sum);
                const auto straight = product_with(sum->inputs[1 - i], cosines, *sum);
                const auto other = turned && straight
                                       ? product_with(difference->inputs[1], straight->other, *difference)
                                       : std::nullopt;
                if (!other || other->other != turned->other)
                    continue;
                Found whole_found = found;
                const int x = whole({first, straight->other}, whole_found);
                if (x == absent || whole_found.interleaved != found.interleaved)
                    continue;
                whole_found.nodes.insert(whole_found.nodes.end(),
                                         {product, turned->node, straight->node, other->node});
                return replace(whole_found, {x, cosines, turned->other, found.shape}, 1);
            }
        }
    }

    // Behind it what is not turned may be appended, or stand in front.
    void add_rest(Found& found, const Node& last, std::vector<int>& inputs)
    {
        const Node* concat = rewriter_.only_reader(last.outputs[0]);
        if (!is_plain_node(concat, "Concat", 2) || concat->inputs[0] == concat->inputs[1])
            return;
        found.nodes.push_back(concat);
        found.axes.push_back(attribute_of<std::int64_t>(*concat, "axis", 0));
        found.rest_first = concat->inputs[1] == last.outputs[0];
        inputs.push_back(concat->inputs[found.rest_first ? 0 : 1]);
    }

    void replace(Found found, std::vector<int> inputs, std::int64_t by_pairs)
    {
        add_rest(found, *std::ranges::max(found.nodes, {}, [&](const Node* node) { return rewriter_.position(*node); }),
                 inputs);
        std::vector<std::size_t> all, gone;
        for (const Node* node : found.nodes)
            all.push_back(rewriter_.position(*node));
        std::ranges::sort(all);
        all.erase(std::unique(all.begin(), all.end()), all.end());
        const Node& last = rewriter_.node(all.back());
        // What others read, too, stays for them; it is the halves alone, which copy nothing.
        const auto inside = [&](int slot) {
            return !rewriter_.exposed(slot) && std::ranges::all_of(rewriter_.readers(slot), [&](std::size_t reader) {
                return std::ranges::find(all, reader) != all.end();
            });
        };
        for (const std::size_t i : all)
            if (&rewriter_.node(i) == &last || std::ranges::all_of(rewriter_.node(i).outputs, inside))
                gone.push_back(i);
        while (inputs.back() == absent)
            inputs.pop_back();
        Node fused = rewriter_.own_node_for("Rotary", all, std::move(inputs));
        fused.attributes["axes"] = found.axes;
        fused.attributes["axes_of_pairs"] = found.axes_of_pairs;
        fused.attributes["half"] = found.half;
        fused.attributes["interleaved"] = static_cast<std::int64_t>(found.interleaved);
        fused.attributes["by_pairs"] = by_pairs;
        fused.attributes["rest_first"] = static_cast<std::int64_t>(found.rest_first);
        rewriter_.replace(gone, std::move(fused));
    }

    Rewriter& rewriter_;
};

}  // namespace

void fuse_rotary(Rewriter& rewriter) { RotaryFusion(rewriter).run(); }

}  // namespace clprim::onnx
