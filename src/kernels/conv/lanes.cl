// Vectors for the CPU kernels of convolution. Built with -DT=<dtype>:
//   real   what is computed in (float, or double for float64)
//   vec    LANES reals; a register tile is some rows by two vecs
#include "core/dtype.cl"
#include "kernels/conv/vector_exp.cl"
#include "kernels/conv/epilogue.cl"

#define REAL_OF_float32 float
#define REAL_OF_float16 float
#define REAL_OF_bfloat16 float
#define REAL_OF_float64 double
#define REAL CLPRIM_CAT(REAL_OF_, T)
#include "kernels/gemm/micro_kernel.cl"
#define LANES TILE_LANES
#define WIDE TILE_COLUMNS                      // columns of a register tile

typedef REAL real;
typedef storage_t(T) stored;
typedef tile_vector vec;
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
#define get_vec TILE_VLOAD
#define put_vec TILE_VSTORE

#ifdef CLPRIM_FP64
static inline long8 get_lanes_float64(const int* p) { return convert_long8(vload8(0, p)); }
#endif
static inline int16 get_lanes_float32(const int* p) { return vload16(0, p); }
#define get_lanes_float16 get_lanes_float32
#define get_lanes_bfloat16 get_lanes_float32
#define get_lanes CLPRIM_CAT(get_lanes_, T)

DEFINE_ACTIVATE(activate, real)
DEFINE_ACTIVATE(activate_lanes, vec)

// Register tiles. C[r][0..WIDE) (+)= sum over k < depth of A[r * lda + k] * B[k][0..WIDE) for N rows; name##_half owns
// the first LANES columns only.
#define ACCUMULATED(address, half) (accumulate ? get_vec(0, address) : (vec)0)
#define REGISTER_TILE(name, N, A_SPACE, B_SPACE)                                                                \
    static inline void name(const A_SPACE real* restrict A, long lda, const B_SPACE real* restrict B, int depth, \
                     __local real* restrict C, int accumulate)                                                  \
    {                                                                                                           \
        TILE_UPDATE(N, WIDE, ACCUMULATED, C, WIDE, A, lda, 1, B, depth)                                         \
    }                                                                                                           \
    static inline void name##_half(const A_SPACE real* restrict A, long lda, const B_SPACE real* restrict B,    \
                            int depth, __local real* restrict C, int accumulate)                                \
    {                                                                                                           \
        TILE_UPDATE(N, LANES, ACCUMULATED, C, WIDE, A, lda, 1, B, depth)                                        \
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
