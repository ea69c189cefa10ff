// Sliding blocks of pictures as columns, and back.
//     columns[n, (c, ky, kx), (oy, ox)] = x[n, c, oy stride - padding + ky dilation, ...]   0 outside
// im2col: a work-item brings one (oy, ox) of all taps of one channel. col2im: a work-item owns one element of the
// picture and adds up the columns it appears in: no atomics. -DX: dtype.
#include "core/dtype.cl"
#include "kernels/unfold/shapes.cl"

// The launch is (ox, oy, image * channel): nothing is divided.
__kernel void im2col(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* columns,
                     ulong columns_offset, unfold_t p)
{
    const int ox = get_global_id(0), oy = get_global_id(1);
    if (ox >= p.out[1] || oy >= p.out[0])
        return;
    const uint plane = get_global_id(2), blocks = p.out[0] * p.out[1];
    const int top = oy * p.stride[0] - p.padding[0], start = ox * p.stride[1] - p.padding[1];
    const storage_t(X) zero = 0;
    x += x_offset + (ulong)plane * (uint)(p.in[0] * p.in[1]);
    columns += columns_offset + (ulong)plane * (uint)(p.extent[0] * p.extent[1]) * blocks +
               (uint)(oy * p.out[1] + ox);
    for (int ky = 0, y = top; ky < p.extent[0]; ++ky, y += p.dilation[0]) {
        const __global storage_t(X)* line = x + (long)y * p.in[1];
#pragma unroll 4
        for (int kx = 0; kx < p.extent[1]; ++kx, columns += blocks) {
            const int left = start + kx * p.dilation[1];
            const bool inside = (uint)y < (uint)p.in[0] && (uint)left < (uint)p.in[1];
            *columns = inside ? line[left] : zero;
        }
    }
}

#include "kernels/unfold/blocks.cl"

// The launch is (x, y, image * channel).
__kernel void col2im(const __global storage_t(X)* columns, ulong columns_offset, __global storage_t(X)* x,
                     ulong x_offset, unfold_t p)
{
    const int own = get_global_id(0), line = get_global_id(1);
    if (own >= p.in[1] || line >= p.in[0])
        return;
    const uint plane = get_global_id(2), blocks = p.out[0] * p.out[1];
    columns += columns_offset + (ulong)plane * (uint)(p.extent[0] * p.extent[1]) * blocks;
    compute_t(X) sum = 0;
    for (int ky = 0; ky < p.extent[0]; ++ky) {
        const int by = block_at(line + p.padding[0] - ky * p.dilation[0], p.stride[0], p.out[0]);
        if (by < 0)
            continue;
        for (int kx = 0; kx < p.extent[1]; ++kx) {
            const int bx = block_at(own + p.padding[1] - kx * p.dilation[1], p.stride[1], p.out[1]);
            if (bx >= 0)
                sum += load(X, columns, (ulong)(ky * p.extent[1] + kx) * blocks + (uint)(by * p.out[1] + bx));
        }
    }
    store(X, x, x_offset + ((ulong)plane * p.in[0] + line) * p.in[1] + own, sum);
}
