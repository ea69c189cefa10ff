// com.microsoft's GroupQueryAttention and SparseAttention with their caches, and rotary embedding.
#include <algorithm>
#include <cmath>
#include <optional>

#include <clprim/concat.hpp>
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/index.hpp>

#include "onnx/ops/cache_formats.hpp"
#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib_scores.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

Tensor rotated(const Call& call, const Tensor& heads, const Value& at, std::size_t cosines)
{
    const Compose op(call);
    call.check(call.has(cosines) && call.has(cosines + 1) && call.shape(cosines).size() == 2,
               "cos_cache and sin_cache [positions, pairs] are needed");
    const std::int64_t size = 2 * call.shape(cosines)[1];
    return op("RotaryEmbedding", {Value(heads), call.input(cosines), call.input(cosines + 1), at},
              {{"interleaved", call.integer_attribute("rotary_interleaved", 0)},
               {"rotary_embedding_dim", size == heads.size(3) ? std::int64_t{0} : size}}).device(call.queue());
}

// What GroupQueryAttention's samples have: `past` keys in the cache before the new ones, `total` with them.
struct Lengths {
    std::vector<std::int64_t> past, total;
    std::int64_t longest = 0, queries = 0;
};

// The whole length of each sample is that in input `i` and `more`.
Lengths lengths_of(const Call& call, const Tensor& x, std::size_t i, std::int64_t more, std::int64_t longest)
{
    const std::int64_t batch = x.size(0), queries = x.size(1);
    const auto totals = call.ints(i);
    const char* const name = more ? "seqlens_k" : "key_total_sequence_lengths";
    Lengths result;
    result.longest = longest;
    result.queries = queries;
    call.check(static_cast<std::int64_t>(totals.size()) == batch, name, " has ", totals.size(),
               " elements, expected ", batch);
    call.check(result.longest >= queries && result.longest < (std::int64_t{1} << 31), "total_sequence_length is ",
               result.longest, " with ", queries, " new tokens");
    const bool prompt = result.longest == queries;
    for (const std::int64_t given : totals) {
        call.check(given > -more && given <= result.longest - more, name, " has ", given,
                   ", total_sequence_length is ", result.longest);
        const std::int64_t total = given + more;
        result.total.push_back(total);
        result.past.push_back(prompt ? 0 : std::max<std::int64_t>(0, total - queries));
    }
    return result;
}

// Keys or values in a cache that is as long as the longest sample needs.
Tensor cached(const Call& call, std::size_t past_input, const Tensor& fresh, const Lengths& lengths)
{
    const Tensor past = call.tensor_or_none(past_input);
    call.check(!past.defined() || (past.dim() == 4 && past.dtype == fresh.dtype && past.size(0) == fresh.size(0) &&
                                   past.size(1) == fresh.size(1) && past.size(3) == fresh.size(3)),
               "a past of shape ", to_string(past.shape), " does not fit keys or values ", to_string(fresh.shape));
    const std::int64_t held = past.defined() ? past.size(2) : 0, batch = fresh.size(0);
    const Tensor whole =
        call.allocate({batch, fresh.size(1), std::max(held, lengths.longest), fresh.size(3)}, fresh.dtype);
    if (held < whole.size(2))
        fill(call.queue(), whole.slice(2, held, whole.size(2)), 0);
    if (held)
        copy(call.queue(), past, whole.slice(2, 0, held));
    const bool alike = std::ranges::count(lengths.past, lengths.past[0]) == batch;
    for (std::int64_t b = 0; b < (alike ? std::min<std::int64_t>(1, batch) : batch); ++b) {
        const std::int64_t begin = lengths.past[static_cast<std::size_t>(b)];
        const auto rows = [&](const Tensor& t) { return alike ? t : t.slice(0, b, b + 1); };
        copy(call.queue(), rows(fresh), rows(whole).slice(2, begin, begin + lengths.queries));
    }
    return whole;
}

