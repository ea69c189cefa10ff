// What fuse_attention.cpp makes.
#include <algorithm>
#include <array>
#include <optional>

#include <clprim/attention.hpp>
#include <clprim/pointwise.hpp>

#include "onnx/ops/cut_axes.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// Matrices [heads, rows, columns] or [batch, heads, rows, columns] as the latter.
Tensor with_batch(const Tensor& t)
{
    if (t.dim() == 4)
        return t;
    Tensor view = t;
    view.shape = {1, t.size(0), t.size(1), t.size(2)};
    view.strides = {0, t.stride(0), t.stride(1), t.stride(2)};
    return view;
}

// Axes in the order that attention has them, of which an attribute names the last ones.
std::vector<std::size_t> order_of(const Call& call, const char* name, std::size_t dims)
{
    std::vector<std::size_t> last, result;
    for (const std::int64_t axis : call.ints_attribute(name))
        last.push_back(call.axis(axis, dims));
    for (std::size_t axis = 0; axis < dims; ++axis)
        if (std::ranges::find(last, axis) == last.end())
            result.push_back(axis);
    result.insert(result.end(), last.begin(), last.end());
    return result;
}

Tensor in_order(const Tensor& t, const std::vector<std::size_t>& order)
{
    Tensor view = t;
    for (std::size_t i = 0; i < order.size(); ++i) {
        view.shape[i] = t.shape[order[i]];
        view.strides[i] = t.strides[order[i]];
    }
    return view;
}

// Inputs 4 and 5 multiply q and k: numbers that the host knows. Behind them come the shapes of Reshapes, which the host
// knows too: three of keys whose heads are repeated, three of such values; the last of three behind a Transpose. At the
// end a mask of scores of another shape, that shape, and the one that they have again after it.
constexpr std::size_t inner_mask = 3, factors = 4, key_shapes = 6, value_shapes = 9, shapes_each = 3, outer_mask = 12,
                      shape_of_scores = 13, shape_again = 14;

// Which axes of a tensor, outermost first, make up each axis of what Reshapes and a Transpose make of it. Axes of one
// element belong nowhere.
using Groups = std::vector<std::vector<std::size_t>>;

// After a Reshape, if it cuts no axis: 0 stands for a size as it was, -1 for what is left.
std::optional<Groups> reshaped(const Groups& groups, const Dims& sizes, std::vector<std::int64_t> shape)
{
    const auto size_of_group = [&](const std::vector<std::size_t>& group) {
        std::int64_t size = 1;
        for (const std::size_t axis : group)
            size *= sizes[axis];
        return size;
    };
    std::vector<std::size_t> axes;
    for (const auto& group : groups)
        axes.insert(axes.end(), group.begin(), group.end());
    const std::int64_t all = size_of_group(axes);
    std::int64_t known = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 0 && i < groups.size())
            shape[i] = size_of_group(groups[i]);
        if (shape[i] > all / known)
            return std::nullopt;
        known *= std::max<std::int64_t>(shape[i], 1);
    }
    Groups result;
    auto next = axes.begin();
    for (const std::int64_t given : shape) {
        const std::int64_t size = given == -1 ? all / known : given;
        std::vector<std::size_t>& group = result.emplace_back();
        std::int64_t taken = 1;
        for (; taken < size && next != axes.end(); ++next) {
            taken *= sizes[*next];
            group.push_back(*next);
        }
        if (taken != size)
            return std::nullopt;
    }
    return next == axes.end() ? std::optional(result) : std::nullopt;
}

// Keys or values as the node reads them, [batch, heads, ...] in attention's order: a view with each head once, and how
// often each is repeated. Nothing where it is none.
struct Heads {
    Tensor each;
    std::int64_t times = 1;
};
std::optional<Heads> repeated_heads(const Call& call, std::size_t input, std::size_t shapes, const char* turned,
                                    const char* axes)
{
    const Tensor t = call.tensor(input);
    if (t.numel() == 0)
        return std::nullopt;
    Groups groups;
    for (std::size_t axis = 0; axis < t.dim(); ++axis)
        groups.push_back(t.shape[axis] == 1 ? std::vector<std::size_t>{} : std::vector{axis});
    for (std::size_t i = 0; i < shapes_each; ++i) {
        if (const auto order = call.ints_attribute(turned); i + 1 == shapes_each && !order.empty()) {
            if (order.size() != groups.size())
                return std::nullopt;
            Groups permuted;
            for (const std::int64_t axis : order)
                permuted.push_back(groups[call.axis(axis, groups.size())]);
            groups = std::move(permuted);
        }
        if (!call.has(shapes + i))
            continue;
        auto next = call.input(shapes + i).on_host() ? reshaped(groups, t.shape, call.ints(shapes + i)) : std::nullopt;
        if (!next)
            return std::nullopt;
        groups = std::move(*next);
    }
    if (groups.size() != 4)
        return std::nullopt;
    const auto order = order_of(call, axes, 4);
    Heads result{t};
    result.each.shape = result.each.strides = Dims(4, 0);
    for (std::size_t i = 0; i < 4; ++i) {
        std::vector<std::size_t>& group = groups[order[i]];
        for (; i == 1 && !group.empty() && t.strides[group.back()] == 0; group.pop_back())
            result.times *= t.shape[group.back()];
        if (group.size() > 1)
            return std::nullopt;
        result.each.shape[i] = group.empty() ? 1 : t.shape[group[0]];
        result.each.strides[i] = group.empty() ? 0 : t.strides[group[0]];
    }
    return result;
}

