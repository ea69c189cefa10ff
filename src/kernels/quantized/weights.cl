// Weights of 8 or 4 bits as kernels read them (clprim/quantized.hpp). Needs core/vector.cl with -DVEC=16, for -DFLOAT8
// kernels/float8/decode.cl, and -DX -DBITS [-DZEROS].
#define BLOCK 32

typedef struct {
    long rows, columns, depth;   // of x; of W; of the sum
    long x_row, y_row;           // strides
    long group, scale_group, scale_column, zero_group, zero_column;
} quantized_problem;

#define SCALARS const __global storage_t(X)*

// Of an input. GPUs divide numbers of 64 bits in a hundred instructions, as many as a block of weights takes.
#ifdef CLPRIM_DEVICE_CPU
typedef long input_t;
#else
typedef uint input_t;
#endif

// Block `at` (in elements) of an output's weights as numbers from -8 or 0 on: inputs 0 to 15 and 16 to 31.
static inline void get_weights(const __global uchar* w, ulong at, float16* low, float16* high)
{
    const __global uint4* from = (const __global uint4*)(w + at * BITS / 8);
#if BITS == 4
    const uchar16 pairs = as_uchar16(from[0]);
    *low = convert_float16(pairs & (uchar16)15);
    *high = convert_float16(pairs >> (uchar16)4);
#elif defined(FLOAT8)
    *low = float8_numbers(as_uchar16(from[0]));
    *high = float8_numbers(as_uchar16(from[1]));
#else
    *low = convert_float16(as_char16(from[0]));
    *high = convert_float16(as_char16(from[1]));
#endif
}

// What is added for an output and a group beside scale * q: zero - center * scale.
static inline float offset_of(SCALARS zeros, const quantized_problem* p, long group, long column, float scale)
{
    float offset = BITS == 4 ? -8 * scale : 0;
#ifdef ZEROS
    offset += load(X, zeros, group * p->zero_group + column * p->zero_column);
#endif
    return offset;
}

static inline float sum_of(float16 v)
{
    const float8 a = v.lo + v.hi;
    const float4 b = a.lo + a.hi;
    return (b.x + b.y) + (b.z + b.w);
}
