// Vectors of VEC elements (-DVEC=16 for CPU devices, 4 or 1 for GPUs) and teams of TEAM work-items (-DTEAM, a power of
// two), so that one kernel text serves both: a CPU team is one work-item with 16 lanes, a GPU team a work-group of
// scalars, or of quads where all that it reads and writes lies at multiples of four elements, as many.
// Needs core/dtype.cl. vector_t(X) holds VEC values of compute_t(X).
//     vector_t(X) v = load_vector(X, x, i);            elements i .. i + VEC - 1
//     v = load_lanes(X, x, i, n, fill);                the first n of them, `fill` in the other lanes
//     store_vector(X, y, i, v); store_lanes(X, y, i, n, v);
//     v = load_part(X, x, i, n, fill); store_part(X, y, i, n, v);   as vectors if n is VEC, as it always is of quads
// Comparisons with ?: work lane by lane; last_lanes(n) is such a condition, true in the last n lanes.
#define vector_t(D) CLPRIM_CAT(vector_, D)
#define load_vector(D, p, i) CLPRIM_CAT(load_vector_, D)(p, i)
#define store_vector(D, p, i, v) CLPRIM_CAT(store_vector_, D)(p, i, v)
#define load_lanes(D, p, i, n, fill) CLPRIM_CAT(load_lanes_, D)(p, i, n, fill)
#define store_lanes(D, p, i, n, v) CLPRIM_CAT(store_lanes_, D)(p, i, n, v)
#define to_vector(D, v) CLPRIM_CAT(to_vector_, D)(v)
#if VEC == 4
#define load_part(D, p, i, n, fill) load_vector(D, p, i)
#define store_part(D, p, i, n, v) store_vector(D, p, i, v)
#else
#define load_part(D, p, i, n, fill) ((n) == VEC ? load_vector(D, p, i) : load_lanes(D, p, i, n, fill))
#define store_part(D, p, i, n, v)                                                                                     \
    if ((n) == VEC)                                                                                                   \
        store_vector(D, p, i, v);                                                                                     \
    else                                                                                                              \
        store_lanes(D, p, i, n, v)
#endif

#if VEC == 16

typedef int16 lane_int;
#define any_lane(condition) any(condition)
#define from_array(values) vload16(0, values)
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))

static inline float16 bfloat16_to_float_16(ushort16 bits) { return as_float16(convert_uint16(bits) << 16); }
static inline ushort16 float_to_bfloat16_16(float16 v)
{
    const uint16 bits = as_uint16(v);
    const uint16 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return convert_ushort16(isnan(v) ? (uint16)0x7fc0u : rounded);
}

#define CLPRIM_VECTOR(D, T, LOAD, STORE)                                                                              \
    typedef CLPRIM_CAT(T, 16) vector_##D;                                                                             \
    static inline vector_##D to_vector_##D(T v) { return (vector_##D)(v); }                                           \
    static inline vector_##D load_vector_##D(const __global storage_##D* p, ulong i) { return LOAD; }                 \
    static inline void store_vector_##D(__global storage_##D* p, ulong i, vector_##D v) { STORE; }                    \
    static inline vector_##D load_lanes_##D(const __global storage_##D* p, ulong i, uint n, T fill)                   \
    {                                                                                                                 \
        T t[16];                                                                                                      \
        for (uint k = 0; k < 16; ++k)                                                                                 \
            t[k] = k < n ? load_##D(p, i + k) : fill;                                                                 \
        return vload16(0, t);                                                                                         \
    }                                                                                                                 \
    static inline void store_lanes_##D(__global storage_##D* p, ulong i, uint n, vector_##D v)                        \
    {                                                                                                                 \
        T t[16];                                                                                                      \
        vstore16(v, 0, t);                                                                                            \
        for (uint k = 0; k < n; ++k)                                                                                  \
            store_##D(p, i + k, t[k]);                                                                                \
    }
