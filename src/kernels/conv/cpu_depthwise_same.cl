// Depthwise convolution on a CPU device, planar layout, where source and result have the same positions (stride 1 and
// `same` padding, by far the most frequent kind). A plane is one long row: the source of tap t of pixel q lies at
// q + shift(t) and counts where its row and column are inside.
//
// A work-item owns PLANES channels of one image, so that the mask of a tap is found once for PLANES vectors of pixels.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/depthwise_problem.cl"
#include "kernels/conv/depthwise_sums.cl"

#define PLANES 8
#define EACH_PLANE(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define MAX_TAPS 128

// Rows and columns of the pixels q..q + LANES. One rounding of a product below 2^21 never crosses a half.
typedef struct {
    mask_vec y, x;
} pixel_lanes;

static inline pixel_lanes find_pixels(int q, int width)
{
    int y[LANES], x[LANES];
    const float scale = 1.0f / width;
    for (int i = 0; i < LANES; ++i) {
        y[i] = (int)((q + i + 0.5f) * scale);
        x[i] = q + i - y[i] * width;
    }
    pixel_lanes pixels;
    pixels.y = get_lanes(y);
    pixels.x = get_lanes(x);
    return pixels;
}

// The pixels that follow.
static inline pixel_lanes next_pixels(pixel_lanes pixels, int width)
{
    pixels.x += LANES;
    for (int passed = 0; passed < LANES; passed += width) {
        const mask_vec over = pixels.x >= width;   // -1 where true
        pixels.x -= over & width;
        pixels.y -= over;
    }
    return pixels;
}

static inline mask_vec tap_mask(pixel_lanes pixels, const depthwise_problem* p, int dy, int dx)
{
    const mask_vec y = pixels.y + dy, x = pixels.x + dx;
    return y >= 0 && y < (int)p->in[0] && x >= 0 && x < (int)p->in[1];
}

