// Sliding blocks on CPUs, as in unfold.cl. col2im: a work-item owns CHUNK elements at most of each of `each` rows of
// a picture, and adds runs of columns to them. Launch: (chunks of a row, blocks of rows, image * channel).
// im2col: a work-item brings all blocks of one tap, run by run. Launch: (taps, image * channel).
// -DX: dtype; -DDENSE: all strides are 1.
#include "core/dtype.cl"
#include "kernels/unfold/shapes.cl"
#include "kernels/unfold/blocks.cl"

#define CHUNK 256

#ifdef DENSE
#define STRIDE 1
#else
#define STRIDE p.stride[1]
#endif
// Blocks from FIRST_INSIDE to before END_INSIDE show elements of a row of `size`: block b number b STRIDE + shift.
#define FIRST_INSIDE(shift) ((shift) < 0 ? (STRIDE - 1 - (shift)) / STRIDE : 0)
#define END_INSIDE(shift, size) ((shift) < (size) ? min(((size) - 1 - (shift)) / STRIDE + 1, p.out[1]) : 0)

static inline void copy_run(__global storage_t(X)* restrict to, const __global storage_t(X)* restrict from, int stride,
                            int count)
{
    for (int b = 0; b < count; ++b)
        to[b] = from[b * stride];
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void im2col(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* columns,
                     ulong columns_offset, unfold_t p)
{
    const int tap = get_global_id(0), ky = tap / p.extent[1], kx = tap - ky * p.extent[1], width = p.out[1];
    const uint plane = get_global_id(1);
    const storage_t(X) zero = 0;
    const int shift = kx * p.dilation[1] - p.padding[1];
    const int from = min(FIRST_INSIDE(shift), width), to = max(END_INSIDE(shift, p.in[1]), from);
    x += x_offset + (ulong)plane * (uint)(p.in[0] * p.in[1]);
    columns += columns_offset + ((ulong)plane * get_global_size(0) + tap) * (uint)(p.out[0] * width);
    for (int oy = 0; oy < p.out[0]; ++oy, columns += width) {
        const int y = oy * p.stride[0] - p.padding[0] + ky * p.dilation[0];
        const bool inside = (uint)y < (uint)p.in[0];
        const int left = inside ? from : width, right = inside ? to : width;
        for (int b = 0; b < left; ++b)
            columns[b] = zero;
        if (left < right)
            copy_run(columns + left, x + (long)y * p.in[1] + (left * STRIDE + shift), STRIDE, right - left);
        for (int b = right; b < width; ++b)
            columns[b] = zero;
    }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void col2im(const __global storage_t(X)* columns, ulong columns_offset, __global storage_t(X)* x,
                     ulong x_offset, unfold_t p, int each)
{
    const int first = get_global_id(0) * CHUNK, count = min(p.in[1] - first, CHUNK);
    const int begin = get_global_id(1) * each, end = min(begin + each, p.in[0]);
    const uint plane = get_global_id(2), blocks = p.out[0] * p.out[1];
    columns += columns_offset + (ulong)plane * (uint)(p.extent[0] * p.extent[1]) * blocks;
    x += x_offset + (ulong)plane * p.in[0] * p.in[1] + first;
    for (int line = begin; line < end; ++line) {
        compute_t(X) sums[CHUNK];
        for (int i = 0; i < CHUNK; ++i)
            sums[i] = 0;
        for (int ky = 0; ky < p.extent[0]; ++ky) {
            const int by = block_at(line + p.padding[0] - ky * p.dilation[0], p.stride[0], p.out[0]);
            if (by < 0)
                continue;
            for (int kx = 0; kx < p.extent[1]; ++kx) {
                const int shift = kx * p.dilation[1] - p.padding[1] - first;
                const int from = FIRST_INSIDE(shift), to = END_INSIDE(shift, count);
                const __global storage_t(X)* run =
                    columns + (ulong)(ky * p.extent[1] + kx) * blocks + (uint)(by * p.out[1]);
                for (int b = from; b < to; ++b)
                    sums[b * STRIDE + shift] += load(X, run, b);
            }
        }
        for (int i = 0; i < count; ++i)
            store(X, x + (ulong)line * p.in[1], i, sums[i]);
    }
}
