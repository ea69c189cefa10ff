#include "onnx/ops/contrib_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <clprim/attention.hpp>
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/softmax.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/products.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

Tensor heads_of(const Call& call, const Tensor& x, std::int64_t heads)
{
    call.check(x.dim() == 3 && heads > 0 && x.size(2) % heads == 0, "shape ", to_string(x.shape),
               " cannot be split into ", heads, " heads");
    const std::int64_t size = x.size(2) / heads;
    return {x.memory, x.offset, x.dtype, {x.size(0), heads, x.size(1), size},
            {x.stride(0), size * x.stride(2), x.stride(1), x.stride(2)}};
}

std::int64_t head_count(const Call& call, const char* name)
{
    const auto heads = call.attribute<std::int64_t>(name);
    call.check(heads > 0 && heads < (1 << 20), name, " is ", heads);
    return heads;
}

Scores split_projection(const Call& call, const Tensor& x)
{
    const std::int64_t heads = head_count(call, "num_heads");
    auto sizes = call.ints_attribute("qkv_hidden_sizes");
    if (sizes.empty())
        sizes.assign(3, x.size(2) / 3);
    call.check(sizes.size() == 3 && sizes[0] > 0 && sizes[0] < (1 << 30) && sizes[1] == sizes[0] && sizes[2] > 0 &&
                   sizes[2] < (1 << 30) && sizes[0] + sizes[1] + sizes[2] == x.size(2),
               "a projection of ", x.size(2), " is not query, key and value of ", to_string(Dims(sizes)));
    Scores p;
    p.query = heads_of(call, x.slice(2, 0, sizes[0]), heads);
    p.key = heads_of(call, x.slice(2, sizes[0], 2 * sizes[0]), heads);
    p.value = heads_of(call, x.slice(2, 2 * sizes[0], x.size(2)), heads);
    return p;
}

double scale_of(const Call& call, std::int64_t head_size)
{
    const float given = call.float_attribute("scale", 0);
    return given != 0 ? given : 1 / std::sqrt(static_cast<double>(head_size));
}

