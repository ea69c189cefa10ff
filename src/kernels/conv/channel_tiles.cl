// Register tiles of convolutions whose results have channels innermost, and the end of a sum: some pixels by the rows
// of a panel of weights, which are channels of the result.
#include "core/prefetch.cl"
#include "kernels/conv/lanes.cl"

// Six pixels by twelve of sixteen registers, or by two vectors of 64 bytes. A last panel of few rows takes part of
// them.
#if !defined(CLPRIM_VECTOR_BYTES) || CLPRIM_VECTOR_BYTES >= 64
#define PANEL_VECTORS 2
#else
#define PANEL_VECTORS 1
#endif
#define PANEL (PANEL_VECTORS * LANES)
#define TILE_PIXELS 6

// Pixels of a tile by their numbers.
#define PIXELS_1(X, WIDTH) X(0, WIDTH)
#define PIXELS_2(X, WIDTH) X(0, WIDTH) X(1, WIDTH)
#define PIXELS_4(X, WIDTH) PIXELS_2(X, WIDTH) X(2, WIDTH) X(3, WIDTH)
#define PIXELS_6(X, WIDTH) PIXELS_4(X, WIDTH) X(4, WIDTH) X(5, WIDTH)

// What becomes of a tile's sums: where its rows fill vectors and the activation is a bound or none they go from
// registers to the result; else they are left to activate_tile or finish_tile.
typedef struct {
    __global real* result;
    const __global real* bias;        // of the panel, where it is added
    const __local int* places;        // of the tile's pixels in the result
    int whole, has_bias, accumulate, bounded, apart;   // apart: sums are complete but for activate_tile
    real least, most;
    // The weights that follow, of which a tile asks for a part: `step` bytes for each k. Weights beyond the caches are
    // read as fast as there are requests on the way, more than processors make for one stream.
    const __global char* ahead;
    int step;
} tile_end;

// Tiles of `count` pixels ask for as many weights, from `next` on, as they multiply with.
static inline void ask_ahead(tile_end* end, const __global real* next, int count)
{
    end->ahead = (const __global char*)next;
    end->step = (int)(PANEL * sizeof(real)) / ((count + TILE_PIXELS - 1) / TILE_PIXELS) + 1;
}

// Half a vector, for panels of few rows.
#if REAL_KIND(REAL) == 2
typedef double4 half_vec;
#define get_half vload4
#define put_half vstore4
#else
typedef float8 half_vec;
#define get_half vload8
#define put_half vstore8
#endif
DEFINE_ACTIVATE(activate_half, half_vec)

// Widths of a tile: all rows of a panel or the first ones, in vectors `low` and, where there are more, `high`.
#define LOW_two vec
#define LOW_more vec
#define LOW_one vec
#define LOW_half half_vec
#define HIGH_TYPE_two vec
#define HIGH_TYPE_more half_vec
#define HIGH_two(text) text
#define HIGH_more(text) text
#define HIGH_one(text)
#define HIGH_half(text)
#define GET_vec(p) get_vec(0, p)
#define GET_half_vec(p) get_half(0, p)
#define PUT_vec(v, p) put_vec(v, 0, p)
#define PUT_half_vec(v, p) put_half(v, 0, p)
#define GET_LOW_two GET_vec
#define GET_LOW_more GET_vec
#define GET_LOW_one GET_vec
#define GET_LOW_half GET_half_vec
#define PUT_LOW_two PUT_vec
#define PUT_LOW_more PUT_vec
#define PUT_LOW_one PUT_vec
#define PUT_LOW_half PUT_half_vec
#define GET_HIGH_two GET_vec
#define GET_HIGH_more GET_half_vec
#define PUT_HIGH_two PUT_vec
#define PUT_HIGH_more PUT_half_vec

#define START(i, WIDTH) LOW_##WIDTH low##i = start_low; HIGH_##WIDTH(HIGH_TYPE_##WIDTH high##i = start_high;)
#define FIND_placed(i, WIDTH)                                                                                   \
    const int from##i = places[i];                                                                              \
    const __global real* a##i = from##i < 0 ? zeros : source + from##i;
#define FIND_near(i, WIDTH) const __local real* a##i = source + i * pitch;
#define FIND_dense(i, WIDTH) const __global real* a##i = source + i * pitch;
#define ADD(i, WIDTH)                                                                                           \
    low##i = fma((LOW_##WIDTH)(a##i[c]), low, low##i);                                                          \
    HIGH_##WIDTH(high##i = fma((HIGH_TYPE_##WIDTH)(a##i[c]), high, high##i);)
#define PUT(i, WIDTH)                                                                                           \
    PUT_LOW_##WIDTH(low##i, sums + i * PANEL);                                                                  \
    HIGH_##WIDTH(PUT_HIGH_##WIDTH(high##i, sums + i * PANEL + LANES);)
