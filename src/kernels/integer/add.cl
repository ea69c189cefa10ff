// y = clamp(round(((a - a_zero) a_scale + (b - b_zero) b_scale) / y_scale) + y_zero, low, high) on CPUs, of tensors
// that lie alike. A work-item computes PIECE elements.
//
// -DX=int8|uint8 -DY=int8|uint8
#include "core/dtype.cl"

#define PIECE 4096
#define TO_int8 convert_char16
#define TO_uint8 convert_uchar16
#define BYTES_OF(D) const __global storage_t(D)*
#define REALS const __global float*

static inline float16 real(BYTES_OF(X) x, int zero, float scale)
{
    return convert_float16(convert_int16(vload16(0, x)) - (int16)zero) * scale;
}

static inline int16 quantised(float16 sum, float scale, int zero, int2 bounds)
{
    float16 q = rint(sum / (float16)scale);
    q = q > -65536.0f ? q : (float16)-65536.0f;   // one instruction each, unlike fmax; NaN becomes the lowest
    q = q < 65536.0f ? q : (float16)65536.0f;
    return clamp(convert_int16(q) + (int16)zero, (int16)bounds.x, (int16)bounds.y);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void add(BYTES_OF(X) a, ulong a_offset, REALS a_scale, ulong a_scale_offset, BYTES_OF(X) a_zero, ulong a_zero_offset,
         BYTES_OF(X) b, ulong b_offset, REALS b_scale, ulong b_scale_offset, BYTES_OF(X) b_zero, ulong b_zero_offset,
         REALS y_scale, ulong y_scale_offset, BYTES_OF(Y) y_zero, ulong y_zero_offset, __global storage_t(Y)* y,
         ulong y_offset, long count, int2 bounds)
{
    const long begin = get_global_id(0) * PIECE, end = min(count, begin + PIECE);
    const int2 zeros = (int2)(a_zero[a_zero_offset], b_zero[b_zero_offset]);
    const float2 scales = (float2)(a_scale[a_scale_offset], b_scale[b_scale_offset]);
    const float scale = y_scale[y_scale_offset];
    const int zero = y_zero[y_zero_offset];
    a += a_offset;
    b += b_offset;
    y += y_offset;
    long i = begin;
    for (; i + 16 <= end; i += 16)
        vstore16(CLPRIM_CAT(TO_, Y)(quantised(real(a + i, zeros.x, scales.x) + real(b + i, zeros.y, scales.y), scale,
                                              zero, bounds)), 0, y + i);
    if (i == end)
        return;
    storage_t(X) of_a[16], of_b[16];
    for (int j = 0; j < 16; ++j) {
        of_a[j] = i + j < end ? a[i + j] : (storage_t(X))0;
        of_b[j] = i + j < end ? b[i + j] : (storage_t(X))0;
    }
    const float16 left = convert_float16(convert_int16(vload16(0, of_a)) - (int16)zeros.x) * scales.x;
    const float16 right = convert_float16(convert_int16(vload16(0, of_b)) - (int16)zeros.y) * scales.y;
    int rest[16];
    vstore16(quantised(left + right, scale, zero, bounds), 0, rest);
    for (int j = 0; i + j < end; ++j)
        y[i + j] = (storage_t(Y))rest[j];
}
