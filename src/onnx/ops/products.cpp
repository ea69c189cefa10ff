#include "onnx/ops/products.hpp"

#include <algorithm>
#include <vector>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>

namespace clprim::onnx {

namespace {

// A batch axis and how far each matrix moves along it.
struct BatchAxis {
    std::int64_t size, a, b, c;

    bool continues(const BatchAxis& inner) const
    {
        return a == inner.size * inner.a && b == inner.size * inner.b && c == inner.size * inner.c;
    }
};

// Axes of size 1 dropped, neighbours merged where one stride serves both.
std::vector<BatchAxis> batch_axes(const Tensor& a, const Tensor& b, const Tensor& c)
{
    std::vector<BatchAxis> axes;
    const auto stride = [&](const Tensor& t, std::size_t axis) {
        const std::size_t missing = c.dim() - t.dim();
        return axis < missing || t.size(axis - missing) == 1 ? 0 : t.stride(axis - missing);
    };
    for (std::size_t i = 0; i + 2 < c.dim(); ++i) {
        if (c.size(i) == 1)
            continue;
        const BatchAxis axis{c.size(i), stride(a, i), stride(b, i), stride(c, i)};
        if (!axes.empty() && axes.back().continues(axis))
            axes.back() = {axes.back().size * axis.size, axis.a, axis.b, axis.c};
        else
            axes.push_back(axis);
    }
    return axes;
}

MatrixLayout layout(const Tensor& t, std::int64_t batch)
{
    return {t.stride(t.dim() - 2), t.stride(t.dim() - 1), batch};
}

// More launches than this are worth two copies of operands, if each multiplies matrices of at most so many elements.
constexpr std::int64_t few_launches = 3, small_operands = 1 << 15;

// With all batch axes of the result, along which one stride leads.
Tensor with_one_batch_axis(Queue& queue, const Tensor& t, const Tensor& c)
{
    Dims shape = c.shape;
    std::copy_n(t.shape.end() - 2, 2, shape.end() - 2);
    const Tensor whole = t.expand(shape);
    if (batch_axes(whole, whole, whole).size() <= 1)
        return whole;
    const Tensor dense = queue.context().empty(shape, t.dtype, queue);
    copy(queue, whole, dense);
    return dense;
}

}  // namespace

void batched_product(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c, Scalar alpha)
{
    if (c.numel() == 0)
        return;
    std::vector<BatchAxis> axes = batch_axes(a, b, c);
    GemmProblem problem;
    problem.m = c.size(c.dim() - 2);
    problem.n = c.size(c.dim() - 1);
    problem.k = a.size(a.dim() - 1);
    problem.dtype = c.dtype;
    problem.alpha = alpha;
    problem.beta = 0;
    BatchAxis last{1, 0, 0, 0};
    const auto take_axis = [&] {
        if (axes.empty())
            return;
        last = axes.back();
        axes.pop_back();
    };
    take_axis();
    problem.a = layout(a, 0);
    problem.b = layout(b, 0);
    problem.c = layout(c, 0);
    // Matrices under each other times one and the same matrix are one taller product.
    const bool stacked = last.a == problem.m * problem.a.row && last.c == problem.m * problem.c.row;
    if (last.size > 1 && last.b == 0 && (problem.m == 1 || stacked)) {
        if (problem.m == 1) {
            problem.a.row = last.a;
            problem.c.row = last.c;
        }
        problem.m *= last.size;
        last = {1, 0, 0, 0};
        take_axis();
    }
    if (const auto longest = std::ranges::max_element(axes, {}, &BatchAxis::size);
        longest != axes.end() && longest->size > last.size)
        std::swap(*longest, last);
    problem.batch = last.size;
    problem.a.batch = last.a;
    problem.b.batch = last.b;
    problem.c.batch = last.c;
    std::int64_t rounds = 1;
    for (const BatchAxis& axis : axes)
        rounds *= axis.size;
    if (rounds > few_launches && problem.batch * (problem.m + problem.n) * problem.k <= small_operands &&
        batch_axes(c, c, c).size() <= 1)
        return batched_product(queue, with_one_batch_axis(queue, a, c), with_one_batch_axis(queue, b, c), c, alpha);
    Tensor ai = a, bi = b, ci = c;
    for (std::int64_t round = 0; round < rounds; ++round) {
        std::int64_t rest = round;
        ai.offset = a.offset;
        bi.offset = b.offset;
        ci.offset = c.offset;
        for (std::size_t i = axes.size(); i-- > 0; rest /= axes[i].size) {
            const std::int64_t at = rest % axes[i].size;
            ai.offset += at * axes[i].a;
            bi.offset += at * axes[i].b;
            ci.offset += at * axes[i].c;
        }
        gemm(queue, problem, ai, bi, ci);
    }
}

Tensor grouped(const Tensor& heads, std::int64_t groups)
{
    Tensor result = heads;
    result.shape = {heads.size(0), groups, heads.size(1) / groups, heads.size(2), heads.size(3)};
    result.strides = {heads.stride(0), heads.size(1) / groups * heads.stride(1), heads.stride(1), heads.stride(2),
                      heads.stride(3)};
    return result;
}

}  // namespace clprim::onnx
