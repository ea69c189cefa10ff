// Rows of matrices as vectors of TILE_LANES sums (tile_vector of micro_kernel.cl), and square blocks transposed in
// registers. Needs problem.cl and micro_kernel.cl.

#define LOAD_LANES(p) CLPRIM_CAT(LOAD_LANES_, X)(p)
#define STORE_LANES(v, p) CLPRIM_CAT(STORE_LANES_, X)(v, p)
#define LOAD_LANES_float32(p) vload16(0, p)
#define STORE_LANES_float32(v, p) vstore16(v, 0, p)
#define LOAD_LANES_float64(p) vload8(0, p)
#define STORE_LANES_float64(v, p) vstore8(v, 0, p)
#define LOAD_LANES_float16(p) vload_half16(0, (const __global half*)(p))
#define STORE_LANES_float16(v, p) vstore16(float16_lanes(v), 0, p)
#define LOAD_LANES_bfloat16(p) as_float16(convert_uint16(vload16(0, p)) << 16)
#define STORE_LANES_bfloat16(v, p) vstore16(bfloat16_lanes(v), 0, p)
#define LOAD_LANES_int8(p) as_uint16(convert_int16(vload16(0, p)))
#define STORE_LANES_int8(v, p) vstore16(as_char16(convert_uchar16((v) & 0xffu)), 0, p)
#define LOAD_LANES_uint8(p) convert_uint16(vload16(0, p))
#define STORE_LANES_uint8(v, p) vstore16(convert_uchar16((v) & 0xffu), 0, p)
#define LOAD_LANES_int16(p) as_uint16(convert_int16(vload16(0, p)))
#define STORE_LANES_int16(v, p) vstore16(as_short16(convert_ushort16((v) & 0xffffu)), 0, p)
#define LOAD_LANES_uint16(p) convert_uint16(vload16(0, p))
#define STORE_LANES_uint16(v, p) vstore16(convert_ushort16((v) & 0xffffu), 0, p)
#define LOAD_LANES_int32(p) as_uint16(vload16(0, p))
#define STORE_LANES_int32(v, p) vstore16(as_int16(v), 0, p)
#define LOAD_LANES_uint32(p) vload16(0, p)
#define STORE_LANES_uint32(v, p) vstore16(v, 0, p)
#define LOAD_LANES_int64(p) as_ulong8(vload8(0, p))
#define STORE_LANES_int64(v, p) vstore8(as_long8(v), 0, p)
#define LOAD_LANES_uint64(p) vload8(0, p)
#define STORE_LANES_uint64(v, p) vstore8(v, 0, p)

#if TILE_LANES == 16
static inline ushort16 bfloat16_lanes(float16 v)
{
    const uint16 bits = as_uint16(v);
    const uint16 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return convert_ushort16(isnan(v) ? (uint16)0x7fc0u : rounded);
}
// Through a vector's own memory: PoCL takes what vstore_half16 writes for aligned as a whole, and neighbouring rows
// that it joins then fault.
static inline ushort16 float16_lanes(float16 v)
{
    ushort16 bits;
    vstore_half16_rte(v, 0, (half*)&bits);
    return bits;
}
#endif

// Whether a row that is not whole goes in pieces of 8, 4, 2 and 1 elements, and as what.
#define IN_PIECES CLPRIM_CAT(IN_PIECES_, X)
#define IN_PIECES_float32 1
#define IN_PIECES_float64 1
#define IN_PIECES_float16 2
#define IN_PIECES_bfloat16 2
#define LANES_STORED CLPRIM_CAT(LANES_STORED_, X)
#define LANES_STORED_float16 float16_lanes
#define LANES_STORED_bfloat16 bfloat16_lanes
#define PIECES                                                                                              \
    FIRST_PIECE                                                                                             \
    PIECE(4, s0123, s4567)                                                                                  \
    PIECE(2, s01, s23)                                                                                      \
    if (count & 1)                                                                                          \
        *p = v.s0;
#define FIRST_PIECE CLPRIM_CAT(FIRST_PIECE_, TILE_LANES)
#define FIRST_PIECE_16 PIECE(8, lo, hi)
#define FIRST_PIECE_8
#define PIECE(N, lanes, rest)                                                                               \
    if (count & N) {                                                                                        \
        vstore##N(v.lanes, 0, p);                                                                           \
        v.lanes = v.rest;                                                                                   \
        p += N;                                                                                             \
    }

// `count` elements (at most TILE_LANES), `step` apart; zero in the other lanes.
static inline tile_vector get_row(const __global storage_t(X)* p, long step, long count)
{
    if (step == 1 && count >= TILE_LANES)
        return LOAD_LANES(p);
    REAL values[TILE_LANES];
    for (int i = 0; i < TILE_LANES; ++i)
        values[i] = i < count ? (REAL)load(X, p, i * step) : 0;
    return TILE_VLOAD(0, values);
}

// As get_row, with anything in the other lanes: `readable` elements follow p in its matrix (0: nobody knows).
static inline tile_vector get_part_of_row(const __global storage_t(X)* p, long step, long count, long readable)
{
    return step == 1 && readable >= TILE_LANES ? LOAD_LANES(p) : get_row(p, step, count);
}

static inline void put_row(tile_vector v, __global storage_t(X)* p, long step, long count)
{
    if (step == 1 && count >= TILE_LANES) {
        STORE_LANES(v, p);
        return;
    }
#if IN_PIECES == 1
    if (step == 1) {
        PIECES
        return;
    }
#elif IN_PIECES == 2
    if (step == 1) {
        const tile_vector sums = v;
        ushort16 v = LANES_STORED(sums);
        PIECES
        return;
    }
#endif
    REAL values[TILE_LANES];
    TILE_VSTORE(v, 0, values);
    for (int i = 0; i < TILE_LANES && i < count; ++i)
        store(X, p, i * step, (compute_t(X))values[i]);
}

