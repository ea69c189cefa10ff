// The axis that an index reaches along (index.hpp: IndexedAxis). An index lies in [lowest, size), a negative one counts
// from the end; size < 0: the index is a key, which is an element offset, or negative where a bad index was reported.
typedef struct { long lowest, size, stride; } axis_t;

// The element offset of an index, through `offset`; false, and nothing may be touched, where it is bad.
static inline bool reach(const axis_t axis, long at, __global int* errors, int operator_code, long* offset)
{
    *offset = at * axis.stride;
    if (axis.size < 0)
        return at >= 0;
    if (at < axis.lowest || at >= axis.size) {
        clprim_index_error(errors, operator_code, at, axis.size);
        return false;
    }
    if (at < 0)
        *offset += axis.size * axis.stride;
    return true;
}

// The same without a branch and without a report: -DNEAR says that what is reached lies within 31 bits.
#ifdef NEAR
typedef int reached_t;
static inline bool reach_quietly(const axis_t axis, long at, reached_t* offset)
{
    int wrapped = (int)at;
    const bool narrow = (int)(at >> 32) == wrapped >> 31;
    if (wrapped < 0)
        wrapped -= (int)axis.lowest;
    *offset = wrapped * (int)axis.stride;
    return narrow & ((uint)wrapped < (uint)axis.size);   // a bad key is -1
}
#else
typedef long reached_t;
static inline bool reach_quietly(const axis_t axis, long at, reached_t* offset)
{
    *offset = (at < 0 ? at - axis.lowest : at) * axis.stride;
    return at >= axis.lowest && (at < axis.size || axis.size < 0);
}
#endif

// Reports one of the bad ones among `count`, but no key: that was reported as an index.
static inline void report_bad(const axis_t axis, const long* at, const bool* good, int count, __global int* errors,
                              int operator_code)
{
    bool all = true;
    long bad = 0;
#pragma unroll
    for (int e = 0; e < count; ++e) {
        all &= good[e];
        bad = good[e] ? bad : at[e];
    }
    if (!all && axis.size >= 0)
        clprim_index_error(errors, operator_code, bad, axis.size);
}

// Four neighbours of an index.
typedef int4 four_int32;
typedef long4 four_int64;
#define load_indices(at, p)                                                                \
    {                                                                                      \
        const CLPRIM_CAT(four_, INDEX) four = *(const __global CLPRIM_CAT(four_, INDEX)*)(p); \
        at[0] = four.x, at[1] = four.y, at[2] = four.z, at[3] = four.w;                    \
    }
