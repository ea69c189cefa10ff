// Negative log likelihood over x of [batch, classes, inner] and target of [batch, inner]:
//     loss = -weight[t] x[t],  t = target; 0 where t == ignore_index
// A target outside [0, classes) is reported (core/errors.cl) and counts as ignored; nothing is read for it.
// -DX: dtype of x, weight and loss; -DT: of target.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "core/vector.cl"

typedef ACC acc_t;
typedef const __global storage_t(X)* input_t;

typedef struct { ulong batch; uint classes, inner; long ignore_index; } nll_t;
enum { reduction_none, reduction_mean, reduction_sum };   // as PyTorch numbers them

// Where x has class t of item i. 64-bit division takes hundreds of instructions of GPUs.
static inline ulong place_of(const nll_t* p, ulong i, ulong t)
{
    if (p->inner == 1)
        return i * p->classes + t;
    const ulong n = i >> 32 == 0 ? (uint)i / p->inner : i / p->inner;
    return (n * p->classes + t) * p->inner + (i - n * p->inner);
}

// The weight of item i's target, and through `term` its loss.
static inline acc_t item_loss(input_t x, const __global storage_t(T)* target, input_t weight, const nll_t* p, ulong i,
                       acc_t* term, __global int* errors, int code)
{
    const long t = load(T, target, i);
    *term = 0;
    if (t == p->ignore_index)
        return 0;
    if (t < 0 || t >= p->classes) {
        clprim_index_error(errors, code, t, p->classes);
        return 0;
    }
    const acc_t w = weight ? load(X, weight, t) : 1;
    *term = -w * load(X, x, place_of(p, i, t));
    return w;
}

#define NLL_PARAMETERS                                                                                                \
    input_t x, ulong x_offset, const __global storage_t(T)* target, ulong target_offset, input_t weight,              \
    ulong weight_offset, nll_t problem, __global int* errors, int code
#define NLL_OFFSETS                                                                                                   \
    x += x_offset;                                                                                                    \
    target += target_offset;                                                                                          \
    if (weight) weight += weight_offset;

__kernel void nll_each(NLL_PARAMETERS, __global storage_t(X)* loss, ulong loss_offset)
{
    const ulong i = get_global_id(0);
    if (i >= problem.batch * problem.inner)
        return;
    NLL_OFFSETS
    acc_t term;
    item_loss(x, target, weight, &problem, i, &term, errors, code);
    store(X, loss, loss_offset + i, term);
}

static inline void write_total(acc_t losses, acc_t weights, int reduction, __global storage_t(X)* loss,
                        __global storage_t(X)* total_weight)
{
    store(X, total_weight, 0, weights);
    store(X, loss, 0, reduction == reduction_mean ? losses / weights : losses);
}

#if TEAM > 1
#define AHEAD 4   // items whose targets, and then losses, are on their way together

// Adds items i, i + TEAM and so on, AHEAD of them, below `end`.
static inline void add_items(input_t x, const __global storage_t(T)* target, input_t weight, const nll_t* p, ulong i,
                             ulong end, acc_t* losses, acc_t* weights, __global int* errors, int code)
{
    long targets[AHEAD];
    acc_t terms[AHEAD], counts[AHEAD];
#pragma unroll
    for (uint e = 0; e < AHEAD; ++e)
        targets[e] = i + e * TEAM < end ? load(T, target, i + e * TEAM) : p->ignore_index;
#pragma unroll
    for (uint e = 0; e < AHEAD; ++e) {
        const long t = targets[e];
        const bool known = t >= 0 && t < p->classes && t != p->ignore_index;
        if (!known && t != p->ignore_index)
            clprim_index_error(errors, code, t, p->classes);
        const ulong at = i + e * TEAM, place = known ? place_of(p, at, t) : 0;
        counts[e] = !known ? 0 : weight ? load(X, weight, t) : 1;
        terms[e] = known ? -counts[e] * load(X, x, place) : 0;
    }
#pragma unroll
    for (uint e = 0; e < AHEAD; ++e) {
        *losses += terms[e];
        *weights += counts[e];
    }
}
#endif

