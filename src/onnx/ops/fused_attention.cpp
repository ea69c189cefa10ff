// What fuse_attention.cpp makes.
#include <algorithm>

#include <clprim/attention.hpp>

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

Dims shape_in_order(const Call& call, std::size_t input, const char* name)
{
    const Dims& shape = call.shape(input);
    const auto order = order_of(call, name, shape.size());
    Dims result = shape;
    for (std::size_t i = 0; i < order.size(); ++i)
        result[i] = shape[order[i]];
    return result;
}

// Inputs 4 and 5 multiply q and k: numbers that the host knows.
constexpr std::size_t factors = 4;

// Whether the kernel takes q [..., L, E], the turned k [..., E, S], v [..., S, Ev] and the mask as they are.
bool one_kernel(const Call& call)
{
    const std::size_t dims = call.shape(0).size();
    if ((dims != 3 && dims != 4) || call.shape(1).size() != dims || call.shape(2).size() != dims)
        return false;
    const std::int64_t axis = call.integer_attribute("axis", -1);      // of the softmax
    if (axis != -1 && axis + 1 != static_cast<std::int64_t>(dims))
        return false;
    const Dims q = shape_in_order(call, 0, "q_axes"), k = shape_in_order(call, 1, "k_axes"),
               v = shape_in_order(call, 2, "v_axes");
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        if (call.has(i) && (call.type(i) != call.type(0) || is_narrow(call.type(i))))
            return false;
        if (i >= factors && call.has(i) &&
            (call.type(i) != ElementType::float32 || !call.input(i).on_host() || call.input(i).numel() != 1 ||
             call.shape(i).size() > dims))
            return false;
    }
    for (std::size_t d = 0; d + 2 < dims; ++d)
        if (q[d] != k[d] || q[d] != v[d])
            return false;
    const std::int64_t keys = k[dims - 1];
    if (q[dims - 1] != k[dims - 2] || keys != v[dims - 2] || !is_floating_point(storage_type(call.type(0))) ||
        std::max(q[dims - 1], v[dims - 1]) > longest_fused_head || q.product() * k.product() * v.product() == 0)
        return false;
    if (call.has(3)) {
        Dims scores = q;
        scores[dims - 1] = keys;
        if (call.shape(3).size() > dims || broadcast(scores, call.shape(3)) != scores)
            return false;
    }
    return true;
}

void fused_attention(Call& call)
{
    if (!one_kernel(call)) {
        std::vector<Value> arguments;
        for (std::size_t i = 0; i < call.inputs(); ++i)
            arguments.push_back(call.has(i) ? call.input(i) : Value());
        return call.output(0, call.run(*call.attribute<GraphRef>("operators"), arguments)[0]);
    }
    const std::size_t dims = call.shape(0).size(), rows = dims - 2, heads = dims - 3;
    const Tensor q = in_order(call.tensor(0), order_of(call, "q_axes", dims)),
                 k = in_order(call.tensor(1), order_of(call, "k_axes", dims)),
                 v = in_order(call.tensor(2), order_of(call, "v_axes", dims));
    const bool joins = call.integer_attribute("joins", 0) != 0 && !call.has_attribute("y_axes");
    const auto order = order_of(call, "y_axes", dims);
    Dims shape = q.shape;
    shape[rows + 1] = v.shape.back();
    Dims outer = shape;
    for (std::size_t i = 0; i < dims; ++i)
        outer[order[i]] = shape[i];
    if (joins)
        std::swap(outer[rows], outer[heads]);
    const Tensor dense = call.allocate(outer, q.dtype), result = joins ? dense.transpose(heads, rows) : dense,
                 y = in_order(result, order);
    call.output(0, Value(result));
    Attention problem{with_batch(q), with_batch(k).transpose(2, 3), with_batch(v), {}};
    problem.scale = call.attribute<float>("scale");
    for (std::size_t i = factors; i < call.inputs(); ++i)
        if (call.has(i))
            problem.scale *= call.input(i).host<float>(call.queue())[0];
    if (call.has(3)) {
        problem.mask = call.tensor(3);
        if (q.dim() == 3 && problem.mask.dim() == 3)
            problem.mask = with_batch(problem.mask);
    }
    clprim::attention(call.queue(), problem, with_batch(y));
}

const OperatorRow fused_attention_rows[] = {{"Attention", 1, fused_attention, nullptr, "clprim"}};

}  // namespace

std::span<const OperatorRow> fused_attention_operators() { return fused_attention_rows; }

}  // namespace clprim::onnx