// LANES elements where `mask` is set; `safe` if all of them are memory.
static inline vec masked(const __global stored* from, mask_vec mask, int safe)
{
    if (safe)
        return select((vec)0, load_lanes(from), mask);
    real lanes[LANES];
    for (int i = 0; i < LANES; ++i)
        lanes[i] = any(mask && lane_index == i) ? load(T, from, i) : 0;
    return get_vec(0, lanes);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_same(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                         const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                         depthwise_problem p)
{
    const int width = p.out[1], size = p.out[0] * width, taps = p.taps[0] * p.taps[1], taps_x = p.taps[1];
    const int blocks = (p.groups + PLANES - 1) / PLANES;
    const int first = get_group_id(0) % blocks * PLANES, count = min(PLANES, (int)p.groups - first);
    const long n = get_group_id(0) / blocks;
    const long plane = p.source_strides[1], begin = n * p.source_strides[0] + first * plane;
    source += source_offset + begin;
    result += result_offset + n * p.result_strides[0] + first * p.result_strides[1];
    const long last_plane = (count - 1) * plane;

    real weights[MAX_TAPS][PLANES];
    int dys[MAX_TAPS], dxs[MAX_TAPS], shifts[MAX_TAPS];
    for (int t = 0; t < taps; ++t) {
        const int ty = t / taps_x, tx = t % taps_x;
        dys[t] = ty * (int)p.step[0] + (int)p.shift[0];
        dxs[t] = tx * (int)p.step[1] + (int)p.shift[1];
        shifts[t] = dys[t] * width + dxs[t];
        const long place = (p.tap_first[0] + ty * p.tap_period[0]) * p.w_strides[2] +
                           (p.tap_first[1] + tx * p.tap_period[1]) * p.w_strides[3];
        for (int i = 0; i < PLANES; ++i)
            weights[t][i] = load(T, w, w_offset + (first + min(i, count - 1)) * p.w_strides[0] + place);
    }
    real biases[PLANES];
    for (int i = 0; i < PLANES; ++i)
        biases[i] = p.finish.has_bias ? load(T, bias, bias_offset + first + min(i, count - 1)) : 0;
#define SOURCE(i) const __global stored* s##i = source + min(i, count - 1) * plane;
    EACH_PLANE(SOURCE)

    pixel_lanes pixels = find_pixels(0, width);
    for (int done = 0; done < size; done += LANES) {
        const int q = size >= LANES ? min(done, size - LANES) : 0;   // the last vector overlaps the one before it
        if (done > 0)
            pixels = q == done ? next_pixels(pixels, width) : find_pixels(q, width);
#define START(i) vec a##i = biases[i];
        EACH_PLANE(START)
        for (int t = 0; t < taps; ++t) {
            const mask_vec mask = tap_mask(pixels, &p, dys[t], dxs[t]);
            const int at = q + shifts[t];
            if (begin + at >= 0 && begin + last_plane + at + LANES <= p.source_size) {
#define ADD(i) a##i = fma((vec)weights[t][i], select((vec)0, load_lanes(s##i + at), mask), a##i);
                EACH_PLANE(ADD)
            } else {
                // Through memory, lest it takes the registers of the others.
                real sums[PLANES * LANES];
#define PUT_SUM(i) put_vec(a##i, i, sums);
                EACH_PLANE(PUT_SUM)
                for (int i = 0; i < PLANES; ++i)
                    put_vec(fma((vec)weights[t][i], masked(source + min(i, count - 1) * plane + at, mask, 0),
                                get_vec(i, sums)),
                            i, sums);
#define GET_SUM(i) a##i = get_vec(i, sums);
                EACH_PLANE(GET_SUM)
            }
        }
#define STORE(i)                                                                                                \
    if (i < count) {                                                                                            \
        const vec v = activate_lanes(a##i, &p.finish);                                                           \
        __global stored* to = result + i * p.result_strides[1] + q;                                             \
        if (size >= LANES) {                                                                                    \
            store_lanes(to, v);                                                                                 \
        } else {                                                                                                \
            real lanes[LANES];                                                                                  \
            put_vec(v, 0, lanes);                                                                               \
            for (int j = 0; j < size; ++j)                                                                      \
                store(T, to, j, lanes[j]);                                                                      \
        }                                                                                                       \
    }
        EACH_PLANE(STORE)
    }
}

// Weight gradient: a work-item owns the taps of PLANES channels over all images.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_same_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                                __global stored* dw, ulong dw_offset, depthwise_problem p)
{
    const int width = p.out[1], size = p.out[0] * width, taps = p.taps[0] * p.taps[1], taps_x = p.taps[1];
    const int first = get_group_id(0) * PLANES, count = min(PLANES, (int)p.groups - first);
    const long plane = p.source_strides[1], dy_plane = p.result_strides[1], last_plane = (count - 1) * plane;
    vec totals[MAX_TAPS][PLANES];
    for (int t = 0; t < taps; ++t)
        for (int i = 0; i < PLANES; ++i)
            totals[t][i] = 0;
    for (long n = 0; n < p.batch; ++n) {
        const long begin = n * p.source_strides[0] + first * plane;
        const __global stored* source = x + x_offset + begin;
        const __global stored* grad = dy + dy_offset + n * p.result_strides[0] + first * dy_plane;
        EACH_PLANE(SOURCE)
#define GRAD(i) const __global stored* g##i = grad + min(i, count - 1) * dy_plane;
        EACH_PLANE(GRAD)
        for (int q = 0; q < size; q += LANES) {
            const pixel_lanes pixels = find_pixels(q, width);
            const int whole = q + LANES <= size;
#define LOAD_GRAD(i) const vec d##i = masked(g##i + q, lane_index < size - q, whole);
            EACH_PLANE(LOAD_GRAD)
            for (int t = 0; t < taps; ++t) {
                const int y = t / taps_x * (int)p.step[0] + (int)p.shift[0];
                const int x_step = t % taps_x * (int)p.step[1] + (int)p.shift[1], at = q + y * width + x_step;
                const mask_vec mask = tap_mask(pixels, &p, y, x_step) && lane_index < size - q;
                const int safe = begin + at >= 0 && begin + last_plane + at + LANES <= p.source_size;
#define ADD_TOTAL(i) totals[t][i] = fma(d##i, masked(s##i + at, mask, safe), totals[t][i]);
                EACH_PLANE(ADD_TOTAL)
            }
        }
    }
    for (int i = 0; i < count; ++i)
        for (int t = 0; t < taps; ++t)
            store(T, dw, dw_offset + (first + i) * p.w_strides[0] + t / taps_x * p.w_strides[2] +
                             t % taps_x * p.w_strides[3], lane_sum(totals[t][i]));
}
