// sequence.cl on CPUs, for results whose elements lie together: a work-item computes 16 as a vector. -DT=dtype
// -DREAL=float|double|long, -DPLAIN: elements are stored as they are computed, -DCONVERT: what makes integers of 16.
#include "core/dtype.cl"
#ifdef CLPRIM_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define REALS CLPRIM_CAT(REAL, 16)
#define NUMBERS CLPRIM_CAT(CLPRIM_CAT(convert_, REAL), 16)
#define PLACES (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

#ifdef INTEGRAL
#define STEP(start, i, step) ((REALS)(start) + NUMBERS(i) * (REALS)(step))
#else
#define STEP(start, i, step) fma(NUMBERS(i), (REALS)(step), (REALS)(start))
#endif

static inline void write(__global storage_t(T)* out, REALS v, int count)
{
#ifdef PLAIN
    if (count >= 16) {
        vstore16(v, 0, out);
        return;
    }
#elif defined(CONVERT)
    if (count >= 16) {
        vstore16(CONVERT(v), 0, out);
        return;
    }
#endif
    REAL lanes[16];
    vstore16(v, 0, lanes);
    if (count >= 16)
        for (int j = 0; j < 16; ++j)
            store(T, out, j, (compute_t(T))lanes[j]);
    else
        for (int j = 0; j < count; ++j)
            store(T, out, j, (compute_t(T))lanes[j]);
}

__kernel __attribute__((vec_type_hint(REALS)))
void arange(__global storage_t(T)* out, ulong out_offset, int n, REAL start, REAL step)
{
    const int first = get_global_id(0) * 16;
    if (first < n)
        write(out + out_offset + first, STEP(start, first + PLACES, step), n - first);
}

#ifndef INTEGRAL
// Counted from the nearer end.
__kernel __attribute__((vec_type_hint(REALS)))
void linspace(__global storage_t(T)* out, ulong out_offset, int n, REAL start, REAL end, REAL step)
{
    const int first = get_global_id(0) * 16, middle = n / 2;
    if (first >= n)
        return;
    const REALS from_start = STEP(start, first + PLACES, step), from_end = STEP(end, n - 1 - first - PLACES, -step);
    REALS v = first + 16 <= middle ? from_start : from_end;
    if (first < middle && first + 16 > middle) {   // both within the vector
        REAL low[16], lanes[16];
        vstore16(from_start, 0, low);
        vstore16(from_end, 0, lanes);
        for (int j = 0; j < middle - first; ++j)
            lanes[j] = low[j];
        v = vload16(0, lanes);
    }
    write(out + out_offset + first, v, n - first);
}
#endif
