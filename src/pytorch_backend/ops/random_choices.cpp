// randperm and multinomial: random orders and choices, made of random keys, sorting and searching.
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/multinomial_native.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/searchsorted.h>
#include <torch/library.h>

#include <clprim/sort.hpp>
#include <ops/random.hpp>

namespace torch_ocl {

namespace {

at::Tensor& randperm_out(int64_t n, std::optional<at::Generator> generator, at::Tensor& out)
{
    TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
    TORCH_CHECK(!generator.has_value() || generator->device().type() == out.device().type(),
                "Expected a '", out.device(), "' generator device but found '", generator->device(), "'");
    at::native::check_supported_max_int_with_precision(n, out);
    out.resize_({n});
    if (n == 0)
        return out;
    // The order of 64 random bits per element; equal keys keep the order of their positions.
    const at::Tensor keys = at::empty({n}, out.options().dtype(at::kLong)), sorted = at::empty_like(keys);
    const at::Tensor order = out.scalar_type() == at::kLong && out.is_contiguous() ? out : at::empty_like(keys);
    clprim::Queue& queue = current_queue(out);
    clprim::random_integers(queue, view(keys), 0, 0, next_state(generator, out));
    clprim::sort(queue, view(keys), 0, false, view(sorted), view(order));
    if (!order.is_same(out))
        out.copy_(order);
    return out;
}

// With replacement: each draw is where a uniform number falls among the cumulative weights.
void draw_with_replacement(const at::Tensor& weights, int64_t samples, std::optional<at::Generator> generator,
                           at::Tensor& out)
{
    const bool wide = current_queue(weights).device().fp64;
    const at::Tensor cumulative = weights.to(wide ? at::kDouble : at::kFloat).cumsum(-1);
    const at::Tensor total = cumulative.narrow(-1, -1, 1);
    TORCH_CHECK(weights.ge(0).all().logical_and(total.isfinite().all()).item<bool>(),
                "probability tensor contains either `inf`, `nan` or element < 0");
    TORCH_CHECK(total.gt(0).all().item<bool>(), "invalid multinomial distribution (sum of probabilities <= 0)");
    auto sizes = weights.sizes().vec();
    sizes.back() = samples;
    const at::Tensor numbers = at::rand(sizes, generator, weights.options().dtype(at::kFloat));
    out.copy_(at::searchsorted(cumulative, numbers.to(cumulative.scalar_type()).mul(total), false, true)
                  .clamp_max(weights.size(-1) - 1));
}

at::Tensor& multinomial_out(const at::Tensor& self, int64_t samples, bool replacement,
                            std::optional<at::Generator> generator, at::Tensor& out)
{
    // PyTorch's own function checks arguments and draws without replacement, by exponential numbers and topk.
    if (!replacement || samples == 1 || self.numel() == 0 || self.dim() == 0 || self.dim() > 2 || samples <= 0 ||
        !at::isFloatingType(self.scalar_type()) || out.scalar_type() != at::kLong || self.device() != out.device())
        return at::native::multinomial_out(self, samples, replacement, generator, out);
    auto sizes = self.sizes().vec();
    sizes.back() = samples;
    out.resize_(sizes);
    draw_with_replacement(self, samples, generator, out);
    return out;
}

at::Tensor multinomial(const at::Tensor& self, int64_t samples, bool replacement,
                       std::optional<at::Generator> generator)
{
    at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
    return multinomial_out(self, samples, replacement, generator, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("randperm.generator_out", randperm_out);
    m.impl("multinomial", multinomial);
    m.impl("multinomial.out", multinomial_out);
}

}  // namespace torch_ocl
