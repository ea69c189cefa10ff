// Random numbers: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A draw is a pure function of (seed, offset, position): block i of a tensor is Philox keyed with the seed at counter
// (i, offset). So numbers depend neither on the work-group size nor on the device, and a generator's whole state is
// {seed, offset}; every call takes one offset of its own. A dense tensor is filled in the order of its memory, any
// other in row-major order.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct PhiloxState {
    std::uint64_t seed = 0, offset = 0;
};

enum class Distribution {
    uniform,       // [a, b)
    normal,        // mean a, standard deviation b
    exponential,   // rate a
    geometric,     // number of trials until the first success of probability a: 1, 2, ...
    cauchy,        // median a, scale b
    log_normal,    // exp(normal(a, b))
    bernoulli,     // 1 with probability a, otherwise 0
};

// Fills `out` (any real dtype that the distribution makes sense for; bernoulli: also boolean).
void random_fill(Queue& queue, const Tensor& out, Distribution distribution, double a, double b, PhiloxState state);

// out = 1 with the probability that lies in `probability` (same shape), otherwise 0.
void random_bernoulli(Queue& queue, const Tensor& out, const Tensor& probability, PhiloxState state);

// Variates whose parameters are tensors (floating point, contiguous, of one dtype and shape with out).
enum class Variate {
    poisson,    // of rate `first`
    gamma,      // of shape `first` and scale 1
    binomial,   // successes in `first` trials of probability `second`
};
void random_variates(Queue& queue, const Tensor& out, Variate variate, const Tensor& first, const Tensor& second,
                     PhiloxState state);   // pass `first` again where there is no second

// Integers base + (r mod range), with range 0 for all 2^64 values; out is integral, floating point or boolean.
void random_integers(Queue& queue, const Tensor& out, std::int64_t base, std::uint64_t range, PhiloxState state);

// The numbers 0 to n - 1 in random order, of the contiguous out of n elements.
void random_permutation(Queue& queue, const Tensor& out, PhiloxState state);

// mask = 1 with probability 1 - p; out = mask ? input / (1 - p) : 0. `mask` is boolean; all dense with equal strides.
void dropout(Queue& queue, const Tensor& input, double p, PhiloxState state, const Tensor& out, const Tensor& mask);
// input_gradient = mask ? scale * gradient : 0.
void dropout_backward(Queue& queue, const Tensor& gradient, const Tensor& mask, double scale,
                      const Tensor& input_gradient);

}  // namespace clprim
CLPRIM_API_END
