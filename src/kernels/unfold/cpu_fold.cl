// Sums of sliding blocks on CPUs, as col2im of unfold.cl: a work-item owns CHUNK elements at most of each of `each` rows of
// a picture, and adds runs of columns to them. Launch: (chunks of a row, blocks of rows, image * channel).
// -DX: dtype; -DDENSE: all strides are 1.
#include "core/dtype.cl"
#include "kernels/unfold/blocks.cl"

#define CHUNK 256

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void col2im(const __global storage_t(X)* columns, ulong columns_offset, __global storage_t(X)* x,
                     ulong x_offset, unfold_t p, int each)
{
    const int first = get_global_id(0) * CHUNK, count = min(p.in[1] - first, CHUNK);
    const int begin = get_global_id(1) * each, end = min(begin + each, p.in[0]);
    const uint plane = get_global_id(2), blocks = p.out[0] * p.out[1];
#ifdef DENSE
    const int stride = 1;
#else
    const int stride = p.stride[1];
#endif
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
                // Block b shows element b stride + shift of this chunk.
                const int shift = kx * p.dilation[1] - p.padding[1] - first;
                const int from = shift < 0 ? (stride - 1 - shift) / stride : 0;
                const int to = shift < count ? min((count - 1 - shift) / stride + 1, p.out[1]) : 0;
                const __global storage_t(X)* run =
                    columns + (ulong)(ky * p.extent[1] + kx) * blocks + (uint)(by * p.out[1]);
                for (int b = from; b < to; ++b)
                    sums[b * stride + shift] += load(X, run, b);
            }
        }
        for (int i = 0; i < count; ++i)
            store(X, x + (ulong)line * p.in[1], i, sums[i]);
    }
}
