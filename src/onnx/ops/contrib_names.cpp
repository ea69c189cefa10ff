// com.microsoft's operators that ONNX has under other names or in other forms, and T5's position bias.
#include <algorithm>
#include <cmath>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/distance.hpp>
#include <clprim/reduce.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// T5's buckets of distances: exact ones for near keys, then logarithmic up to max_distance.
std::int64_t distance_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t farthest, bool both_ways)
{
    std::int64_t first = 0;
    if (both_ways) {
        buckets /= 2;
        first = distance > 0 ? buckets : 0;
        distance = std::abs(distance);
    } else {
        distance = std::max<std::int64_t>(0, -distance);
    }
    const std::int64_t exact = buckets / 2;
    if (distance < exact)
        return first + distance;
    const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                        std::log(static_cast<float>(farthest) / static_cast<float>(exact));
    const auto far = exact + static_cast<std::int64_t>(ratio * static_cast<float>(buckets - exact));
    return first + std::min(far, buckets - 1);
}

void relative_position_bias(Call& call)
{
    const Compose op(call);
    const std::int64_t queries = call.integer(1), keys = call.integer(2),
                       farthest = call.attribute<std::int64_t>("max_distance");
    const bool both_ways = call.integer_attribute("is_bidirectional", 0) != 0;
    call.check(call.shape(0).size() == 2, "bias_table has shape ", to_string(call.shape(0)),
               ", expected [buckets, heads]");
    const std::int64_t buckets = call.shape(0)[0];
    call.check(
        queries >= 0 && keys >= 0 && queries < (1 << 20) && keys < (1 << 20) && buckets >= 4 && farthest > buckets / 2,
        "lengths ", queries, " and ", keys, ", ", buckets, " buckets and max_distance ", farthest, " do not fit");
    Value index = Value::zeros(ElementType::int64, {queries, keys});
    const auto at = index.mutable_host<std::int64_t>();
    for (std::int64_t q = 0; q < queries; ++q)
        for (std::int64_t k = 0; k < keys; ++k)
            at[static_cast<std::size_t>(q * keys + k)] = distance_bucket(k - q, buckets, farthest, both_ways);
    const Value bias = op.transposed(op("Gather", {call.input(0), index}), {2, 0, 1});
    call.output(0, op("Unsqueeze", {bias, Value::ints(std::array{std::int64_t{0}})}));
}

// ---- what ONNX has under other names ----

void expand_dims(Call& call)
{
    const std::array axes{call.integer(1)};
    call.output(0, Compose(call)("Unsqueeze", {call.input(0), Value::ints(axes)}));
}

void range(Call& call)
{
    const Compose op(call);
    call.output(0,
                op("Range", {call.input(0), call.input(1), call.has(2) ? call.input(2) : op.number(1, call.type(0))}));
}

template <std::size_t inputs>
void same(Call& call, std::string_view name, std::initializer_list<std::string_view> attributes)
{
    const Compose op(call);
    std::vector<Value> values;
    for (std::size_t i = 0; i < inputs; ++i)
        values.push_back(op.input(i));
    call.output(0, op(name, std::move(values), op.attributes(attributes)));
}

void trilu(Call& call) { same<2>(call, "Trilu", {"upper"}); }
void gather_nd(Call& call) { same<2>(call, "GatherND", {}); }
void pad(Call& call) { same<3>(call, "Pad", {"mode"}); }
void grid_sample(Call& call) { same<2>(call, "GridSample", {"align_corners", "mode", "padding_mode"}); }
void is_all_finite(Call& call)
{
    const Compose op(call);
    const bool no_inf = call.integer_attribute("isnan_only", 0) != 0,
               no_nan = call.integer_attribute("isinf_only", 0) != 0;
    Value result = Value::scalar(true);
    for (std::size_t i = 0; i < call.inputs(); ++i)
        for (const char* kind : {"IsNaN", "IsInf"}) {
            if (std::string_view(kind) == "IsNaN" ? no_nan : no_inf)
                continue;
            const Value found = op("ReduceMax", {op.cast(op(kind, {call.input(i)}), ElementType::uint8)},
                                   {{"keepdims", std::int64_t{0}}});
            result = op("And", {result, op("Not", {op.cast(found, ElementType::boolean)})});
        }
    call.output(0, result);
}

void unique(Call& call)
{
    const auto results = run_operator(call, "Unique", {call.input(0)}, {{"sorted", std::int64_t{0}}}, 4);
    call.output(0, results[0]);
    call.output(1, results[2]);
    call.output(2, results[3]);
}

void cdist(Call& call)
{
    const Tensor a = call.contiguous(0), b = call.contiguous(1);
    const std::string metric = call.string_attribute("metric", "sqeuclidean");
    call.check(metric == "euclidean" || metric == "sqeuclidean", "metric is '", metric,
               "', expected euclidean or sqeuclidean");
    call.check(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1) && a.dtype == b.dtype, "points ",
               to_string(a.shape), " and ", to_string(b.shape), " do not fit");
    const Tensor y = call.allocate({a.size(0), b.size(0)}, a.dtype);
    call.output(0, Value(y));
    if (y.numel() == 0)
        return;
    const auto batch = [](const Tensor& t) { return t.reshape({1, t.size(0), t.size(1)}); };
    pairwise_distances(call.queue(), batch(a), batch(b), 2, batch(y));
    if (metric == "sqeuclidean")
        pointwise(call.queue(), std::span(&y, 1), std::span(&y, 1), {}, "y0 = x0 * x0;");
}

const OperatorRow contrib_name_rows[] = {
    {"RelativePositionBias", 1, relative_position_bias, nullptr, microsoft},
    {"ExpandDims", 1, expand_dims, nullptr, microsoft},
    {"Range", 1, range, nullptr, microsoft},
    {"Trilu", 1, trilu, nullptr, microsoft},
    {"GatherND", 1, gather_nd, nullptr, microsoft},
    {"Pad", 1, pad, nullptr, microsoft},
    {"GridSample", 1, grid_sample, nullptr, microsoft},
    {"IsAllFinite", 1, is_all_finite, nullptr, microsoft},
    {"Unique", 1, unique, nullptr, microsoft},
    {"CDist", 1, cdist, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_name_operators() { return contrib_name_rows; }

}  // namespace clprim::onnx