namespace {

void check_fit(const Call& call, const Scores& p)
{
    for (const Tensor* t : {&p.query, &p.key, &p.value})
        call.check(t->dim() == 4 && t->dtype == p.query.dtype && is_floating_point(t->dtype) &&
                       t->size(0) == p.query.size(0),
                   "query, key and value must be floating point, of one type and batch");
    call.check(p.key.size(3) == p.query.size(3) && p.value.size(1) == p.key.size(1) &&
                   p.value.size(2) == p.key.size(2) && p.key.size(1) > 0 && p.query.size(1) % p.key.size(1) == 0,
               "query ", to_string(p.query.shape), ", key ", to_string(p.key.shape), " and value ",
               to_string(p.value.shape), " do not fit");
    const Dims scores{p.query.size(0), p.query.size(1), p.query.size(2), p.key.size(2)};
    call.check(!p.bias.defined() || broadcast(p.bias.shape, scores) == scores, "a bias or mask of shape ",
               to_string(p.bias.shape), " does not broadcast to scores ", to_string(scores));
}

// Scores are stored: where something happens to them that the fused kernels do not know.
void attend_in_steps(const Call& call, Scores p, const Tensor& y)
{
    const DataType type = p.query.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    for (Tensor* t : {&p.query, &p.key, &p.value})
        *t = converted(call, *t, type);
    const std::int64_t batch = p.query.size(0), heads = p.query.size(1), queries = p.query.size(2),
                       keys = p.key.size(2);
    const std::int64_t sinks = p.sink.defined() ? 1 : 0, groups = p.key.size(1);
    const Tensor all = call.allocate({batch, heads, queries, keys + sinks}, type), scores = all.slice(3, 0, keys);
    const Tensor raw = call.allocate({batch, heads, queries, keys}, type);
    batched_product(call.queue(), grouped(p.query, groups), grouped(p.key.transpose(2, 3), groups),
                    grouped(raw, groups), p.scale);
    std::vector<Tensor> inputs{raw};
    std::string code = "T s = x0;";
    if (p.softcap > 0)
        code += " s = tanh(s / w0) * w0;";
    if (p.bias.defined()) {
        inputs.push_back(p.bias);
        code += " s += x1;";
    }
    if (p.causal) {
        const Tensor rows = Compose(call)("Range", {Value::scalar(p.offset), Value::scalar(p.offset + queries),
                                                    Value::scalar(std::int64_t{1})}).device(call.queue());
        const Tensor columns = Compose(call)("Range", {Value::scalar(std::int64_t{0}), Value::scalar(keys),
                                                       Value::scalar(std::int64_t{1})}).device(call.queue());
        code += detail::concat(" if (x", inputs.size() + 1, " > x", inputs.size(), ") s = -INFINITY;");
        inputs.push_back(rows.reshape({queries, 1}));
        inputs.push_back(columns);
    }
    pointwise(call.queue(), inputs, std::span(&scores, 1), std::array{Scalar(p.softcap)}, code + " y0 = s;");
    if (p.shown.defined() && p.shown_before_softmax)
        pointwise(call.queue(), std::span(&scores, 1), std::span(&p.shown, 1), std::array{Scalar(p.shown_hidden)},
                  "y0 = x0 == -INFINITY ? w0 : x0;");
    if (p.sink.defined())
        copy(call.queue(), p.sink.reshape({1, heads, 1, 1}).expand({batch, heads, queries, 1}),
             all.slice(3, keys, keys + 1));
    const Tensor probabilities = call.allocate(all.shape, type);
    softmax(call.queue(), all, probabilities, 3);
    if (p.shown.defined() && !p.shown_before_softmax)
        copy(call.queue(), probabilities.slice(3, 0, keys), p.shown);
    const Tensor result = y.dtype == type ? y : call.allocate(y.shape, type);
    batched_product(call.queue(), grouped(probabilities.slice(3, 0, keys), groups), grouped(p.value, groups),
                    grouped(result, groups));
    if (y.dtype != type)
        copy(call.queue(), result, y);
}

// y [B, H, L, Dv], any strides.
void attend(const Call& call, const Scores& p, const Tensor& y)
{
    check_fit(call, p);
    if (y.numel() == 0)
        return;
    if (p.sink.defined() || p.shown.defined() || std::max(p.query.size(3), p.value.size(3)) > longest_fused_head ||
        p.key.size(2) == 0)
        return attend_in_steps(call, p, y);
    Attention problem{p.query, p.key, p.value, p.bias.defined() ? converted(call, p.bias, p.query.dtype) : Tensor()};
    problem.scale = p.scale;
    problem.softcap = static_cast<float>(std::max(p.softcap, 0.0));   // none, where it is less
    problem.causal = p.causal;
    problem.causal_offset = p.offset;
    attention(call.queue(), problem, y);
}

}  // namespace

void show_scores(Call& call, Scores& p)
{
    if (!call.wants(3))
        return;
    p.shown = call.output_tensor(3, {p.query.size(0), p.query.size(1), p.query.size(2), p.key.size(2)}, call.type(0));
    p.shown_hidden = p.query.dtype == DataType::float16    ? -65504.0
                     : p.query.dtype == DataType::bfloat16 ? -0x1.fep127
                                                           : std::numeric_limits<float>::lowest();
}

Tensor attended(const Call& call, const Scores& p)
{
    const std::int64_t heads = p.query.size(1);
    const Tensor y = call.allocate({p.query.size(0), p.query.size(2), heads * p.value.size(3)}, p.query.dtype);
    attend(call, p, heads_of(call, y, heads));
    return y;
}

void attend_to_output(Call& call, const Scores& p) { call.output(0, Value(attended(call, p))); }

// ---- masks ----

Tensor positions(const Call& call, std::int64_t count)
{
    return Compose(call)("Range",
                         {Value::scalar(std::int64_t{0}), Value::scalar(count), Value::scalar(std::int64_t{1})})
        .device(call.queue());
}

