// Launches reference.cl and delta.cl.
#include <kernels/attention/problem.hpp>

namespace clprim::detail {
namespace {

Kernel& kernel(Queue& queue, const Attention& p, const char* name)
{
    return queue.context().program("kernels/attention/reference.cl", attention_options(p)).kernel(name);
}

Range rows(std::int64_t count) { return Range::linear(static_cast<std::size_t>(count), 64); }

std::int64_t queries(const Attention& p) { return p.query.size(0) * p.query.size(1) * p.query.size(2); }

}  // namespace

Rejection attention_reference_rejects(const Attention&, const Device&) { return std::nullopt; }

void attention_reference(Queue& queue, const Attention& p, const Tensor& y, const Tensor& logsumexp)
{
    const Tensor sums = queue.context().empty({queries(p), p.value.size(3)}, accumulate_type(y.dtype), queue);
    launch(queue, kernel(queue, p, "forward"), rows(queries(p)), p.query, p.key, p.value, p.mask, y, logsumexp, sums,
           attention_arguments(p, y), dropout_arguments(p), scale_of(p));
}

Tensor attention_delta(Queue& queue, const Attention& p, const AttentionResults& r)
{
    const Tensor delta = queue.context().empty({queries(p)}, accumulate_type(r.y.dtype), queue);
    Attention plain = p;
    plain.dropout = 0;   // which changes nothing here, and need not be compiled twice
    const std::int64_t lanes = queue.device().kind == DeviceKind::cpu ? 1 : 8;   // of a row, as in delta.cl
    launch(queue,
           queue.context().program("kernels/attention/delta.cl", attention_options(plain)).kernel("row_products"),
           rows(lanes * queries(p)), r.y, r.grad_y, delta, attention_arguments(p, r.y), gradient_layouts(r.grad_y, {}));
    return delta;
}

void attention_reference_backward(Queue& queue, const Attention& p, const AttentionResults& r,
                                  const AttentionGradients& g)
{
    const Tensor delta = attention_delta(queue, p, r);
    const auto arguments = attention_arguments(p, r.y);
    const auto layouts = gradient_layouts(r.grad_y, g);
    const auto dropout = dropout_arguments(p);
    const auto sums = [&](std::int64_t count, std::int64_t size) {
        return queue.context().empty({count, size}, accumulate_type(r.y.dtype), queue);
    };
    if (g.query.defined())
        launch(queue, kernel(queue, p, "backward_queries"), rows(queries(p)), p.query, p.key, p.value, p.mask, r.grad_y,
               r.logsumexp, delta, g.query, sums(queries(p), p.query.size(3)), arguments, layouts, dropout,
               scale_of(p));
    const std::int64_t keys = p.key.size(0) * p.key.size(1) * p.key.size(2);
    if (g.key.defined() || g.value.defined())
        launch(queue, kernel(queue, p, "backward_keys"), rows(keys), p.query, p.key, p.value, p.mask, r.grad_y,
               r.logsumexp, delta, g.key, g.value, sums(keys, p.query.size(3) + p.value.size(3)), arguments, layouts,
               dropout, scale_of(p));
}

}  // namespace clprim::detail
