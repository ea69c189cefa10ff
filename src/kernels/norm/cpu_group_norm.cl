// Group norm of channels that lie innermost, on CPUs: x is [samples, inner, channels], a vector is of neighbouring
// channels.
//   sums    work-item (part, sample): mean and sum of squared differences of each channel over a part of the pixels
//   apply   work-item (part, sample): merges what concerns its sample, in order, and writes a part of y
// -DX: dtype of x and y; -DW: of weight and bias; -DACC, -DPARTIAL: float or double.
#include "core/dtype.cl"
#include "core/vector.cl"

#pragma OPENCL FP_CONTRACT OFF   // as in row_norm.cl

typedef ACC acc_t;
typedef vector_t(X) vec_t;
typedef const __global storage_t(X)* input_t;

#define STEPS 32u   // vectors added up before they join the total

typedef struct {
    uint groups, channels, inner;   // channels: of all groups
    uint part, parts;               // pixels of a part
} shape_t;

// Sums of x - center and of their squares over rows [begin, end) of `lanes` channels.
static inline void sum_rows(input_t x, uint channels, uint lanes, uint begin, uint end, vec_t center, vec_t* sum,
                            vec_t* squares)
{
    vec_t a = 0, b = 0;
    for (uint r = begin; r < end;) {
        vec_t ta = 0, tb = 0;
        for (uint step = 0; step < STEPS && r < end; ++step, ++r) {
            const vec_t d = load_part(X, x, (ulong)r * channels, lanes, 0) - center;
            ta += d;
            tb = fma(d, d, tb);
        }
        a += ta;
        b += tb;
    }
    *sum = a;
    *squares = b;
}

// partial: [samples][parts][2][channels].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void sums(input_t x, ulong x_offset, __global acc_t* partial, ulong partial_offset, shape_t shape)
{
    const uint part = get_group_id(0), begin = part * shape.part, end = min(begin + shape.part, shape.inner);
    const ulong sample = get_group_id(1);
    x += x_offset + sample * shape.inner * shape.channels;
    partial += partial_offset + (sample * shape.parts + part) * 2 * shape.channels;
    const acc_t count = end - begin;
    for (uint c = 0; c < shape.channels; c += VEC) {
        const uint lanes = min(shape.channels - c, (uint)VEC);
        vec_t center = load_part(X, x, (ulong)begin * shape.channels + c, lanes, 0), a, b;
        sum_rows(x + c, shape.channels, lanes, begin, end, center, &a, &b);
        vec_t shift = a / count, second = b - a * shift;
        if (any_lane(count * shift * shift > 9 * second)) {   // a centre far from the mean costs digits
            center += shift;
            sum_rows(x + c, shape.channels, lanes, begin, end, center, &a, &b);
            shift = a / count;
            second = b - a * shift;
        }
        store_part(PARTIAL, partial, c, lanes, center + shift);
        store_part(PARTIAL, partial, shape.channels + c, lanes, second < 0 ? (vec_t)(0) : second);
    }
}

// coefficients: mean, scale and shift of each channel.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void apply(input_t x, ulong x_offset, const __global storage_t(W)* weight, ulong weight_offset,
           const __global storage_t(W)* bias, ulong bias_offset, __global storage_t(X)* y, ulong y_offset,
           __global acc_t* mean, ulong mean_offset, __global acc_t* rstd, ulong rstd_offset,
           const __global acc_t* partial, ulong partial_offset, shape_t shape, acc_t epsilon,
           __local acc_t* coefficients)
{
    const uint part = get_group_id(0), begin = part * shape.part, end = min(begin + shape.part, shape.inner);
    const uint channels = shape.channels, each = channels / shape.groups;
    const ulong sample = get_group_id(1);
    partial += partial_offset + sample * shape.parts * 2 * channels;
    for (uint g = 0; g < shape.groups; ++g) {
        const acc_t all = (acc_t)each * shape.inner;
        acc_t sum = 0, squares = 0;
        for (uint p = 0; p < shape.parts; ++p) {
            const acc_t count = min(shape.part, shape.inner - p * shape.part);
            acc_t of_part = 0;
            for (uint c = g * each; c < (g + 1) * each; ++c)
                of_part += partial[(ulong)p * 2 * channels + c];
            sum = fma(of_part, count / all, sum);
        }
        for (uint p = 0; p < shape.parts; ++p) {
            const acc_t count = min(shape.part, shape.inner - p * shape.part);
            acc_t of_part = 0;
            for (uint c = g * each; c < (g + 1) * each; ++c) {
                const acc_t apart = partial[(ulong)p * 2 * channels + c] - sum;
                of_part += fma(apart * apart, count, partial[((ulong)p * 2 + 1) * channels + c]);
            }
            squares += of_part;
        }
        const acc_t scale = 1 / sqrt(squares / all + epsilon);
        if (part == 0) {
            mean[mean_offset + sample * shape.groups + g] = sum;
            rstd[rstd_offset + sample * shape.groups + g] = scale;
        }
        for (uint c = g * each; c < (g + 1) * each; ++c) {
            coefficients[c] = sum;
            coefficients[channels + c] = weight ? scale * load(W, weight, weight_offset + c) : scale;
            coefficients[2 * channels + c] = bias ? load(W, bias, bias_offset + c) : 0;
        }
    }
    const ulong first = sample * shape.inner * channels;
    x += x_offset + first;
    y += y_offset + first;
    for (uint r = begin; r < end; ++r) {
        const ulong row = (ulong)r * channels;
        for (uint c = 0; c < channels; c += VEC) {
            const uint lanes = min(channels - c, (uint)VEC);   // of the coefficients, VEC are readable
            const vec_t v = load_part(X, x, row + c, lanes, 0) - vload16(0, coefficients + c);
            const vec_t result = fma(v, vload16(0, coefficients + channels + c),
                                     vload16(0, coefficients + 2 * channels + c));
            store_part(X, y, row + c, lanes, result);
        }
    }
}
