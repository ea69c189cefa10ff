// Margin losses over x of [batch, classes]; a team owns a sample: a work-item on CPUs, a work-group on GPUs.
//     multi-class   loss = sum over j != t of weight[t] max(0, margin - x[t] + x[j])^p / classes,   t = target
//     multi-label   loss = sum over targets t, non-targets j of max(0, 1 - x[t] + x[j]) / classes
// The targets of a sample are the leading entries of its row up to the first -1. A target outside [0, classes)
// is reported (core/errors.cl) and left out. -DX: dtype; -DACC: type of sums.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "core/vector.cl"

typedef ACC acc_t;
typedef const __global storage_t(X)* input_t;

typedef struct { ulong batch; uint classes; int power; } margin_t;

#if TEAM == 1
#define MARGIN_KERNEL __kernel
#define SAMPLE get_global_id(0)
#define TEAM_BARRIER
#else
#define MARGIN_KERNEL __kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
#define SAMPLE get_group_id(0)
#define TEAM_BARRIER barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
#endif
#define EACH_CLASS(j) for (uint j = team_rank(); j < p.classes; j += TEAM)

static inline bool known(long t, margin_t p, __global int* errors, int code)
{
    if (t >= 0 && t < p.classes)
        return true;
    clprim_index_error(errors, code, t, p.classes);
    return false;
}

MARGIN_KERNEL void multi_margin(input_t x, ulong x_offset, const __global long* target, ulong target_offset,
                           input_t weight, ulong weight_offset, margin_t p, acc_t margin, __global int* errors,
                           int code, __global storage_t(X)* loss, ulong loss_offset)
{
    const ulong n = SAMPLE;
    if (n >= p.batch)
        return;
    const long t = target[target_offset + n];
    TEAM_SCRATCH(acc_t, scratch);
    acc_t sum = 0;
    if (known(t, p, errors, code)) {
        x += x_offset + n * p.classes;
        const acc_t own = load(X, x, t);
        EACH_CLASS(j)
        {
            const acc_t z = margin - own + load(X, x, j);
            if (j != t && z > 0)
                sum += p.power == 1 ? z : z * z;
        }
        sum *= weight ? load(X, weight, weight_offset + t) : 1;
    }
    sum = team_sum(sum, scratch);
    if (team_rank() == 0)
        store(X, loss, loss_offset + n, sum / p.classes);
}

// grad_output has one element per sample (step 1) or one for all (step 0); `scale` is 1, or 1 / batch for a mean.
MARGIN_KERNEL void multi_margin_backward(input_t grad_output, ulong grad_output_offset, input_t x, ulong x_offset,
                                    const __global long* target, ulong target_offset, input_t weight,
                                    ulong weight_offset, margin_t p, acc_t margin, acc_t scale, ulong step,
                                    __global storage_t(X)* grad_input, ulong grad_input_offset)
{
    const ulong n = SAMPLE;
    if (n >= p.batch)
        return;
    const long t = target[target_offset + n];
    const bool valid = t >= 0 && t < p.classes;
    x += x_offset + n * p.classes;
    grad_input += grad_input_offset + n * p.classes;
    acc_t g = load(X, grad_output, grad_output_offset + n * step) * scale / p.classes, own = 0;
    if (valid && weight)
        g *= load(X, weight, weight_offset + t);
    TEAM_SCRATCH(acc_t, scratch);
    const acc_t margin_of_t = valid ? margin - load(X, x, t) : 0;
    EACH_CLASS(j)
    {
        const acc_t z = valid && j != t ? margin_of_t + load(X, x, j) : 0;
        const acc_t d = z > 0 ? (p.power == 1 ? g : 2 * g * z) : 0;
        own -= d;
        if (j != t)
            store(X, grad_input, j, d);
    }
    own = team_sum(own, scratch);
    if (valid && team_rank() == 0)
        store(X, grad_input, t, own);
}

MARGIN_KERNEL void multilabel_margin(input_t x, ulong x_offset, const __global long* target, ulong target_offset,
                                margin_t p, __global int* errors, int code, __global storage_t(X)* loss,
                                ulong loss_offset, __global storage_t(X)* is_target, ulong is_target_offset)
{
    const ulong n = SAMPLE;
    if (n >= p.batch)
        return;
    x += x_offset + n * p.classes;
    target += target_offset + n * p.classes;
    is_target += is_target_offset + n * p.classes;
    TEAM_SCRATCH(acc_t, scratch);
    uint count = 0;
    while (count < p.classes && target[count] >= 0)
        ++count;
    EACH_CLASS(j)
    {
        store(X, is_target, j, 0);
        if (target[j] != -1)   // entries behind the end are no targets, but must be right too
            known(target[j], p, errors, code);
    }
    TEAM_BARRIER
    for (uint k = team_rank(); k < count; k += TEAM)
        if (target[k] < p.classes)
            store(X, is_target, target[k], 1);
    TEAM_BARRIER
    acc_t sum = 0;
    for (uint k = 0; k < count; ++k) {
        if (target[k] >= p.classes)
            continue;
        const acc_t own = load(X, x, target[k]);
        EACH_CLASS(j)
        {
            const acc_t z = 1 - own + load(X, x, j);
            if (load(X, is_target, j) == 0 && z > 0)
                sum += z;
        }
    }
    sum = team_sum(sum, scratch);
    if (team_rank() == 0)
        store(X, loss, loss_offset + n, sum / p.classes);
}

// How often each element takes part is counted, so an element is written once.
MARGIN_KERNEL void multilabel_margin_backward(input_t grad_output, ulong grad_output_offset, input_t x, ulong x_offset,
                                         const __global long* target, ulong target_offset, input_t is_target,
                                         ulong is_target_offset, margin_t p, acc_t scale, ulong step,
                                         __global storage_t(X)* grad_input, ulong grad_input_offset)
{
    const ulong n = SAMPLE;
    if (n >= p.batch)
        return;
    x += x_offset + n * p.classes;
    target += target_offset + n * p.classes;
    is_target += is_target_offset + n * p.classes;
    grad_input += grad_input_offset + n * p.classes;
    const acc_t g = load(X, grad_output, grad_output_offset + n * step) * scale / p.classes;
    EACH_CLASS(j)
    {
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
