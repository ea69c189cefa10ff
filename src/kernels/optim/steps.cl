// Optimiser steps over lists of tensors: one pass over memory per tensor and step.
// -DT=dtype -DLISTS=n [-DWIDE] [-DMAXIMIZE] [-DDECOUPLED] [-DAMSGRAD] [-DMOMENTUM] [-DNESTEROV] [-DFIRST_STEP]
// [-DGRAD_SCALE] [-DFOUND_INF] [-DLR_TENSOR]
#include "kernels/optim/multi_tensor.cl"

#define STEP_PARAMETERS                                                                                                \
    TABLE_PARAMETERS, const __global float *lr_tensor, ulong lr_offset, const __global float *grad_scale,              \
        ulong grad_scale_offset, const __global float *found_inf, ulong found_inf_offset, real lr, real weight_decay,  \
        real eps

#ifdef FOUND_INF
#define SKIP_BAD_STEP                                                                                                  \
    if (found_inf[found_inf_offset] != 0)                                                                              \
        return;
#else
#define SKIP_BAD_STEP
#endif
#ifdef LR_TENSOR
#define READ_LR lr = lr_tensor[lr_offset];
#else
#define READ_LR
#endif

// The gradient as the step wants it; an unscaled one is also kept.
static inline real gradient_at(__global storage_t(T)* gradients, ulong i, real inverse_scale)
{
    real g = load(T, gradients, i);
#ifdef GRAD_SCALE
    g *= inverse_scale;
    store(T, gradients, i, g);
#endif
#ifdef MAXIMIZE
    g = -g;
#endif
    return g;
}
#ifdef GRAD_SCALE
#define INVERSE_SCALE ((real)1 / grad_scale[grad_scale_offset])
#else
#define INVERSE_SCALE ((real)1)
#endif

#if defined(STEP_adam)
// lists: parameters, gradients, averages, squares, steps[, max_squares]; log_beta: the logarithms, so that
// 1 - beta^step keeps its digits.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void adam(STEP_PARAMETERS, real beta1, real beta2, real one_minus_beta1, real one_minus_beta2, real log_beta1,
          real log_beta2)
{
    SKIP_BAD_STEP
    READ_LR
    FIND_TENSOR
    __global storage_t(T)* parameters = OPERAND(storage_t(T), 0);
    __global storage_t(T)* gradients = OPERAND(storage_t(T), 1);
    __global storage_t(T)* averages = OPERAND(storage_t(T), 2);
    __global storage_t(T)* squares = OPERAND(storage_t(T), 3);
#ifdef AMSGRAD
    __global storage_t(T)* max_squares = OPERAND(storage_t(T), 5);
#endif
    const real step = *OPERAND(float, 4);
    const real step_size = lr / -expm1(step * log_beta1);
    const real correction = sqrt(-expm1(step * log_beta2));
    const real inverse_scale = INVERSE_SCALE;
    EACH_ELEMENT(i)
    {
        real p = load(T, parameters, i), g = gradient_at(gradients, i, inverse_scale);
#ifdef DECOUPLED
        p -= lr * weight_decay * p;
#else
        g += p * weight_decay;
#endif
        real m = load(T, averages, i), v = load(T, squares, i);
        m = one_minus_beta1 < (real)0.5 ? m + one_minus_beta1 * (g - m) : g - (g - m) * beta1;
        v = beta2 * v + one_minus_beta2 * g * g;
        store(T, averages, i, m);
        store(T, squares, i, v);
#ifdef AMSGRAD
        v = fmax((real)load(T, max_squares, i), v);
        store(T, max_squares, i, v);
#endif
        store(T, parameters, i, p - step_size * m / (sqrt(v) / correction + eps));
    }
}
#elif defined(STEP_sgd)
// lists: parameters, gradients[, momenta]
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sgd(STEP_PARAMETERS, real momentum, real dampening)
{
    SKIP_BAD_STEP
    READ_LR
    FIND_TENSOR
    __global storage_t(T)* parameters = OPERAND(storage_t(T), 0);
    __global storage_t(T)* gradients = OPERAND(storage_t(T), 1);
#ifdef MOMENTUM
    __global storage_t(T)* momenta = OPERAND(storage_t(T), 2);
#endif
    const real inverse_scale = INVERSE_SCALE;
    EACH_ELEMENT(i)
    {
        real p = load(T, parameters, i), g = gradient_at(gradients, i, inverse_scale);
        g += p * weight_decay;
#ifdef MOMENTUM
#ifdef FIRST_STEP
        real m = g;
#else
        real m = momentum * load(T, momenta, i) + (1 - dampening) * g;
#endif
        store(T, momenta, i, m);
#ifdef NESTEROV
        g += momentum * m;
#else
        g = m;
#endif
#endif
        store(T, parameters, i, p - lr * g);
    }
}
#elif defined(STEP_adagrad)
// lists: parameters, gradients, sums, steps
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void adagrad(STEP_PARAMETERS, real lr_decay)
{
    SKIP_BAD_STEP
    READ_LR
    FIND_TENSOR
    __global storage_t(T)* parameters = OPERAND(storage_t(T), 0);
    __global storage_t(T)* gradients = OPERAND(storage_t(T), 1);
    __global storage_t(T)* sums = OPERAND(storage_t(T), 2);
    const real step = *OPERAND(float, 3);
    const real rate = lr / (1 + (step - 1) * lr_decay);
    const real inverse_scale = INVERSE_SCALE;
    EACH_ELEMENT(i)
    {
        real p = load(T, parameters, i), g = gradient_at(gradients, i, inverse_scale);
        g += p * weight_decay;
        real sum = load(T, sums, i) + g * g;
        store(T, sums, i, sum);
        store(T, parameters, i, p - rate * g / (sqrt(sum) + eps));
    }
}
#elif defined(STEP_unscale)
// lists: gradients. Work-items that meet a bad value all write the same 1.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void unscale(TABLE_PARAMETERS, __global float* bad, ulong bad_offset, const __global float* inverse_scale,
             ulong inverse_scale_offset)
{
    FIND_TENSOR
    __global storage_t(T)* gradients = OPERAND(storage_t(T), 0);
    const real factor = inverse_scale[inverse_scale_offset];
    EACH_ELEMENT(i)
    {
        real g = load(T, gradients, i);
        if (!isfinite(g))
            bad[bad_offset] = 1;
        store(T, gradients, i, factor == 1 ? g : g * factor);
    }
}
#endif
