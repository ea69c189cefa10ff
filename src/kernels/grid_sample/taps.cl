// Where a coordinate of a grid takes its elements from. Needs -DACC (float or double), -DAXES=2|3, -DMODE and -DPADDING
// (names below), and of the includer acc_t, index_t and TO_INDEX: one coordinate (ACC, int) or one in each lane of a
// vector.
// Coordinates that are NaN go where PyTorch's CPU kernels take them: weights of NaN in two axes; in three axes, and
// where two axes are clipped, an element of the border, which gets no gradient in three axes.
#define bilinear 0
#define nearest 1
#define bicubic 2
#define zeros 0
#define border 1
#define reflection 2

#pragma OPENCL FP_CONTRACT OFF   // coordinates are rounded as PyTorch rounds them

#if MODE == bicubic
#define TAPS 4
#elif MODE == bilinear
#define TAPS 2
#else
#define TAPS 1
#endif

typedef struct {
    uint channels;
    int in[3], out[3];   // z, y, x; z is 1 for two axes
    int align_corners;
} sample_t;

// `taps` of one coordinate: their input index, or -1 where that is padding of zeros, their weight, and how the weight
// changes with the coordinate (in units of grid).
typedef struct {
    index_t index[TAPS];
    acc_t weight[TAPS], slope[TAPS];
} taps_t;

static inline acc_t unnormalize(acc_t v, int size, int align)
{
    return align ? (v + 1) / 2 * (ACC)(size - 1) : ((v + 1) * (ACC)size - 1) / 2;
}

// Reflects into [low, high] (given twice as large); *slope takes the sign of the reflected direction.
static inline acc_t reflect(acc_t v, int twice_low, int twice_high, acc_t* slope)
{
    if (twice_low == twice_high) {
        *slope = 0;
        return 0;
    }
    const ACC low = (ACC)twice_low / 2, span = (ACC)(twice_high - twice_low) / 2;
    const acc_t from_low = v - low, d = fabs(from_low);
    *slope = from_low < 0 ? (acc_t)-1 : (acc_t)1;
#if AXES == 2
    const acc_t extra = d - trunc(d / (2 * span)) * (2 * span), back = 2 * span - extra;
    *slope = extra > back ? -*slope : *slope;
    return fmin(extra, back) + low;
#else
    const acc_t extra = fmod(d, (acc_t)span), turns = fmod(floor(d / span), (acc_t)2);
    *slope = turns != 0 ? -*slope : *slope;
    return turns != 0 ? span - extra + low : extra + low;
#endif
}

static inline acc_t clip(acc_t v, int size, acc_t* slope, bool backward)
{
    const acc_t last = (ACC)(size - 1);
    *slope = ((v > 0) & (v < last)) ? *slope : (acc_t)0;
    const acc_t clipped = v > 0 ? fmin(v, last) : (acc_t)0;   // a NaN becomes 0
#if AXES == 3
    return isnan(v) ? (backward ? v : last) : clipped;
#else
    return clipped;
#endif
}

static inline acc_t pad_coordinate(acc_t v, int size, int align, acc_t* slope, bool backward)
{
    *slope = 1;
#if PADDING == reflection
    v = align ? reflect(v, 0, 2 * (size - 1), slope) : reflect(v, -1, 2 * size - 1, slope);
#endif
#if PADDING != zeros
    v = clip(v, size, slope, backward);
#endif
    return v;
}

// floor or rint as an index, far outside for what does not fit (infinities and NaN too).
static inline index_t to_index(acc_t v) { return TO_INDEX(((v >= (ACC)-1e9f) & (v <= (ACC)1e9f)) ? v : (acc_t)-100); }
static inline index_t inside(index_t i, int size) { return ((i >= 0) & (i < (index_t)size)) ? i : (index_t)-1; }

static inline taps_t taps_at(acc_t v, int size, int align, bool backward)
{
    taps_t t;
    const ACC unit = align ? (ACC)(size - 1) / 2 : (ACC)size / 2;   // input elements per unit of grid
    acc_t slope;
    v = unnormalize(v, size, align);
#if MODE == bicubic
    const ACC a = (ACC)-0.75;
    const acc_t whole = floor(v), d = v - whole;
    for (int k = 0; k < 4; ++k) {
        const acc_t padded = pad_coordinate(whole - 1 + k, size, align, &slope, backward);
        t.index[k] = inside(to_index(padded), size);
        const acc_t far = k == 0 ? d + 1 : k == 3 ? 2 - d : k == 1 ? d : 1 - d;
        const ACC sign = k < 2 ? unit : -unit;
        const bool outer = k == 0 || k == 3;
        t.weight[k] =
            outer ? ((a * far - 5 * a) * far + 8 * a) * far - 4 * a : ((a + 2) * far - (a + 3)) * far * far + 1;
        t.slope[k] = sign * (outer ? (3 * a * far - 10 * a) * far + 8 * a : (3 * (a + 2) * far - 2 * (a + 3)) * far);
    }
#else
    v = pad_coordinate(v, size, align, &slope, backward);
#if MODE == nearest
    t.index[0] = inside(to_index(rint(v)), size);
    t.weight[0] = 1;
    t.slope[0] = 0;
#else
    const acc_t whole = floor(v);
    const index_t base = to_index(whole);
    t.index[0] = inside(base, size);
    t.index[1] = inside(base + 1, size);
    t.weight[1] = v - whole;
    t.weight[0] = whole + 1 - v;
    t.slope[1] = slope * unit;
    t.slope[0] = -slope * unit;
#endif
#endif
    return t;
}
