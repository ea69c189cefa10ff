// Random numbers in place: uniform_, normal_, bernoulli_, random_ and their kin. PyTorch's templates check arguments
// and words errors; clprim/random.hpp makes the numbers.
#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <c10/util/TypeCast.h>
#include <torch/library.h>

#include <ops/random.hpp>

namespace torch_ocl {

namespace {

using OptionalGenerator = std::optional<at::Generator>;
using clprim::Distribution;

// Distributions are over dense memory; any other tensor gets a dense copy of its numbers.
template <class Fill>
void fill_dense(const at::Tensor& self, const Fill& fill)
{
    if (self.is_non_overlapping_and_dense())
        return fill(self);
    at::Tensor dense = at::empty(self.sizes(), self.options());
    fill(dense);
    self.copy_(dense);
}

// Only whole numbers are drawn for integers, and only bernoulli_ for bool.
void check_type(at::ScalarType type, Distribution distribution)
{
    const bool whole = distribution == Distribution::geometric, any = distribution == Distribution::bernoulli;
    TORCH_CHECK_NOT_IMPLEMENTED(any || at::isFloatingType(type) || (whole && at::isIntegralType(type, false)),
                                "this distribution is not implemented for '", c10::toString(type), "'");
}

void draw(const at::Tensor& self, Distribution distribution, double a, double b, const OptionalGenerator& generator)
{
    check_type(self.scalar_type(), distribution);
    fill_dense(self, [&](const at::Tensor& out) {
        clprim::random_fill(current_queue(out), view(out), distribution, a, b, next_state(generator, out));
    });
}

// PyTorch's templates want a class per kernel, called with an iterator or a tensor.
const at::Tensor& target(at::TensorIteratorBase& iter) { return iter.tensor(0); }
const at::Tensor& target(const at::Tensor& self) { return self; }

template <Distribution distribution>
struct Draw {
    template <class RNG>
    struct Kernel {
        template <class Target>
        void operator()(Target& out, double a, double b, OptionalGenerator generator)
        {
            draw(target(out), distribution, a, b, generator);
        }
        template <class Target>
        void operator()(Target& out, double a, OptionalGenerator generator)
        {
            draw(target(out), distribution, a, 0, generator);
        }
    };
};

void integers(const at::Tensor& self, int64_t base, uint64_t range, const OptionalGenerator& generator)
{
    fill_dense(self, [&](const at::Tensor& out) {
        clprim::random_integers(current_queue(out), view(out), base, range, next_state(generator, out));
    });
}

// random_() draws from all non-negative values of an integer type, or from the integers a floating-point type holds.
uint64_t full_range(at::ScalarType type)
{
    switch (type) {
    case at::kBool: return 2;
    case at::kFloat: return (1ull << 24) + 1;
    case at::kDouble: return (1ull << 53) + 1;
    case at::kHalf: return (1ull << 11) + 1;
    case at::kBFloat16: return (1ull << 8) + 1;
    case at::kUInt64: return 0;
    default: return 1ull << (8 * c10::elementSize(type) - (c10::isSignedType(type) ? 1 : 0));
    }
}

template <class RNG>
struct Integers {
    void operator()(at::TensorIteratorBase& iter, OptionalGenerator generator)   // random_()
    {
        integers(target(iter), 0, full_range(iter.dtype()), generator);
    }
    void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t base, OptionalGenerator generator)
    {
        integers(target(iter), base, range, generator);
    }
};

template <class RNG>
struct AllIntegers {   // random_.from with all 2^64 values
    void operator()(at::TensorIteratorBase& iter, OptionalGenerator generator)
    {
        integers(target(iter), std::numeric_limits<int64_t>::lowest(), 0, generator);
    }
    void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t base, OptionalGenerator generator)
    {
        integers(target(iter), base, range, generator);
    }
};

template <class RNG>
struct BernoulliTensor {
    void operator()(const at::Tensor& self, const at::Tensor& p, OptionalGenerator generator)
    {
        TORCH_CHECK_NOT_IMPLEMENTED(c10::isFloatingType(p.scalar_type()),
                                    "expected probabilities tensor to have floating type, got ", p.scalar_type());
        const at::Tensor probability = p.to(self.device()).expand(self.sizes()).contiguous();
        at::Tensor out = self.is_contiguous() ? self : at::empty(self.sizes(), self.options());
        clprim::random_bernoulli(current_queue(out), view(out), view(probability), next_state(generator, out));
        if (!out.is_same(self))
            self.copy_(out);
    }
};

namespace templates = at::native::templates;
using RNG = c10::GeneratorImpl;

at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator generator)
{
    return templates::uniform_impl_<Draw<Distribution::uniform>::Kernel, RNG>(self, from, to, generator);
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator)
{
    return templates::log_normal_impl_<Draw<Distribution::log_normal>::Kernel, RNG>(self, mean, std, generator);
}

