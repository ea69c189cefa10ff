// What the forward and data pass and the weight gradient of convolutions with few channels share: places and masks.
// Options: -DT=<dtype>, -DOFFSET=uint|long: holds every place in bytes, counted from the beginning of its buffer on
// (uint: some GPUs add it to an address at once), -DCHANNELS_LAST=0|1, -DQUADS=0|1: channels_last, each a group of its
// own, four of them at once, which lie at multiples of four elements, and
//   -DTAPS=n     taps of a row that are multiplied at once
//   -DMORE=0|1   rows have others, too
//   -DSCALE=1|2  neighbouring pixels of the result are as many of the source apart and neighbouring taps one, so that a
//                value serves several products; 0: anything else
//   -DTAPS_Y=n   rows of the kernel that are multiplied at once, all of them, and SCALE tells of columns, too; 0: one
//   -DLINES=n    rows of the result that a work-item computes, one without TAPS_Y
//   -DFLIP=0|1   the last tap reads the leftmost pixel
#include "core/dtype.cl"
#include "core/quad.cl"
#include "kernels/conv/gpu_problem.cl"
#include "kernels/conv/gpu_direct_problem.cl"

typedef compute_t(T) real;
typedef storage_t(T) stored;
typedef quad_t(T) real4;

#if QUADS
#define CHANNELS 4
typedef real4 lanes;
#define LOAD_LANES(p) load_quad(T, p)
#else
#define CHANNELS 1
typedef real lanes;
#define LOAD_LANES(p) load(T, p, 0)
#endif

#define ITEMS 64
// -DSUB_GROUP=16 on Intel's GPUs whose smallest that is: in sub-groups of 32 sums would be spilled.
#ifdef SUB_GROUP
#define DIRECT_GROUP __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
#define DIRECT_GROUP __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#endif
#define PIXELS 4
#define UNROLL _Pragma("unroll")
#define SIZE ((OFFSET)sizeof(stored))
#define AT(base, place) ((const __global stored*)((const __global uchar*)(base) + (place)))

static inline int quotient(const gpu_direct_problem* p, int n, int axis)
{
    return (mul_hi((uint)n, p->magic[axis]) + (uint)n) >> p->magic_shift[axis];
}

// n becomes n / counts[axis], what is left over is returned.
static inline int take(const gpu_direct_problem* p, int* n, int axis)
{
    const int all = *n;
    *n = quotient(p, all, axis);
    return all - *n * p->counts[axis];
}

// Values of a row of the source that the taps of PIXELS pixels of the result read: where, and whether they are inside.
#define VALUES (SCALE ? (PIXELS - 1) * SCALE + TAPS : PIXELS * TAPS)
#define VALUE(pixel, tap) (SCALE ? (pixel) * SCALE + (tap) : (pixel) * TAPS + (tap))
// Rows of the source that the taps of LINES rows of the result read.
#define READ (TAPS_Y > 0 ? (LINES - 1) * SCALE + TAPS_Y : 1)

// Masks of a real's bits: what lies outside is read from a place inside and becomes zero by one logical instruction.
#define MASK_float32 uint
#define MASK_float16 uint
#define MASK_bfloat16 uint
#define MASK_float64 ulong
typedef CLPRIM_CAT(MASK_, T) mask;
#if QUADS
typedef CLPRIM_CAT(CLPRIM_CAT(MASK_, T), 4) lane_masks;
#else
typedef mask lane_masks;
#endif
#define MASK(condition) ((condition) ? ~(mask)0 : (mask)0)

static inline lanes masked(lanes v, mask kept)
{
    union { lanes values; lane_masks bits; } u;
    u.values = v;
    u.bits &= (lane_masks)kept;
    return u.values;
}

typedef struct {
    OFFSET place[VALUES];
    mask inside[VALUES];
} row_places;

// Of the pixels from x on and the taps from tx on, counted from the leftmost one where SCALE.
static inline row_places find_row_places(const gpu_conv_problem* p, int x, int tx)
{
    const int last = FLIP && SCALE ? p->taps[2] - 1 : 0, first = x * p->scale[2] + p->shift[2] - last;
    row_places row;
    UNROLL for (int i = 0; i < VALUES; ++i) {
        const int at = SCALE ? first + tx + i : first + i / TAPS * p->scale[2] + (tx + i % TAPS) * p->step[2];
        const int inside = (uint)at < (uint)p->in[2];
        row.inside[i] = MASK(inside);
        row.place[i] = inside ? at * (OFFSET)p->source_axis[2] * SIZE : 0;
    }
    return row;
}

// Tap t of a row, counted as find_row_places does, as the weights count.
#define TAP_X(p, t) (FLIP && SCALE ? (MORE ? (p)->taps[2] : TAPS) - 1 - (t) : (t))
#define TAP_Y(t) (FLIP && TAPS_Y > 0 ? TAPS_Y - 1 - (t) : (t))
// The first row of the source that LINES rows from y on read, or that its tap does without TAPS_Y.
#define FIRST_LINE(p, y) ((y) * (p)->scale[1] + (p)->shift[1] - (FLIP && TAPS_Y > 0 ? TAPS_Y - 1 : 0))
