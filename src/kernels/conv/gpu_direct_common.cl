// What the forward and data pass and the weight gradient of convolutions with few channels share: places and masks.
// Options: -DT=<dtype>, -DOFFSET=uint|long: holds every place in bytes, counted from the beginning of its buffer on
// (uint: some GPUs add it to an address at once), -DCHANNELS_LAST=0|1, -DQUADS=0|1: channels_last, each a group of its
// own, four of them at once, which lie at multiples of four elements, and
//   -DTAPS=n     taps of a row that are multiplied at once
//   -DMORE=0|1   rows have others, too
//   -DSCALE=1|2  neighbouring pixels of the result are as many of the source apart and neighbouring taps STEP=1|2, so
//                that a value serves several products; 0: anything else
//   -DPHASE=0..3 planar: rows of the source begin at multiples of four elements and have as many, and what a work-item
//                reads of one, or without SCALE what a tap does, begins as far behind a multiple; -1: anything else
//   -DRESULT_QUADS=0|1  planar: rows of the result begin at multiples of four elements and have as many
//   -DTAPS_Y=n   rows of the kernel that are multiplied at once, all of them, and SCALE tells of columns, too; 0: one
//   -DLINES=n    rows of the result that a work-item computes, one without TAPS_Y
//   -DAPART=1|2  they are so many apart: where taps are two rows apart and results one, neighbours read other rows
//   -DSKIP=0|1   rows of the source outside are skipped by branches, which keep compilers from loading all rows first
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

// Four neighbours as they lie in memory.
#define BITS_float32 uint4
#define BITS_float16 uint2
#define BITS_bfloat16 uint2
#define BITS_float64 ulong4
#define WIDEN_float32 as_float4
#define WIDEN_float64 as_double4
#define WIDEN_float16(bits)                                                                                     \
    ((float4)(float16_to_float((ushort)(bits).x), float16_to_float((ushort)((bits).x >> 16)),                   \
              float16_to_float((ushort)(bits).y), float16_to_float((ushort)((bits).y >> 16))))
#define WIDEN_bfloat16(bits)                                                                                    \
    as_float4((uint4)((bits).x << 16, (bits).x & 0xffff0000u, (bits).y << 16, (bits).y & 0xffff0000u))
typedef CLPRIM_CAT(BITS_, T) quad_bits;
#define WIDEN(bits) CLPRIM_CAT(WIDEN_, T)(bits)
#define LOAD_BITS(p) (*(const __global quad_bits*)(p))

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

// Values of a row of the source that the taps of PIXELS pixels of the result read.
#define VALUES (SCALE ? (PIXELS - 1) * SCALE + (TAPS - 1) * STEP + 1 : PIXELS * TAPS)
#define VALUE(pixel, tap) (SCALE ? (pixel) * SCALE + (tap) * STEP : (pixel) * TAPS + (tap))
// Rows of the source that the taps of LINES rows of the result read. Row r is TAP_ROW(r, line) of a line, if the kernel
// has such a one.
#define READ (TAPS_Y > 0 ? (LINES - 1) * APART * SCALE + (TAPS_Y - 1) * STEP + 1 : 1)
#define TAP_ROW(r, line)                                                                                          \
    ((TAPS_Y > 0 && ((r) - (line) * APART * SCALE) % STEP) ? -1 : ((r) - (line) * APART * SCALE) / STEP)
// The first row of block b of LINES rows.
#define BLOCK_ROW(b) (APART == 1 ? (b) * LINES : (b) / 2 * (2 * LINES) + (b) % 2)
#include "kernels/conv/mask.cl"

// What is read at once: a value, four channels, or with PHASE four neighbours, of which COUNT from FIRST on are values;
// one alone is read by itself.
#if PHASE >= 0
#define SLOTS (SCALE ? (PHASE + VALUES + 3) / 4 : TAPS)
#define FIRST(slot) (SCALE && (slot) == 0 ? PHASE : 0)
#define COUNT(slot) (SCALE ? min(PHASE + VALUES - (slot) * 4, 4) - FIRST(slot) : 4)
#define NUMBER(slot, i) (SCALE ? (slot) * 4 + (i) - PHASE : VALUE(i, slot))
#else
#define SLOTS VALUES
#endif

typedef struct {
    OFFSET place[SLOTS];
    mask inside[SLOTS];
} row_places;

// Of the pixels from x on and the taps from tx on, counted from the leftmost one where SCALE.
static inline row_places find_row_places(const gpu_conv_problem* p, int x, int tx)
{
    const int last = FLIP && SCALE ? (p->taps[2] - 1) * STEP : 0, first = x * p->scale[2] + p->shift[2] - last;
    row_places row;
    UNROLL for (int i = 0; i < SLOTS; ++i) {
#if PHASE >= 0
        const int at = SCALE ? first + tx * STEP - PHASE + i * 4 + (COUNT(i) == 1 ? FIRST(i) : 0)
                             : first + (tx + i) * p->step[2];
#else
        const int at = SCALE ? first + tx * STEP + i : first + i / TAPS * p->scale[2] + (tx + i % TAPS) * p->step[2];
#endif
        const int inside = (uint)at < (uint)p->in[2];
        row.inside[i] = MASK(inside);
        row.place[i] = inside ? at * (OFFSET)p->source_axis[2] * SIZE : 0;
    }
    return row;
}

// The values of the row that begins at `at`; zeros unless it is there.
static inline __attribute__((always_inline))
void read_row(lanes values[VALUES], const __global stored* source, OFFSET at, const row_places* row, int there)
{
    UNROLL for (int s = 0; s < SLOTS; ++s) {
        const __global stored* from = AT(source, at + row->place[s]);
        const mask kept = row->inside[s] & MASK(there);
#if PHASE >= 0
        if (COUNT(s) == 1) {
            values[NUMBER(s, FIRST(s))] = masked(load(T, from, 0), kept);
            continue;
        }
        const real4 four = WIDEN(LOAD_BITS(from) & (quad_bits)kept);
        const real each[4] = {four.x, four.y, four.z, four.w};
        UNROLL for (int i = 0; i < 4; ++i)
            if (i >= FIRST(s) && i < FIRST(s) + COUNT(s))
                values[NUMBER(s, i)] = each[i];
#elif QUADS
        values[s] = WIDEN(LOAD_BITS(from) & (quad_bits)kept);
#else
        values[s] = masked(load(T, from, 0), kept);
#endif
    }
}

// Tap t of a row, counted as find_row_places does, as the weights count.
#define TAP_X(p, t) (FLIP && SCALE ? (MORE ? (p)->taps[2] : TAPS) - 1 - (t) : (t))
#define TAP_Y(t) (FLIP && TAPS_Y > 0 ? TAPS_Y - 1 - (t) : (t))
// The first row of the source that LINES rows from y on read, or that its tap does without TAPS_Y.
#define FIRST_LINE(p, y) ((y) * (p)->scale[1] + (p)->shift[1] - (FLIP && TAPS_Y > 0 ? (TAPS_Y - 1) * STEP : 0))
