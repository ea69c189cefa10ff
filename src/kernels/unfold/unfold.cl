// Sliding blocks of pictures as columns, and back.
//     columns[n, (c, ky, kx), (oy, ox)] = x[n, c, oy stride - padding + ky dilation, ...]   0 outside
// im2col: work-item = one element of the columns. col2im: work-item = one element of the picture, which adds up the
// columns it appears in: no atomics. -DX: dtype.
#include "core/dtype.cl"

typedef struct { int channels, in[2], out[2], extent[2], stride[2], padding[2], dilation[2]; } unfold_t;

__kernel void im2col(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* columns,
                     ulong columns_offset, unfold_t p, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const uint blocks = p.out[0] * p.out[1], taps = p.extent[0] * p.extent[1];
    const uint block = (uint)(item % blocks), tap = (uint)(item / blocks % taps);
    const ulong plane = item / blocks / taps;
    const int y = (int)(block / p.out[1]) * p.stride[0] - p.padding[0] + (int)(tap / p.extent[1]) * p.dilation[0];
    const int left = (int)(block % p.out[1]) * p.stride[1] - p.padding[1] + (int)(tap % p.extent[1]) * p.dilation[1];
    const bool inside = y >= 0 && y < p.in[0] && left >= 0 && left < p.in[1];
    const storage_t(X) zero = 0;
    columns[columns_offset + item] = inside ? x[x_offset + (plane * p.in[0] + y) * p.in[1] + left] : zero;
}

__kernel void col2im(const __global storage_t(X)* columns, ulong columns_offset, __global storage_t(X)* x,
                     ulong x_offset, unfold_t p, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const uint pixels = p.in[0] * p.in[1], pixel = (uint)(item % pixels), blocks = p.out[0] * p.out[1];
    const ulong plane = item / pixels;
    const int y = pixel / p.in[1] + p.padding[0], left = pixel % p.in[1] + p.padding[1];
    compute_t(X) sum = 0;
    for (int ky = 0; ky < p.extent[0]; ++ky) {
        const int top = y - ky * p.dilation[0];
        if (top < 0 || top % p.stride[0] || top / p.stride[0] >= p.out[0])
            continue;
        for (int kx = 0; kx < p.extent[1]; ++kx) {
            const int start = left - kx * p.dilation[1];
            if (start < 0 || start % p.stride[1] || start / p.stride[1] >= p.out[1])
                continue;
            const ulong row = (plane * p.extent[0] + ky) * p.extent[1] + kx;
            sum += load(X, columns, columns_offset + row * blocks + top / p.stride[0] * p.out[1] + start / p.stride[1]);
        }
    }
    store(X, x, x_offset + item, sum);
}
