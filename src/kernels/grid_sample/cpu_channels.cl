// grid_sample of two axes on CPUs, many channels: planes are turned into pixels of channels, `stride` sums each, whose
// vectors are then weighed, and results turned back. Behind the pixels of an image stands one of zeros, where taps
// outside point. Options: cpu_taps.cl.
//     turn_planes     work-item = BLOCK pixels of an image; launch: (blocks, images)
//     grid_sample     work-item = `span` points of an image, by blocks; launch: (spans, images)
#include "kernels/grid_sample/cpu_taps.cl"
#undef LANES
#define LANES 16
#define ELEMENT ACC
#include "kernels/copy/cpu_tile.cl"

__kernel void turn_planes(const __global storage_t(X)* x, ulong x_offset, __global ACC* pixels, ulong pixels_offset,
                          uint channels, uint volume, uint stride)
{
    const ulong n = get_global_id(1);
    const uint first = get_global_id(0) * BLOCK, end = min(first + BLOCK, volume);
    x += x_offset + n * channels * volume;
    pixels += pixels_offset + n * (volume + 1) * stride;
    for (uint i = first; i < end; i += 16) {
        const uint lanes = min(end - i, 16u);
        for (uint c = 0; c < channels; c += 16) {
            row_t rows[16];
            #pragma unroll
            for (uint k = 0; k < 16; ++k)
                rows[k] = load_part(X, x, min(c + k, channels - 1) * (ulong)volume + i, lanes, 0);
            transpose_tile(rows);
            __global ACC* to = pixels + (ulong)i * stride + c;
            #pragma unroll
            for (uint k = 0; k < 16; ++k)
                if (k < lanes)
                    vstore16(rows[k], 0, to + k * (ulong)stride);
        }
    }
    for (uint c = 0; end == volume && c < stride; c += 16)
        vstore16((row_t)0, 0, pixels + (ulong)volume * stride + c);
}

// Pixels of the taps of BLOCK points, and their weights in each axis (of bilinear sampling weights_x[2 ky + kx] for
// both).
typedef struct {
    uint at[TAPS * TAPS][BLOCK];
    ACC weights_y[TAPS][BLOCK], weights_x[TAPS * TAPS][BLOCK];
} block_t;

static inline void find_taps(block_t* b, const __global storage_t(X)* grid, uint count, const sample_t* p)
{
    const index_t nowhere = p->in[1] * p->in[2];
    for (uint i = 0; i < count; i += 16) {
        const uint lanes = min(count - i, 16u);
        const taps_t tx = taps_at(coordinates(grid + 2 * i, 0, lanes), p->in[2], p->align_corners, false);
        const taps_t ty = taps_at(coordinates(grid + 2 * i, 1, lanes), p->in[1], p->align_corners, false);
        for (int ky = 0; ky < TAPS; ++ky) {
            for (int kx = 0; kx < TAPS; ++kx) {
                const index_t at = ty.index[ky] * (index_t)p->in[2] + tx.index[kx];
                const index_t place = (ty.index[ky] | tx.index[kx]) < 0 ? nowhere : at;
                vstore16(convert_uint16(place), 0, b->at[ky * TAPS + kx] + i);
#if MODE == bilinear
                vstore16(ty.weight[ky] * tx.weight[kx], 0, b->weights_x[2 * ky + kx] + i);
#endif
            }
#if MODE == bicubic
            vstore16(ty.weight[ky], 0, b->weights_y[ky] + i);
            vstore16(tx.weight[ky], 0, b->weights_x[ky] + i);
#endif
        }
    }
}

// 16 channels of point i.
static inline acc_t sample(const __global ACC* pixels, uint stride, const block_t* b, uint i)
{
#define TAP(k) vload16(0, pixels + (ulong)b->at[k][i] * stride)
#if MODE == nearest
    return TAP(0);
#elif MODE == bilinear
    return b->weights_x[0][i] * TAP(0) + b->weights_x[1][i] * TAP(1) + b->weights_x[2][i] * TAP(2) +
           b->weights_x[3][i] * TAP(3);
#else
    acc_t sum = 0;
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        sum += b->weights_y[k][i] * (b->weights_x[0][i] * TAP(4 * k) + b->weights_x[1][i] * TAP(4 * k + 1) +
                                     b->weights_x[2][i] * TAP(4 * k + 2) + b->weights_x[3][i] * TAP(4 * k + 3));
    return sum;
#endif
}

__kernel void grid_sample(const __global ACC* pixels, ulong pixels_offset, const __global storage_t(X)* grid,
                          ulong grid_offset, __global storage_t(X)* y, ulong y_offset, sample_t p, uint span,
                          uint stride)
{
    const uint points = p.out[1] * p.out[2], volume = p.in[1] * p.in[2];
    const uint end = min((uint)(get_global_id(0) + 1) * span, points);
    const ulong n = get_global_id(1);
    pixels += pixels_offset + n * (volume + 1) * stride;
    y += y_offset + n * p.channels * points;
    grid += grid_offset + n * points * 2;
    for (uint first = get_global_id(0) * span; first < end; first += BLOCK) {
        const uint count = min(end - first, (uint)BLOCK);
        block_t block;
        find_taps(&block, grid + 2 * (ulong)first, count, &p);
        for (uint c = 0; c < p.channels; c += 16)
            for (uint i = 0; i < count; i += 16) {
                const uint lanes = min(count - i, 16u);
                ACC sums[16 * 16];
                for (uint k = 0; k < 16; ++k)
                    vstore16(sample(pixels + c, stride, &block, i + min(k, lanes - 1)), k, sums);
                row_t tile[16];
                #pragma unroll
                for (uint k = 0; k < 16; ++k)
                    tile[k] = vload16(k, sums);
                transpose_tile(tile);
                #pragma unroll
                for (uint k = 0; k < 16; ++k)
                    if (c + k < p.channels)
                        store_part(X, y, (c + k) * (ulong)points + first + i, lanes, tile[k]);
            }
    }
}
