// Deformable convolution for CPUs: one work-item is one thread's task, with a tile of 12 x 32 floats in registers.
// Sampling is fused with the products: a block of columns is gathered into cache, multiplied, and forgotten.
// cpu_rows.cl says how x and gy lie.
//
//     forward      task = (image, P output pixels, group)     y tile += W[tap] * columns[tap]     for tap in taps
//     data         task = (image, 32-channel chunk, part of the output pixels)
//                         columns' gradient of 12 pixels = W[tap]^T * gy,  then scattered into the task's own 32
//                         channels of gx (nobody else writes them) and dotted with x for offset and mask
//     weight       task = (tap, 32-channel chunk)             gW += gy * columns^T over all output pixels
#include "kernels/deform_conv/cpu_rows.cl"
#include "kernels/deform_conv/cpu_tasks.cl"
#include "kernels/gemm/micro_kernel.cl"

// Local memory: columns [P][depth] and sums [P][panels * 32 + 16]; without the 16 a column of sums would fall on a few
// sets of the cache, and be read anew for every output channel.
TASK void deform_conv_fused_forward(const __global float* x, ulong x_offset, const strides xs,
                                    const __global element* offset, ulong offset_offset, const strides os,
                                    const __global element* mask, ulong mask_offset, const strides ms,
                                    const __global float* packed, ulong packed_offset,
                                    const __global element* bias, ulong bias_offset, long bias_stride,
                                    __global element* y, ulong y_offset, const strides ys, const geometry g,
                                    const layout l, __local float* columns, __local float* sums)
{
    x += x_offset;
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    packed += packed_offset;
    bias += bias_offset;
    y += y_offset;
    const int pixels = g.out_height * g.out_width, tiles = (pixels + l.tile - 1) / l.tile;
    const int tile = get_group_id(0) % tiles, n = get_group_id(0) / tiles % g.batch,
              group = get_group_id(0) / tiles / g.batch;
    const int p0 = tile * l.tile, count = min(l.tile, pixels - p0), rows = (count + 11) / 12 * 12;
    const int outputs = g.out_channels / g.groups, panels = (outputs + 31) / 32, taps = g.kernel_h * g.kernel_w;
    const int depth = padded_group(g, l), ldc = panels * 32 + 16, lda = depth;
    x += n * xs.n + (long)group * depth;
    for (int i = count * depth; i < rows * depth; ++i)
        columns[i] = 0;
    for (int tap = 0; tap < taps; ++tap) {
        for (int k = 0; k < depth; k += l.padded_segment) {
            const int offset_group = offset_group_of(g, l, group * depth + k);
            for (int p = 0; p < count; ++p)
                gather_row(g, xs, x + k, read_sample(g, from, n, offset_group, tap, p0 + p),
                           l.padded_segment / 16, columns + p * depth + k);
        }
        for (int panel = 0; panel < panels; ++panel) {
            const __global float* restrict B = packed + ((long)(group * taps + tap) * panels + panel) * depth * 32;
            for (int p = 0; p < rows; p += 12) {
                __local float* C = sums + p * ldc + panel * 32;
                const __local float* restrict A = columns + p * depth;
                TILE_DECLARE
                if (tap) { TILE_LOAD(C, ldc) }
                TILE_MULTIPLY(A, lda, 1, B, depth)
                TILE_STORE(C, ldc)
            }
        }
    }
    write_outputs(sums, ldc, count, p0, n, group, bias, bias_stride, y, ys, g);
}

