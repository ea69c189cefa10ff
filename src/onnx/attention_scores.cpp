#include "onnx/attention_scores.hpp"

#include <algorithm>
#include <cmath>

#include "onnx/constants.hpp"

namespace clprim::onnx {

namespace {

// What Where puts in the place of hidden scores, at most: exp of it is nothing beside others of its row.
constexpr float least_hidden = -1e4f;

// The inputs of a node that scores may come by, if it is one of the steps.
std::vector<ScoreStep> steps_of(const Rewriter& rewriter, const Node* node, bool scaled)
{
    using Kind = ScoreStep::Kind;
    std::size_t other = 0;
    if (is_conversion_of_floats(node))
        return {{Kind::conversion, node, 0}};
    if (constant_factor(rewriter, node, other, axes_of_scores))
        return {{Kind::scale, node, other}};
    if (is_plain_node(node, "Tanh", 1))
        return {{Kind::cap, node, 0}};
    if (is_plain_node(node, "Reshape", 2))
        return {{Kind::shape, node, 0}};
    if (scaled)                      // what was added before is multiplied, too
        return {};
    if (is_plain_node(node, "Add", 2))
        return {{Kind::mask, node, 0}, {Kind::mask, node, 1}};
    if (is_plain_node(node, "Where", 3))
        for (const std::size_t i : {1u, 2u})
            if (const auto hidden = constant_float(rewriter, node->inputs[3 - i], axes_of_scores);
                hidden && *hidden <= least_hidden)
                return {{Kind::mask, node, i}};
    return {};
}

// Whether scores come by `slot` to `reader`, and how.
bool lead(Rewriter& rewriter, int slot, const Node& reader, Scores& found, bool scaled = false)
{
    const Node* node = writer_for(rewriter, slot, reader);
    if (auto product = node ? score_product(*node) : std::nullopt) {
        found.product = std::move(product);
        return true;
    }
    for (const ScoreStep& step : node ? steps_of(rewriter, node, scaled) : std::vector<ScoreStep>{}) {
        const bool scales = step.kind == ScoreStep::Kind::scale || step.kind == ScoreStep::Kind::cap;
        found.steps.push_back(step);
        if (lead(rewriter, node->inputs[step.scores], *node, found, scaled || scales))
            return true;
        found.steps.pop_back();
    }
    return false;
}

// The numbers of the steps; false where one tanh follows another, or its factor is none for it.
bool find_numbers(const Rewriter& rewriter, Scores& found)
{
    for (const ScoreStep& step : found.steps) {
        std::size_t other = 0;
        if (step.kind == ScoreStep::Kind::scale)
            found.scale *= *constant_factor(rewriter, step.node, other, axes_of_scores);
        if (step.kind != ScoreStep::Kind::cap)
            continue;
        if (found.softcap != 0 || !(found.scale > 0) || std::isinf(found.scale))
            return false;
        found.softcap = found.scale;
    }
    return true;
}

// Of several masks, a row that sees no key may be hidden by different numbers, of which the largest would count.
bool masks_combine(const Rewriter& rewriter, const Scores& found)
{
    const auto masks = std::ranges::count(found.steps, ScoreStep::Kind::mask, &ScoreStep::kind);
    return masks < 2 || std::ranges::all_of(found.steps, [&](const ScoreStep& step) {
        return step.kind != ScoreStep::Kind::mask || step.node->op_type == "Add" ||
               *constant_float(rewriter, step.node->inputs[3 - step.scores], axes_of_scores) <= drowns_scores;
    });
}

bool pair_reshapes(Scores& found, const Ending& ending, std::int64_t axis)
{
    for (auto step = found.steps.rbegin(); step != found.steps.rend(); ++step) {
        if (found.shapes.size() == 2 && step->kind != ScoreStep::Kind::conversion)
            return false;
        if (step->kind == ScoreStep::Kind::shape)
            found.shapes.push_back(step->node);
    }
    if (!ending.reshape)
        return found.shapes.size() != 1;
    found.shapes.push_back(ending.reshape);
    return found.shapes.size() == 2 && axis == -1;
}

}  // namespace

std::vector<ScoreStep> Scores::masks(bool outer) const
{
    std::vector<ScoreStep> result;
    bool behind = false;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
        if (step->kind == ScoreStep::Kind::shape)
            behind = true;
        else if (step->kind == ScoreStep::Kind::mask && behind == outer)
            result.push_back(*step);
    return result;
}

std::optional<Scores> attention_scores(Rewriter& rewriter, const Node& softmax, const Ending& ending,
                                       std::int64_t axis)
{
    Scores found;
    if (!lead(rewriter, softmax.inputs[0], softmax, found) || !find_numbers(rewriter, found) ||
        !masks_combine(rewriter, found) || !pair_reshapes(found, ending, axis))
        return std::nullopt;
    return found;
}

std::optional<float> constant_float(const Rewriter& rewriter, int slot, std::size_t most_axes)
{
    const Value* value = rewriter.constant(slot);
    if (!value || !is_host_tensor(*value) || value->type() != ElementType::float32 || value->numel() != 1 ||
        value->dim() > most_axes)
        return std::nullopt;
    return *reinterpret_cast<const float*>(value->host_bytes());
}

std::optional<float> constant_factor(const Rewriter& rewriter, const Node* node, std::size_t& other,
                                     std::size_t most_axes)
{
    const bool times = is_plain_node(node, "Mul", 2);
    if (!times && !is_plain_node(node, "Div", 2))
        return std::nullopt;
    for (const std::size_t i : {0u, 1u})
        if (const auto found = constant_float(rewriter, node->inputs[1 - i], most_axes); found && (times || i == 0)) {
            other = i;
            return times ? *found : 1 / *found;
        }
    return std::nullopt;
}

}  // namespace clprim::onnx
