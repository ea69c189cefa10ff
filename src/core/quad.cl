// Four neighbours at once, of addresses that are a multiple of four elements: one load or store of up to 16 bytes, where
// vload4 promises the alignment of one element only and many compilers load one by one. Needs core/dtype.cl.
//     quad_t(X) v = load_quad(X, x + i);   store_quad(X, y + i, v);
//     v = to_quad(X, w);          four values of another type, integers wrap around
// quad_t(X) holds four values of compute_t(X).
#define quad_t(D) CLPRIM_CAT(quad_, D)
#define load_quad(D, p) CLPRIM_CAT(load_quad_, D)(p)
#define store_quad(D, p, v) CLPRIM_CAT(store_quad_, D)(p, v)
#define to_quad(D, v) CLPRIM_CAT(to_quad_, D)(v)

#define to_quad_float16 convert_float4
#define to_quad_bfloat16 convert_float4
#define to_quad_float32 convert_float4
#define to_quad_float64 convert_double4
#define to_quad_int8 convert_char4
#define to_quad_int16 convert_short4
#define to_quad_int32 convert_int4
#define to_quad_int64 convert_long4
#define to_quad_uint8 convert_uchar4
#define to_quad_uint16 convert_ushort4
#define to_quad_uint32 convert_uint4
#define to_quad_uint64 convert_ulong4

#define CLPRIM_QUAD(D, T)                                                                                             \
    typedef CLPRIM_CAT(T, 4) quad_##D;                                                                                \
    static inline quad_##D load_quad_##D(const __global T* p) { return *(const __global quad_##D*)p; }                \
    static inline void store_quad_##D(__global T* p, quad_##D v) { *(__global quad_##D*)p = v; }

CLPRIM_QUAD(float32, float)
CLPRIM_QUAD(int8, char)
CLPRIM_QUAD(int16, short)
CLPRIM_QUAD(int32, int)
CLPRIM_QUAD(int64, long)
CLPRIM_QUAD(uint8, uchar)
CLPRIM_QUAD(uint16, ushort)
CLPRIM_QUAD(uint32, uint)
CLPRIM_QUAD(uint64, ulong)
#ifdef CLPRIM_FP64
CLPRIM_QUAD(float64, double)
#endif

typedef uchar4 quad_boolean;
static inline uchar4 load_quad_boolean(const __global uchar* p)
{
    const uchar4 v = *(const __global uchar4*)p;
    return (uchar4)(v.x != 0, v.y != 0, v.z != 0, v.w != 0);
}
static inline void store_quad_boolean(__global uchar* p, uchar4 v)
{
    *(__global uchar4*)p = (uchar4)(v.x != 0, v.y != 0, v.z != 0, v.w != 0);
}

typedef float4 quad_float16;
static inline float4 load_quad_float16(const __global ushort* p)
{
    const ushort4 bits = *(const __global ushort4*)p;
    return (float4)(float16_to_float(bits.x), float16_to_float(bits.y), float16_to_float(bits.z),
                    float16_to_float(bits.w));
}
static inline void store_quad_float16(__global ushort* p, float4 v)
{
    *(__global ushort4*)p = (ushort4)(float_to_float16(v.x), float_to_float16(v.y), float_to_float16(v.z),
                                      float_to_float16(v.w));
}

typedef float4 quad_bfloat16;
static inline float4 load_quad_bfloat16(const __global ushort* p)
{
    return as_float4(convert_uint4(*(const __global ushort4*)p) << 16);
}
static inline void store_quad_bfloat16(__global ushort* p, float4 v)
{
    *(__global ushort4*)p = (ushort4)(float_to_bfloat16(v.x), float_to_bfloat16(v.y), float_to_bfloat16(v.z),
                                      float_to_bfloat16(v.w));
}