// 0 where a query may see a key, -inf where not: [B, 1, L, T].
Tensor visibility(const Call& call, const Lengths& lengths, std::int64_t window, bool causal, DataType type)
{
    const auto batch = static_cast<std::int64_t>(lengths.past.size());
    const auto column = [&](const std::vector<std::int64_t>& numbers) {
        return Value::ints(numbers).device(call.queue()).reshape({batch, 1, 1, 1});
    };
    const Tensor inputs[] = {column(lengths.past), column(lengths.total),
                             positions(call, lengths.queries).reshape({lengths.queries, 1}),
                             positions(call, lengths.longest)};
    const Tensor bias = call.allocate({batch, 1, lengths.queries, lengths.longest}, type);
    const Scalar numbers[] = {window, std::int64_t{causal}};
    const DataType types[] = {DataType::int64, DataType::int64};
    // Rows behind a sample's end see what is there, so that they stay finite.
    pointwise(call.queue(), inputs, std::span(&bias, 1), numbers,
              "long at = x0 + x2; bool seen = (w1 ? x3 <= at : x3 < x1) && (w0 < 0 || x3 > at - w0);"
              "y0 = seen ? (T)0 : (T)-INFINITY;", types);
    return bias;
}

Value token_positions(const Call& call, const Lengths& lengths)
{
    const auto batch = static_cast<std::int64_t>(lengths.past.size());
    std::vector<std::int64_t> at;
    for (const std::int64_t past : lengths.past)
        for (std::int64_t i = 0; i < lengths.queries; ++i)
            at.push_back(past + i);
    return Value::ints(at).reshaped({batch, lengths.queries}, call.queue());
}

Tensor head_norm(const Call& call, const Tensor& heads, std::size_t weight)
{
    if (!call.has(weight))
        return heads;
    return Compose(call)("RMSNormalization", {Value(heads), call.input(weight)},
                         {{"axis", std::int64_t{-1}}, {"epsilon", call.float_attribute("qk_norm_epsilon", 1e-6F)}})
        .device(call.queue());
}

// Query, key and value, or all three side by side in the first input.
Scores projected_heads(const Call& call, const Tensor& x, std::int64_t heads, std::int64_t kv_heads)
{
    call.check(x.dim() == 3, "query has shape ", to_string(x.shape), ", expected three axes");
    Scores p;
    if (call.has(1)) {
        p.query = heads_of(call, x, heads);
        p.key = heads_of(call, call.tensor(1), kv_heads);
        p.value = heads_of(call, call.tensor(2), kv_heads);
    } else {
        call.check(x.size(2) % (heads + 2 * kv_heads) == 0, "a packed query of ", x.size(2), " is not ", heads,
                   " + 2 * ", kv_heads, " heads");
        const std::int64_t size = x.size(2) / (heads + 2 * kv_heads), q = heads * size, kv = kv_heads * size;
        p.query = heads_of(call, x.slice(2, 0, q), heads);
        p.key = heads_of(call, x.slice(2, q, q + kv), kv_heads);
        p.value = heads_of(call, x.slice(2, q + kv, q + 2 * kv), kv_heads);
    }
    call.check(p.key.size(2) == p.query.size(2), "there are ", p.query.size(2), " queries and ", p.key.size(2),
               " keys");
    return p;
}

