// Norms of many tensors: parts of each, then each from its parts. Lists are the tensors, where their parts begin.
// -DT=dtype -DLISTS=2 -DNORM=1, 2 or 0 (of infinite order) [-DWIDE]
#include "kernels/optim/multi_tensor.cl"

#if NORM == 0
#define TERM(v) fabs(v)
#define JOIN(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))   // a NaN stays
#elif NORM == 1
#define TERM(v) fabs(v)
#define JOIN(a, b) ((a) + (b))
#else
#define TERM(v) ((v) * (v))
#define JOIN(a, b) ((a) + (b))
#endif

// On CPUs each work-item of a group has a part, which needs no barrier; on GPUs a group has one.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void norm_parts(TABLE_PARAMETERS)
{
    FIND_TENSOR
    const __global storage_t(T)* x = OPERAND(storage_t(T), 0);
    __global real* parts = OPERAND(real, 1);
    real sum = 0;
#ifdef CLPRIM_DEVICE_CPU
    EACH_ELEMENT(i)
    {
        const real v = load(T, x, i), term = TERM(v);
        sum = JOIN(sum, term);
    }
    parts[first / PER_GROUP * GROUP + get_local_id(0)] = sum;
#else
    real values[PER_GROUP / GROUP];
    #pragma unroll
    for (uint k = 0; k < PER_GROUP / GROUP; ++k)   // all of them on their way at once
        values[k] = load(T, x, min(first + k * GROUP + get_local_id(0), end - 1));
    #pragma unroll
    for (uint k = 0; k < PER_GROUP / GROUP; ++k) {
        const real term = first + k * GROUP + get_local_id(0) < end ? TERM(values[k]) : 0;
        sum = JOIN(sum, term);
    }
    __local real sums[GROUP];
    const uint rank = get_local_id(0);
    sums[rank] = sum;
    for (uint half_group = GROUP / 2; half_group > 0; half_group /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (rank < half_group)
            sums[rank] = JOIN(sums[rank], sums[rank + half_group]);
    }
    if (rank == 0)
        parts[first / PER_GROUP] = sums[0];
#endif
}

// Group t: parts[bounds[t] .. bounds[t + 1]) become the norm of tensor t.
__kernel void norm_totals(const __global real* parts, ulong parts_offset, const __global ulong* bounds,
                          ulong bounds_offset, __global storage_t(T)* norms, ulong norms_offset)
{
    const ulong t = get_group_id(0), end = bounds[bounds_offset + t + 1];
    real sum = 0;
    for (ulong k = bounds[bounds_offset + t] + get_local_id(0); k < end; k += get_local_size(0))
        sum = JOIN(sum, parts[parts_offset + k]);
#ifndef CLPRIM_DEVICE_CPU
    __local real sums[256];
    const uint rank = get_local_id(0);
    sums[rank] = sum;
    for (uint half_group = get_local_size(0) / 2; half_group > 0; half_group /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (rank < half_group)
            sums[rank] = JOIN(sums[rank], sums[rank + half_group]);
    }
    if (rank != 0)
        return;
    sum = sums[0];
#endif
    store(T, norms, norms_offset + t, NORM == 2 ? sqrt(sum) : sum);
}