#define ADD_OLD(i, WIDTH)                                                                                       \
    low##i += GET_LOW_##WIDTH(end->result + end->places[i]);                                                    \
    HIGH_##WIDTH(high##i += GET_HIGH_##WIDTH(end->result + end->places[i] + LANES);)
// Comparisons let NaN through.
#define BOUND(i, WIDTH)                                                                                         \
    low##i = BOUNDED(low##i, (LOW_##WIDTH)least, (LOW_##WIDTH)most);                                            \
    HIGH_##WIDTH(high##i = BOUNDED(high##i, (HIGH_TYPE_##WIDTH)least, (HIGH_TYPE_##WIDTH)most);)
#define KEEP(i, WIDTH)                                                                                          \
    PUT_LOW_##WIDTH(low##i, end->result + end->places[i]);                                                      \
    HIGH_##WIDTH(PUT_HIGH_##WIDTH(high##i, end->result + end->places[i] + LANES);)

// sums[pixel][PANEL] of N pixels, or the result. Where pixels are:
//   placed   places[tap * pitch + pixel]: element of the source, -1 outside of the borders
//   near     `pitch` elements apart in local memory
//   dense    `pitch` elements apart; sums go to local memory
#define SOURCE_placed __global
#define SOURCE_near __local
#define SOURCE_dense __global
#define SUMS_placed __private
#define SUMS_near __private
#define SUMS_dense __local
#define DEFINE_TILE(N, WHERE, WIDTH)                                                                            \
    static inline void tile_##N##_##WHERE##_##WIDTH(                                                            \
        SUMS_##WHERE real* sums, const tile_end* end, const SOURCE_##WHERE real* source,                        \
        const SOURCE_##WHERE real* zeros, const __global real* weights, const __local int* places, int pitch,   \
        int taps, int channels)                                                                                 \
    {                                                                                                           \
        LOW_##WIDTH start_low = 0;                                                                              \
        HIGH_##WIDTH(HIGH_TYPE_##WIDTH start_high = 0;)                                                         \
        if (end->whole && end->has_bias) {                                                                      \
            start_low = GET_LOW_##WIDTH(end->bias);                                                             \
            HIGH_##WIDTH(start_high = GET_HIGH_##WIDTH(end->bias + LANES);)                                     \
        }                                                                                                       \
        PIXELS_##N(START, WIDTH)                                                                                \
        const __global char* ahead = end->ahead;                                                                \
        const int step = end->step;                                                                             \
        for (int t = 0; t < taps; ++t, places += pitch) {                                                       \
            PIXELS_##N(FIND_##WHERE, WIDTH)                                                                     \
            for (int c = 0; c < channels; ++c, weights += PANEL, ahead += step) {                               \
                PREFETCH_FAR(ahead);                                                                            \
                const LOW_##WIDTH low = GET_LOW_##WIDTH(weights);                                               \
                HIGH_##WIDTH(const HIGH_TYPE_##WIDTH high = GET_HIGH_##WIDTH(weights + LANES);)                 \
                PIXELS_##N(ADD, WIDTH)                                                                          \
            }                                                                                                   \
        }                                                                                                       \
        if (!end->whole) {                                                                                      \
            PIXELS_##N(PUT, WIDTH)                                                                              \
            return;                                                                                             \
        }                                                                                                       \
        if (end->accumulate) {                                                                                  \
            PIXELS_##N(ADD_OLD, WIDTH)                                                                          \
        }                                                                                                       \
        if (end->apart) {                                                                                       \
            PIXELS_##N(PUT, WIDTH)                                                                              \
            return;                                                                                             \
        }                                                                                                       \
        if (end->bounded) {                                                                                     \
            const real least = end->least, most = end->most;                                                    \
            PIXELS_##N(BOUND, WIDTH)                                                                            \
        }                                                                                                       \
        PIXELS_##N(KEEP, WIDTH)                                                                                 \
    }
// The sums of up to six pixels that `left` leaves; how many it were.
#define DEFINE_TILES(WHERE, WIDTH)                                                                              \
    DEFINE_TILE(6, WHERE, WIDTH)                                                                                \
    DEFINE_TILE(4, WHERE, WIDTH)                                                                                \
    DEFINE_TILE(2, WHERE, WIDTH)                                                                                \
    DEFINE_TILE(1, WHERE, WIDTH)                                                                                \
    static inline int tile_##WHERE##_##WIDTH(                                                                   \
        int left, SUMS_##WHERE real* sums, const tile_end* end, const SOURCE_##WHERE real* source,              \
        const SOURCE_##WHERE real* zeros, const __global real* weights, const __local int* places, int pitch,   \
        int taps, int channels)                                                                                 \
    {                                                                                                           \
        if (left >= 6)                                                                                          \
            tile_6_##WHERE##_##WIDTH(sums, end, source, zeros, weights, places, pitch, taps, channels);         \
        else if (left >= 4)                                                                                     \
            tile_4_##WHERE##_##WIDTH(sums, end, source, zeros, weights, places, pitch, taps, channels);         \
        else if (left >= 2)                                                                                     \
            tile_2_##WHERE##_##WIDTH(sums, end, source, zeros, weights, places, pitch, taps, channels);         \
        else                                                                                                    \
            tile_1_##WHERE##_##WIDTH(sums, end, source, zeros, weights, places, pitch, taps, channels);         \
        return left >= 6 ? 6 : left >= 4 ? 4 : min(left, 2);                                                    \
    }