void group_query_attention(Call& call)
{
    const std::int64_t heads = head_count(call, "num_heads"), kv_heads = head_count(call, "kv_num_heads");
    const Tensor x = call.tensor(0);
    Scores p = projected_heads(call, x, heads, kv_heads);
    const Lengths lengths = lengths_of(call, x, 5, 1, call.integer(6));
    p.query = head_norm(call, p.query, 14);
    p.key = head_norm(call, p.key, 15);
    if (call.integer_attribute("do_rotary", 0)) {
        const Value at = call.has(9) ? Compose(call)
                                           .cast(call.input(9), ElementType::int64)
                                           .reshaped({x.size(0), x.size(1)}, call.queue())
                                     : token_positions(call, lengths);
        p.query = rotated(call, p.query, at, 7);
        p.key = rotated(call, p.key, at, 7);
    }
    const CacheFormat key_format = cache_format(call, "k", 12, kv_heads, p.key.size(3));
    const CacheFormat value_format = cache_format(call, "v", 13, kv_heads, p.value.size(3));
    const Tensor keys = cached(call, 3, cache_form(call, key_format, p.key), lengths);
    const Tensor values = cached(call, 4, cache_form(call, value_format, p.value), lengths);
    hand_on(call, {keys, keys}, {values, values});
    p.key = from_cache(call, key_format, keys.slice(2, 0, lengths.longest), x.dtype);
    p.value = from_cache(call, value_format, values.slice(2, 0, lengths.longest), x.dtype);
    p.scale = scale_of(call, p.query.size(3));
    p.softcap = call.float_attribute("softcap", 0);
    const bool causal = call.integer_attribute("causal", 1) != 0;
    const std::int64_t window = call.integer_attribute("local_window_size", -1);
    if (x.size(0) == 1 && causal && window < 0) {
        p.causal = true;
        p.offset = lengths.past[0];
    } else {
        p.bias = visibility(call, lengths, window, causal, x.dtype);
    }
    p.bias = sum_of(call, p.bias, call.tensor_or_none(10));
    if (call.has(11))
        p.sink = call.contiguous(11);
    else if (call.integer_attribute("smooth_softmax", 0) == 1) {
        p.sink = call.allocate({heads}, DataType::float32);
        fill(call.queue(), p.sink, 0);
    }
    if (call.wants(3)) {
        const std::int64_t stage = call.integer_attribute("qk_output", 0);
        call.check(stage == 1 || stage == 2, "qk_output is ", stage,
                   " and output_qk wanted; expected 1 (before the softmax) or 2 (behind it)");
        p.shown_before_softmax = stage == 1;
        p.shown = call.output_tensor(3, {x.size(0), heads, lengths.queries, lengths.longest}, call.type(0));
    }
    attend_to_output(call, p);
}

// ---- sparse attention ----

// Which blocks of keys each block of queries may see, 1 or 0: [layouts, blocks, blocks], from compressed rows.
Value visible_blocks(const Call& call, std::size_t rows_input)
{
    const Dims &rows = call.shape(rows_input), &columns = call.shape(rows_input + 1);
    call.check(rows.size() == 2 && columns.size() == 2 && rows[0] == columns[0] && rows[0] > 0 && rows[1] > 1 &&
                   rows[1] <= (1 << 13) && rows[0] <= 64,
               "block_row_indices ", to_string(rows), " and block_col_indices ", to_string(columns), " do not fit");
    const auto ends = call.ints(rows_input), places = call.ints(rows_input + 1);
    const std::int64_t blocks = rows[1] - 1;
    Value result = Value::zeros(ElementType::uint8, {rows[0], blocks, blocks});
    const auto seen = result.mutable_host<std::uint8_t>();
    for (std::int64_t layout = 0; layout < rows[0]; ++layout)
        for (std::int64_t block = 0; block < blocks; ++block) {
            const std::size_t at = static_cast<std::size_t>(layout * rows[1] + block);
            call.check(ends[at] >= 0 && ends[at] <= ends[at + 1] && ends[at + 1] <= columns[1],
                       "block_row_indices has ", ends[at], " before ", ends[at + 1]);
            for (std::int64_t i = ends[at]; i < ends[at + 1]; ++i) {
                const std::int64_t column = places[static_cast<std::size_t>(layout * columns[1] + i)];
                call.check(column >= 0 && column < blocks, "block_col_indices has ", column, " of ", blocks);
                seen[static_cast<std::size_t>((layout * blocks + block) * blocks + column)] = 1;
            }
        }
    return result;
}

