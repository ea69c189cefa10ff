// What all kernels of resampling know of a problem: sizes, and the tables of tables.hpp. -DX: dtype; -DACC: type of
// weights and sums; -DDIMS: 3, 2 or 1: how many of z, y and x there are, the others have size 1 on both sides; -DTAPS:
// the taps of every place and axis, 0 where they differ; -DUNWEIGHTED: all weights are 1.
#include "core/dtype.cl"

// Of axes z, y and x: elements of the tensor that is read and of the one that is written, rows of weights.
typedef struct {
    int in[3], out[3], taps[3];
    uint channels, planes;   // planes: of all images
} resample_t;

// A place of an axis: element first + k, moved into the axis, counts weights[at + k * step] for k < count.
typedef struct {
    int first, count, most;
    uint at, step;
} place_t;

#define AXIS_USED(axis) ((axis) + DIMS >= 3)
// How often loops run: known to the compiler where it can be, so that all is loaded before the first is waited for.
#define TAPS_OF(place, axis) (!AXIS_USED(axis) ? 1 : TAPS ? TAPS : (place).count)
#define UNROLL_TAPS (TAPS ? TAPS : 1)

// Tables lie one after the other: first and count of every place of an axis, then those of the next; weights alike.
static inline uint places_of(const resample_t* p, int axis)
{
    return 2 * ((axis > 0 ? p->out[0] : 0) + (axis > 1 ? p->out[1] : 0));
}

static inline uint weights_of(const resample_t* p, int axis)
{
    return (axis > 0 ? p->out[0] * p->taps[0] : 0) + (axis > 1 ? p->out[1] * p->taps[1] : 0);
}

static inline place_t place_at(const resample_t* p, const __global int* places, int axis, int o)
{
    place_t t = {0, 1, 0, 0, 1};
    if (AXIS_USED(axis)) {
        const uint at = places_of(p, axis) + o;
        t.first = places[at];
        t.count = TAPS ? TAPS : places[at + p->out[axis]];
        t.most = p->in[axis] - 1;
        t.step = p->out[axis];
        t.at = weights_of(p, axis) + o;
    }
    return t;
}

static inline int element_of(place_t t, int k) { return clamp(t.first + k, 0, t.most); }

// `weights` is the kernel's argument.
#ifdef UNWEIGHTED
#define WEIGHT(t, k) 1
#else
#define WEIGHT(t, k) weights[(t).at + (k) * (t).step]
#endif
#define WEIGHT_OF(t, axis, k) (AXIS_USED(axis) ? WEIGHT(t, k) : 1)

#ifdef BYTES
#define to_element(v) clamp(rint(v), (ACC)0, (ACC)255)
#else
#define to_element(v) (v)
#endif
