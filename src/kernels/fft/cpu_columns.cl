// Fourier transforms of 16 lines of N elements at once on CPUs, a line in each lane of a vector: of neighbouring
// columns as they lie in memory, of rows (-DIN_ROWS, -DOUT_ROWS) by transposing 16 x 16 numbers. Stockham's
// self-sorting passes, the first of which reads columns and the last of which writes them. Work-item (i, block): lines
// 16 i .. of a block of `inner` lines. Options and roots are those of lines.cl. -DTURN: term k of line l is turned by
// exp(-2 pi i k l / all) at the end, by `turns` behind the roots of the line: for the first of 16 lines by fine steps
// and coarse ones (pairs, turns[m % fine] turns[fine + m / fine]), for lanes by vectors behind those. Inverse
// transforms exchange real and imaginary parts on the way in and out.
#include "core/dtype.cl"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(R, 16) vec;
#include "kernels/fft/butterflies.cl"
#include "kernels/fft/cpu_vectors.cl"
#include "kernels/fft/layout.cl"

// 16 vectors of 16 become their transpose.
static inline void transpose(vec* v)
{
#pragma unroll
    for (int stage = 0; stage < 4; ++stage) {
        vec w[16];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            w[2 * i] = zip_low(v[i], v[i + 8]);
            w[2 * i + 1] = zip_high(v[i], v[i + 8]);
        }
#pragma unroll
        for (int i = 0; i < 16; ++i)
            v[i] = w[i];
    }
}

#ifdef IN_ROWS
// Lines of neighbours, `stride` real numbers apart, into lanes.
static inline void take_rows(const __global R* x, ulong stride, R* kept, const int inverse)
{
#if N >= 16
    for (int at = 0; at < N; at += 16) {
        const int i = min(at, N - 16);
        vec re[16], im[16];
#pragma unroll
        for (int l = 0; l < 16; ++l) {
            const number v = load_pairs(x + l * stride + 2 * i, inverse);
            re[l] = v.re;
            im[l] = v.im;
        }
        transpose(re);
        transpose(im);
#pragma unroll
        for (int l = 0; l < 16; ++l) {
            vstore16(re[l], 0, kept + 32 * (i + l));
            vstore16(im[l], 0, kept + 32 * (i + l) + 16);
        }
    }
#else
    for (int i = 0; i < N; ++i)
        for (int l = 0; l < 16; ++l) {
            kept[32 * i + l] = x[l * stride + 2 * i + inverse];
            kept[32 * i + 16 + l] = x[l * stride + 2 * i + 1 - inverse];
        }
#endif
}
#endif

#ifdef OUT_ROWS
static inline void give_rows(const R* kept, __global R* y, ulong stride, const int inverse)
{
#if N >= 16
    for (int at = 0; at < N; at += 16) {
        const int i = min(at, N - 16);
        vec re[16], im[16];
#pragma unroll
        for (int l = 0; l < 16; ++l) {
            re[l] = vload16(0, kept + 32 * (i + l));
            im[l] = vload16(0, kept + 32 * (i + l) + 16);
        }
        transpose(re);
        transpose(im);
#pragma unroll
        for (int l = 0; l < 16; ++l)
            store_pairs((number){re[l], im[l]}, y + l * stride + 2 * i, inverse);
    }
#else
    for (int i = 0; i < N; ++i)
        for (int l = 0; l < 16; ++l) {
            y[l * stride + 2 * i + inverse] = kept[32 * i + l];
            y[l * stride + 2 * i + 1 - inverse] = kept[32 * i + 16 + l];
        }
#endif
}
#endif

#ifdef TURN
static inline number turned_by(number v, int k, uint line, const __global R* turns, uint fine)
{
    const uint m = line * k, low = m % fine, high = fine + m / fine;   // below `all`
    const R a = turns[2 * low], b = turns[2 * low + 1], c = turns[2 * high], d = turns[2 * high + 1];
    const __global R* lanes = turns + 4 * fine + 32 * k;
    const number w = {vload16(0, lanes), vload16(1, lanes)};
    return times(v, times(w, (number){(vec)(a * c - b * d), (vec)(a * d + b * c)}));
}
#endif

#ifdef IN_ROWS
#define READS_MEMORY 0
#else
#define READS_MEMORY 1
#endif
#ifdef OUT_ROWS
#define WRITES_MEMORY 0
#else
#define WRITES_MEMORY 1
#endif

// One pass: `done` is the product of the radices before.
static inline __attribute__((always_inline))
void pass(const int radix, const int done, const R* from, R* to, const __global R* x, __global R* y,
          const __global R* roots, const __global R* turns, uint line, const lines_t* p, R scale)
{
    const int items = N / radix;
    const bool last = done * radix == N;
    for (int k = 0; k < items; k += done)
        for (int q = 0; q < done; ++q) {
            const int j = k + q, place = j + k * (radix - 1);
            number v[MOST_RADIX];
#pragma unroll
            for (int r = 0; r < radix; ++r)
                if (done == 1 && READS_MEMORY)
                    v[r] = load_pairs(x + 2 * (j + r * items) * p->x.step, p->inverse);
                else
                    v[r] = (number){vload16(2 * (j + r * items), from), vload16(2 * (j + r * items) + 1, from)};
            butterfly(radix, v, roots);
            if (!last) {
#pragma unroll
                for (int t = 1; t < radix; ++t)
                    v[t] = times(v[t], (number){(vec)roots[k * t], (vec)roots[N + k * t]});
            }
#pragma unroll
            for (int t = 0; t < radix; ++t) {
                const int i = place + done * t;
                if (last) {
#ifdef TURN
                    v[t] = turned_by(v[t], i, line, turns, p->fine);
#endif
                    v[t] = scaled(scale, v[t]);
                }
                if (last && WRITES_MEMORY) {
                    store_pairs(v[t], y + 2 * i * p->y.step, p->inverse);
                } else {
                    vstore16(v[t].re, 2 * i, to);
                    vstore16(v[t].im, 2 * i + 1, to);
                }
            }
        }
}

__kernel void fft_columns(const __global R* x, ulong x_offset, __global R* y, ulong y_offset, const __global R* roots,
                          ulong roots_offset, lines_t p, R scale)
{
    const uint line = min((uint)get_global_id(0) * 16, p.inner - 16), block = get_global_id(1);
    x += 2 * (x_offset + block * p.x.outer + line * p.x.line);
    y += 2 * (y_offset + block * p.y.outer + line * p.y.line);
    roots += roots_offset;
    const __global R* turns = roots + 2 * N;
    R kept[2][32 * N];
    int current = 0;
#ifdef IN_ROWS
    take_rows(x, 2 * p.x.line, kept[0], p.inverse);
#endif
#define PASS(radix, done)                                                                                   \
    pass(radix, done, kept[current], kept[1 - current], x, y, roots, turns, line, &p, scale);               \
    current = 1 - current;
#include "kernels/fft/passes.cl"
#ifdef OUT_ROWS
    give_rows(kept[current], y, 2 * p.y.line, p.inverse);
#endif
}
