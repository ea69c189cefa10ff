// Checks, masks, choice of the implementation, empty results.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>
#include <kernels/attention/problem.hpp>
#include <core/operands.hpp>

namespace clprim {
namespace detail {

HeadsLayout layout_of(const Tensor& t)
{
    return t.defined() ? HeadsLayout{t.stride(0), t.stride(1), t.stride(2), t.stride(3)} : HeadsLayout{};
}

AttentionArguments attention_arguments(const Attention& p, const Tensor& y)
{
    // A query sees no key, or all, beyond these offsets: none that overflows gets to the kernels.
    const std::int64_t offset = std::clamp(p.causal_offset, -p.query.size(2), p.key.size(2));
    AttentionArguments arguments{
        p.query.size(0), p.query.size(1), p.key.size(1), p.query.size(2), p.key.size(2), p.query.size(3),
        p.value.size(3), layout_of(p.query), layout_of(p.key), layout_of(p.value), layout_of(y), layout_of(p.mask),
        offset, {}};
    if (p.softcap > 0)
        arguments.capped = {p.causal, p.mask.defined(), p.softcap};
    else
        arguments.plain = {p.causal, p.mask.defined()};
    return arguments;
}

DropoutArguments dropout_arguments(const Attention& p)
{
    const double keep = 1 - p.dropout;
    return {p.state.seed, p.state.offset, static_cast<std::uint32_t>(std::ceil(keep * 0x1p24)),
            static_cast<float>(keep > 0 ? 1 / keep : 0)};
}

GradientLayouts gradient_layouts(const Tensor& grad_y, const AttentionGradients& g)
{
    return {layout_of(grad_y), layout_of(g.query), layout_of(g.key), layout_of(g.value), g.query.defined()};
}

AccScalar scale_of(const Attention& p) { return {p.scale, accumulate_type(p.query.dtype)}; }

std::string attention_options(const Attention& p)
{
    return concat("-DX=", name_of(p.query.dtype), " -DREAL=", opencl_compute_type(accumulate_type(p.query.dtype)),
                  p.dropout > 0 ? " -DDROPOUT" : "", p.softcap > 0 ? " -DSOFTCAP" : "");
}

std::span<const AttentionForward> attention_forwards()
{
    static const AttentionForward list[] = {
        {"cpu_few", attention_cpu_few_rejects, attention_cpu_few, true, attention_cpu_few_advises_against},
        {"cpu", attention_cpu_rejects, attention_cpu},
        {"gpu_few", attention_gpu_few_rejects, attention_gpu_few},
        {"gpu_matrix", attention_gpu_matrix_rejects, attention_gpu_matrix, true, attention_gpu_matrix_advises_against},
        {"gpu", attention_gpu_rejects, attention_gpu},
        {"reference", attention_reference_rejects, attention_reference, false},
    };
    return list;
}

std::span<const AttentionBackward> attention_backwards()
{
    static const AttentionBackward list[] = {
        {"cpu", attention_cpu_rejects, attention_cpu_backward},
        {"gpu_matrix", attention_gpu_matrix_backward_rejects, attention_gpu_matrix_backward, true,
         attention_gpu_matrix_backward_advises_against},
        {"gpu", attention_gpu_backward_rejects, attention_gpu_backward},
        {"reference", attention_reference_rejects, attention_reference_backward, false},
    };
    return list;
}

namespace {

void check(const char* name, const Attention& p, const Device& device)
{
    const Tensor &q = p.query, &k = p.key, &v = p.value;
    require(q.defined() && k.defined() && v.defined(), name, ": query, key and value are needed");
    require(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, name, ": query ", to_string(q.shape), ", key ",
            to_string(k.shape), " and value ", to_string(v.shape),
            " must have four axes, [batch, heads, length, size]");
    require(is_floating_point(q.dtype) && k.dtype == q.dtype && v.dtype == q.dtype, name,
            ": query, key and value must be of one floating-point dtype, got ", name_of(q.dtype), ", ",
            name_of(k.dtype), " and ", name_of(v.dtype));
    require<NotSupported>(device.fp64 || q.dtype != DataType::float64, name, ": ", device.name,
                          " has no double precision (fp64), which float64 needs");
    require(k.size(0) == q.size(0) && v.size(0) == q.size(0) && k.size(3) == q.size(3) && v.size(1) == k.size(1) &&
                v.size(2) == k.size(2),
            name, ": query ", to_string(q.shape), ", key ", to_string(k.shape), " and value ", to_string(v.shape),
            " do not fit");
    require(q.size(1) == k.size(1) || (k.size(1) > 0 && q.size(1) % k.size(1) == 0), name, ": ", q.size(1),
            " query heads cannot share ", k.size(1), " key heads");
    require(p.dropout >= 0 && p.dropout <= 1, name, ": dropout must lie in [0, 1], got ", p.dropout);
    require(p.softcap >= 0 && std::isfinite(p.softcap), name, ": softcap must be a number >= 0, got ", p.softcap);
    if (!p.mask.defined())
        return;
    require(p.mask.dtype == DataType::boolean || p.mask.dtype == q.dtype, name, ": mask must be boolean or ",
            name_of(q.dtype), ", got ", name_of(p.mask.dtype));
    const Dims scores{q.size(0), q.size(1), q.size(2), k.size(2)};
    bool fits = p.mask.dim() <= 4;
    for (std::size_t i = 1; fits && i <= p.mask.dim(); ++i)
        fits = p.mask.size(p.mask.dim() - i) == 1 || p.mask.size(p.mask.dim() - i) == scores[4 - i];
    require(fits, name, ": mask ", to_string(p.mask.shape), " does not broadcast to ", to_string(scores));
}

void check_like(const char* name, const char* what, const Tensor& tensor, const Dims& shape, DataType dtype)
{
    require(!tensor.defined() || (tensor.shape == shape && tensor.dtype == dtype), name, ": ", what, " must be ",
            name_of(dtype), " ", to_string(shape),
            tensor.defined() ? concat(", got ", name_of(tensor.dtype), " ", to_string(tensor.shape)) : "");
}

void check_results(const char* name, const Attention& p, const Tensor& y, const Tensor& logsumexp)
{
    const Dims rows{p.query.size(0), p.query.size(1), p.query.size(2)};
    require(y.defined(), name, ": y is needed");
    check_like(name, "y", y, {rows[0], rows[1], rows[2], p.value.size(3)}, p.query.dtype);
    check_like(name, "logsumexp", logsumexp, rows, accumulate_type(p.query.dtype));
    require(!logsumexp.defined() || logsumexp.is_contiguous(), name, ": logsumexp must be contiguous");
}

// The mask as kernels take it: added, of query's dtype, with four axes.
Attention with_added_mask(Queue& queue, const Attention& asked)
{
    Attention p = asked;
    if (!p.mask.defined())
        return p;
    if (p.mask.dtype == DataType::boolean) {
        const Tensor seen = p.mask;
        p.mask = queue.context().empty(seen.shape, p.query.dtype, queue);
        pointwise(queue, std::span(&seen, 1), std::span(&p.mask, 1), {}, "y0 = x0 ? 0 : -INFINITY;");
    }
    p.mask = p.mask.expand({p.query.size(0), p.query.size(1), p.query.size(2), p.key.size(2)});
    return p;
}

}  // namespace
}  // namespace detail

void attention(Queue& queue, const Attention& asked, const Tensor& y, const Tensor& logsumexp)
{
    detail::check_operands("attention", {{"query", asked.query}, {"key", asked.key}, {"value", asked.value},
                                         {"mask", asked.mask, detail::optional}, {"y", y},
                                         {"logsumexp", logsumexp, detail::optional}});
    detail::check("attention", asked, queue.device());
    detail::check_results("attention", asked, y, logsumexp);
    if (asked.key.size(2) == 0) {   // nothing to see
        if (y.numel() > 0)
            fill(queue, y, 0);
        if (logsumexp.defined() && logsumexp.numel() > 0)
            fill(queue, logsumexp, -std::numeric_limits<double>::infinity());
        return;
    }
    if (asked.query.size(0) == 0 || asked.query.size(1) == 0 || asked.query.size(2) == 0)
        return;
    const Attention problem = detail::with_added_mask(queue, asked);
    choose("attention", detail::attention_forwards(), problem, queue, [&](const auto& one) {
        one.run(queue, problem, queue.context().empty(y.shape, y.dtype, queue), logsumexp);
    }).run(queue, problem, y, logsumexp);
}

void attention_backward(Queue& queue, const Attention& asked, const AttentionResults& results,
                        const AttentionGradients& gradients)
{
    detail::check_operands("attention_backward", {{"query", asked.query}, {"key", asked.key}, {"value", asked.value},
                                                  {"mask", asked.mask, detail::optional}, {"y", results.y},
                                                  {"logsumexp", results.logsumexp}, {"grad_y", results.grad_y},
                                                  {"grad_query", gradients.query, detail::optional},
                                                  {"grad_key", gradients.key, detail::optional},
                                                  {"grad_value", gradients.value, detail::optional}});
    constexpr const char* name = "attention_backward";
    detail::check(name, asked, queue.device());
    detail::check_results(name, asked, results.y, results.logsumexp);
    require<NotSupported>(asked.softcap == 0, name, ": there is no gradient of a softcap");
    require(results.logsumexp.defined() && results.grad_y.defined(), name, ": logsumexp and grad_y are needed");
    detail::check_like(name, "grad_y", results.grad_y, results.y.shape, results.y.dtype);
    detail::check_like(name, "the gradient of query", gradients.query, asked.query.shape, asked.query.dtype);
    detail::check_like(name, "the gradient of key", gradients.key, asked.key.shape, asked.key.dtype);
    detail::check_like(name, "the gradient of value", gradients.value, asked.value.shape, asked.value.dtype);
    if (asked.query.size(0) == 0 || asked.query.size(1) == 0 || asked.query.size(2) == 0 || asked.key.size(2) == 0) {
        for (const Tensor* gradient : {&gradients.query, &gradients.key, &gradients.value})
            if (gradient->defined() && gradient->numel() > 0)
                fill(queue, *gradient, 0);
        return;
    }
    const Attention problem = detail::with_added_mask(queue, asked);
    choose("attention_backward", detail::attention_backwards(), problem, queue, [&](const auto& one) {
        const auto scratch = [&](const Tensor& t) {
            return t.defined() ? queue.context().empty(t.shape, t.dtype, queue) : t;
        };
        one.run(queue, problem, results, {scratch(gradients.query), scratch(gradients.key), scratch(gradients.value)});
    }).run(queue, problem, results, gradients);
}

std::string describe(const Attention& p)
{
    return fmt::format("{} {} {} {}{}{}{}{}", name_of(p.query.dtype), to_string(p.query.shape), to_string(p.key.shape),
                       p.value.size(3), p.causal ? " causal" : "", p.mask.defined() ? " mask" : "",
                       p.dropout > 0 ? " dropout" : "", p.softcap > 0 ? " softcap" : "");
}

}  // namespace clprim