// 0 where a query may see a key, -inf where not: [B, H, L, T]. Heads take the layouts in turn.
Tensor block_visibility(const Call& call, const Lengths& lengths, std::int64_t heads, DataType type)
{
    const Compose op(call);
    const Value seen = visible_blocks(call, 5);
    const std::int64_t size = call.attribute<std::int64_t>("sparse_block_size"), layouts = seen.shape()[0],
                       blocks = seen.shape()[1];
    call.check(size > 0 && lengths.longest <= blocks * size, "blocks of ", size, " tokens, ", blocks,
               " of them, do not hold ", lengths.longest, " keys");
    call.check(heads % layouts == 0, heads, " heads do not take ", layouts, " layouts in turn");
    std::vector<std::int64_t> turns, key_blocks, query_blocks;
    for (std::int64_t h = 0; h < heads; ++h)
        turns.push_back(h % layouts);
    for (std::int64_t t = 0; t < lengths.longest; ++t)
        key_blocks.push_back(t / size);
    for (const std::int64_t past : lengths.past)
        for (std::int64_t i = 0; i < lengths.queries; ++i)      // rows behind a sample's end may lie outside
            query_blocks.push_back(std::min((past + i) / size, blocks - 1));
    const auto picked = [&](const Value& x, const std::vector<std::int64_t>& at, std::int64_t axis) {
        return op("Gather", {x, Value::ints(at)}, {{"axis", axis}});
    };
    const auto batch = static_cast<std::int64_t>(lengths.past.size());
    const Value all = picked(picked(picked(seen, turns, 0), query_blocks, 1), key_blocks, 2);   // [H, B L, T]
    const Tensor by_sample =
        all.device(call.queue()).reshape({heads, batch, lengths.queries, lengths.longest}).transpose(0, 1);
    const Tensor inputs[] = {by_sample, Value::ints(lengths.past).device(call.queue()).reshape({batch, 1, 1, 1}),
                             positions(call, lengths.queries).reshape({lengths.queries, 1}),
                             positions(call, lengths.longest)};
    const Tensor bias = call.allocate({batch, heads, lengths.queries, lengths.longest}, type);
    pointwise(call.queue(), inputs, std::span(&bias, 1), {},
              "y0 = x0 && x3 <= x1 + x2 ? (T)0 : (T)-INFINITY;");
    return bias;
}

void sparse_attention(Call& call)
{
    const std::int64_t heads = head_count(call, "num_heads"), kv_heads = head_count(call, "kv_num_heads");
    const Tensor x = call.tensor(0);
    Scores p = projected_heads(call, x, heads, kv_heads);
    const Lengths lengths = lengths_of(call, x, 8, 0, call.integer(7));
    if (call.integer_attribute("do_rotary", 0)) {
        const Value at = token_positions(call, lengths);
        p.query = rotated(call, p.query, at, 9);
        p.key = rotated(call, p.key, at, 9);
    }
    const Tensor keys = cached(call, 3, p.key, lengths), values = cached(call, 4, p.value, lengths);
    hand_on(call, {keys, keys}, {values, values});
    p.key = keys.slice(2, 0, lengths.longest);
    p.value = values.slice(2, 0, lengths.longest);
    p.scale = scale_of(call, p.query.size(3));
    p.bias = block_visibility(call, lengths, heads, x.dtype);
    attend_to_output(call, p);
}

// ---- rotary embedding ----

// Positions are given for each token, or for the first one.
void rotary_embedding(Call& call)
{
    const Compose op(call);
    const Dims& shape = call.shape(0);
    call.check(shape.size() == 3 || shape.size() == 4, "input 0 has shape ", to_string(shape),
               ", expected three or four axes");
    call.check(call.shape(2).size() == 2, "cos_cache has shape ", to_string(call.shape(2)), ", expected two axes");
    const std::int64_t length = shape[shape.size() - 2], size = 2 * call.shape(2)[1];
    std::int64_t heads = call.integer_attribute("num_heads", 0);
    if (shape.size() == 3 && heads == 0) {
        call.check(size > 0 && shape[2] % size == 0, "a hidden size of ", shape[2], " is not made of heads of ", size);
        heads = shape[2] / size;
    }
    Value at = op.cast(call.input(1), ElementType::int64);
    if (at.numel() == 1 && at.shape() != Dims{shape[0], length}) {
        const std::int64_t first = at.to_ints(call.queue())[0];
        at = op("Expand",
                {op("Range", {Value::scalar(first), Value::scalar(first + length), Value::scalar(std::int64_t{1})}),
                 Value::ints(std::array{shape[0], length})});
    }
    Attributes attributes{{"interleaved", call.integer_attribute("interleaved", 0)},
                          {"rotary_embedding_dim", call.integer_attribute("rotary_embedding_dim", 0)}};
    if (shape.size() == 3)
        attributes["num_heads"] = heads;
    call.output(0, op("RotaryEmbedding", {call.input(0), call.input(2), call.input(3), at}, std::move(attributes)));
}

const OperatorRow contrib_group_query_rows[] = {
    {"GroupQueryAttention", 1, group_query_attention, nullptr, microsoft},
    {"SparseAttention", 1, sparse_attention, nullptr, microsoft},
    {"RotaryEmbedding", 1, rotary_embedding, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_group_query_operators() { return contrib_group_query_rows; }

}  // namespace clprim::onnx
