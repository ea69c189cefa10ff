// com.microsoft's mixtures of experts: MoE, QMoE, MoEGroupRouter. The host decides which tokens an expert sees, so that
// only experts that see some compute.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/index.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/expert_weights.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// The tokens of an expert, and how much its result counts for each.
struct Route {
    std::vector<std::int64_t> tokens;
    std::vector<float> shares;
};

std::vector<float> softmax_of(std::span<const double> logits)
{
    const double largest = *std::ranges::max_element(logits);
    double sum = 0;
    std::vector<float> result;
    for (const double logit : logits) {
        result.push_back(static_cast<float>(std::exp(logit - largest)));
        sum += result.back();
    }
    for (float& share : result)
        share = static_cast<float>(share / sum);
    return result;
}

// The first `count` of the largest.
std::vector<std::size_t> largest_of(std::span<const float> numbers, std::size_t count)
{
    std::vector<std::size_t> order(numbers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return numbers[a] > numbers[b]; });
    order.resize(std::min(count, order.size()));
    return order;
}

// By the probabilities of `router_probs`, or by the numbers of input `given`.
std::vector<Route> routes_of(const Call& call, std::int64_t tokens, std::size_t given)
{
    const Dims& shape = call.shape(1);
    call.check(shape.size() == 2 && shape[0] == tokens && shape[1] > 0, "router_probs has shape ", to_string(shape),
               ", expected [", tokens, ", experts]");
    call.check(call.integer_attribute("use_sparse_mixer", 0) == 0, "use_sparse_mixer is not supported");
    const std::int64_t k = call.integer_attribute("k", 1);
    call.check(k > 0 && k <= shape[1], "k is ", k, " of ", shape[1], " experts");
    const auto logits = call.input(1).to_doubles(call.queue());
    std::vector<double> weights;
    if (given != none && call.has(given)) {
        call.check(call.shape(given) == shape, "router_weights has shape ", to_string(call.shape(given)), ", expected ",
                   to_string(shape));
        weights = call.input(given).to_doubles(call.queue());
    }
    const bool normalised = call.integer_attribute("normalize_routing_weights", 0) != 0;
    const auto experts = static_cast<std::size_t>(shape[1]);
    std::vector<Route> routes(experts);
    for (std::size_t token = 0; token < static_cast<std::size_t>(tokens); ++token) {
        auto shares = softmax_of(std::span(logits).subspan(token * experts, experts));
        const auto chosen = largest_of(shares, static_cast<std::size_t>(k));
        if (!weights.empty())
            std::ranges::copy(std::span(weights).subspan(token * experts, experts), shares.begin());
        float sum = 0;
        for (const std::size_t expert : chosen)
            sum += shares[expert];
        for (const std::size_t expert : chosen) {
            routes[expert].tokens.push_back(static_cast<std::int64_t>(token));
            routes[expert].shares.push_back(normalised ? shares[expert] / sum : shares[expert]);
        }
    }
    return routes;
}

// Gate and linear half of rows: beside each other for each column, or one behind the other; `gelu` rather than swish.
Value gated(const Call& call, const Value& x, bool interleaved, bool gelu = false)
{
    const Tensor rows = x.device(call.queue());
    const std::int64_t width = rows.size(1) / 2;
    call.check(rows.size(1) % 2 == 0, "fc1 has ", rows.size(1), " columns, expected an even number");
    Tensor gate = rows.slice(1, 0, width), linear = rows.slice(1, width, 2 * width);
    if (interleaved) {
        gate = Tensor(rows.memory, rows.offset, rows.dtype, {rows.size(0), width},
                      {rows.stride(0), 2 * rows.stride(1)});
        linear = gate;
        linear.offset += rows.stride(1);
    }
    if (gelu) {
        const Compose op(call);
        return op("Mul", {op("Gelu", {Value(gate)}, {{"approximate", std::string("tanh")}}), Value(linear)});
    }
    const Tensor inputs[] = {gate, linear}, y = call.allocate({rows.size(0), width}, rows.dtype);
    const std::array<Scalar, 3> numbers{call.float_attribute("activation_alpha", 1),
                                        call.float_attribute("activation_beta", 0),
                                        call.float_attribute("swiglu_limit", std::numeric_limits<float>::infinity())};
    const bool limited_after = call.integer_attribute("swiglu_limit_after_activation", 0) != 0;
    const std::string code = std::string("T l = x1 > w2 ? w2 : x1 < -w2 ? -w2 : x1;") +
                             (limited_after ? "T g = x0 / (1 + exp(-w0 * x0)); g = g > w2 ? w2 : g;"
                                            : "T g = x0 > w2 ? w2 : x0; g = g / (1 + exp(-w0 * g));") +
                             "y0 = g * (l + w1);";
    pointwise(call.queue(), inputs, std::span(&y, 1), numbers, code);
    return Value(y);
}

