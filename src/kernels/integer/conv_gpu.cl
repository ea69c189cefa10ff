// Convolutions of eight-bit integers where no kernel of their own fits (clprim/integer_conv.hpp).
//
// -DX=int8|uint8 -DW=int8|uint8 -DY=int32|float32|int8|uint8
#include "kernels/integer/conv_epilogue.cl"

// Patches of one group: [pixel][tap][channel], x_zero outside of x. A work-item writes one number.
__kernel void patches(const __global storage_t(X)* x, ulong x_offset, const __global storage_t(X)* x_zero,
                      ulong x_zero_offset, __global storage_t(X)* to, ulong to_offset, integer_conv_problem p)
{
    const long taps = p.window[0] * p.window[1] * p.window[2], depth = taps * p.channels;
    const long i = get_global_id(0), pixel = i / depth, tap = i % depth / p.channels, c = i % p.channels;
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    if (pixel >= pixels)
        return;
    const long kx = tap % p.window[2], ky = tap / p.window[2] % p.window[1], kz = tap / p.window[2] / p.window[1];
    const long row = pixel / p.out[2], plane = row / p.out[1];
    const long ix = pixel % p.out[2] * p.stride[2] - p.pad[2] + kx * p.dilation[2];
    const long iy = row % p.out[1] * p.stride[1] - p.pad[1] + ky * p.dilation[1];
    const long iz = plane % p.out[0] * p.stride[0] - p.pad[0] + kz * p.dilation[0];
    const int inside = iz >= 0 && iz < p.in[0] && iy >= 0 && iy < p.in[1] && ix >= 0 && ix < p.in[2];
    to[to_offset + i] = inside ? x[x_offset + plane / p.out[0] * p.x_strides[0] + c * p.x_strides[1] +
                                   iz * p.x_strides[2] + iy * p.x_strides[3] + ix * p.x_strides[4]]
                               : AT(x_zero + x_zero_offset, p.x_zero, 0);
}

// Results from sums [pixel][output]. A work-item writes one of them.
__kernel void end_sums(const __global int* sums, ulong sums_offset, ENDING_ARGUMENTS, __global storage_t(Y)* y,
                       ulong y_offset, integer_conv_problem p)
{
    const conv_ending ending = ENDING(p);
    const long i = get_global_id(0), pixel = i / p.outputs, o = i % p.outputs;
    if (pixel >= p.batch * p.out[0] * p.out[1] * p.out[2])
        return;
    const long row = pixel / p.out[2], plane = row / p.out[1];
    y[y_offset + plane / p.out[0] * p.y_strides[0] + o * p.y_strides[1] + plane % p.out[0] * p.y_strides[2] +
      row % p.out[1] * p.y_strides[3] + pixel % p.out[2] * p.y_strides[4]] =
        (storage_t(Y))ended(&ending, sums[sums_offset + i], o);
}

// A work-item computes one result as the definition says.
__kernel void direct(const __global storage_t(X)* x, ulong x_offset, const __global storage_t(X)* x_zero,
                     ulong x_zero_offset, const __global storage_t(W)* w, ulong w_offset,
                     const __global storage_t(W)* w_zero, ulong w_zero_offset, ENDING_ARGUMENTS,
                     __global storage_t(Y)* y, ulong y_offset, integer_conv_problem p)
{
    const conv_ending ending = ENDING(p);
    const long all = p.groups * p.outputs, i = get_global_id(0), o = i % all, pixel = i / all;
    if (pixel >= p.batch * p.out[0] * p.out[1] * p.out[2])
        return;
    const long row = pixel / p.out[2], plane = row / p.out[1], image = plane / p.out[0];
    const long oz = plane % p.out[0], oy = row % p.out[1], ox = pixel % p.out[2];
    x += x_offset + image * p.x_strides[0] + o / p.outputs * p.channels * p.x_strides[1];
    w += w_offset + o * p.w_strides[0];
    const int zero = (int)AT(x_zero + x_zero_offset, p.x_zero, 0);
    const int of_weights = (int)AT(w_zero + w_zero_offset, p.w_zero, o);
    int sum = 0;
    for (long kz = 0; kz < p.window[0]; ++kz) {
        const long iz = oz * p.stride[0] - p.pad[0] + kz * p.dilation[0];
        for (long ky = 0; ky < p.window[1]; ++ky) {
            const long iy = oy * p.stride[1] - p.pad[1] + ky * p.dilation[1];
            for (long kx = 0; kx < p.window[2]; ++kx) {
                const long ix = ox * p.stride[2] - p.pad[2] + kx * p.dilation[2];
                if (iz < 0 || iz >= p.in[0] || iy < 0 || iy >= p.in[1] || ix < 0 || ix >= p.in[2])
                    continue;
                const __global storage_t(X)* from = x + iz * p.x_strides[2] + iy * p.x_strides[3] + ix * p.x_strides[4];
                const __global storage_t(W)* tap = w + kz * p.w_strides[2] + ky * p.w_strides[3] + kx * p.w_strides[4];
                for (long c = 0; c < p.channels; ++c)
                    sum += ((int)from[c * p.x_strides[1]] - zero) * ((int)tap[c * p.w_strides[1]] - of_weights);
            }
        }
    }
    y[y_offset + image * p.y_strides[0] + o * p.y_strides[1] + oz * p.y_strides[2] + oy * p.y_strides[3] +
      ox * p.y_strides[4]] = (storage_t(Y))ended(&ending, sum, o);
}
