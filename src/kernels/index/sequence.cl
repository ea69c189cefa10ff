// Sequences: one work-item per element. -DT=dtype -DREAL=float|double|long
#include "core/dtype.cl"
#ifdef CLPRIM_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#ifdef INTEGRAL
#define STEP(start, i, step) ((start) + (REAL)(i) * (step))
#else
#define STEP(start, i, step) fma((REAL)(i), (step), (start))
#endif

__kernel void arange(__global storage_t(T)* out, ulong out_offset, long stride, ulong n, REAL start, REAL step)
{
    ulong i = get_global_id(0);
    if (i < n)
        store(T, out + out_offset, (long)i * stride, (compute_t(T))STEP(start, i, step));
}

#ifndef INTEGRAL
// For an integral type start and end are integers, and the offset from them is cut to one.
__kernel void linspace(__global storage_t(T)* out, ulong out_offset, long stride, ulong n, REAL start, REAL end,
                       REAL step)
{
    ulong i = get_global_id(0);
    if (i >= n)
        return;
    REAL value = i < n / 2 ? STEP(start, i, step) : STEP(end, n - 1 - i, -step);
    store(T, out + out_offset, (long)i * stride, (compute_t(T))value);
}
#endif