#define CLPRIM_PLAIN_VECTOR(D, T) CLPRIM_VECTOR(D, T, vload16(0, p + i), vstore16(v, 0, p + i))
CLPRIM_VECTOR(float16, float, vload_half16(0, (const __global half*)(p + i)),
              vstore_half16_rte(v, 0, (__global half*)(p + i)))
CLPRIM_VECTOR(bfloat16, float, bfloat16_to_float_16(vload16(0, p + i)), vstore16(float_to_bfloat16_16(v), 0, p + i))

#define CLPRIM_FOLD(T, NAME, OP2)                                                                                     \
    static inline T NAME(CLPRIM_CAT(T, 16) v)                                                                         \
    {                                                                                                                 \
        const CLPRIM_CAT(T, 8) a = OP2(v.lo, v.hi);                                                                   \
        const CLPRIM_CAT(T, 4) b = OP2(a.lo, a.hi);                                                                   \
        const CLPRIM_CAT(T, 2) c = OP2(b.lo, b.hi);                                                                   \
        return OP2(c.x, c.y);                                                                                         \
    }

#elif VEC == 4
#include "core/quad.cl"

typedef int4 lane_int;
#define any_lane(condition) any(condition)
#define from_array(values) vload4(0, values)
#define LANES ((int4)(0, 1, 2, 3))