Value activated(const Call& call, const Value& x, const std::string& name)
{
    const Compose op(call);
    if (name == "relu")
        return op("Relu", {x});
    if (name == "gelu")
        return op("Gelu", {x}, {{"approximate", std::string("tanh")}});
    if (name == "silu")
        return op("Mul", {x, op("Sigmoid", {x})});
    if (name == "relu2") {
        const Value positive = op("Relu", {x});
        return op("Mul", {positive, positive});
    }
    if (name == "swiglu" || name == "geglu")
        return gated(call, x, call.integer_attribute("swiglu_fusion", 0) == 1, name == "geglu");
    call.check(name == "identity", "activation_type is '", name,
               "', expected relu, relu2, gelu, silu, swiglu, geglu or identity");
    return x;
}

// Layer `layer` (1, 2, 3) of an expert: x W^T + bias. `weights(layer, expert)` are [out, in].
template <class Weights>
struct Experts {
    const Call& call;
    const Weights& weights;
    std::array<std::size_t, 4> biases;           // inputs by layer

    Value layer(const Value& x, std::size_t which, std::int64_t expert) const
    {
        const Compose op(call);
        Value bias = of_expert(call, biases[which], expert);
        if (!bias.is_none())
            bias = op.cast(bias, x.type());
        return op("Gemm", {x, op.cast(weights(which, expert), x.type()), bias}, {{"transB", std::int64_t{1}}});
    }
    Value operator()(const Value& x, std::int64_t expert, bool third) const
    {
        const Compose op(call);
        const std::string name = call.string_attribute("activation_type", "relu");
        Value hidden = layer(x, 1, expert);
        if (name == "swiglu" && third) {         // the linear half is a layer of its own
            const auto join = Value(call.allocate({hidden.shape()[0], 2 * hidden.shape()[1]}, storage_type(x.type())));
            const Tensor both = join.device(call.queue());
            copy(call.queue(), hidden.device(call.queue()), both.slice(1, 0, hidden.shape()[1]));
            copy(call.queue(), layer(x, 3, expert).device(call.queue()),
                 both.slice(1, hidden.shape()[1], 2 * hidden.shape()[1]));
            return layer(gated(call, join, false), 2, expert);
        }
        call.check((name != "swiglu" && name != "geglu") || call.integer_attribute("swiglu_fusion", 0) != 0,
                   "swiglu_fusion is 0 and there is no fc3");
        call.check(name != "geglu" || !third, "geglu has no fc3");
        hidden = activated(call, hidden, name);
        if (third)
            hidden = op("Mul", {hidden, layer(x, 3, expert)});
        return layer(hidden, 2, expert);
    }
};

template <class Weights>
void mix(Call& call, const Experts<Weights>& experts, bool third, std::size_t given)
{
    const Compose op(call);
    const Dims shape = call.shape(0);
    call.check((shape.size() == 2 || shape.size() == 3) && shape.back() > 0, "input has shape ", to_string(shape),
               ", expected [tokens, size] or [batch, length, size]");
    const std::int64_t width = shape.back(), tokens = shape.product() / width;
    const ElementType type = call.type(0) == ElementType::float64 ? ElementType::float64 : ElementType::float32;
    const Value x = op.cast(call.input(0), type).reshaped({tokens, width}, call.queue());
    const Tensor sum = call.allocate({tokens, width}, storage_type(type));
    fill(call.queue(), sum, 0);
    const auto routes = routes_of(call, tokens, given);
    for (std::size_t expert = 0; expert < routes.size(); ++expert) {
        const Route& route = routes[expert];
        if (route.tokens.empty())
            continue;
        const auto count = static_cast<std::int64_t>(route.tokens.size());
        const Value at = Value::ints(route.tokens);
        const Value rows = count == tokens ? x : op("Gather", {x, at}, {{"axis", std::int64_t{0}}});
        const Value shares = op.cast(Value::copy_of(ElementType::float32, {count, 1}, route.shares.data()), type);
        const Value part = op("Mul", {experts(rows, static_cast<std::int64_t>(expert), third), shares});
        call.check(part.shape() == Dims({count, width}), "an expert makes ", to_string(part.shape()), " of ",
                   to_string(rows.shape()));
        index_reduce(call.queue(), sum, 0, at.device(call.queue()), part.device(call.queue()), IndexReduce::sum);
    }
    call.output(0, op.cast(Value(sum), call.type(0)).reshaped(shape, call.queue()));
}