// gy: rows of [image][pixel][out_channels]. gx: rows, one copy per part. partial: [image - n0][chunk][tap][3][pixel]
// with the sums over the chunk for dy, dx and mask. Images n0 <= n < n0 + images.
TASK void deform_conv_fused_data(const __global float* x, ulong x_offset, const strides xs,
                                 const __global element* offset, ulong offset_offset, const strides os,
                                 const __global element* mask, ulong mask_offset, const strides ms,
                                 const __global float* packed, ulong packed_offset, const __global float* gy,
                                 ulong gy_offset, __global float* gx, ulong gx_offset, const strides gs, long part_size,
                                 int parts, __global float* partial, ulong partial_offset, int n0, const geometry g,
                                 const layout l)
{
    x += x_offset;
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    packed += packed_offset;
    gy += gy_offset;
    gx += gx_offset;
    partial += partial_offset;
    const int chunks = l.channels / 32, pixels = g.out_height * g.out_width, taps = g.kernel_h * g.kernel_w;
    const int chunk = get_group_id(0) % chunks, part = get_group_id(0) / chunks % parts;
    const int image = get_group_id(0) / chunks / parts, n = n0 + image;
    const int outputs = g.out_channels / g.groups, group = chunk * 32 / padded_group(g, l), lda = g.out_channels;
    const int offset_group = offset_group_of(g, l, chunk * 32);
    const int share = ((pixels + parts - 1) / parts + 11) / 12 * 12;
    const int first = min(part * share, pixels), last = min(first + share, pixels);
    x += n * xs.n + chunk * 32;
    gx += part * part_size + n * gs.n + chunk * 32;
    gy += (long)n * pixels * g.out_channels + group * outputs;
    partial += ((long)image * chunks + chunk) * taps * 3 * pixels;
    for (int row = 0; row < g.height; ++row)
        for (int column = 0; column < g.width; ++column) {
            vstore16((float16)0, 0, gx + row * gs.h + column * gs.w);
            vstore16((float16)0, 1, gx + row * gs.h + column * gs.w);
        }
    float block[12 * 32] __attribute__((aligned(64)));
    for (int p0 = first; p0 < last; p0 += l.tile)
        for (int tap = 0; tap < taps; ++tap) {
            const __global float* restrict B = packed + ((long)chunk * taps + tap) * outputs * 32;
            __global float* sums = partial + (long)tap * 3 * pixels;
            for (int p = p0; p < min(p0 + l.tile, last); p += 12) {
                const int rows = min(12, last - p);
                {
                    // A block that would run over the last pixel multiplies its last row again instead.
                    const __global float* restrict A = gy + (long)p * lda;
                    if (rows == 12) {
                        TILE_DECLARE
                        TILE_MULTIPLY(A, lda, 1, B, outputs)
                        TILE_STORE(block, TILE_COLUMNS)
                    } else {
                        for (int r = 0; r < rows; ++r) {
                            float16 s0 = 0, s1 = 0;
                            for (int k = 0; k < outputs; ++k) {
                                const float16 a = A[r * lda + k];
                                s0 = fma(a, vload16(0, B + k * 32), s0);
                                s1 = fma(a, vload16(1, B + k * 32), s1);
                            }
                            vstore16(s0, 2 * r, block);
                            vstore16(s1, 2 * r + 1, block);
                        }
                    }
                }
                for (int r = 0; r < rows; ++r)
                    scatter_row(g, read_sample(g, from, n, offset_group, tap, p + r), x, xs, gx, gs,
                                vload16(2 * r, block), vload16(2 * r + 1, block), sums + p + r, pixels);
            }
        }
}

// partial: [tap][chunk][o of the group, padded to 12][32 c].
TASK void deform_conv_fused_weight(const __global float* x, ulong x_offset, const strides xs,
                                   const __global element* offset, ulong offset_offset, const strides os,
                                   const __global element* mask, ulong mask_offset, const strides ms,
                                   const __global float* packed, ulong packed_offset, __global float* partial,
                                   ulong partial_offset, const geometry g, const layout l, __local float* columns)
{
    x += x_offset;
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    packed += packed_offset;
    partial += partial_offset;
    const int chunks = l.channels / 32, chunk = get_group_id(0) % chunks, tap = get_group_id(0) / chunks;
    const int pixels = g.out_height * g.out_width, outputs = g.out_channels / g.groups, panels = (outputs + 11) / 12;
    const int group = chunk * 32 / padded_group(g, l), offset_group = offset_group_of(g, l, chunk * 32);
    const long total = (long)g.batch * pixels;
    const int blocks = (total + BLOCK - 1) / BLOCK;
    x += chunk * 32;
    partial += get_group_id(0) * (long)panels * 12 * 32;
    packed += (long)group * blocks * panels * BLOCK * 12;
    for (int block = 0; block < blocks; ++block) {
        for (int k = 0; k < BLOCK; ++k) {
            const long q = (long)block * BLOCK + k;
            if (q >= total) {
                vstore16((float16)0, 2 * k, columns);
                vstore16((float16)0, 2 * k + 1, columns);
                continue;
            }
            const int n = q / pixels;
            gather_row(g, xs, x + n * xs.n, read_sample(g, from, n, offset_group, tap, q % pixels), 2,
                       columns + 32 * k);
        }
        for (int i = 0; i < panels; ++i) {
            const __global float* restrict A = packed + ((long)block * panels + i) * BLOCK * 12;
            __global float* C = partial + i * 12 * 32;
            TILE_DECLARE
            if (block) { TILE_LOAD(C, TILE_COLUMNS) }
            TILE_MULTIPLY(A, 1, TILE_ROWS, columns, BLOCK)
            TILE_STORE(C, TILE_COLUMNS)
        }
    }
}
