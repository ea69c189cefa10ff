// Work on many tensors at once: pointwise operators over lists of tensors, and whole optimiser steps.
//
// Thousands of small tensors are too few work-items each and too many launches. Here one launch serves every tensor
// whose memory lies in the same few segments: a table tells each work-group its tensor, and where the operands begin in
// up to 16 buffers. Tensors are dense; the tensors at one place of all lists have one shape, one layout.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

using TensorList = std::vector<Tensor>;

// Pointwise over lists: out[t] = operator(a[t], b[t], c[t], scalar[t]) for every t. lists holds out, a and, as the
// operator asks, b and c, all of one floating-point dtype; scalars has one number, one per tensor, or none.
//   unary:  sqrt rsqrt neg abs reciprocal exp sign zero
//   a, s:   add_scalar sub_scalar mul_scalar div_scalar maximum_scalar minimum_scalar pow_scalar
//   a, b:   add_list (a + s b)  sub_list (a - s b)  mul_list  div_list  maximum_list  minimum_list  lerp (by s)  copy
//   a, b of one element each: mul_number
//   a, b, c: addcmul (a + s b c)  addcdiv (a + s b / c)  lerp_list (by c)
// Throws InvalidArgument for an unknown operator.
void foreach(Queue& queue, std::string_view name, std::span<const TensorList> lists, std::span<const double> scalars);

// norms[t] = the norm of tensor t, of order 1, 2 or infinity; all tensors and norms, which are contiguous, have one
// floating-point dtype.
void foreach_norm(Queue& queue, const TensorList& tensors, double order, const Tensor& norms);

// What optimiser steps share. The learning rate comes as a number or, if defined, as a float32 tensor of one element.
// With grad_scale (float32, one element), gradients are divided by it and written back; with found_inf, the whole step
// is skipped where that tensor is not 0.
struct StepOptions {
    double lr = 1e-3;
    Tensor lr_tensor{}, grad_scale{}, found_inf{};
    double weight_decay = 0, eps = 1e-8;
    bool maximize = false;
};

// Adam (Kingma, Ba 2015), AMSGrad with max_squares, AdamW (Loshchilov, Hutter 2019) with `decoupled` decay.
struct Adam {
    StepOptions common;
    double beta1 = 0.9, beta2 = 0.999;
    bool decoupled = false;
};
struct AdamLists {
    TensorList parameters, gradients, averages, squares, max_squares, steps;   // steps: float32, one element each
};
void adam_step(Queue& queue, const Adam& adam, const AdamLists& lists);

struct Sgd {
    StepOptions common;
    double momentum = 0, dampening = 0;
    bool nesterov = false, first_step = false;
};
// `momenta` is empty without momentum.
void sgd_step(Queue& queue, const Sgd& sgd, const TensorList& parameters, const TensorList& gradients,
              const TensorList& momenta);

// Adagrad (Duchi, Hazan, Singer 2011).
struct Adagrad {
    StepOptions common;
    double lr_decay = 0;
};
struct AdagradLists {
    TensorList parameters, gradients, sums, steps;
};
void adagrad_step(Queue& queue, const Adagrad& adagrad, const AdagradLists& lists);

// Mixed precision: gradients *= inverse_scale, and found_inf = 1 if any of them was not finite (both float32,
// one element).
void unscale_and_check(Queue& queue, const TensorList& gradients, const Tensor& found_inf, const Tensor& inverse_scale);

// The next loss scale: backed off after a bad step, grown after `growth_interval` good ones (tracker: int32).
struct ScaleUpdate {
    double growth_factor = 2, backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;
};
void update_scale(Queue& queue, const ScaleUpdate& update, const Tensor& scale, const Tensor& tracker,
                  const Tensor& found_inf);

}  // namespace clprim
CLPRIM_API_END
