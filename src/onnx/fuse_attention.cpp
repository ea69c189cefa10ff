// Attention that exporters write as products and a softmax becomes one node, which stores no scores:
//
//   softmax(q k^T * scale + mask) v
//
// A tanh with a factor may stand in front of the mask; the scale, by product or quotient, and the mask may be
// missing; q and k may be multiplied by numbers, also by those that the graph computes (the root of the scale, by
// PyTorch's exporter of traces), and before heads are split. Masks may be several, added or chosen by Where;
// conversions may stand between, and a Where that makes rows without keys 0. Products are MatMul, Einsum and ONNX
// Runtime's FusedMatMul, the last one also v^T p^T. Heads of k and v may be repeated for groups of queries. A Reshape
// may give scores other leading axes for some of the masks, and another one take them away again, before the softmax or
// behind it.
#include <algorithm>
#include <array>
#include <optional>

#include "onnx/attention_scores.hpp"
#include "onnx/call.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

// The place of the mask behind the first Reshape among the inputs of what is made.
constexpr std::size_t outer_mask = 12;

class AttentionFusion {
public:
    explicit AttentionFusion(Rewriter& rewriter) : rewriter_(rewriter) {}

    void run()
    {
        for (std::size_t i = 0; i < rewriter_.size(); ++i)
            if (!rewriter_.dead(i) && is_plain_node(&rewriter_.node(i), "Softmax", 1))
                fuse(rewriter_.node(i));
        rewriter_.finish();
    }

private:
    // An operand of the product of queries and keys, without what it is multiplied by where that is one number: known,
    // or a root, which is one where the graph computes a scale.
    struct Operand {
        int slot = absent;
        const Node* times = nullptr;     // in front of the product, or where `moved` reads it
        float known = 1;
        int factor = absent;
        const Node* moved = nullptr;     // the first of the nodes between that give elements other places
        int source = absent;             // what it is to read
    };

    Operand operand(int slot, const Node& product)
    {
        const Node *reader = &product, *times = writer_for(rewriter_, slot, product);
        const Operand as_it_is{.slot = slot};
        std::size_t other = 0;
        if (is_plain_node(times, "Mul", 2) && is_plain_node(rewriter_.writer(times->inputs[1]), "Sqrt", 1))
            return {times->inputs[0], times, 1, times->inputs[1]};
        static constexpr std::array moves{"Transpose", "Reshape", "Squeeze", "Unsqueeze"};
        const auto moves_elements = [&](const char* name) {
            return is_plain_node(times, name, 1) || is_plain_node(times, name, 2);
        };
        while (std::ranges::any_of(moves, moves_elements)) {
            reader = times;
            times = writer_for(rewriter_, reader->inputs[0], *reader);
        }
        const auto known = constant_factor(rewriter_, times, other, 1);
        if (!known)
            return as_it_is;
        if (reader == &product)
            return {times->inputs[other], times, *known};
        return {slot, times, *known, absent, reader, times->inputs[other]};
    }

    // What the masks amount to, and what is to stand in their places for it.
    struct Masks {
        int inner = absent, outer = absent;
        std::vector<std::pair<std::size_t, Node>> made;
        std::vector<std::size_t> gone;
    };

    // Innermost first, each added to those before it or chosen from them.
    int combined_masks(const std::vector<ScoreStep>& steps, Masks& result)
    {
        int so_far = absent;
        for (const ScoreStep& step : steps) {
            const std::size_t place = rewriter_.position(*step.node);
            const Node& node = *step.node;
            if (node.op_type == "Add" && so_far == absent) {
                so_far = node.inputs[1 - step.scores];
                result.gone.push_back(place);
                continue;
            }
            Node mask = node;
            if (node.op_type == "Where") {
                const std::size_t at = 3 - step.scores;
                const float hidden = *constant_float(rewriter_, node.inputs[at], axes_of_scores);
                mask.inputs[at] = constant_number(std::min(hidden, drowns_scores));
                mask.inputs[step.scores] = so_far == absent ? constant_number(0) : so_far;
            } else {
                mask.inputs = {so_far, node.inputs[1 - step.scores]};
            }
            const auto [known, fresh] = masks_.try_emplace({mask.op_type, mask.inputs}, 0);
            if (fresh) {
                known->second = rewriter_.graph().add_slot("");
                mask.outputs = {known->second};
                result.made.emplace_back(place, std::move(mask));
            } else {
                result.gone.push_back(place);
            }
            so_far = known->second;
        }
        return so_far;
    }