Tensor mask_bias(const Call& call, std::size_t i, const Extent& e, DataType type)
{
    if (i == none || !call.has(i))
        return {};
    const Tensor mask = call.contiguous(i);
    const Scalar hidden = call.float_attribute("mask_filter_value", -10000);
    std::vector<Tensor> inputs;
    Dims shape{e.batch, 1, 1, e.keys};
    std::string code = "y0 = x0 != 0 ? 0 : w0;";
    if (mask.dim() == 1) {
        const std::int64_t parts = e.batch ? mask.size(0) / e.batch : 0;
        call.check((parts == 1 || parts == 2) && parts * e.batch == mask.size(0), "a mask of shape ",
                   to_string(mask.shape), " does not say ends, or ends and beginnings, of ", e.batch, " samples");
        inputs = {mask.slice(0, 0, e.batch).reshape({e.batch, 1, 1, 1}),
                  mask.slice(0, mask.size(0) - e.batch, mask.size(0)).reshape({e.batch, 1, 1, 1}),
                  positions(call, e.keys)};
        code = parts == 1 ? "y0 = x2 < x0 ? 0 : w0;" : "y0 = x2 < x0 && x2 >= x1 ? 0 : w0;";
    } else if (mask.dim() == 2 && mask.shape == Dims{e.batch, e.keys}) {
        inputs = {mask.reshape(shape)};
    } else if (mask.dim() == 3 && mask.shape == Dims{e.batch, e.queries, e.keys}) {
        shape[2] = e.queries;
        inputs = {mask.reshape(shape)};
    } else {
        call.check(mask.dim() == 4 && mask.size(0) == e.batch && mask.size(1) == 1 && mask.size(2) >= e.keys &&
                       mask.size(3) >= e.keys && e.keys >= e.queries,
                   "a mask of shape ", to_string(mask.shape), " does not fit batch ", e.batch, ", ", e.queries,
                   " queries and ", e.keys, " keys");
        shape[2] = e.queries;
        inputs = {mask.slice(2, e.keys - e.queries, e.keys).slice(3, 0, e.keys)};
    }
    const Tensor bias = call.allocate(shape, type);
    pointwise(call.queue(), inputs, std::span(&bias, 1), std::span(&hidden, 1), code);
    return bias;
}

Tensor sum_of(const Call& call, const Tensor& a, const Tensor& b)
{
    if (!a.defined() || !b.defined())
        return a.defined() ? a : b;
    const Tensor inputs[] = {a, b}, sum = call.allocate(broadcast(a.shape, b.shape), a.dtype);
    pointwise(call.queue(), inputs, std::span(&sum, 1), {}, "y0 = x0 + x1;");
    return sum;
}

Tensor optional_input(const Call& call, std::size_t i) { return i == none ? Tensor() : call.tensor_or_none(i); }

// ---- caches ----

Cache appended(const Call& call, const Tensor& past, const Tensor& fresh, std::optional<std::int64_t> length)
{
    if (!past.defined())
        return {fresh, fresh};
    call.check(past.dim() == 4 && past.dtype == fresh.dtype && past.size(0) == fresh.size(0) &&
                   past.size(1) == fresh.size(1) && past.size(3) == fresh.size(3),
               "a past of ", name_of(past.dtype), " ", to_string(past.shape), " does not fit keys or values ",
               name_of(fresh.dtype), " ", to_string(fresh.shape));
    const std::int64_t begin = length.value_or(past.size(2)), end = begin + fresh.size(2);
    call.check(begin >= 0 && begin <= past.size(2), "a past of ", begin, " in a buffer of ", past.size(2));
    Dims shape = past.shape;
    shape[2] = length ? std::max(end, past.size(2)) : end;
    const Tensor whole = call.allocate(shape, past.dtype);
    copy(call.queue(), past, whole.slice(2, 0, past.size(2)));
    copy(call.queue(), fresh, whole.slice(2, begin, end));
    return {whole, whole.slice(2, 0, end)};
}

Tensor half_of(const Tensor& past, std::int64_t which)
{
    Tensor result = past.slice(0, which, which + 1);
    result.shape = {past.size(1), past.size(2), past.size(3), past.size(4)};
    result.strides = {past.stride(1), past.stride(2), past.stride(3), past.stride(4)};
    return result;
}

void hand_on(Call& call, const Cache& keys, const Cache& values)
{
    if (call.wants(1))
        call.output(1, Value(keys.whole));
    if (call.wants(2))
        call.output(2, Value(values.whole));
}

}  // namespace clprim::onnx