at::Tensor& geometric_(at::Tensor& self, double p, OptionalGenerator generator)
{
    return templates::geometric_impl_<Draw<Distribution::geometric>::Kernel, RNG>(self, p, generator);
}

at::Tensor& exponential_(at::Tensor& self, double lambda, OptionalGenerator generator)
{
    TORCH_CHECK(at::isFloatingType(self.scalar_type()), "exponential_: expected a floating-point dtype, for the "
                "distribution is continuous, but got ", self.scalar_type());
    return templates::exponential_impl_<Draw<Distribution::exponential>::Kernel, RNG>(self, lambda, generator);
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, OptionalGenerator generator)
{
    return templates::cauchy_impl_<Draw<Distribution::cauchy>::Kernel, RNG>(self, median, sigma, generator);
}

at::Tensor& bernoulli_float(at::Tensor& self, double p, OptionalGenerator generator)
{
    return templates::bernoulli_impl_<Draw<Distribution::bernoulli>::Kernel, RNG>(self, p, generator);
}

at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator)
{
    return templates::bernoulli_impl_<BernoulliTensor, RNG>(self, p, generator);
}

at::Tensor& bernoulli_out(const at::Tensor& self, OptionalGenerator generator, at::Tensor& out)
{
    return templates::bernoulli_out_impl<BernoulliTensor, RNG>(out, self, generator);
}

at::Tensor& random_(at::Tensor& self, OptionalGenerator generator)
{
    return templates::random_impl<Integers, RNG>(self, generator);
}

at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to, OptionalGenerator generator)
{
    return templates::random_from_to_impl<AllIntegers, RNG>(self, from, to, generator);
}

at::Tensor& random_to(at::Tensor& self, int64_t to, OptionalGenerator generator)
{
    return random_from(self, 0, to, generator);
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator)
{
    return templates::normal_impl_<Draw<Distribution::normal>::Kernel, RNG>(self, mean, std, generator);
}

template <class Mean, class Std>
at::Tensor normal(Mean mean, Std std, OptionalGenerator generator)
{
    return templates::normal_impl<Draw<Distribution::normal>::Kernel, RNG>(mean, std, generator);
}

template <class Mean, class Std>
at::Tensor& normal_out(Mean mean, Std std, OptionalGenerator generator, at::Tensor& out)
{
    return templates::normal_out_impl<Draw<Distribution::normal>::Kernel, RNG>(out, mean, std, generator);
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train)
{
    TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
    // Dense, in the order of the input's dimensions: every second pixel of channels_last stays channels_last.
    at::Tensor dense = input.is_non_overlapping_and_dense() ? input : at::empty_like(input).copy_(input);
    at::Tensor mask = at::empty_like(dense, dense.options().dtype(at::kBool));
    if (input.numel() == 0 || !train.value_or(true)) {
        mask.fill_(true);
        return {input.clone(), mask};
    }
    at::Tensor out = at::empty_like(dense);
    clprim::dropout(current_queue(dense), view(dense), p, next_state(std::nullopt, dense), view(out), view(mask));
    return {out, mask};
}

at::Tensor native_dropout_backward(const at::Tensor& gradient, const at::Tensor& mask, double scale)
{
    TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be Bool Scalar Type", mask.scalar_type());
    if (!gradient.is_floating_point())
        return at::mul(at::mul(gradient, mask), scale);
    at::Tensor result = at::empty_like(mask, gradient.options());
    at::Tensor same = gradient;
    if (gradient.strides() != result.strides())
        same = at::empty_like(result).copy_(gradient);
    at::Tensor dense_mask = mask.strides() == result.strides() ? mask : at::empty_like(mask).copy_(mask);
    clprim::dropout_backward(current_queue(result), view(same), view(dense_mask), scale, view(result));
    return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("uniform_", uniform_);
    m.impl("normal_", normal_);
    m.impl("normal.Tensor_float", normal<const at::Tensor&, double>);
    m.impl("normal.float_Tensor", normal<double, const at::Tensor&>);
    m.impl("normal.Tensor_Tensor", normal<const at::Tensor&, const at::Tensor&>);
    m.impl("normal.Tensor_float_out", normal_out<const at::Tensor&, double>);
    m.impl("normal.float_Tensor_out", normal_out<double, const at::Tensor&>);
    m.impl("normal.Tensor_Tensor_out", normal_out<const at::Tensor&, const at::Tensor&>);
    m.impl("log_normal_", log_normal_);
    m.impl("geometric_", geometric_);
    m.impl("exponential_", exponential_);
    m.impl("cauchy_", cauchy_);
    m.impl("bernoulli_.float", bernoulli_float);
    m.impl("bernoulli_.Tensor", bernoulli_tensor);
    m.impl("bernoulli.out", bernoulli_out);
    m.impl("random_", random_);
    m.impl("random_.from", random_from);
    m.impl("random_.to", random_to);
    m.impl("native_dropout", native_dropout);
    m.impl("native_dropout_backward", native_dropout_backward);
}

}  // namespace torch_ocl