// partial[2][parts]: sums of losses and of weights over items [group * part_size, ...), by a team. A lone team
// finishes.
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void nll_partial(NLL_PARAMETERS, __global acc_t* partial, ulong partial_offset, ulong part_size, int reduction,
                 __global storage_t(X)* loss, ulong loss_offset, __global storage_t(X)* total_weight,
                 ulong total_weight_offset)
{
    TEAM_SCRATCH(acc_t, scratch);
    NLL_OFFSETS
    const ulong begin = get_group_id(0) * part_size, end = min(begin + part_size, problem.batch * problem.inner);
    acc_t losses = 0, weights = 0;
#if TEAM > 1
    for (ulong i = begin + team_rank(); i < end; i += AHEAD * TEAM)
        add_items(x, target, weight, &problem, i, end, &losses, &weights, errors, code);
#else
    for (ulong i = begin; i < end; ++i) {
        acc_t term;
        weights += item_loss(x, target, weight, &problem, i, &term, errors, code);
        losses += term;
    }
#endif
    losses = team_sum(losses, scratch);
    weights = team_sum(weights, scratch);
    if (team_rank() == 0 && !partial)
        write_total(losses, weights, reduction, loss + loss_offset, total_weight + total_weight_offset);
    if (team_rank() == 0 && partial) {
        partial[partial_offset + get_group_id(0)] = losses;
        partial[partial_offset + get_num_groups(0) + get_group_id(0)] = weights;
    }
}

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void nll_total(const __global acc_t* partial, ulong partial_offset, uint parts, int reduction,
               __global storage_t(X)* loss, ulong loss_offset, __global storage_t(X)* total_weight,
               ulong total_weight_offset)
{
    TEAM_SCRATCH(acc_t, scratch);
    acc_t losses = 0, weights = 0;
    for (uint p = team_rank(); p < parts; p += TEAM) {
        losses += partial[partial_offset + p];
        weights += partial[partial_offset + parts + p];
    }
    losses = team_sum(losses, scratch);
    weights = team_sum(weights, scratch);
    if (team_rank() == 0)
        write_total(losses, weights, reduction, loss + loss_offset, total_weight + total_weight_offset);
}

#define BACKWARD_PARAMETERS                                                                                           \
    const __global storage_t(T)* target, ulong target_offset, input_t weight, ulong weight_offset, nll_t problem,     \
    int reduction, input_t grad_output, ulong grad_output_offset, input_t total_weight, ulong total_weight_offset,    \
    __global storage_t(X)* grad_input, ulong grad_input_offset

// The gradient at item's target class t.
static inline acc_t item_gradient(input_t grad_output, input_t total_weight, input_t weight, int reduction, ulong item,
                                  long t)
{
    acc_t g = load(X, grad_output, reduction == reduction_none ? item : 0);
    if (reduction == reduction_mean)
        g /= load(X, total_weight, 0);
    return weight ? -g * load(X, weight, t) : -g;
}

#ifdef CLPRIM_DEVICE_CPU
// inner = 1: a work-item writes `each` samples, which are zeros but for one element.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void nll_backward_rows(BACKWARD_PARAMETERS, uint each)
{
    const ulong begin = (ulong)get_group_id(0) * each, end = min(begin + each, problem.batch);
    grad_input += grad_input_offset;
    for (ulong i = begin * problem.classes; i < end * problem.classes; ++i)
        grad_input[i] = 0;
    for (ulong n = begin; n < end; ++n) {
        const long t = load(T, target, target_offset + n);
        if (t >= 0 && t < problem.classes && t != problem.ignore_index)
            store(X, grad_input, n * problem.classes + t,
                  item_gradient(grad_output + grad_output_offset, total_weight + total_weight_offset,
                                weight ? weight + weight_offset : weight, reduction, n, t));
    }
}
#else
// inner = 1: work-item (class, sample) writes one element, zeros included.
__kernel void nll_backward_rows(BACKWARD_PARAMETERS)
{
    const uint c = get_global_id(0);
    const ulong n = get_global_id(1);
    if (c >= problem.classes)
        return;
    const long t = load(T, target, target_offset + n);
    acc_t g = 0;
    if (c == t && t != problem.ignore_index)
        g = item_gradient(grad_output + grad_output_offset, total_weight + total_weight_offset,
                          weight ? weight + weight_offset : weight, reduction, n, t);
    store(X, grad_input, grad_input_offset + n * problem.classes + c, g);
}
#endif

// inner > 1: work-item (s, sample) writes its element of every class.
__kernel void nll_backward_planes(BACKWARD_PARAMETERS)
{
    const uint s = get_global_id(0);
    const ulong n = get_global_id(1), item = n * problem.inner + s;
    if (s >= problem.inner)
        return;
    const long t = load(T, target, target_offset + item);
    const int known = t >= 0 && t < problem.classes && t != problem.ignore_index;
    acc_t g = 0;
    if (known)
        g = item_gradient(grad_output + grad_output_offset, total_weight + total_weight_offset,
                          weight ? weight + weight_offset : weight, reduction, item, t);
    const uint own = known ? (uint)t : problem.classes;
    grad_input += grad_input_offset + n * problem.classes * problem.inner + s;
    for (uint c = 0; c < problem.classes; ++c)
        store(X, grad_input, (ulong)c * problem.inner, c == own ? g : 0);
}
