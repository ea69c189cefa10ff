// Vectors for the CPU kernels of convolution. Built with -DT=<dtype>:
//   real   what is computed in (float, or double for float64)
//   vec    LANES reals; a register tile is some rows by two vecs
#include "core/dtype.cl"
#include "kernels/conv/epilogue.cl"

#define LANES_float32 16
#define LANES_float16 16
#define LANES_bfloat16 16
#define LANES_float64 8
#define LANES CLPRIM_CAT(LANES_, T)
#define WIDE (2 * LANES)                       // columns of a register tile

typedef compute_t(T) real;
typedef storage_t(T) stored;
#define vec CLPRIM_CAT(vec_, T)
typedef float16 vec_float32;
typedef float16 vec_float16;
typedef float16 vec_bfloat16;
#define mask_vec CLPRIM_CAT(mask_, T)
typedef int16 mask_float32;
typedef int16 mask_float16;
typedef int16 mask_bfloat16;
#define lane_index CLPRIM_CAT(lanes_, T)()
static inline int16 lanes_float32() { return (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
#define lanes_float16 lanes_float32
#define lanes_bfloat16 lanes_float32

static inline float16 load_lanes_float32(const __global float* p) { return vload16(0, p); }
static inline float16 load_lanes_float16(const __global ushort* p) { return vload_half16(0, (const __global half*)p); }
static inline float16 load_lanes_bfloat16(const __global ushort* p)
{
    return as_float16(convert_uint16(vload16(0, p)) << 16);
}
static inline void store_lanes_float32(__global float* p, float16 v) { vstore16(v, 0, p); }
static inline void store_lanes_float16(__global ushort* p, float16 v) { vstore_half16_rte(v, 0, (__global half*)p); }
static inline void store_lanes_bfloat16(__global ushort* p, float16 v)
{
    const uint16 bits = as_uint16(v);
    const uint16 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    vstore16(convert_ushort16(select(rounded, (uint16)0x7fc0, isnan(v))), 0, p);
}
static inline float16 even_lanes_float32(float16 a, float16 b) { return (float16)(a.even, b.even); }
#define even_lanes_float16 even_lanes_float32
#define even_lanes_bfloat16 even_lanes_float32

#ifdef CLPRIM_FP64
typedef double8 vec_float64;
typedef long8 mask_float64;
static inline long8 lanes_float64() { return (long8)(0, 1, 2, 3, 4, 5, 6, 7); }
static inline double8 load_lanes_float64(const __global double* p) { return vload8(0, p); }
static inline void store_lanes_float64(__global double* p, double8 v) { vstore8(v, 0, p); }
static inline double8 even_lanes_float64(double8 a, double8 b) { return (double8)(a.even, b.even); }
#endif
#define load_lanes CLPRIM_CAT(load_lanes_, T)
#define store_lanes CLPRIM_CAT(store_lanes_, T)
#define even_lanes CLPRIM_CAT(even_lanes_, T)

// LANES reals in memory of any address space, at p + i * LANES.
#define vload_lanes_16 vload16
#define vload_lanes_8 vload8
#define vstore_lanes_16 vstore16
#define vstore_lanes_8 vstore8
#define LANES_NAME_float32 16
#define LANES_NAME_float16 16
#define LANES_NAME_bfloat16 16
#define LANES_NAME_float64 8
#define get_vec CLPRIM_CAT(vload_lanes_, CLPRIM_CAT(LANES_NAME_, T))
#define put_vec CLPRIM_CAT(vstore_lanes_, CLPRIM_CAT(LANES_NAME_, T))

#ifdef CLPRIM_FP64
static inline long8 get_lanes_float64(const int* p) { return convert_long8(vload8(0, p)); }
#endif
static inline int16 get_lanes_float32(const int* p) { return vload16(0, p); }
#define get_lanes_float16 get_lanes_float32
#define get_lanes_bfloat16 get_lanes_float32
#define get_lanes CLPRIM_CAT(get_lanes_, T)

DEFINE_ACTIVATE(activate, real)
DEFINE_ACTIVATE(activate_lanes, vec)

// Register tiles. C[r][0..WIDE) (+)= sum over k < depth of A[r * lda + k] * B[k][0..WIDE) for ROWS rows.
// C is LDC reals a row. `HALF` tiles own the first LANES columns only.
#define ROWS_12(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define ROWS_4(F) F(0) F(1) F(2) F(3)

#define ZERO_ROW(r) vec c##r##0 = 0, c##r##1 = 0;
#define GET_ROW(r) c##r##0 = get_vec(0, C + r * WIDE); c##r##1 = get_vec(1, C + r * WIDE);
#define PUT_ROW(r) put_vec(c##r##0, 0, C + r * WIDE); put_vec(c##r##1, 1, C + r * WIDE);
#define ADD_ROW(r) { const vec a = A[r * lda + k]; c##r##0 = fma(a, b0, c##r##0); c##r##1 = fma(a, b1, c##r##1); }
#define ZERO_HALF(r) vec c##r##0 = 0;
#define GET_HALF(r) c##r##0 = get_vec(0, C + r * WIDE);
#define PUT_HALF(r) put_vec(c##r##0, 0, C + r * WIDE);
#define ADD_HALF(r) { const vec a = A[r * lda + k]; c##r##0 = fma(a, b0, c##r##0); }

#define REGISTER_TILE(name, ROWS, A_SPACE, B_SPACE)                                                             \
    static inline void name(const A_SPACE real* restrict A, long lda, const B_SPACE real* restrict B, int depth,       \
                     __local real* restrict C, int accumulate)                                                  \
    {                                                                                                           \
        ROWS(ZERO_ROW)                                                                                          \
        if (accumulate) { ROWS(GET_ROW) }                                                                       \
        for (int k = 0; k < depth; ++k) {                                                                       \
            const vec b0 = get_vec(0, B + k * WIDE), b1 = get_vec(1, B + k * WIDE);                             \
            ROWS(ADD_ROW)                                                                                       \
        }                                                                                                       \
        ROWS(PUT_ROW)                                                                                           \
    }                                                                                                           \
    static inline void name##_half(const A_SPACE real* restrict A, long lda, const B_SPACE real* restrict B,    \
                            int depth, __local real* restrict C, int accumulate)                                \
    {                                                                                                           \
        ROWS(ZERO_HALF)                                                                                         \
        if (accumulate) { ROWS(GET_HALF) }                                                                      \
        for (int k = 0; k < depth; ++k) {                                                                       \
            const vec b0 = get_vec(0, B + k * WIDE);                                                            \
            ROWS(ADD_HALF)                                                                                      \
        }                                                                                                       \
        ROWS(PUT_HALF)                                                                                          \
    }

// One row of a register tile.
#define REGISTER_ROW(name, A_SPACE, B_SPACE)                                                                    \
    static inline void name(const A_SPACE real* restrict A, const B_SPACE real* restrict B, int depth,          \
                     __local real* restrict C, int accumulate)                                                  \
    {                                                                                                           \
        vec c0 = 0, c1 = 0;                                                                                     \
        if (accumulate) {                                                                                       \
            c0 = get_vec(0, C);                                                                                 \
            c1 = get_vec(1, C);                                                                                 \
        }                                                                                                       \
        for (int k = 0; k < depth; ++k) {                                                                       \
            c0 = fma((vec)A[k], get_vec(0, B + k * WIDE), c0);                                                  \
            c1 = fma((vec)A[k], get_vec(1, B + k * WIDE), c1);                                                  \
        }                                                                                                       \
        put_vec(c0, 0, C);                                                                                      \
        put_vec(c1, 1, C);                                                                                      \
    }