void mixture(Call& call)
{
    const auto weights = [&](std::size_t layer, std::int64_t expert) { return of_expert(call, 2 * layer, expert); };
    mix(call, Experts<decltype(weights)>{call, weights, {none, 3, 5, 7}}, call.has(6), none);
}

void quantized_mixture(Call& call)
{
    const auto weights = [&](std::size_t layer, std::int64_t expert) {
        return quantized_expert(call, layer, expert);
    };
    mix(call, Experts<decltype(weights)>{call, weights, {none, 4, 7, 10}}, call.has(8), 14);
}

// ---- routers ----

// Scores of the experts that a token chooses in its best groups; `router_sentinel` for the others.
void group_router(Call& call)
{
    call.check(!call.has(2), "projection_weight is not supported");
    const Compose op(call);
    const Dims shape = call.shape(0);
    call.check(!shape.empty() && shape.back() > 0, "logits have shape ", to_string(shape));
    const std::int64_t experts = shape.back(), tokens = shape.product() / experts,
                       groups = call.integer_attribute("n_group", 1), active = call.integer_attribute("topk_group", 1),
                       k = call.attribute<std::int64_t>("top_k");
    call.check(groups > 0 && experts % groups == 0 && active > 0 && active <= groups && k > 0 &&
                   k <= active * (experts / groups),
               "top_k ", k, ", topk_group ", active, " and n_group ", groups, " do not fit ", experts, " experts");
    const auto logits = call.input(0).to_doubles(call.queue()), bias = call.input(1).to_doubles(call.queue());
    call.check(static_cast<std::int64_t>(bias.size()) == experts, "expert_bias has ", bias.size(), " elements for ",
               experts, " experts");
    const auto size = static_cast<std::size_t>(experts / groups),
               best = std::min(static_cast<std::size_t>(std::max<std::int64_t>(1,
                                                                              call.integer_attribute("group_topk", 2))),
                               size);
    const auto table = [&] { return Value::zeros(ElementType::float32, {tokens, experts}); };
    Value probs = table(), sums = table(), plain = table();
    const auto target = probs.mutable_host<float>();
    std::ranges::fill(target, call.float_attribute("router_sentinel", -10000));
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
        const std::size_t row = t * static_cast<std::size_t>(experts);
        std::vector<float> scores, biased, of_groups;
        for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) {
            scores.push_back(static_cast<float>(1 / (1 + std::exp(-logits[row + e]))));
            biased.push_back(scores[e] + static_cast<float>(bias[e]));
            plain.mutable_host<float>()[row + e] = scores[e];
            sums.mutable_host<float>()[row + e] = biased[e];
        }
        for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
            const auto group = std::span(biased).subspan(g * size, size);
            float sum = 0;
            for (const std::size_t e : largest_of(group, best))
                sum += group[e];
            of_groups.push_back(sum);
        }
        std::vector<float> candidates(biased.size(), -std::numeric_limits<float>::infinity());
        for (const std::size_t g : largest_of(of_groups, static_cast<std::size_t>(active)))
            std::copy_n(biased.begin() + static_cast<std::ptrdiff_t>(g * size), size,
                        candidates.begin() + static_cast<std::ptrdiff_t>(g * size));
        for (const std::size_t e : largest_of(candidates, static_cast<std::size_t>(k)))
            target[row + e] = std::log(std::max(scores[e], 1e-20F));
    }
    call.output(0, op.cast(probs, call.type(0)));
    call.output(1, sums);
    call.output(2, plain);
}

const OperatorRow contrib_expert_rows[] = {
    {"MoE", 1, mixture, nullptr, microsoft},
    {"QMoE", 1, quantized_mixture, nullptr, microsoft},
    {"MoEGroupRouter", 1, group_router, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_expert_operators() { return contrib_expert_rows; }

}  // namespace clprim::onnx