#if PANEL_VECTORS > 1
#define DEFINE_TILES_OF(WHERE)                                                                                  \
    DEFINE_TILES(WHERE, half)                                                                                   \
    DEFINE_TILES(WHERE, one)                                                                                    \
    DEFINE_TILES(WHERE, more)                                                                                   \
    DEFINE_TILES(WHERE, two)
#else
#define DEFINE_TILES_OF(WHERE)                                                                                  \
    DEFINE_TILES(WHERE, half)                                                                                   \
    DEFINE_TILES(WHERE, one)
#endif
// Calls the narrowest tile that has all `rows` of a panel.
#if PANEL_VECTORS > 1
#define BY_WIDTH(WHERE, rows, ARGUMENTS)                                                                        \
    ((rows) <= LANES / 2           ? tile_##WHERE##_half ARGUMENTS                                              \
     : (rows) <= LANES             ? tile_##WHERE##_one ARGUMENTS                                               \
     : (rows) <= LANES + LANES / 2 ? tile_##WHERE##_more ARGUMENTS                                              \
                                   : tile_##WHERE##_two ARGUMENTS)
#else
#define BY_WIDTH(WHERE, rows, ARGUMENTS)                                                                        \
    ((rows) <= LANES / 2 ? tile_##WHERE##_half ARGUMENTS : tile_##WHERE##_one ARGUMENTS)
#endif

// Bias, old value and activation of `count` pixels by `rows` rows, and their way to memory.
static inline void finish_tile(real* sums, __global real* result, const __global real* bias, const __local int* places,
                               int count, int rows, const epilogue* e)
{
    for (int i = 0; i < count; ++i, sums += PANEL) {
        __global real* to = result + places[i];
        int r = 0;
        for (; r + LANES <= rows; r += LANES) {
            vec v = get_vec(0, sums + r);
            if (e->has_bias)
                v += load_lanes(bias + r);
            if (e->accumulate)
                v += load_lanes(to + r);
            store_lanes(to + r, activate_lanes(v, e));
        }
        if (r + LANES / 2 <= rows) {
            half_vec v = get_half(0, sums + r);
            if (e->has_bias)
                v += get_half(0, bias + r);
            if (e->accumulate)
                v += get_half(0, to + r);
            put_half(activate_half(v, e), 0, to + r);
            r += LANES / 2;
        }
        for (; r < rows; ++r) {
            real v = sums[r];
            if (e->has_bias)
                v += bias[r];
            if (e->accumulate)
                v += to[r];
            to[r] = activate(v, e);
        }
    }
}

// activate_tile for one activation: the compiler sees which.
#define ACTIVATE_TILE(kind)                                                                                     \
    case kind:                                                                                                  \
        for (int i = 0; i < count; ++i, sums += PANEL) {                                                        \
            const epilogue own = {0, kind, 0, e->alpha, e->beta};                                               \
            __global real* to = result + places[i];                                                             \
            int r = 0;                                                                                          \
            for (; r + LANES <= rows; r += LANES)                                                               \
                put_vec(activate_lanes(get_vec(0, sums + r), &own), 0, to + r);                                 \
            if (r < rows)                                                                                       \
                put_half(activate_half(get_half(0, sums + r), &own), 0, to + r);                                \
        }                                                                                                       \
        break;

// The activation of finished sums on their way to memory, of whole halves of vectors.
static inline void activate_tile(const real* sums, __global real* result, const __local int* places, int count,
                                 int rows, const epilogue* e)
{
    switch ((int)e->activation) {
        ACTIVATE_TILE(ACTIVATION_LEAKY_RELU)
        ACTIVATE_TILE(ACTIVATION_SILU)
        ACTIVATE_TILE(ACTIVATION_HARD_SWISH)
        ACTIVATE_TILE(ACTIVATION_HARD_SIGMOID)
        ACTIVATE_TILE(ACTIVATION_SIGMOID)
#ifdef EPILOGUE_GELU
        ACTIVATE_TILE(ACTIVATION_GELU)
        ACTIVATE_TILE(ACTIVATION_GELU_TANH)
#endif
    }
}
