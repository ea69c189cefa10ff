// Weight gradient of a depthwise convolution on a CPU device, planar layout, 3x3, 5x5 or 7x7 neighbouring taps (-DTAPS)
// and a stride of 1 or 2 (-DSTRIDE).
//
// A work-item owns the taps of `each` channels and walks all images. Planes of x are copied into a field with zeros
// around them, rows with a stride in two parts: even columns and odd ones. The sums of all taps stay in registers while
// a plane of dy passes by.
#include "kernels/conv/depthwise_field.cl"
#include "kernels/conv/depthwise_sums.cl"

#define TOGETHER (TAPS == 7 ? 4 : TAPS)     // rows of taps whose sums registers hold

// A row of x in its parts, from column `first` on.
static inline void split_row(__local real* to, int pitch, const __global stored* x, long line, long size, int first,
                             int width)
{
#if STRIDE == 1
    fill_row(to, pitch, x, line, size, first, width);
#else
    for (int i = 0; i < pitch; i += LANES) {
        const vec a = row_vector(x, line, size, first + 2 * i, width),
                  b = row_vector(x, line, size, first + 2 * i + LANES, width);
        put_vec((vec)(a.even, b.even), 0, to + i);
        put_vec((vec)(a.odd, b.odd), 0, to + pitch + i);
    }
#endif
}

static inline void split_plane(__local real* field, int rows, int pitch, const __global stored* x, long plane,
                               const depthwise_problem* p)
{
    for (int row = 0; row < rows; ++row, field += STRIDE * pitch) {
        const int y = row + (int)p->shift[0];
        if (y >= 0 && y < p->in[0])
            split_row(field, pitch, x, plane + y * p->source_strides[2], p->source_size, p->shift[1], p->in[1]);
        else
            for (int i = 0; i < STRIDE * pitch; i += LANES)
                put_vec((vec)0, 0, field + i);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_field_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                                 __global stored* dw, ulong dw_offset, __local real* field, int field_rows, int pitch,
                                 int each, depthwise_problem p)
{
    const int first = get_group_id(0) * each, last = min(first + each, (int)p.groups);
    const int height = p.out[0], width = p.out[1];
    x += x_offset;
    dy += dy_offset;
    for (int channel = first; channel < last; ++channel) {
        vec totals[TAPS * TAPS];
        for (int t = 0; t < TAPS * TAPS; ++t)
            totals[t] = 0;
        for (long n = 0; n < p.batch; ++n) {
            split_plane(field, field_rows, pitch, x, n * p.source_strides[0] + channel * p.source_strides[1], &p);
            const long plane = n * p.result_strides[0] + channel * p.result_strides[1];
            for (int up = 0; up < TAPS; up += TOGETHER) {
                vec sums[TOGETHER * TAPS];
                UNROLLED for (int t = 0; t < TOGETHER * TAPS; ++t) sums[t] = 0;
                for (int row = 0; row < height; ++row) {
                    const __local real* from = field + (row * STRIDE + up) * STRIDE * pitch;
                    for (int column = 0; column < width; column += LANES) {
                        const vec d = row_vector(dy, plane + row * p.result_strides[2], p.result_size, column, width);
                        UNROLLED for (int ty = 0; ty < TOGETHER; ++ty)
                        {
                            if (up + ty >= TAPS)
                                break;
                            UNROLLED for (int tx = 0; tx < TAPS; ++tx)
                            {
                                const __local real* at = from + (ty * STRIDE + tx % STRIDE) * pitch + tx / STRIDE;
                                sums[ty * TAPS + tx] = fma(d, get_vec(0, at + column), sums[ty * TAPS + tx]);
                            }
                        }
                    }
                }
                const int count = min(TOGETHER, TAPS - up) * TAPS;
                UNROLLED for (int t = 0; t < TOGETHER * TAPS; ++t) if (t < count) totals[up * TAPS + t] += sums[t];
            }
        }
        for (int t = 0; t < TAPS * TAPS; ++t) {
            real total = lane_sum(totals[t]);
            // An infinity that meets no dy, or no x, meets a zero, which makes it NaN.
            if (!isfinite(total))
                total = tap_total(x, dy, &p, channel, t / TAPS, t % TAPS);
            store(T, dw, dw_offset + channel * p.w_strides[0] + t / TAPS * p.w_strides[2] + t % TAPS * p.w_strides[3],
                  total);
        }
    }
}
