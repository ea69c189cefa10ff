// Connectionist temporal classification in the logarithmic domain. The labels of a sample are extended by blanks
// between and around them: position s stands for the blank if it is even, else for label s / 2. -DX: float32 or
// float64.
//     alpha[n, t, s]: log of the probability of all ways to read positions 0 .. s at steps 0 .. t
//     beta[n, t, s]:  of positions s .. at steps t ..; both include the label at step t
#include "core/dtype.cl"
#include "core/errors.cl"

typedef compute_t(X) acc_t;
typedef __global storage_t(X)* tensor_t;
typedef const __global storage_t(X)* input_t;

// samples: [N, 3] = steps, labels, where the labels begin.
typedef struct { ulong batch, steps, classes, positions; long blank; } ctc_t;
typedef struct { long steps, labels; const __global long* targets; } sample_t;

static inline sample_t sample_of(const __global long* samples, const __global long* targets, ulong n)
{
    const sample_t sample = {samples[3 * n], samples[3 * n + 1], targets + samples[3 * n + 2]};
    return sample;
}

static inline long label_at(sample_t sample, long s, long blank) { return s & 1 ? sample.targets[s / 2] : blank; }

static inline acc_t log_sum(acc_t a, acc_t b)
{
    const acc_t top = a > b ? a : b, low = a > b ? b : a;      // one of them is NaN where a or b is
    return low == -INFINITY ? top : top + log1p(exp(low - top));
}

