// Reductions of short rows that lie side by side, on CPUs. The text in front of this is that of cpu_reduce.cl, of
// TOGETHER accumulators, 8 or 16, and EACH_FIELD(FIELD), which is FIELD(vector of a state's field, its type, its name).
//
// A work-item takes TOGETHER rows at a time: each goes through accumulators of its own. Those of two rows are
// interleaved and halves combined, which leaves as many states of two rows, and so on until a vector holds one of each
// row, in their order. It takes several such blocks in turn where there are many.
#define LANES_LOOP _Pragma("clang loop unroll(disable)")   // as in cpu_reduce.cl
#define ELEMENT(s, i) STEP(s, i, i)

#if TOGETHER == 16
#define VLOAD vload16
#define VSTORE vstore16
#define PAIRS_HIGH(a, b) \
    a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf
#define PAIRS_LOW(a, b) \
    a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7
#else
#define VLOAD vload8
#define VSTORE vstore8
#define PAIRS_LOW(a, b) a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3
#define PAIRS_HIGH(a, b) a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7
#endif

// a0 b0 a1 b1 ... of two rows' accumulators, into a and then b: moves alone, whatever the numbers are.
static inline void interleave(accumulators_t* a, accumulators_t* b)
{
#define INTERLEAVE(vector_t, type_t, name)                                                                          \
    {                                                                                                               \
        const vector_t s = VLOAD(0, (const type_t*)a->name), t = VLOAD(0, (const type_t*)b->name);                  \
        VSTORE((vector_t)(PAIRS_LOW(s, t)), 0, (type_t*)a->name);                                                   \
        VSTORE((vector_t)(PAIRS_HIGH(s, t)), 0, (type_t*)b->name);                                                  \
    }
    EACH_FIELD(INTERLEAVE)
}

// Of a row's elements, from `position` on.
static inline void accumulate_row(PARAMETERS const geometry_t* g, const offset_t* position, offset_t length,
                                  accumulators_t* row)
{
    LANES_LOOP
    for (int k = 0; k < TOGETHER; ++k)
        put(row, k, init());
    offset_t i = 0;
    if (length >= 8 * TOGETHER) {   // of long rows two elements are under way at once
        accumulators_t other;
        LANES_LOOP
        for (int k = 0; k < TOGETHER; ++k)
            put(&other, k, init());
        for (; i + 8 * TOGETHER <= length; i += 8 * TOGETHER) {
            LANES_LOOP
            for (int k = 0; k < TOGETHER; ++k) {
                state_t s = get(row, k), t = get(&other, k);
                #pragma unroll
                for (int r = 0; r < 8; r += 2) {
                    s = ELEMENT(s, i + r * TOGETHER + k);
                    t = ELEMENT(t, i + (r + 1) * TOGETHER + k);
                }
                put(row, k, s);
                put(&other, k, t);
            }
        }
        LANES_LOOP
        for (int k = 0; k < TOGETHER; ++k)
            put(row, k, combine(get(row, k), get(&other, k)));
    }
    for (; i + 4 * TOGETHER <= length; i += 4 * TOGETHER) {
        LANES_LOOP
        for (int k = 0; k < TOGETHER; ++k) {
            state_t s = get(row, k);
            #pragma unroll
            for (int r = 0; r < 4; ++r)
                s = ELEMENT(s, i + r * TOGETHER + k);
            put(row, k, s);
        }
    }
    for (; i + TOGETHER <= length; i += TOGETHER) {
        LANES_LOOP
        for (int k = 0; k < TOGETHER; ++k)
            put(row, k, ELEMENT(get(row, k), i + k));
    }
    const int left = length - i;
    LANES_LOOP
    for (int k = 0; k < left; ++k)
        put(row, k, ELEMENT(get(row, k), i + k));
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void reduce(PARAMETERS ulong kept_count, ulong reduced_count, ulong segment,
                     __global uchar* partial, ulong partial_offset, const geometry_t geometry)
{
    SHIFT
    const geometry_t* g = &geometry;
    const offset_t count = (kept_count + TOGETHER - 1) / TOGETHER;
    const offset_t each = (count + get_global_size(0) - 1) / get_global_size(0);
    const offset_t first = get_global_id(0) * each, last = min(first + each, count);
    for (offset_t block = first; block < last; ++block) {
        // The last block begins before its end, with rows that the one before it has, too.
        const offset_t wanted = block * TOGETHER, row = min(wanted, (offset_t)kept_count - TOGETHER);
        accumulators_t states[TOGETHER];
        for (int r = 0; r < TOGETHER; ++r) {
            offset_t position[OPERANDS];
            #pragma unroll
            for (int k = 0; k < OPERANDS; ++k)
                position[k] = (row + r) * STRIDE(g, REDUCED_RANK, k);
            accumulate_row(ARGUMENTS g, position, reduced_count, states + r);
        }
        for (int half_count = TOGETHER / 2; half_count > 0; half_count /= 2)
            for (int k = 0; k < half_count; ++k) {
                interleave(states + k, states + k + half_count);
                LANES_LOOP
                for (int r = 0; r < TOGETHER; ++r)
                    put(states + k, r, combine(get(states + k, r), get(states + k + half_count, r)));
            }
        offset_t base[OPERANDS];
        #pragma unroll
        for (int k = 0; k < OPERANDS; ++k)
            base[k] = row * STRIDE(g, REDUCED_RANK, k);
        if (wanted > row) {
            for (int r = wanted - row; r < TOGETHER; ++r)
                FINISH_COLUMN(get(states, r), r, reduced_count);
            continue;
        }
        LANES_LOOP
        for (int r = 0; r < TOGETHER; ++r)
            FINISH_COLUMN(get(states, r), r, reduced_count);
    }
}
