// Reductions. The generator (reduce.cpp) puts in front of this text: state_t, init(), combine(s, other), PARAMETERS,
// SHIFT, STEP(s, i, index), which takes element i of the fastest reduced dimension into s, and FINISH(s, count).
//
// Dimensions [0, REDUCED_RANK) of the geometry are reduced, [REDUCED_RANK, RANK) kept. An output is owned by a
// work-item (LANES 1) or by LANES of them, which step through the reduction side by side. A work-group has BESIDE such
// outputs; with ACROSS its work-items side by side own outputs, without it they are lanes of one. Where outputs are
// few, the reduction is cut into segments (global id 1), whose accumulators `merge` combines.
#define BLOCK 256     // steps after which an accumulator is folded into the total: keeps rounding errors small
// Chains of dependent steps that run side by side, so that as many loads are under way.
// On GPUs fewer of doubles where a work-item owns an output: their states fill the registers of sub-groups of 32.
#if defined(CLPRIM_DEVICE_CPU)
#define CHAINS (LANES > 1 ? 2 : 1)
#elif LANES > 1 || !defined(T_DOUBLE)
#define CHAINS 4
#elif !defined(T_COMPLEX)
#define CHAINS 2
#else
#define CHAINS 1
#endif

// All of a work-item's accumulators as one: halves are combined while there are two, which compilers put into vectors.
static inline state_t fold(state_t* states)
{
    #pragma unroll
    for (int half_count = CHAINS / 2; half_count > 0; half_count /= 2) {
        #pragma unroll
        for (int k = 0; k < half_count; ++k)
            states[k] = combine(states[k], states[k + half_count]);
    }
    return states[0];
}

#if REDUCED_RANK > 1 && LANES > 1 && defined(CLPRIM_DEVICE_GPU)
#define SHORT_LINES
// Element p of the reduction, wherever it lies, or nothing.
static inline state_t step_at(PARAMETERS const geometry_t* g, const offset_t* base, offset_t p, bool known, state_t s)
{
    const offset_t outer = divide(g, 0, p), i = p - outer * g->size[0];
    offset_t position[OPERANDS];
    #pragma unroll
    for (int k = 0; k < OPERANDS; ++k)
        position[k] = base[k];
    locate(g, 1, REDUCED_RANK, outer, position);
    const state_t after = STEP(s, i, p);
    return known ? after : s;
}
#endif

static inline state_t accumulate(PARAMETERS const geometry_t* g, const offset_t* base, offset_t begin, offset_t end,
                                 offset_t lane)
{
    const offset_t inner = g->size[0];
    state_t total = init(), states[CHAINS];
    #pragma unroll
    for (int k = 0; k < CHAINS; ++k)
        states[k] = init();
    offset_t steps = 0;
#ifdef SHORT_LINES
    if (inner < LANES * CHAINS) {   // lanes take elements of several lines
        for (offset_t p = begin + lane; p < end; p += CHAINS * LANES) {
            #pragma unroll
            for (int k = 0; k < CHAINS; ++k)
                states[k] = step_at(ARGUMENTS g, base, min(p + k * LANES, end - 1), p + k * LANES < end, states[k]);
            if (++steps == BLOCK / CHAINS) {
                total = combine(total, fold(states));
                #pragma unroll
                for (int k = 0; k < CHAINS; ++k)
                    states[k] = init();
                steps = 0;
            }
        }
        return combine(total, fold(states));
    }
#endif
    for (offset_t p = begin; p < end;) {
        offset_t position[OPERANDS], outer = 0, from = p;
        #pragma unroll
        for (int k = 0; k < OPERANDS; ++k)
            position[k] = base[k];
#if REDUCED_RANK > 1
        outer = divide(g, 0, p);
        from = p - outer * inner;
        locate(g, 1, REDUCED_RANK, outer, position);
#endif
        offset_t stop = min(min(inner, from + (end - p)), from + BLOCK * LANES);
        offset_t i = from + lane;
#if CHAINS > 1
        for (; i + (CHAINS - 1) * LANES < stop; i += CHAINS * LANES) {
            #pragma unroll
            for (int k = 0; k < CHAINS; ++k)
                states[k] = STEP(states[k], i + k * LANES, outer * inner + i + k * LANES);
        }
#endif
        for (; i < stop; i += LANES)
            states[0] = STEP(states[0], i, outer * inner + i);
        p += stop - from;
        steps += stop - from;
        if (steps >= BLOCK * LANES) {
            total = combine(total, fold(states));
            #pragma unroll
            for (int k = 0; k < CHAINS; ++k)
                states[k] = init();
            steps = 0;
        }
    }
    return combine(total, fold(states));
}

#if LANES > 1
__attribute__((reqd_work_group_size(LANES * BESIDE, 1, 1)))
#endif
__kernel void reduce(PARAMETERS ulong kept_count, ulong reduced_count, ulong segment,
                     __global uchar* partial, ulong partial_offset, const geometry_t g)
{
#if BESIDE > 1
    const uint item = get_local_id(0), own = ACROSS ? item % BESIDE : item / LANES;
    const ulong owned = (ulong)get_group_id(0) * BESIDE + own;
    const offset_t out = min(owned, kept_count - 1), lane = ACROSS ? item / BESIDE : item % LANES;
#elif LANES > 1
    const offset_t out = get_group_id(0), lane = get_local_id(0);
#else
    // Work-items beyond the last output compute it again: compilers add in another order where some are idle.
    const offset_t out = min((ulong)get_global_id(0), kept_count - 1), lane = 0;
#endif
    SHIFT
    offset_t base[OPERANDS] = {0};
    locate(&g, REDUCED_RANK, RANK, out, base);
    const offset_t begin = get_global_id(1) * segment;
    const offset_t end = min((ulong)reduced_count, (ulong)begin + segment);
    state_t s = accumulate(ARGUMENTS &g, base, begin, end, lane);

#if LANES > 1
#ifdef CLPRIM_DEVICE_CPU
    __local state_t lanes[LANES];
    lanes[lane] = s;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane != 0)
        return;
    for (int k = 1; k < LANES; ++k)
        s = combine(s, lanes[k]);
#else
    __local state_t lanes[LANES * BESIDE];
    __local state_t* mine = lanes + get_local_id(0);
    *mine = s;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_count = LANES / 2; half_count > 0; half_count >>= 1) {
        if (lane < half_count)
            *mine = combine(*mine, mine[half_count * (ACROSS ? BESIDE : 1)]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane != 0)
        return;
#if BESIDE > 1
    if (owned >= kept_count)
        return;
#endif
    s = *mine;
#endif
#else
    if (get_global_id(0) >= kept_count)
        return;
#endif
    if (segment < reduced_count)
        ((__global state_t*)(partial + partial_offset))[get_global_id(1) * kept_count + out] = s;
    else
        FINISH(s, reduced_count);
}
