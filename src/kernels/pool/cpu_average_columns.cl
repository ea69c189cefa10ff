// Average pooling of row-major tensors on CPUs, forward where windows along x are few or split the input evenly, and
// backward: a work-item owns `share` planes. Windows are products of ranges along axes, so columns of all lines of a
// row of windows are added up as vectors first; backward what a row of windows shares out is written into all its
// lines. Options: those of window.cl with VEC = 16; -DMOST: elements of a row on either side.
#include "kernels/pool/window.cl"

static inline int divisor(const pool_t* p, int elements) { return p->divisor ? p->divisor : max(elements, 1); }

// Windows along x, found once for all rows.
#define EACH_WINDOW                                                                                                   \
    window_t along[MOST];                                                                                             \
    for (int i = 0; i < pool.out[2]; ++i)                                                                             \
        along[i] = window(&pool, 2, i);

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void average_pool_columns(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
                          pool_t pool, ulong planes, ulong share)
{
    const int width = pool.in[2];
    const ulong end = min((get_global_id(0) + 1) * share, planes);
    x += x_offset;
    y += y_offset;
    EACH_WINDOW
    for (ulong plane = get_global_id(0) * share; plane < end; ++plane) {
        const __global storage_t(X)* from = x + plane * volume(pool.in);
        ulong at = plane * volume(pool.out);
        for (int oz = 0; oz < pool.out[0]; ++oz)
            for (int oy = 0; oy < pool.out[1]; ++oy) {
                const window_t wz = window(&pool, 0, oz), wy = window(&pool, 1, oy);
                acc_t sums[MOST + VEC];
                for (int i = 0; i < width; i += VEC) {
                    const int first = width - i < VEC && width >= VEC ? width - VEC : i;   // the last overlap others
                    const uint lanes = min(width - first, VEC);
                    vec_t sum = 0;
                    for (int iz = wz.begin; iz < wz.end; ++iz)
                        for (int iy = wy.begin; iy < wy.end; ++iy)
                            sum += load_part(X, from, (iz * pool.in[1] + iy) * width + first, lanes, 0);
                    vstore16(sum, 0, sums + first);
                }
                for (int ox = 0; ox < pool.out[2]; ++ox, ++at) {
                    const window_t wx = along[ox];
                    acc_t sum = 0;
                    for (int i = wx.begin; i < wx.end; ++i)
                        sum += sums[i];
                    store(X, y, at, sum / (acc_t)divisor(&pool, wz.size * wy.size * wx.size));
                }
            }
    }
}

// The sums grow in grad_input.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void average_pool_backward_columns(const __global storage_t(X)* grad_output, ulong grad_output_offset,
                                   __global storage_t(X)* grad_input, ulong grad_input_offset, pool_t pool,
                                   ulong planes, ulong share)
{
    const int width = pool.in[2], size = volume(pool.in);
    const ulong end = min((get_global_id(0) + 1) * share, planes);
    grad_output += grad_output_offset;
    grad_input += grad_input_offset;
    EACH_WINDOW
    for (ulong plane = get_global_id(0) * share; plane < end; ++plane) {
        __global storage_t(X)* to = grad_input + plane * size;
        int i = 0;
        for (; i + VEC <= size; i += VEC)
            store_vector(X, to, i, (vec_t)0);
        for (; i < size; ++i)
            store(X, to, i, 0);
        ulong at = plane * volume(pool.out);
        for (int oz = 0; oz < pool.out[0]; ++oz)
            for (int oy = 0; oy < pool.out[1]; ++oy) {
                const window_t wz = window(&pool, 0, oz), wy = window(&pool, 1, oy);
                acc_t shared[MOST];
                for (i = 0; i < width; ++i)
                    shared[i] = 0;
                for (int ox = 0; ox < pool.out[2]; ++ox, ++at) {
                    const window_t wx = along[ox];
                    const acc_t g = load(X, grad_output, at) / divisor(&pool, wz.size * wy.size * wx.size);
                    for (i = wx.begin; i < wx.end; ++i)
                        shared[i] += g;
                }
                for (int iz = wz.begin; iz < wz.end; ++iz)
                    for (int iy = wy.begin; iy < wy.end; ++iy) {
                        const int line = (iz * pool.in[1] + iy) * width;
                        for (i = 0; i + VEC <= width; i += VEC)
                            store_vector(X, to, line + i, load_vector(X, to, line + i) + vload16(0, shared + i));
                        for (; i < width; ++i)
                            store(X, to, line + i, load(X, to, line + i) + shared[i]);
                    }
            }
    }
}
