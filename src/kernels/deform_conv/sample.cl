// What all deformable convolution kernels share: the geometry and the position of one sample.
// Built with -DX=<dtype of the tensors>.
#include "core/dtype.cl"

typedef compute_t(X) real;
typedef storage_t(X) element;

// The same struct as Geometry in problem.hpp.
typedef struct {
    int batch, channels, height, width, out_channels, out_height, out_width;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    int groups, offset_groups, has_mask;
} geometry;

typedef struct {
    long n, c, h, w;
} strides;

// A sampling point: its upper left corner (-1 <= y < height, -1 <= x < width) and the distances from it.
typedef struct {
    int inside;        // 0: the sample is zero and so are its gradients
    int y, x;
    real ly, lx, mask;
} sample;

// Where samples come from: a convolution's offset and mask.
typedef struct {
    const __global element *offset, *mask;
    strides os, ms;
} sampling;

static inline sample read_sample(const geometry g, const sampling from, int n, int group, int tap, int pixel)
{
    const int oy = pixel / g.out_width, ox = pixel % g.out_width, ky = tap / g.kernel_w, kx = tap % g.kernel_w;
    const long channel = (long)group * g.kernel_h * g.kernel_w + tap;
    const __global element* at = from.offset + n * from.os.n + 2 * channel * from.os.c + oy * from.os.h +
                                 ox * from.os.w;
    const real y = (real)(oy * g.stride_h - g.pad_h + ky * g.dilation_h) + load(X, at, 0);
    const real x = (real)(ox * g.stride_w - g.pad_w + kx * g.dilation_w) + load(X, at, from.os.c);
    sample s;
    // False for NaN and for anything an int could not hold, so the conversions below are safe.
    s.inside = y >= (real)-1 && y < (real)g.height && x >= (real)-1 && x < (real)g.width;
    const real fy = s.inside ? floor(y) : (real)0, fx = s.inside ? floor(x) : (real)0;
    s.y = (int)fy;
    s.x = (int)fx;
    s.ly = s.inside ? y - fy : (real)0;
    s.lx = s.inside ? x - fx : (real)0;
    s.mask = g.has_mask ? load(X, from.mask, n * from.ms.n + channel * from.ms.c + oy * from.ms.h + ox * from.ms.w)
                        : (real)1;
    return s;
}

// Corner q = 2 * (lower) + (right) of a sample: is it in the image, and its weight.
static inline int corner_inside(const geometry g, const sample s, int q)
{
    const int y = s.y + (q >> 1), x = s.x + (q & 1);
    return s.inside && y >= 0 && y < g.height && x >= 0 && x < g.width;
}

static inline real corner_weight(const sample s, int q)
{
    return ((q >> 1) ? s.ly : 1 - s.ly) * ((q & 1) ? s.lx : 1 - s.lx);
}
