// Combines the segments' accumulators; a work-item owns an output.
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
