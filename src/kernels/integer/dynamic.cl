// quantize_dynamically: teams find the range of a share of x each (`bounds`), then quantise one each by what all found
// (`quantise`); a single team does both, with -DALONE.
#include "core/dtype.cl"
#include "core/vector.cl"

typedef vector_t(float32) real_t;

#define TO_BYTES_1(v) ((uchar)(int)(v))
#define TO_BYTES_4(v) convert_uchar4(convert_int4(v))
#define TO_BYTES_16(v) convert_uchar16(convert_int16(v))
#define TO_BYTES CLPRIM_CAT(TO_BYTES_, VEC)

// The lower bound with its sign turned, and the upper one.
static inline float2 range_of(const __global float* x, ulong begin, ulong end, __local float* scratch)
{
    real_t low = 0, high = 0;
    for (ulong i = begin + team_rank() * VEC; i < end; i += TEAM * VEC) {
        const real_t v = load_part(float32, x, i, (uint)min(end - i, (ulong)VEC), 0.0f);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    return (float2)(team_max(lane_max(-low), scratch), team_max(lane_max(high), scratch));
}

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void bounds(const __global float* x, ulong x_offset, __global float* partial, ulong partial_offset, ulong count,
            ulong share)
{
    TEAM_SCRATCH(float, scratch);
    const ulong begin = get_group_id(0) * share;
    const float2 range = range_of(x + x_offset, begin, min(count, begin + share), scratch);
    if (team_rank() == 0)
        vstore2(range, get_group_id(0), partial + partial_offset);
}

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void quantise(const __global float* x, ulong x_offset, const __global float* partial, ulong partial_offset,
              __global uchar* y, ulong y_offset, __global float* scale, ulong scale_offset, __global uchar* zero,
              ulong zero_offset, ulong count, ulong share)
{
    TEAM_SCRATCH(float, scratch);
    const ulong begin = get_group_id(0) * share, end = min(count, begin + share);
    x += x_offset;
    y += y_offset;
#ifdef ALONE
    const float2 range = range_of(x, begin, end, scratch);
#else
    float2 range = 0.0f;
    for (uint k = team_rank(); k < get_num_groups(0); k += TEAM)
        range = fmax(range, vload2(k, partial + partial_offset));
    range = (float2)(team_max(range.x, scratch), team_max(range.y, scratch));
#endif
    const float low = -range.x, step = low == range.y ? 1.0f : (range.y - low) / 255;
    const float middle = fmin(fmax(rint(-low / step), 0.0f), 255.0f);
    if (get_global_id(0) == 0) {
        scale[scale_offset] = step;
        zero[zero_offset] = (uchar)middle;
    }
    for (ulong i = begin + team_rank() * VEC; i < end; i += TEAM * VEC) {
        const uint lanes = (uint)min(end - i, (ulong)VEC);
        const real_t v = load_part(float32, x, i, lanes, 0.0f);
        const vector_t(uint8) bytes = TO_BYTES(fmin(fmax(rint(v / step) + middle, 0.0f), 255.0f));
        store_part(uint8, y, i, lanes, bytes);
    }
}
