// Convolution, slow and obvious: one work-item owns one element of the result and walks everything that adds to it.
// Built with -DT=<dtype>; -DCLPRIM_COMPLEX for complex dtypes.
#include "core/dtype.cl"
#include "kernels/conv/epilogue.cl"
#include "kernels/conv/problem.cl"

#ifdef CLPRIM_COMPLEX
#define MULTIPLY_ADD(a, b, sum) ((sum) + (compute_t(T))((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x))
#else
#define MULTIPLY_ADD(a, b, sum) ((sum) + (a) * (b))
#endif
#ifdef CLPRIM_ACTIVATIONS   // floating point only
DEFINE_ACTIVATE(activate, compute_t(T))
#else
#define activate(v, e) (v)
#endif

// Splits i = ((a * sizes[0] + b) * sizes[1] + c) * sizes[2] + d; returns a.
static inline long split(long i, const long* sizes, long* position)
{
    for (int axis = 2; axis >= 0; --axis) {
        position[axis] = i % sizes[axis];
        i /= sizes[axis];
    }
    return i;
}

// Where a spatial position lies within its plane.
static inline long spatial(const long* position, const long* strides)
{
    return position[0] * strides[2] + position[1] * strides[3] + position[2] * strides[4];
}

// Moves `from` to the element of x that a tap meets at a position of y; false outside the borders.
static inline int find_source(const conv_problem* p, const long* at, const long* tap, long* from)
{
    long source[3];
    int inside = 1;
    for (int axis = 0; axis < 3; ++axis) {
        source[axis] = at[axis] * p->stride[axis] - p->pad[axis] + tap[axis] * p->dilation[axis];
        inside &= source[axis] >= 0 && source[axis] < p->in[axis];
    }
    *from += spatial(source, p->x_strides);
    return inside;
}

__kernel void conv_forward(const __global storage_t(T)* x, ulong x_offset, const __global storage_t(T)* w,
                           ulong w_offset, const __global storage_t(T)* bias, ulong bias_offset, epilogue finish,
                           __global storage_t(T)* y, ulong y_offset, conv_problem p)
{
    long at[3], tap[3];
    const long nc = split(get_global_id(0), p.out, at);
    const long channels = p.groups * p.out_channels, n = nc / channels, o = nc % channels;
    if (n >= p.batch)
        return;
    const long taps = p.kernel_size[0] * p.kernel_size[1] * p.kernel_size[2];
    compute_t(T) sum = 0;
    for (long i = 0; i < p.in_channels * taps; ++i) {
        const long c = split(i, p.kernel_size, tap);
        long from = x_offset + n * p.x_strides[0] + (o / p.out_channels * p.in_channels + c) * p.x_strides[1];
        long weight = w_offset + o * p.w_strides[0] + c * p.w_strides[1];
        weight += spatial(tap, p.w_strides);
        if (find_source(&p, at, tap, &from))
            sum = MULTIPLY_ADD(load(T, x, from), load(T, w, weight), sum);
    }
    if (finish.has_bias)
        sum += load(T, bias, bias_offset + o);
    y += y_offset + n * p.y_strides[0] + o * p.y_strides[1] + spatial(at, p.y_strides);
    if (finish.accumulate)
        sum += load(T, y, 0);
    store(T, y, 0, activate(sum, &finish));
}