#define CLPRIM_PLAIN_VECTOR(D, T)                                                                                     \
    typedef quad_##D vector_##D;                                                                                      \
    static inline vector_##D to_vector_##D(T v) { return (vector_##D)(v); }                                           \
    static inline vector_##D load_vector_##D(const __global storage_##D* p, ulong i) { return load_quad_##D(p + i); } \
    static inline void store_vector_##D(__global storage_##D* p, ulong i, vector_##D v) { store_quad_##D(p + i, v); } \
    static inline vector_##D load_lanes_##D(const __global storage_##D* p, ulong i, uint n, T fill)                   \
    {                                                                                                                 \
        return (vector_##D)(n > 0 ? load_##D(p, i) : fill, n > 1 ? load_##D(p, i + 1) : fill,                         \
                            n > 2 ? load_##D(p, i + 2) : fill, n > 3 ? load_##D(p, i + 3) : fill);                    \
    }                                                                                                                 \
    static inline void store_lanes_##D(__global storage_##D* p, ulong i, uint n, vector_##D v)                        \
    {                                                                                                                 \
        if (n > 0)                                                                                                    \
            store_##D(p, i, v.x);                                                                                     \
        if (n > 1)                                                                                                    \
            store_##D(p, i + 1, v.y);                                                                                 \
        if (n > 2)                                                                                                    \
            store_##D(p, i + 2, v.z);                                                                                 \
        if (n > 3)                                                                                                    \
            store_##D(p, i + 3, v.w);                                                                                 \
    }
CLPRIM_PLAIN_VECTOR(float16, float)
CLPRIM_PLAIN_VECTOR(bfloat16, float)

#define CLPRIM_FOLD(T, NAME, OP2)                                                                                     \
    static inline T NAME(CLPRIM_CAT(T, 4) v) { return OP2(OP2(v.x, v.y), OP2(v.z, v.w)); }

#else

typedef int lane_int;
#define any_lane(condition) (condition)
#define from_array(values) ((values)[0])
#define LANES 0
#define CLPRIM_PLAIN_VECTOR(D, T)                                                                                     \
    typedef T vector_##D;                                                                                             \
    static inline T to_vector_##D(T v) { return v; }                                                                  \
    static inline T load_vector_##D(const __global storage_##D* p, ulong i) { return load_##D(p, i); }                \
    static inline void store_vector_##D(__global storage_##D* p, ulong i, T v) { store_##D(p, i, v); }                \
    static inline T load_lanes_##D(const __global storage_##D* p, ulong i, uint n, T fill)                            \
    {                                                                                                                 \
        return n ? load_##D(p, i) : fill;                                                                             \
    }                                                                                                                 \
    static inline void store_lanes_##D(__global storage_##D* p, ulong i, uint n, T v) { if (n) store_##D(p, i, v); }
CLPRIM_PLAIN_VECTOR(float16, float)
CLPRIM_PLAIN_VECTOR(bfloat16, float)
#define CLPRIM_FOLD(T, NAME, OP2) static inline T NAME(T v) { return v; }

#endif

CLPRIM_PLAIN_VECTOR(float32, float)
CLPRIM_PLAIN_VECTOR(int8, char)
CLPRIM_PLAIN_VECTOR(int16, short)
CLPRIM_PLAIN_VECTOR(int32, int)
CLPRIM_PLAIN_VECTOR(int64, long)
CLPRIM_PLAIN_VECTOR(uint8, uchar)
#ifdef CLPRIM_FP64
CLPRIM_PLAIN_VECTOR(float64, double)
#endif

#if VEC == 16
#define last_lanes(n) CLPRIM_CAT(last_lanes_, ACC)(n)
static inline int16 last_lanes_float(uint n) { return LANES >= (int16)(VEC - (int)n); }
#ifdef CLPRIM_FP64
static inline long16 last_lanes_double(uint n) { return convert_long16(last_lanes_float(n)); }
#endif
#endif

// Sum and maximum over the lanes of a vector; ACC is the type computed in, float or double.
#define CLPRIM_ADD(a, b) ((a) + (b))
#define lane_sum CLPRIM_CAT(lane_sum_, ACC)
#define lane_max CLPRIM_CAT(lane_max_, ACC)
CLPRIM_FOLD(float, lane_sum_float, CLPRIM_ADD)
CLPRIM_FOLD(float, lane_max_float, fmax)
#ifdef CLPRIM_FP64
CLPRIM_FOLD(double, lane_sum_double, CLPRIM_ADD)
CLPRIM_FOLD(double, lane_max_double, fmax)
#endif

// Reductions over a team, given one value per work-item: every member gets the result. `scratch` is __local memory of
// TEAM values; a team of one ignores it. A fixed tree, so the same bits every run.
#ifdef TEAM
#define team_sum CLPRIM_CAT(team_sum_, ACC)
#define team_max CLPRIM_CAT(team_max_, ACC)
#ifndef TEAMS   // of a work-group, whose second axis counts them; they meet barriers together
#define TEAMS 1
#endif
#if TEAM == 1
#define TEAM_SCRATCH(T, name) __local T* const name = 0
#define team_rank() 0u
#define CLPRIM_TEAM_FOLD(T, NAME, OP2) static inline T NAME(T v, __local T* scratch) { return v; }
#else
#define TEAM_SCRATCH(T, name)                                                                                         \
    __local T name##_of_teams[TEAM * TEAMS];                                                                          \
    __local T* const name = name##_of_teams + (TEAMS > 1 ? get_local_id(1) * TEAM : 0)
#define team_rank() ((uint)get_local_id(0))
#define CLPRIM_TEAM_FOLD(T, NAME, OP2)                                                                                \
    static inline T NAME(T v, __local T* scratch)                                                                     \
    {                                                                                                                 \
        const uint rank = get_local_id(0);                                                                            \
        scratch[rank] = v;                                                                                            \
        for (uint half_team = TEAM / 2; half_team > 0; half_team /= 2) {                                              \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
            if (rank < half_team)                                                                                     \
                scratch[rank] = OP2(scratch[rank], scratch[rank + half_team]);                                        \
        }                                                                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
        const T result = scratch[0];                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
        return result;                                                                                                \
    }
#endif
CLPRIM_TEAM_FOLD(float, team_sum_float, CLPRIM_ADD)
CLPRIM_TEAM_FOLD(float, team_max_float, fmax)
#ifdef CLPRIM_FP64
CLPRIM_TEAM_FOLD(double, team_sum_double, CLPRIM_ADD)
CLPRIM_TEAM_FOLD(double, team_max_double, fmax)
#endif
#endif