// The operands in attention's order, [..., L, E], [..., E, S] and [..., S, Ev].
struct Operands {
    Tensor q, k, v;
    std::int64_t queries_of_head = 1;    // how many heads of q see one of k and v
    Dims scores{};                       // where they have another shape in between
    Cuts cuts{};
};
std::optional<Operands> operands_of(const Call& call)
{
    const std::size_t dims = call.shape(0).size();
    if (dims != 3 && dims != 4)
        return std::nullopt;
    const auto in_its_order = [&](std::size_t input, const char* axes) {
        return in_order(call.tensor(input), order_of(call, axes, dims));
    };
    const bool repeats_k = call.has(key_shapes + 1), repeats_v = call.has(value_shapes + 1);
    if (!repeats_k && !repeats_v) {
        if (call.shape(1).size() != dims || call.shape(2).size() != dims)
            return std::nullopt;
        Operands result{in_its_order(0, "q_axes"), in_its_order(1, "k_axes"), in_its_order(2, "v_axes")};
        const std::size_t heads = dims - 3;
        if (result.k.size(heads) == 1 && result.v.size(heads) == 1)
            result.queries_of_head = result.q.size(heads);
        return result;
    }
    if (dims != 4 || !repeats_k || !repeats_v)
        return std::nullopt;
    const auto k = repeated_heads(call, 1, key_shapes, "k_turned", "k_axes"),
               v = repeated_heads(call, 2, value_shapes, "v_turned", "v_axes");
    if (!k || !v || k->times != v->times)
        return std::nullopt;
    Operands result{in_its_order(0, "q_axes"), k->each, v->each, k->times};
    return result.q.size(1) == k->each.size(1) * k->times ? std::optional(result) : std::nullopt;
}

// The operands if the kernel takes them and the mask as they are.
std::optional<Operands> for_one_kernel(const Call& call)
{
    const std::size_t dims = call.shape(0).size();
    const std::int64_t axis = call.integer_attribute("axis", -1);      // of the softmax
    if (call.has(outer_mask) && call.type(outer_mask) != call.type(0))
        return std::nullopt;
    if (axis != -1 && axis + 1 != static_cast<std::int64_t>(dims))
        return std::nullopt;
    for (std::size_t i = 0; i < std::min(call.inputs(), key_shapes); ++i) {
        if (call.has(i) && (call.type(i) != call.type(0) || is_narrow(call.type(i))))
            return std::nullopt;
        if (i >= factors && call.has(i) &&
            (call.type(i) != ElementType::float32 || !call.input(i).on_host() || call.input(i).numel() != 1 ||
             call.shape(i).size() > dims))
            return std::nullopt;
    }
    if (!is_floating_point(storage_type(call.type(0))))
        return std::nullopt;
    auto operands = operands_of(call);
    if (!operands)
        return std::nullopt;
    const Dims &q = operands->q.shape, &k = operands->k.shape, &v = operands->v.shape;
    const std::size_t heads = dims - 3;
    for (std::size_t d = 0; d + 2 < dims; ++d)
        if (k[d] != v[d] || q[d] != k[d] * (d == heads ? operands->queries_of_head : 1))
            return std::nullopt;
    const std::int64_t keys = k[dims - 1];
    if (q[dims - 1] != k[dims - 2] || keys != v[dims - 2] ||
        std::max(q[dims - 1], v[dims - 1]) > longest_fused_head || q.product() * k.product() * v.product() == 0)
        return std::nullopt;
    const auto spreads = [&](std::size_t input, const Dims& to) {
        return !call.has(input) || (call.shape(input).size() <= to.size() && broadcast(to, call.shape(input)) == to);
    };
    Dims scores = q;
    scores[dims - 1] = keys;
    if (!spreads(inner_mask, scores))
        return std::nullopt;
    if (!call.has(shape_of_scores))
        return operands;
    const auto between = sizes_of_reshape(call, shape_of_scores, scores);
    const auto again = between ? sizes_of_reshape(call, shape_again, *between) : std::nullopt;
    const auto cuts = again == scores && operands->queries_of_head == 1 ? cuts_into(scores, *between) : std::nullopt;
    if (!cuts || !spreads(outer_mask, *between))
        return std::nullopt;
    operands->scores = *between;
    operands->cuts = *cuts;
    return operands;
}

