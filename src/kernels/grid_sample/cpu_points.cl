// grid_sample of two axes on CPUs, few channels: a work-item owns `span` points of an image, of which it takes 16 at a
// time. Their taps are found once, then each channel gathers its elements; of bilinear sampling two neighbours at once,
// so that x must be two elements wide. Launch: (spans, images). Options: cpu_taps.cl.
#include "kernels/grid_sample/cpu_taps.cl"

#define GATHER(AT) (AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8), AT(9), AT(10), AT(11), AT(12),     \
                    AT(13), AT(14), AT(15))
#define FROM_PLACE(i) plane[at[i]]
#define gather CLPRIM_CAT(gather_, X)
static inline float16 gather_float32(const __global float* plane, const int* at) { return (float16)GATHER(FROM_PLACE); }
static inline float16 gather_bfloat16(const __global ushort* plane, const int* at)
{
    return as_float16(convert_uint16((ushort16)GATHER(FROM_PLACE)) << 16);
}
static inline float16 gather_float16(const __global ushort* plane, const int* at)
{
#ifdef CLPRIM_FP16
    return convert_float16(as_half16((ushort16)GATHER(FROM_PLACE)));
#else
#define CONVERTED(i) load_float16(plane, at[i])
    return (float16)GATHER(CONVERTED);
#endif
}
#ifdef CLPRIM_FP64
static inline double16 gather_float64(const __global double* plane, const int* at)
{
    return (double16)GATHER(FROM_PLACE);
}
#endif

// 16 points: where their taps lie in a plane (somewhere inside, if they do not), and what tells whether they do.
#if MODE == bilinear
#define PLACES 2     // pairs of neighbours in two rows
#else
#define PLACES (TAPS * TAPS)
#endif
typedef struct {
    int at[PLACES][16];
    int plain;       // all taps are inside, and pairs are in their order
    index_t x[TAPS], y[TAPS];
#if MODE != nearest
    acc_t weight_x[TAPS], weight_y[TAPS];
#endif
} group_t;

static inline void find_taps(group_t* g, acc_t at_x, acc_t at_y, const sample_t* p)
{
    const taps_t tx = taps_at(at_x, p->in[2], p->align_corners, false);
    const taps_t ty = taps_at(at_y, p->in[1], p->align_corners, false);
    index_t outside = 0;
    for (int k = 0; k < TAPS; ++k) {
        outside |= tx.index[k] | ty.index[k];
        g->x[k] = tx.index[k];
        g->y[k] = ty.index[k];
#if MODE != nearest
        g->weight_x[k] = tx.weight[k];
        g->weight_y[k] = ty.weight[k];
#endif
    }
    for (int k = 0; k < TAPS; ++k) {
        const index_t row = max(ty.index[k], (index_t)0) * (index_t)p->in[2];
#if MODE == bilinear
        const index_t first = clamp(max(tx.index[0], tx.index[1] - 1), (index_t)0, (index_t)(p->in[2] - 2));
        vstore16(convert_int16(row + first), 0, g->at[k]);
        g->x[0] = tx.index[0] - first;
        g->x[1] = tx.index[1] - first;
        outside |= (tx.index[0] != first) | (tx.index[1] != first + 1);
#else
        for (int j = 0; j < TAPS; ++j)
            vstore16(convert_int16(row + max(tx.index[j], (index_t)0)), 0, g->at[k * TAPS + j]);
#endif
    }
    g->plain = !any(outside < 0);
}

#if MODE == bilinear
#define pair_t CLPRIM_CAT(ACC, 2)
static inline pair_t pair_at(const __global storage_t(X)* plane, int at)
{
#if CLPRIM_CAT(IN_PAIRS_, X)
    return vload2(0, plane + at);
#else
    return (pair_t)(load(X, plane, at), load(X, plane, at + 1));
#endif
}
#define IN_PAIRS_float32 1
#define IN_PAIRS_float64 1
#define PAIR(i) pair_at(plane, at[i])

// Both elements of 16 pairs: values[0] and values[1].
static inline void gather_pairs(const __global storage_t(X)* plane, const int* at, acc_t* values)
{
    const acc_t a = (acc_t)(PAIR(0), PAIR(1), PAIR(2), PAIR(3), PAIR(4), PAIR(5), PAIR(6), PAIR(7));
    const acc_t b = (acc_t)(PAIR(8), PAIR(9), PAIR(10), PAIR(11), PAIR(12), PAIR(13), PAIR(14), PAIR(15));
    values[0] = (acc_t)(a.even, b.even);
    values[1] = (acc_t)(a.odd, b.odd);
}

static inline acc_t sample(const __global storage_t(X)* plane, const group_t* g)
{
    acc_t sum = 0;
    for (int k = 0; k < 2; ++k) {
        acc_t v[2];
        gather_pairs(plane, g->at[k], v);
        if (!g->plain) {
            const acc_t left = g->x[0] == 0 ? v[0] : g->x[0] == 1 ? v[1] : (acc_t)0;
            const acc_t right = g->x[1] == 1 ? v[1] : g->x[1] == 0 ? v[0] : (acc_t)0;
            v[0] = g->y[k] < 0 ? (acc_t)0 : left;
            v[1] = g->y[k] < 0 ? (acc_t)0 : right;
        }
        sum += g->weight_y[k] * g->weight_x[0] * v[0];
        sum += g->weight_y[k] * g->weight_x[1] * v[1];
    }
    return sum;
}
#else
static inline acc_t inside_value(const __global storage_t(X)* plane, const group_t* g, int ky, int kx)
{
    const acc_t v = gather(plane, g->at[ky * TAPS + kx]);
    return g->plain ? v : (g->x[kx] | g->y[ky]) < 0 ? (acc_t)0 : v;
}

static inline acc_t sample(const __global storage_t(X)* plane, const group_t* g)
{
#if MODE == nearest
    return inside_value(plane, g, 0, 0);
#else
    acc_t sum = 0;
    for (int k = 0; k < 4; ++k)
        sum += g->weight_y[k] *
               (g->weight_x[0] * inside_value(plane, g, k, 0) + g->weight_x[1] * inside_value(plane, g, k, 1) +
                g->weight_x[2] * inside_value(plane, g, k, 2) + g->weight_x[3] * inside_value(plane, g, k, 3));
    return sum;
#endif
}
#endif

__kernel void grid_sample(const __global storage_t(X)* x, ulong x_offset, const __global storage_t(X)* grid,
                          ulong grid_offset, __global storage_t(X)* y, ulong y_offset, sample_t p, uint span)
{
    const uint points = p.out[1] * p.out[2], volume = p.in[1] * p.in[2];
    const uint end = min((uint)(get_global_id(0) + 1) * span, points);
    const ulong n = get_global_id(1);
    x += x_offset + n * p.channels * volume;
    y += y_offset + n * p.channels * points;
    grid += grid_offset + n * points * 2;
    for (uint first = get_global_id(0) * span; first < end; first += BLOCK) {
        const uint count = min(end - first, (uint)BLOCK);
        group_t groups[BLOCK / 16];
        for (uint i = 0; i < count; i += 16) {
            const __global storage_t(X)* from = grid + 2 * (ulong)(first + i);
            const uint lanes = min(count - i, 16u);
            find_taps(groups + i / 16, coordinates(from, 0, lanes), coordinates(from, 1, lanes), &p);
        }
        for (uint c = 0; c < p.channels; ++c)
            for (uint i = 0; i < count; i += 16)
                store_part(X, y, c * (ulong)points + first + i, min(count - i, 16u),
                           sample(x + c * (ulong)volume, groups + i / 16));
    }
}