__kernel void conv_backward_data(const __global storage_t(T)* y, ulong y_offset, const __global storage_t(T)* w,
                                 ulong w_offset, const __global storage_t(T)* bias, ulong bias_offset, epilogue finish,
                                 __global storage_t(T)* x, ulong x_offset, conv_problem p)
{
    long at[3], tap[3];
    const long nc = split(get_global_id(0), p.in, at);
    const long channels = p.groups * p.in_channels, n = nc / channels, c = nc % channels;
    if (n >= p.batch)
        return;
    const long taps = p.kernel_size[0] * p.kernel_size[1] * p.kernel_size[2];
    compute_t(T) sum = 0;
    for (long i = 0; i < p.out_channels * taps; ++i) {
        const long o = c / p.in_channels * p.out_channels + split(i, p.kernel_size, tap);
        long from = y_offset + n * p.y_strides[0] + o * p.y_strides[1];
        long weight = w_offset + o * p.w_strides[0] + c % p.in_channels * p.w_strides[1];
        int inside = 1;
        for (int axis = 0; axis < 3; ++axis) {
            const long scaled = at[axis] + p.pad[axis] - tap[axis] * p.dilation[axis];
            const long q = scaled / p.stride[axis];
            inside &= scaled >= 0 && q < p.out[axis] && q * p.stride[axis] == scaled;
            from += q * p.y_strides[2 + axis];
        }
        weight += spatial(tap, p.w_strides);
        if (inside)
            sum = MULTIPLY_ADD(load(T, y, from), load(T, w, weight), sum);
    }
    if (finish.has_bias)
        sum += load(T, bias, bias_offset + c);
    x += x_offset + n * p.x_strides[0] + c * p.x_strides[1] + spatial(at, p.x_strides);
    if (finish.accumulate)
        sum += load(T, x, 0);
    store(T, x, 0, activate(sum, &finish));
}

__kernel void conv_backward_weight(const __global storage_t(T)* x, ulong x_offset, const __global storage_t(T)* y,
                                   ulong y_offset, __global storage_t(T)* w, ulong w_offset, conv_problem p)
{
    long tap[3], at[3];
    const long oc = split(get_global_id(0), p.kernel_size, tap);
    const long o = oc / p.in_channels, c = oc % p.in_channels;
    if (o >= p.groups * p.out_channels)
        return;
    const long pixels = p.out[0] * p.out[1] * p.out[2];
    compute_t(T) sum = 0;
    for (long i = 0; i < p.batch * pixels; ++i) {
        const long n = split(i, p.out, at);
        long from = x_offset + n * p.x_strides[0] + (o / p.out_channels * p.in_channels + c) * p.x_strides[1];
        long grad = y_offset + n * p.y_strides[0] + o * p.y_strides[1];
        grad += spatial(at, p.y_strides);
        if (find_source(&p, at, tap, &from))
            sum = MULTIPLY_ADD(load(T, x, from), load(T, y, grad), sum);
    }
    store(T, w, w_offset + o * p.w_strides[0] + c * p.w_strides[1] + spatial(tap, p.w_strides), sum);
}

// Sum of y over everything but its channels: one work-item per channel and part, then one per channel adds the parts.
__kernel void conv_bias_parts(const __global storage_t(T)* y, ulong y_offset, __global compute_t(T)* parts,
                              ulong parts_offset, long channels, long part_count, conv_problem p)
{
    const long o = get_global_id(0) % channels, part = get_global_id(0) / channels;
    if (part >= part_count)
        return;
    const long rows = p.batch * p.out[0] * p.out[1];
    const long begin = rows * part / part_count, end = rows * (part + 1) / part_count;
    compute_t(T) sum = 0;
    for (long i = begin; i < end; ++i) {
        const long n = i / (p.out[0] * p.out[1]), d = i / p.out[1] % p.out[0], h = i % p.out[1];
        const __global storage_t(T)* row = y + y_offset + n * p.y_strides[0] + o * p.y_strides[1] + d * p.y_strides[2] +
                                           h * p.y_strides[3];
        compute_t(T) row_sum = 0;
        for (long k = 0; k < p.out[2]; ++k)
            row_sum += load(T, row, k * p.y_strides[4]);
        sum += row_sum;
    }
    parts[parts_offset + part * channels + o] = sum;
}

__kernel void conv_bias_sum(const __global compute_t(T)* parts, ulong parts_offset, __global storage_t(T)* bias,
                            ulong bias_offset, ulong bias_stride, long channels, long part_count)
{
    const long o = get_global_id(0);
    if (o >= channels)
        return;
    compute_t(T) sum = 0;
    for (long i = 0; i < part_count; ++i)
        sum += parts[parts_offset + i * channels + o];
    store(T, bias, bias_offset + o * bias_stride, sum);
}