// Both masks as one that broadcasts to the scores in between; made once where neither ever changes.
Tensor sum_of_masks(const Call& call, const Operands& operands)
{
    const std::size_t dims = operands.scores.size();
    Tensor inner, outer;
    if (call.has(inner_mask))
        inner = cut(with_axes(call.tensor(inner_mask), operands.q.dim()), operands.cuts, operands.scores);
    if (call.has(outer_mask))
        outer = with_axes(call.tensor(outer_mask), dims);
    if (!call.has(inner_mask) || !call.has(outer_mask))
        return call.has(inner_mask) ? inner : outer;
    const auto sum = [&] {
        const Tensor result = call.allocate(broadcast(inner.shape, outer.shape), inner.dtype);
        // Scores that a Where has hidden are that number, whatever they were before.
        pointwise(call.queue(), std::array{inner, outer}, std::span(&result, 1), {},
                  call.integer_attribute("hides", 0) ? "y0 = x1 <= (T)-1e30f ? x1 : x0 + x1;" : "y0 = x0 + x1;");
        return result;
    };
    const bool constant = call.prepared(inner_mask) && call.prepared(outer_mask);
    return constant ? *call.derived("masks " + to_string(operands.scores), sum) : sum();
}

// Attention of [..., batch, heads, rows, columns].
void attend(Queue& queue, const Attention& problem, const Tensor& y)
{
    if (y.dim() == 4)
        return clprim::attention(queue, problem, y);
    const auto part = [](const Tensor& t, std::int64_t i) {
        if (!t.defined())
            return t;
        Tensor result = t.slice(0, t.size(0) == 1 ? 0 : i, t.size(0) == 1 ? 1 : i + 1);
        result.shape = Dims(std::span<const std::int64_t>(t.shape.begin() + 1, t.shape.end()));
        result.strides = Dims(std::span<const std::int64_t>(t.strides.begin() + 1, t.strides.end()));
        return result;
    };
    for (std::int64_t i = 0; i < y.size(0); ++i) {
        Attention one = problem;
        for (Tensor Attention::*of : {&Attention::query, &Attention::key, &Attention::value, &Attention::mask})
            one.*of = part(problem.*of, i);
        attend(queue, one, part(y, i));
    }
}

void fused_attention(Call& call)
{
    const auto operands = for_one_kernel(call);
    if (!operands) {
        std::vector<Value> arguments;
        for (std::size_t i = 0; i < call.inputs(); ++i)
            arguments.push_back(call.has(i) ? call.input(i) : Value());
        return call.output(0, call.run(*call.attribute<GraphRef>("operators"), arguments)[0]);
    }
    const std::size_t dims = call.shape(0).size(), rows = dims - 2, heads = dims - 3;
    const Tensor &q = operands->q, &k = operands->k, &v = operands->v;
    const bool joins = call.integer_attribute("joins", 0) != 0 && !call.has_attribute("y_axes");
    const auto order = order_of(call, "y_axes", dims);
    Dims shape = q.shape;
    shape[rows + 1] = v.shape.back();
    Dims outer = shape;
    for (std::size_t i = 0; i < dims; ++i)
        outer[order[i]] = shape[i];
    if (joins)
        std::swap(outer[rows], outer[heads]);
    Tensor result, y;
    if (call.integer_attribute("images", 0) && order[rows] == rows + 1 && v.strides[rows + 1] == 1) {
        // Images with channels innermost stay such: the kernel reads and writes rows of channels.
        std::swap(shape[rows], shape[heads]);
        y = call.allocate(shape, q.dtype).transpose(heads, rows);
        std::vector<std::size_t> back(dims);
        for (std::size_t i = 0; i < dims; ++i)
            back[order[i]] = i;
        result = in_order(y, back);
    } else {
        const Tensor dense = call.allocate(outer, q.dtype);
        result = joins ? dense.transpose(heads, rows) : dense;
        y = in_order(result, order);
    }
    call.output(0, Value(result));
    Attention problem{q, k.transpose(rows, rows + 1), v, {}};
    problem.scale = call.attribute<float>("scale");
    problem.softcap = call.float_attribute("softcap", 0);
    for (std::size_t i = factors; i < key_shapes; ++i)
        if (call.has(i))
            problem.scale *= call.input(i).host<float>(call.queue())[0];
    if (call.has(shape_of_scores)) {
        const std::size_t axes = std::max<std::size_t>(operands->scores.size(), 4);
        const auto in_between = [&](const Tensor& t) {
            return with_axes(cut(t, operands->cuts, operands->scores), axes);
        };
        for (Tensor Attention::*of : {&Attention::query, &Attention::key, &Attention::value})
            problem.*of = in_between(problem.*of);
        if (call.has(inner_mask) || call.has(outer_mask))
            problem.mask = with_axes(sum_of_masks(call, *operands), axes);
        return attend(call.queue(), problem, in_between(y));
    }
    for (Tensor Attention::*of : {&Attention::query, &Attention::key, &Attention::value})
        problem.*of = with_batch(problem.*of);
    if (call.has(inner_mask)) {
        problem.mask = call.tensor(inner_mask);
        if (q.dim() == 3 && problem.mask.dim() == 3)
            problem.mask = with_batch(problem.mask);
    }
    clprim::attention(call.queue(), problem, with_batch(y));
}

const OperatorRow fused_attention_rows[] = {{"Attention", 1, fused_attention, nullptr, "clprim"}};

}  // namespace

std::span<const OperatorRow> fused_attention_operators() { return fused_attention_rows; }

}  // namespace clprim::onnx
