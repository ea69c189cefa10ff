// What tasks on a CPU do around their products: columns from samples, and the way back.
#include "kernels/conv/transpose.cl"

// Adds the weighted corner rows of a sample, `vectors` x 16 channels, into `column`.
static inline void gather_row(const geometry g, const strides xs, const __global float* x, const sample s, int vectors,
                              __local float* column)
{
    if (s.inside && s.y >= 0 && s.x >= 0 && s.y + 1 < g.height && s.x + 1 < g.width) {
        const __global float* a = x + s.y * xs.h + s.x * xs.w;
        const __global float *b = a + xs.w, *c = a + xs.h, *d = b + xs.h;
        const float16 wa = corner_weight(s, 0) * s.mask, wb = corner_weight(s, 1) * s.mask,
                      wc = corner_weight(s, 2) * s.mask, wd = corner_weight(s, 3) * s.mask;
        #pragma unroll 4
        for (int k = 0; k < vectors; ++k) {
            float16 v = wa * vload16(k, a);
            v = fma(wb, vload16(k, b), v);
            v = fma(wc, vload16(k, c), v);
            v = fma(wd, vload16(k, d), v);
            vstore16(v, k, column);
        }
        return;
    }
    for (int k = 0; k < vectors; ++k)
        vstore16((float16)0, k, column);
    for (int q = 0; q < 4; ++q) {
        if (!corner_inside(g, s, q))
            continue;
        const __global float* a = x + (s.y + (q >> 1)) * xs.h + (s.x + (q & 1)) * xs.w;
        const float16 weight = corner_weight(s, q) * s.mask;
        for (int k = 0; k < vectors; ++k)
            vstore16(fma(weight, vload16(k, a), vload16(k, column)), k, column);
    }
}

// Sums of `count` pixels from p0, sums[p * ldc + o], with their bias to y. Planes of floats take blocks that are
// transposed in registers.
#define PLANES_float32 1
#define DEFINE_WRITE_OUTPUTS(name, SPACE)                                                                   \
    static inline void name(const SPACE float* sums, int ldc, int count, int p0, int n, int group,          \
                            const __global element* bias, long bias_stride, __global element* y,            \
                            const strides ys, const geometry g)                                             \
    {                                                                                                       \
        const int outputs = g.out_channels / g.groups;                                                      \
        const int dense = ys.h == g.out_width * ys.w, last = ys.c == 1;                                     \
        y += n * ys.n;                                                                                      \
        for (int o = 0; o < outputs; o += 16)                                                               \
            for (int p = 0; p < count; p += 16) {                                                           \
                const int high = min(16, outputs - o), wide = min(16, count - p);                           \
                const SPACE float* from = sums + p * ldc + o;                                               \
                __global element* to = y + (long)(group * outputs + o) * ys.c;                              \
                WRITE_PLANES                                                                                \
                for (int e = 0; e < high * wide; ++e) {                                                     \
                    const int i = last ? e % high : e / wide, j = last ? e / high : e % wide;               \
                    const int pixel = p0 + p + j;                                                           \
                    const long at = dense ? pixel * ys.w                                                    \
                                          : (pixel / g.out_width) * ys.h + (pixel % g.out_width) * ys.w;    \
                    const float b = bias_stride >= 0 ? load(X, bias, (group * outputs + o + i) * bias_stride) : 0.f; \
                    store(X, to, i * ys.c + at, from[j * ldc + i] + b);                                     \
                }                                                                                           \
            }                                                                                               \
    }
#if CLPRIM_CAT(PLANES_, X)
#define GET_SUMS(name, i) const float16 r##name = vload16(0, from + i * ldc);
#define PUT_PLANE(name, i)                                                                                  \
    vstore16(u##name + (bias_stride >= 0 ? load(X, bias, (group * outputs + o + i) * bias_stride) : 0.f), 0, \
             to + i * ys.c + p0 + p);
#define WRITE_PLANES                                                                                        \
    if (high == 16 && wide == 16 && dense && ys.w == 1) {                                                   \
        TRANSPOSE_16(GET_SUMS, PUT_PLANE)                                                                   \
        continue;                                                                                           \
    }
#else
#define WRITE_PLANES
#endif
DEFINE_WRITE_OUTPUTS(write_outputs, __local)
DEFINE_WRITE_OUTPUTS(write_global_outputs, __global)

static inline float sum16(float16 v)
{
    const float8 a = v.lo + v.hi;
    const float4 b = a.lo + a.hi;
    const float2 c = b.lo + b.hi;
    return c.x + c.y;
}

// The gradient (g0, g1) of a column of 32 channels to the corners of its sample in gx, and its sums for dy, dx and the
// mask to sums[0], sums[pixels] and sums[2 * pixels].
static inline void scatter_row(const geometry g, const sample s, const __global float* x, const strides xs,
                               __global float* gx, const strides gs, const float16 g0, const float16 g1,
                               __global float* sums, int pixels)
{
    float16 sy = 0, sx = 0, sm = 0;
    #pragma unroll
    for (int q = 0; q < 4; ++q) {
        if (!corner_inside(g, s, q))
            continue;
        const int cy = s.y + (q >> 1), cx = s.x + (q & 1);
        const __global float* value = x + cy * xs.h + cx * xs.w;
        __global float* target = gx + cy * gs.h + cx * gs.w;
        const float weight = corner_weight(s, q);
        const float16 w = weight * s.mask;
        vstore16(fma(w, g0, vload16(0, target)), 0, target);
        vstore16(fma(w, g1, vload16(1, target)), 1, target);
        const float16 d = fma(g1, vload16(1, value), g0 * vload16(0, value));
        sy = fma((float16)(((q & 1) ? s.lx : 1 - s.lx) * ((q >> 1) ? 1.f : -1.f)), d, sy);
        sx = fma((float16)(((q >> 1) ? s.ly : 1 - s.ly) * ((q & 1) ? 1.f : -1.f)), d, sx);
        sm = fma((float16)weight, d, sm);
    }
    sums[0] = sum16(sy) * s.mask;
    sums[pixels] = sum16(sx) * s.mask;
    sums[2 * pixels] = sum16(sm);
}