    int constant_number(float number)
    {
        const auto [known, fresh] = numbers_.try_emplace(number, 0);
        if (fresh)
            known->second = rewriter_.add_constant(Value::scalar(number));
        return known->second;
    }

    // Operators of ONNX's own in the place of the node, from what it reads.
    struct Body {
        std::vector<Node> nodes;
        int scores = absent;

        void add(Node node, std::size_t input)
        {
            node.inputs[input] = scores;
            scores = node.outputs[0];
            nodes.push_back(std::move(node));
        }
    };

    Node binary(const char* op_type, int other, int opset)
    {
        Node node;
        node.op_type = op_type;
        node.opset = opset;
        node.inputs = {absent, other};
        node.outputs = {rewriter_.graph().add_slot("")};
        node.row = find_operator("", op_type, node.opset);
        return node;
    }

    // Those of keys and of values.
    struct Repetitions {
        Repetition k, v;
    };

    // `inputs`: those of the fused node.
    GraphRef operators(const Scores& found, const Operand& q, const Operand& k, const Ending& ending,
                       const Node& softmax, const Repetitions& repeated, const std::vector<int>& inputs)
    {
        Body body;
        for (const Repetition* of : {&repeated.k, &repeated.v})
            for (const Node* node : of->nodes)
                body.nodes.push_back(*node);
        Node product = *found.product->node;
        product.inputs[found.product->q] = q.slot;
        product.inputs[1 - found.product->q] = k.slot;
        for (const auto& [of, place] : {std::pair{&q, found.product->q}, std::pair{&k, 1 - found.product->q}})
            if (of->factor != absent) {
                body.nodes.push_back(*of->times);
                product.inputs[place] = of->times->outputs[0];
            }
        body.scores = product.outputs[0];
        body.nodes.push_back(std::move(product));
        if (q.known * k.known != 1)
            body.add(binary("Mul", constant_number(q.known * k.known), softmax.opset), 0);
        const std::vector<ScoreStep> inner = found.inner_masks(), outer = found.outer_masks();
        for (auto step = found.steps.rbegin(); step != found.steps.rend(); ++step)
            if (step->kind != ScoreStep::Kind::mask)
                body.add(*step->node, step->scores);
            else if (!inner.empty() && step->node == inner.back().node)
                body.add(binary("Add", inputs[3], softmax.opset), 0);
            else if (!outer.empty() && step->node == outer.back().node) {
                if (!inner.empty())      // what was hidden before is no less than what is hidden now
                    body.add(binary("Max", constant_number(drowns_scores), softmax.opset), 0);
                body.add(binary("Add", inputs[outer_mask], softmax.opset), 0);
            }
        body.add(softmax, 0);
        for (const Node* node : ending.nodes)
            body.nodes.push_back(*node);
        const GraphRef graph = rewriter_.body_of(std::move(body.nodes), inputs);
        Rewriter inside(*graph);
        fuse_elementwise(inside);
        return graph;
    }