// A work-group owns a sample. `backwards` runs from the last step and position to the first ones.
static inline void recursion(input_t log_probs, sample_t sample, tensor_t table, ulong n, ctc_t p, bool backwards)
{
    const long positions = 2 * sample.labels + 1, last = positions - 1;
    for (long i = 0; i < sample.steps; ++i) {
        const long t = backwards ? sample.steps - 1 - i : i;
        tensor_t now = table + t * p.positions;
        tensor_t before = backwards ? now + p.positions : now - p.positions;
        for (long k = get_local_id(0); k < positions; k += get_local_size(0)) {
            const long s = backwards ? last - k : k, step = backwards ? 1 : -1, label = label_at(sample, s, p.blank);
            const bool known = label >= 0 && label < p.classes;
            acc_t v = i == 0 ? (k < 2 ? 0 : -INFINITY) : before[s];
            if (i > 0 && k > 0)
                v = log_sum(v, before[s + step]);
            if (i > 0 && k > 1 && (s & 1) && label != label_at(sample, s + 2 * step, p.blank))
                v = log_sum(v, before[s + 2 * step]);
            now[s] = known ? v + log_probs[(t * p.batch + n) * p.classes + label] : -INFINITY;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

__kernel void ctc_alpha(input_t log_probs, ulong log_probs_offset, const __global long* targets, ulong targets_offset,
                        const __global long* samples, ulong samples_offset, tensor_t loss, ulong loss_offset,
                        tensor_t alpha, ulong alpha_offset, ctc_t p, __global int* errors, int code)
{
    const ulong n = get_group_id(0);
    const sample_t sample = sample_of(samples + samples_offset, targets + targets_offset, n);
    alpha += alpha_offset + n * p.steps * p.positions;
    for (ulong i = sample.steps * p.positions + get_local_id(0); i < p.steps * p.positions; i += get_local_size(0))
        alpha[i] = -INFINITY;
    for (long k = get_local_id(0); k < sample.labels; k += get_local_size(0))
        if (sample.targets[k] < 0 || sample.targets[k] >= p.classes)
            clprim_index_error(errors, code, sample.targets[k], p.classes);
    recursion(log_probs + log_probs_offset, sample, alpha, n, p, false);
    if (get_local_id(0) != 0)
        return;
    acc_t likelihood = sample.labels == 0 ? 0 : -INFINITY;   // of an input without steps
    if (sample.steps > 0) {
        const tensor_t end = alpha + (sample.steps - 1) * p.positions + 2 * sample.labels;
        likelihood = sample.labels > 0 ? log_sum(end[0], end[-1]) : end[0];
    }
    loss[loss_offset + n] = -likelihood;
}

__kernel void ctc_beta(input_t log_probs, ulong log_probs_offset, const __global long* targets, ulong targets_offset,
                       const __global long* samples, ulong samples_offset, tensor_t beta, ulong beta_offset, ctc_t p)
{
    const ulong n = get_group_id(0);
    recursion(log_probs + log_probs_offset, sample_of(samples + samples_offset, targets + targets_offset, n),
              beta + beta_offset + n * p.steps * p.positions, n, p, true);
}

// For position s of sample n: links[.., 0] = the next position of the same label, or -1; links[.., 1] = whether it is
// the first one. So each label of a sample has one owner that walks its positions.
__kernel void ctc_links(const __global long* targets, ulong targets_offset, const __global long* samples,
                        ulong samples_offset, __global int* links, ulong links_offset, ctc_t p)
{
    const ulong s = get_global_id(0), n = get_global_id(1);
    if (s >= p.positions)
        return;
    const sample_t sample = sample_of(samples + samples_offset, targets + targets_offset, n);
    const long positions = 2 * sample.labels + 1;
    __global int* link = links + links_offset + 2 * (n * p.positions + s);
    const bool used = s < positions;
    const long label = used ? label_at(sample, s, p.blank) : -1;
    long next = s + 1, earlier = (long)s - 1;
    while (next < positions && label_at(sample, next, p.blank) != label)
        ++next;
    while (used && earlier >= 0 && label_at(sample, earlier, p.blank) != label)
        --earlier;
    link[0] = next < positions ? (int)next : -1;
    link[1] = used && earlier < 0 && label >= 0 && label < p.classes;
}

static inline acc_t gradient_of(acc_t loss, acc_t dy, bool zero_infinity)
{
    return loss == INFINITY ? (zero_infinity ? 0 : NAN) : dy;
}

// The part that all labels have: probability times gradient.
__kernel void ctc_gradient(input_t log_probs, ulong log_probs_offset, const __global long* samples,
                           ulong samples_offset, input_t loss, ulong loss_offset, input_t dy, ulong dy_offset,
                           tensor_t dx, ulong dx_offset, ctc_t p, int zero_infinity, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const ulong n = item / p.classes % p.batch, t = item / p.classes / p.batch;
    acc_t v = 0;
    if (t < samples[samples_offset + 3 * n]) {
        const acc_t g = gradient_of(loss[loss_offset + n], dy[dy_offset + n], zero_infinity);
        v = loss[loss_offset + n] == INFINITY ? g : exp(log_probs[log_probs_offset + item]) * g;
    }
    dx[dx_offset + item] = v;
}

// The part of the labels that the target holds. Work-item (s, t, n) is their owner if s is the first position of its
// label.
__kernel void ctc_gradient_labels(input_t log_probs, ulong log_probs_offset, const __global long* targets,
                                  ulong targets_offset, const __global long* samples, ulong samples_offset,
                                  const __global int* links, ulong links_offset, input_t alpha, ulong alpha_offset,
                                  input_t beta, ulong beta_offset, input_t loss, ulong loss_offset, input_t dy,
                                  ulong dy_offset, tensor_t dx, ulong dx_offset, ctc_t p)
{
    const ulong s = get_global_id(0), t = get_global_id(1), n = get_global_id(2);
    const sample_t sample = sample_of(samples + samples_offset, targets + targets_offset, n);
    const acc_t nll = loss[loss_offset + n];
    links += links_offset + 2 * n * p.positions;
    if (s >= p.positions || t >= sample.steps || nll == INFINITY || !links[2 * s + 1])
        return;
    const ulong row = (n * p.steps + t) * p.positions;
    acc_t sum = -INFINITY;
    for (long k = s; k >= 0; k = links[2 * k])
        sum = log_sum(sum, alpha[alpha_offset + row + k] + beta[beta_offset + row + k]);
    const ulong at = (t * p.batch + n) * p.classes + label_at(sample, s, p.blank);
    if (sum != -INFINITY)
        dx[dx_offset + at] -= exp(sum + nll - log_probs[log_probs_offset + at]) * dy[dy_offset + n];
}
