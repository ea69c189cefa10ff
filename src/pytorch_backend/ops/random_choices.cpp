// randperm; multinomial, made of random numbers, sorting and searching; variates with tensors of parameters; rrelu.
#include <ATen/Dispatch.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
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
    const at::Tensor order = out.is_contiguous() ? out : at::empty({n}, out.options());
    clprim::random_permutation(current_queue(out), view(order), next_state(generator, out));
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

at::Tensor variates(clprim::Variate variate, const at::Tensor& first, const at::Tensor& second,
                    const std::optional<at::Generator>& generator)
{
    const at::Tensor a = first.contiguous(), b = second.contiguous();
    const at::Tensor out = at::empty(a.sizes(), a.options());
    clprim::random_variates(current_queue(out), view(out), variate, view(a), view(b), next_state(generator, out));
    return out;
}

at::Tensor poisson(const at::Tensor& self, std::optional<at::Generator> generator)
{
    return variates(clprim::Variate::poisson, self, self, generator);
}

at::Tensor standard_gamma(const at::Tensor& self, std::optional<at::Generator> generator)
{
    return variates(clprim::Variate::gamma, self, self, generator);
}

at::Tensor binomial(const at::Tensor& count, const at::Tensor& probability, std::optional<at::Generator> generator)
{
    const auto broadcast = at::broadcast_tensors({count, probability});
    return variates(clprim::Variate::binomial, broadcast[0], broadcast[1].to(count.scalar_type()), generator);
}

at::Tensor sample_dirichlet(const at::Tensor& self, std::optional<at::Generator> generator)
{
    const at::Tensor gammas = standard_gamma(self, generator);
    at::Tensor shares = gammas.div(gammas.sum(-1, true));
    // Inside (0, 1): shares that round to an end of it are the nearest number within.
    return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "dirichlet", [&] {
        using limits = std::numeric_limits<scalar_t>;
        const double step = static_cast<double>(limits::epsilon()) / 2;
        return shares.clamp_(static_cast<double>(limits::min()), 1 - step);
    });
}

// Randomised leaky ReLU: in training, negative elements are scaled by a slope of their own, kept in `noise`.
at::Tensor& rrelu_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                      bool training, std::optional<at::Generator> generator, at::Tensor& out)
{
    const double low = lower.to<double>(), high = upper.to<double>();
    TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(),
                "noise tensor shape must match self tensor shape. Got self.shape = ", self.sym_sizes(),
                " noise.shape = ", noise.sym_sizes());
    at::native::resize_output(out, self.sizes());
    if (!training)
        return out.copy_(at::leaky_relu(self, (low + high) / 2));
    noise.uniform_(low, high, generator).masked_fill_(self.gt(0), 1);
    return out.copy_(self.mul(noise));
}

at::Tensor rrelu(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                 bool training, std::optional<at::Generator> generator)
{
    at::Tensor out = at::empty_like(self);
    return rrelu_out(self, noise, lower, upper, training, generator, out);
}

at::Tensor& rrelu_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                   bool training, std::optional<at::Generator> generator)
{
    return rrelu_out(self, noise, lower, upper, training, generator, self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("randperm.generator_out", randperm_out);
    m.impl("multinomial", multinomial);
    m.impl("multinomial.out", multinomial_out);
    m.impl("poisson", poisson);
    m.impl("binomial", binomial);
    m.impl("_standard_gamma", standard_gamma);
    m.impl("_sample_dirichlet", sample_dirichlet);
    m.impl("rrelu_with_noise", rrelu);
    m.impl("rrelu_with_noise_", rrelu_);
    m.impl("rrelu_with_noise.out", rrelu_out);
}

}  // namespace torch_ocl