    void fuse(const Node& softmax)
    {
        const auto axis = attribute_of<std::int64_t>(softmax, "axis", softmax.opset < 13 ? 1 : -1);
        const auto ending = attention_ending(rewriter_, softmax);
        if ((axis != -1 && axis < 2) || !ending)
            return;
        const auto scores = attention_scores(rewriter_, softmax, *ending, axis);
        if (!scores)
            return;
        const Scores& found = *scores;
        const ScoreProduct& product = *found.product;
        const Operand q = operand(product.node->inputs[product.q], *product.node),
                      k = operand(product.node->inputs[1 - product.q], *product.node);
        const Node &reads_k = k.times && !k.moved ? *k.times : *product.node, &reads_v = *ending->nodes.back();
        const Repetitions repeated{repetition_of(rewriter_, k.slot, reads_k),
                                   repetition_of(rewriter_, ending->v, reads_v)};
        Masks masks;
        masks.inner = combined_masks(found.inner_masks(), masks);
        masks.outer = combined_masks(found.outer_masks(), masks);
        std::vector<std::size_t> members = masks.gone;
        for (const Repetition* of : {&repeated.k, &repeated.v})
            for (const Node* node : of->nodes)
                members.push_back(rewriter_.position(*node));
        for (const Node* member : {product.node, q.times, k.times, &softmax})
            if (member)
                members.push_back(rewriter_.position(*member));
        for (const ScoreStep& step : found.steps)
            if (step.kind != ScoreStep::Kind::mask)
                members.push_back(rewriter_.position(*step.node));
        for (const Node* node : ending->nodes)
            members.push_back(rewriter_.position(*node));
        Node fused = fused_node(found, *ending, q, k);
        const auto source = [](const Repetition& of, int slot) { return of.nodes.empty() ? slot : of.expanded; };
        fused.inputs = {q.slot,    source(repeated.k, k.slot), source(repeated.v, ending->v),
                        masks.inner, q.factor,                 k.factor};
        for (const Repetition* of : {&repeated.k, &repeated.v})
            fused.inputs.insert(fused.inputs.end(), of->shapes.begin(), of->shapes.end());
        fused.inputs.push_back(masks.outer);
        for (const Node* reshape : found.shapes)
            fused.inputs.push_back(reshape->inputs[1]);
        fused.attributes["axis"] = axis;
        const auto hides = [](const ScoreStep& step) { return step.node->op_type == "Where"; };
        fused.attributes["hides"] = static_cast<std::int64_t>(std::ranges::any_of(found.outer_masks(), hides));
        for (const auto& [name, of] : {std::pair{"k_turned", &repeated.k}, std::pair{"v_turned", &repeated.v}})
            if (!of->turned.empty())
                fused.attributes[name] = of->turned;
        fused.attributes["operators"] = operators(found, q, k, *ending, softmax, repeated, fused.inputs);
        while (fused.inputs.back() == absent)
            fused.inputs.pop_back();
        for (const Operand* of : {&q, &k})         // from here on others stand in the places of these nodes
            if (of->moved)
                rewriter_.node(rewriter_.position(*of->moved)).inputs[0] = of->source;
        for (auto& [place, mask] : masks.made)
            rewriter_.replace({place}, std::move(mask));
        rewriter_.replace(members, std::move(fused));
    }

    Node fused_node(const Scores& found, const Ending& ending, const Operand& q, const Operand& k)
    {
        const ScoreProduct& product = *found.product;
        const Node& last = *ending.nodes.back();
        Node fused = own_node("Attention", product.node->name + ".." + last.name, {}, last.outputs);
        fused.attributes["scale"] = found.scale * q.known * k.known * product.alpha;
        if (found.softcap > 0)
            fused.attributes["softcap"] = found.softcap;
        // Heads that are put together again lie so from the start.
        const Node* reader = rewriter_.only_reader(last.outputs[0]);
        fused.attributes["joins"] = static_cast<std::int64_t>(is_plain_node(reader, "Transpose", 1));
        // Channels and pixels, which become an image.
        fused.attributes["images"] = static_cast<std::int64_t>(is_plain_node(reader, "Reshape", 2));
        for (const auto& [name, axes] : {std::pair{"q_axes", &product.q_axes}, std::pair{"k_axes", &product.k_axes},
                                         std::pair{"v_axes", &ending.v_axes}, std::pair{"y_axes", &ending.y_axes}})
            if (!axes->empty())
                fused.attributes[name] = *axes;
        return fused;
    }

    Rewriter& rewriter_;
    std::map<std::pair<std::string, std::vector<int>>, int> masks_;
    std::map<float, int> numbers_;
};

}  // namespace

void fuse_attention(Rewriter& rewriter) { AttentionFusion(rewriter).run(); }

}  // namespace clprim::onnx
