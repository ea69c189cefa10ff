// Padding with a tensor's own elements, and its gradient. A tensor is [outer, z, y, x, inner] without gaps: inner
// counts the channels of channels_last, and is 1 for row-major tensors. Work-item = one element of the result. -DX:
// dtype; -DREFLECT: mirrored, else the outermost elements are repeated; -DCHANNELS_LAST; -DINDEX=int|long: holds every
// size and the number of elements; -DPLANES: z is more than 1 on either side; -DEACH=n (GPUs): work-items that pad have
// n elements of a row, which lie apart, since finding the row takes as long as moving them.
#include "core/dtype.cl"
#ifndef EACH
#define EACH 1
#endif
#include "kernels/pad/places.cl"

// The launch is (x, row), of channels_last (lane of inner, x, row): only rows are divided.
#ifdef CHANNELS_LAST
#define FIND_PLACE const INDEX lane = get_global_id(0), at = get_global_id(1), row = get_global_id(2), inner = p.inner;
#else
#define FIND_PLACE const INDEX lane = 0, at = get_global_id(0), row = get_global_id(1), inner = 1;
#endif

__kernel void pad(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset, pad_t p,
                  ulong rows)
{
    FIND_PLACE
    const INDEX width = SIZE(out, 2), apart = (width + EACH - 1) / EACH;
    if (lane >= inner || at >= apart || row >= (INDEX)rows)
        return;
    SPLIT_ROW(SIZE(out, 1), SIZE(out, 0))
#ifdef PLANES
    const INDEX from_plane = outer * SIZE(in, 0) + SOURCE(0, at_z);
#else
    const INDEX from_plane = plane;
#endif
    const INDEX from = from_plane * SIZE(in, 1) + SOURCE(1, at_y);
    y += y_offset;
    x += x_offset;
    y += row * width * inner + lane;
    x += from * SIZE(in, 2) * inner + lane;
#pragma unroll
    for (INDEX e = 0, o = at; e < EACH; ++e, o += apart)
        if (e == 0 || o < width)
            y[o * inner] = x[SOURCE(2, o) * inner];
}

#include "kernels/pad/copies.cl"

__kernel void pad_backward(const __global storage_t(X)* dy, ulong dy_offset, __global storage_t(X)* dx, ulong dx_offset,
                           pad_t p, ulong rows)
{
    FIND_PLACE
    if (lane >= inner || at >= SIZE(in, 2) || row >= (INDEX)rows)
        return;
    SPLIT_ROW(SIZE(in, 1), SIZE(in, 0))
    dy += dy_offset;
    compute_t(X) sum = 0;
#ifdef PLANES
#pragma unroll 1
    EACH_COPY(z, 0, at_z) {
        const INDEX z = COPY_AT(z, 0, at_z), of_plane = outer * SIZE(out, 0) + z;
        if (z < 0)
            continue;
#else
    {
        const INDEX of_plane = plane;
#endif
#pragma unroll 1
        EACH_COPY(y, 1, at_y) {
            const INDEX y = COPY_AT(y, 1, at_y);
            if (y < 0)
                continue;
            const INDEX line = (of_plane * SIZE(out, 1) + y) * SIZE(out, 2);
#pragma unroll 1
            EACH_COPY(x, 2, at) {
                const INDEX x = COPY_AT(x, 2, at);
                if (x >= 0)
                    sum += load(X, dy, (line + x) * inner + lane);
            }
        }
    }
    store(X, dx + dx_offset, (row * SIZE(in, 2) + at) * inner + lane, sum);
}
