// Margin losses over x of [batch, classes]; a work-item owns a sample.
//     multi-class   loss = sum over j != t of weight[t] max(0, margin - x[t] + x[j])^p / classes,   t = target
//     multi-label   loss = sum over targets t, non-targets j of max(0, 1 - x[t] + x[j]) / classes
// The targets of a sample are the leading entries of its row up to the first -1. A target outside [0, classes)
// is reported (core/errors.cl) and left out. -DX: dtype; -DACC: type of sums.
#include "core/dtype.cl"
#include "core/errors.cl"

typedef ACC acc_t;
typedef const __global storage_t(X)* input_t;

typedef struct { ulong batch; uint classes; int power; } margin_t;

static inline bool known(long t, margin_t p, __global int* errors, int code)
{
    if (t >= 0 && t < p.classes)
        return true;
    clprim_index_error(errors, code, t, p.classes);
    return false;
}

__kernel void multi_margin(input_t x, ulong x_offset, const __global long* target, ulong target_offset,
                           input_t weight, ulong weight_offset, margin_t p, acc_t margin, __global int* errors,
                           int code, __global storage_t(X)* loss, ulong loss_offset)
{
    const ulong n = get_global_id(0);
    if (n >= p.batch)
        return;
    const long t = target[target_offset + n];
    acc_t sum = 0;
    if (known(t, p, errors, code)) {
        x += x_offset + n * p.classes;
        for (uint j = 0; j < p.classes; ++j) {
            const acc_t z = margin - load(X, x, t) + load(X, x, j);
            if (j != t && z > 0)
                sum += p.power == 1 ? z : z * z;
        }
        sum *= weight ? load(X, weight, weight_offset + t) : 1;
    }
    store(X, loss, loss_offset + n, sum / p.classes);
}

// grad_output has one element per sample (step 1) or one for all (step 0); `scale` is 1, or 1 / batch for a mean.
__kernel void multi_margin_backward(input_t grad_output, ulong grad_output_offset, input_t x, ulong x_offset,
                                    const __global long* target, ulong target_offset, input_t weight,
                                    ulong weight_offset, margin_t p, acc_t margin, acc_t scale, ulong step,
                                    __global storage_t(X)* grad_input, ulong grad_input_offset)
{
    const ulong n = get_global_id(0);
    if (n >= p.batch)
        return;
    const long t = target[target_offset + n];
    const bool valid = t >= 0 && t < p.classes;
    x += x_offset + n * p.classes;
    grad_input += grad_input_offset + n * p.classes;
    acc_t g = load(X, grad_output, grad_output_offset + n * step) * scale / p.classes, own = 0;
    if (valid && weight)
        g *= load(X, weight, weight_offset + t);
    for (uint j = 0; j < p.classes; ++j) {
        const acc_t z = valid && j != t ? margin - load(X, x, t) + load(X, x, j) : 0;
        const acc_t d = z > 0 ? (p.power == 1 ? g : 2 * g * z) : 0;
        own -= d;
        store(X, grad_input, j, d);
    }
    if (valid)
        store(X, grad_input, t, own);
}

__kernel void multilabel_margin(input_t x, ulong x_offset, const __global long* target, ulong target_offset,
                                margin_t p, __global int* errors, int code, __global storage_t(X)* loss,
                                ulong loss_offset, __global storage_t(X)* is_target, ulong is_target_offset)
{
    const ulong n = get_global_id(0);
    if (n >= p.batch)
        return;
    x += x_offset + n * p.classes;
    target += target_offset + n * p.classes;
    is_target += is_target_offset + n * p.classes;
    for (uint j = 0; j < p.classes; ++j)
        store(X, is_target, j, 0);
    for (uint k = 0; k < p.classes; ++k)   // entries behind the end are no targets, but must be right too
        if (target[k] != -1)
            known(target[k], p, errors, code);
    for (uint k = 0; k < p.classes && target[k] >= 0; ++k)
        if (target[k] < p.classes)
            store(X, is_target, target[k], 1);
    acc_t sum = 0;
    for (uint k = 0; k < p.classes && target[k] >= 0; ++k)
        for (uint j = 0; j < p.classes && target[k] < p.classes; ++j) {
            const acc_t z = 1 - load(X, x, target[k]) + load(X, x, j);
            if (load(X, is_target, j) == 0 && z > 0)
                sum += z;
        }
    store(X, loss, loss_offset + n, sum / p.classes);
}

// How often each element takes part is counted, so an element is written once.
__kernel void multilabel_margin_backward(input_t grad_output, ulong grad_output_offset, input_t x, ulong x_offset,
                                         const __global long* target, ulong target_offset, input_t is_target,
                                         ulong is_target_offset, margin_t p, acc_t scale, ulong step,
                                         __global storage_t(X)* grad_input, ulong grad_input_offset)
{
    const ulong n = get_global_id(0);
    if (n >= p.batch)
        return;
    x += x_offset + n * p.classes;
    target += target_offset + n * p.classes;
    is_target += is_target_offset + n * p.classes;
    grad_input += grad_input_offset + n * p.classes;
    const acc_t g = load(X, grad_output, grad_output_offset + n * step) * scale / p.classes;
    for (uint j = 0; j < p.classes; ++j) {
        int count = 0;
        const bool own = load(X, is_target, j) != 0;
        for (uint k = 0; k < p.classes && target[k] >= 0; ++k) {
            if (target[k] >= p.classes)
                continue;
            if (!own) {
                count += 1 - load(X, x, target[k]) + load(X, x, j) > 0;
            } else if (target[k] == j) {
                for (uint i = 0; i < p.classes; ++i)
                    count -= load(X, is_target, i) == 0 && 1 - load(X, x, j) + load(X, x, i) > 0;
            }
        }
        store(X, grad_input, j, g * count);
    }
}
