// Combines the segments' accumulators.
#ifdef CLPRIM_DEVICE_CPU
// A work-item owns an output.
__kernel void merge(PARAMETERS ulong kept_count, ulong reduced_count, ulong segments,
                    __global uchar* partial, ulong partial_offset, const geometry_t g)
{
    const offset_t out = get_global_id(0);
    if (out >= kept_count)
        return;
    SHIFT
    offset_t base[OPERANDS] = {0};
    locate(&g, REDUCED_RANK, RANK, out, base);
    const __global state_t* states = (const __global state_t*)(partial + partial_offset);
    state_t s = init();
    for (ulong k = 0; k < segments; ++k)
        s = combine(s, states[k * kept_count + out]);
    FINISH(s, reduced_count);
}
#else
// The work-items of a column of the group share an output's segments.
__kernel void merge(PARAMETERS ulong kept_count, ulong reduced_count, ulong segments,
                    __global uchar* partial, ulong partial_offset, const geometry_t g)
{
    const uint width = get_local_size(0), row = get_local_id(1), height = get_local_size(1);
    const offset_t out = min((ulong)get_global_id(0), kept_count - 1);
    const __global state_t* states = (const __global state_t*)(partial + partial_offset);
    state_t s = init();
    for (uint k = row; k < (uint)segments; k += height)
        s = combine(s, states[k * kept_count + out]);
    __local state_t rows[GROUP];
    __local state_t* mine = rows + row * width + get_local_id(0);
    *mine = s;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_count = height / 2; half_count > 0; half_count >>= 1) {
        if (row < half_count)
            *mine = combine(*mine, mine[half_count * width]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row != 0 || get_global_id(0) >= kept_count)
        return;
    s = *mine;
    SHIFT
    offset_t base[OPERANDS] = {0};
    locate(&g, REDUCED_RANK, RANK, out, base);
    FINISH(s, reduced_count);
}
#endif