// The first `count` sums as they are, zero in the other lanes.
static inline tile_vector get_sums(const __global REAL* p, long count)
{
    if (count >= TILE_LANES)
        return TILE_VLOAD(0, p);
    REAL values[TILE_LANES];
    for (int i = 0; i < TILE_LANES; ++i)
        values[i] = i < count ? p[i] : 0;
    return TILE_VLOAD(0, values);
}

static inline void put_sums(tile_vector v, __global REAL* p, long count)
{
    if (count >= TILE_LANES) {
        TILE_VSTORE(v, 0, p);
        return;
    }
    PIECES
}

DEFINE_SMOOTH(tile_vector, REAL, TILE_LANES)
// The epilogue (problem.cl) of `count` finished sums of a row of C.
static inline void finish_row(tile_vector v, __global storage_t(X)* c, const __global storage_t(X)* d,
                              const gemm_problem* p, long count, REAL alpha, REAL beta)
{
    v *= alpha;
    if (p->add_d)
        v += beta * (p->d.column == 0 ? (tile_vector)(REAL)load(X, d, 0) : get_row(d, p->d.column, count));
#if !REAL_IS_INTEGER
    ACTIVATE(tile_vector, v, p->activation)
#endif
    put_row(v, c, p->c.column, count);
}

// A square block of TILE_LANES vectors v[] transposed by perfect shuffles: log2(TILE_LANES) times, vectors i and
// i + TILE_LANES / 2 are zipped into vectors 2 i and 2 i + 1.
#if TILE_LANES == 16
#define ZIP_LOW(x, y)                                                                                       \
    (tile_vector)(x.s0, y.s0, x.s1, y.s1, x.s2, y.s2, x.s3, y.s3, x.s4, y.s4, x.s5, y.s5, x.s6, y.s6, x.s7, y.s7)
#define ZIP_HIGH(x, y)                                                                                      \
    (tile_vector)(x.s8, y.s8, x.s9, y.s9, x.sa, y.sa, x.sb, y.sb, x.sc, y.sc, x.sd, y.sd, x.se, y.se, x.sf, y.sf)
#define EACH_LANE(F)                                                                                        \
    F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define EACH_PAIR(F, u, v) F(0, u, v) F(1, u, v) F(2, u, v) F(3, u, v) F(4, u, v) F(5, u, v) F(6, u, v) F(7, u, v)
#else
#define ZIP_LOW(x, y) (tile_vector)(x.s0, y.s0, x.s1, y.s1, x.s2, y.s2, x.s3, y.s3)
#define ZIP_HIGH(x, y) (tile_vector)(x.s4, y.s4, x.s5, y.s5, x.s6, y.s6, x.s7, y.s7)
#define EACH_LANE(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define EACH_PAIR(F, u, v) F(0, u, v) F(1, u, v) F(2, u, v) F(3, u, v)
#endif
#define ZIP_PAIR(i, u, v)                                                                                   \
    u[2 * i] = ZIP_LOW(v[i], v[i + TILE_LANES / 2]);                                                        \
    u[2 * i + 1] = ZIP_HIGH(v[i], v[i + TILE_LANES / 2]);

// dst[j * dst_step + i] = src[i * line_step + j] for i, j < TILE_LANES; src has `lines` lines of `length` elements, and
// `readable` elements in all follow it in its matrix (0: nobody knows). Anything may come of what lies outside; the
// first `wanted` rows of dst are written.
#define DEFINE_TRANSPOSE_BLOCK(name, SPACE)                                                                 \
    static inline void name(const __global storage_t(X)* src, long line_step, long lines, long length,       \
                     long readable, SPACE REAL* dst, int dst_step, long wanted)                             \
    {                                                                                                       \
        tile_vector v[TILE_LANES], u[TILE_LANES];                                                           \
        if (lines >= TILE_LANES && length >= TILE_LANES) {                                                  \
            EACH_LANE(GET_LINE)                                                                             \
        } else {                                                                                            \
            REAL copy[TILE_LANES * TILE_LANES];   /* so that v is never indexed by a variable */            \
            for (int i = 0; i < TILE_LANES; ++i) {                                                          \
                const long line = min((long)i, lines - 1) * line_step;                                      \
                TILE_VSTORE(get_part_of_row(src + line, 1, length, readable - line), i, copy);              \
            }                                                                                               \
            EACH_LANE(GET_COPY)                                                                             \
        }                                                                                                   \
        EACH_PAIR(ZIP_PAIR, u, v)                                                                           \
        EACH_PAIR(ZIP_PAIR, v, u)                                                                           \
        EACH_PAIR(ZIP_PAIR, u, v)                                                                           \
        LAST_ZIP                                                                                            \
        EACH_LANE(PUT_LINE)                                                                                 \
    }
#define GET_LINE(i) v[i] = LOAD_LANES(src + i * line_step);
#define GET_COPY(i) v[i] = TILE_VLOAD(i, copy);
#define PUT_LINE(i)                                                                                         \
    if (i < wanted)                                                                                         \
        TILE_VSTORE(TRANSPOSED[i], 0, dst + i * dst_step);
#if TILE_LANES == 16
#define LAST_ZIP EACH_PAIR(ZIP_PAIR, v, u)
#define TRANSPOSED v
#else
#define LAST_ZIP
#define TRANSPOSED u
#endif
