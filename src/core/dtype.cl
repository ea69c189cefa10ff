// Element access by dtype name. A kernel is built with, say, -DX=float16 and writes
//     compute_t(X) v = load(X, x, i);   store(X, y, i, v);
// storage_t(X): the type in memory; compute_t(X): the type in registers (float for float16 and bfloat16).
#define CLPRIM_CAT_(a, b) a##b
#define CLPRIM_CAT(a, b) CLPRIM_CAT_(a, b)
#define storage_t(D) CLPRIM_CAT(storage_, D)
#define compute_t(D) CLPRIM_CAT(compute_, D)
#define load(D, p, i) CLPRIM_CAT(load_, D)(p, i)
#define store(D, p, i, v) CLPRIM_CAT(store_, D)(p, i, v)

#define CLPRIM_PLAIN_DTYPE(D, T)                                                                            \
    typedef T storage_##D;                                                                                  \
    typedef T compute_##D;                                                                                  \
    static inline T load_##D(const __global T* p, ulong i) { return p[i]; }                                        \
    static inline void store_##D(__global T* p, ulong i, T v) { p[i] = v; }

CLPRIM_PLAIN_DTYPE(float32, float)
CLPRIM_PLAIN_DTYPE(int8, char)
CLPRIM_PLAIN_DTYPE(int16, short)
CLPRIM_PLAIN_DTYPE(int32, int)
CLPRIM_PLAIN_DTYPE(int64, long)
CLPRIM_PLAIN_DTYPE(uint8, uchar)
CLPRIM_PLAIN_DTYPE(uint16, ushort)
CLPRIM_PLAIN_DTYPE(uint32, uint)
CLPRIM_PLAIN_DTYPE(uint64, ulong)
CLPRIM_PLAIN_DTYPE(complex64, float2)
#ifdef CLPRIM_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
CLPRIM_PLAIN_DTYPE(float64, double)
CLPRIM_PLAIN_DTYPE(complex128, double2)
#endif

typedef uchar storage_boolean;
typedef uchar compute_boolean;
static inline uchar load_boolean(const __global uchar* p, ulong i) { return p[i] != 0; }
static inline void store_boolean(__global uchar* p, ulong i, uchar v) { p[i] = v != 0; }

// half is stored as its bits: arithmetic in half is never used, so that devices without cl_khr_fp16 work too. Scalar
// vload_half and vstore_half are avoided on CPUs: Intel's compiler does not vectorise them (a hundred times slower).
typedef ushort storage_float16;
typedef float compute_float16;
#if defined(CLPRIM_FP16)
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
static inline float float16_to_float(ushort bits) { return (float)as_half(bits); }
static inline ushort float_to_float16(float v) { return as_ushort((half)v); }
#elif defined(CLPRIM_DEVICE_CPU)
static inline float float16_to_float(ushort bits)
{
    const uint sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13, exponent = bits & 0x7c00u;
    const float subnormal = as_float(rest + (113u << 23)) - as_float(113u << 23);
    const float v = exponent == 0        ? subnormal
                    : exponent == 0x7c00u ? as_float(rest | 0x7f800000u)
                                          : as_float(rest + (112u << 23));
    return as_float(as_uint(v) | sign);
}
static inline ushort float_to_float16(float v)   // to nearest, ties to even
{
    const uint sign = (as_uint(v) >> 16) & 0x8000u, rest = as_uint(v) & 0x7fffffffu;
    const uint normal = (rest + 0xfffu + ((rest >> 13) & 1u) - (112u << 23)) >> 13;
    const uint subnormal = as_uint(as_float(rest) + 0.5f) - 0x3f000000u;
    const uint bits = rest > 0x7f800000u    ? 0x7e00u
                      : rest >= 0x477ff000u ? 0x7c00u
                      : rest < (113u << 23) ? subnormal
                                            : normal;
    return (ushort)(bits | sign);
}
#else
static inline float float16_to_float(ushort bits)
{
    const ushort place[1] = {bits};
    return vload_half(0, (const half*)place);
}
static inline ushort float_to_float16(float v)
{
    ushort place[1];
    vstore_half_rte(v, 0, (half*)place);
    return place[0];
}
#endif
static inline float load_float16(const __global ushort* p, ulong i) { return float16_to_float(p[i]); }
static inline void store_float16(__global ushort* p, ulong i, float v) { p[i] = float_to_float16(v); }

typedef ushort storage_bfloat16;
typedef float compute_bfloat16;
static inline float bfloat16_to_float(ushort bits) { return as_float((uint)bits << 16); }
static inline ushort float_to_bfloat16(float v)   // to nearest, ties to even; NaN stays a quiet NaN
{
    uint bits = as_uint(v);
    return isnan(v) ? (ushort)0x7fc0 : (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
static inline float load_bfloat16(const __global ushort* p, ulong i) { return bfloat16_to_float(p[i]); }
static inline void store_bfloat16(__global ushort* p, ulong i, float v) { p[i] = float_to_bfloat16(v); }

typedef ushort2 storage_complex32;
typedef float2 compute_complex32;
static inline float2 load_complex32(const __global ushort2* p, ulong i)
{
    return (float2)(float16_to_float(p[i].x), float16_to_float(p[i].y));
}
static inline void store_complex32(__global ushort2* p, ulong i, float2 v)
{
    p[i] = (ushort2)(float_to_float16(v.x), float_to_float16(v.y));
}

typedef ushort2 storage_bcomplex32;
typedef float2 compute_bcomplex32;
static inline float2 load_bcomplex32(const __global ushort2* p, ulong i)
{
    return (float2)(bfloat16_to_float(p[i].x), bfloat16_to_float(p[i].y));
}
static inline void store_bcomplex32(__global ushort2* p, ulong i, float2 v)
{
    p[i] = (ushort2)(float_to_bfloat16(v.x), float_to_bfloat16(v.y));
}
