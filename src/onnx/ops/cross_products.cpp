#include "onnx/ops/cross_products.hpp"

#include <numeric>

#include "onnx/ops/compose.hpp"

namespace clprim::onnx {

CrossProducts::CrossProducts(const Call& call, std::size_t kept, const CrossSizes& sizes) : sizes_(sizes)
{
    if (!call.has(kept)) {
        kept_.resize(static_cast<std::size_t>(sizes.layers * sizes.heads));
        std::iota(kept_.begin(), kept_.end(), std::int64_t{0});
        return;
    }
    const Dims& shape = call.shape(kept);
    call.check(shape.size() == 2 && shape[0] > 0 && shape[1] == 2, "cross_qk_layer_head has shape ", to_string(shape),
               ", expected [count, 2]");
    const auto pairs = call.ints(kept);
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
        const std::int64_t layer = pairs[i], head = pairs[i + 1];
        call.check(layer >= 0 && layer < sizes.layers && head >= 0 && head < sizes.heads,
                   "cross_qk_layer_head lists layer ", layer, " and head ", head, " of ", sizes.layers, " layers with ",
                   sizes.heads, " heads");
        kept_.push_back(layer * sizes.heads + head);
    }
}

void CrossProducts::add(const Call& call, std::span<const Value> layers)
{
    const Compose op(call);
    for (const Value& layer : layers)
        call.check(layer.is_tensor() && layer.dim() == 4 && layer.shape()[1] == sizes_.heads && layer.shape()[2] > 0 &&
                       layer.shape()[3] == sizes_.keys,
                   "the subgraph's products of cross attention are not [sequences, ", sizes_.heads, " heads, length, ",
                   sizes_.keys, " keys]");
    const Value all = op("Concat", {layers.begin(), layers.end()}, {{"axis", std::int64_t{1}}});
    const Value kept = op("Gather", {all, Value::ints(kept_)}, {{"axis", std::int64_t{1}}});
    const std::int64_t last = kept.shape()[2] - 1;
    steps_.push_back(op.cast(op("Gather", {kept, Value::scalar(last)}, {{"axis", std::int64_t{2}}}),
                             ElementType::float32));
}

Value CrossProducts::of_best(const Call& call, const Beams& beams, std::int64_t samples, std::int64_t returned) const
{
    const Compose op(call);
    const auto count = static_cast<std::int64_t>(kept_.size()), steps = static_cast<std::int64_t>(steps_.size());
    if (steps == 0)
        return Value::zeros(ElementType::float32, {samples, returned, count, 0, sizes_.keys});
    const std::int64_t rows = steps_[0].shape()[0], nothing = steps * rows;
    std::vector<std::int64_t> from;                       // rows of all steps, one after the other
    for (std::int64_t b = 0; b < samples; ++b) {
        const auto best = beams.best(static_cast<std::size_t>(b));
        for (std::int64_t i = 0; i < returned; ++i) {
            std::vector<std::int64_t> line(static_cast<std::size_t>(steps), nothing);
            if (i < static_cast<std::int64_t>(best.size())) {
                const Beams::Hypothesis& found = best[static_cast<std::size_t>(i)];
                std::int64_t row = static_cast<std::int64_t>(found.row);
                for (std::size_t step = found.step; step-- > 0;) {
                    if (step < steps_.size())
                        line[step] = static_cast<std::int64_t>(step) * rows + row;
                    row = parents_[step][static_cast<std::size_t>(row)];
                }
            }
            from.insert(from.end(), line.begin(), line.end());
        }
    }
    std::vector<Value> parts = steps_;
    parts.push_back(Value::zeros(ElementType::float32, {1, count, sizes_.keys}));
    const Value all = op("Concat", std::move(parts), {{"axis", std::int64_t{0}}});
    const Value index = Value::ints(from).reshaped({samples, returned, steps}, call.queue());
    return op.transposed(op("Gather", {all, index}, {{"axis", std::int64_t{0}}}), {0, 1, 3, 2, 4});
}

}  // namespace clprim::onnx
