// Reductions on CPUs by accumulators side by side in one work-item, which compilers put into vectors. The text in front
// of this is that of reduce.cl; more of it are accumulators_t, which holds ACCUMULATORS states field by field, and
// get(accumulators, k) and put(accumulators, k, s).
//
// A work-item owns an output, whose reduction goes through the accumulators in turn, or (COLUMNS) as many outputs that
// lie side by side. It takes several of these in turn where there are many.
#define BLOCK 256   // steps after which an accumulator is folded into the total: keeps rounding errors small
#define ROWS 4      // steps that an accumulator is read and written once for
// Over accumulators: stays a loop, since what it unrolls first Intel's compiler does not find vectors in.
#define LANES_LOOP _Pragma("clang loop unroll(disable)")

#define EACH_ACCUMULATOR(what)                      \
    {                                               \
        LANES_LOOP                                  \
        for (int k = 0; k < ACCUMULATORS; ++k)      \
            what                                    \
    }

static inline void clear(accumulators_t* accumulators)
{
    EACH_ACCUMULATOR(put(accumulators, k, init());)
}

#ifdef COLUMNS
#define NARROW 1
#define WIDTH 1    // how far one step of all accumulators goes along the reduction
#define ELEMENT(s, i, k) STEP_COLUMN(s, i, k, outer * inner + i)
#else
#define WIDTH ACCUMULATORS
#define NARROW 8   // side by side in what is left of a row, before one after the other
#define ELEMENT(s, i, k) STEP(s, i + k, outer * inner + i + k)
#endif

// A few elements, from begin on: states stay in registers, which memory would pass on late.
#define ACCUMULATE_FEW(COUNT)                                                                               \
    {                                                                                                       \
        const offset_t outer = 0, *position = base;                                                         \
        LANES_LOOP                                                                                          \
        for (int k = 0; k < ACCUMULATORS; ++k) {                                                            \
            state_t s = init();                                                                             \
            _Pragma("unroll")                                                                               \
            for (int r = 0; r < COUNT; ++r)                                                                 \
                s = ELEMENT(s, begin + r, k);                                                               \
            put(total, k, s);                                                                               \
        }                                                                                                   \
        return;                                                                                             \
    }

// Reduces elements [begin, end) into `total`.
static inline void accumulate(PARAMETERS const geometry_t* g, const offset_t* base, offset_t begin, offset_t end,
                              accumulators_t* total)
{
    const offset_t inner = g->size[0];
#if defined(COLUMNS) && REDUCED_RANK == 1
    switch (end - begin) {
    case 1: ACCUMULATE_FEW(1)
    case 2: ACCUMULATE_FEW(2)
    case 3: ACCUMULATE_FEW(3)
    case 4: ACCUMULATE_FEW(4)
    }
#endif
    accumulators_t states;
    clear(&states);
    clear(total);
    offset_t steps = 0;
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
        const offset_t stop = min(min(inner, from + (end - p)), from + BLOCK * WIDTH);
        offset_t i = from;
        for (; i + ROWS * WIDTH <= stop; i += ROWS * WIDTH) {
            LANES_LOOP
            for (int k = 0; k < ACCUMULATORS; ++k) {
                state_t s = get(&states, k);
                #pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    s = ELEMENT(s, i + r * WIDTH, k);
                put(&states, k, s);
            }
        }
        // Elements that are converted become vectors in a loop whose length is not known, others in those where it is.
#if defined(CONVERTED) && !defined(COLUMNS)
        for (; i < stop; i += WIDTH) {
            const int left = min((offset_t)ACCUMULATORS, stop - i);
            LANES_LOOP
            for (int k = 0; k < left; ++k)
                put(&states, k, ELEMENT(get(&states, k), i, k));
        }
#else
        for (; i + WIDTH <= stop; i += WIDTH)
            EACH_ACCUMULATOR(put(&states, k, ELEMENT(get(&states, k), i, k));)
        for (; i + NARROW <= stop; i += NARROW) {
            LANES_LOOP
            for (int k = 0; k < NARROW; ++k)
                put(&states, k, ELEMENT(get(&states, k), i, k));
        }
        for (; i < stop; ++i)
            put(&states, 0, ELEMENT(get(&states, 0), i, 0));
#endif
        p += stop - from;
        steps += stop - from;
        if (steps >= BLOCK * WIDTH || p >= end) {
            EACH_ACCUMULATOR(put(total, k, combine(get(total, k), get(&states, k)));)
            clear(&states);
            steps = 0;
        }
    }
}

#ifdef COLUMNS
// Outputs `out` + [first, COLUMNS), of which `base` is where the first one lies, or their states for `merge`.
static inline void leave(PARAMETERS const geometry_t* g, const offset_t* base, offset_t out, int first,
                         const accumulators_t* total, ulong kept_count, ulong reduced_count, ulong segment,
                         __global state_t* partial)
{
    if (segment < reduced_count) {
        for (int k = first; k < COLUMNS; ++k)
            partial[get_global_id(1) * kept_count + out + k] = get(total, k);
        return;
    }
    if (first > 0) {
        for (int k = first; k < COLUMNS; ++k)
            FINISH_COLUMN(get(total, k), k, reduced_count);
        return;
    }
    // Of a length that is known, which is vectors at once where it would call to copy memory.
    LANES_LOOP
    for (int k = 0; k < COLUMNS; ++k)
        FINISH_COLUMN(get(total, k), k, reduced_count);
}
#else
// Output `out`, which lies at `base`, from its state, or that state for `merge`.
static inline void leave(PARAMETERS const geometry_t* g, const offset_t* base, offset_t out, state_t s,
                         ulong kept_count, ulong reduced_count, ulong segment, __global state_t* partial)
{
    if (segment < reduced_count)
        partial[get_global_id(1) * kept_count + out] = s;
    else
        FINISH(s, reduced_count);
}
#endif

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void reduce(PARAMETERS ulong kept_count, ulong reduced_count, ulong segment,
                     __global uchar* partial, ulong partial_offset, const geometry_t g)
{
    SHIFT
    __global state_t* states = (__global state_t*)(partial + partial_offset);
    const offset_t begin = get_global_id(1) * segment;
    const offset_t end = min((ulong)reduced_count, (ulong)begin + segment);
#ifdef COLUMNS
    const offset_t row = g.size[REDUCED_RANK], blocks = (row + COLUMNS - 1) / COLUMNS;
    const offset_t count = kept_count / row * blocks;
#else
    const offset_t count = kept_count;
#endif
    const offset_t each = (count + get_global_size(0) - 1) / get_global_size(0);
    const offset_t first = get_global_id(0) * each, last = min(first + each, count);
    for (offset_t item = first; item < last; ++item) {
        offset_t out = item, base[OPERANDS] = {0};
#ifdef COLUMNS
        // The last block of a row begins before its end, with outputs that the one before it has, too.
        const offset_t outer = item / blocks, wanted = (item - outer * blocks) * COLUMNS;
        const offset_t column = min(wanted, row - COLUMNS);
        out = outer * row + column;
#endif
        locate(&g, REDUCED_RANK, RANK, out, base);
        accumulators_t total;
        accumulate(ARGUMENTS &g, base, begin, end, &total);
#ifdef COLUMNS
        leave(ARGUMENTS &g, base, out, (int)(wanted - column), &total, kept_count, reduced_count, segment, states);
#else
        for (int half_count = ACCUMULATORS / 2; half_count > 0; half_count /= 2) {
            for (int k = 0; k < half_count; ++k)   // of a length that is known it would become no vectors
                put(&total, k, combine(get(&total, k), get(&total, k + half_count)));
        }
        leave(ARGUMENTS &g, base, out, get(&total, 0), kept_count, reduced_count, segment, states);
#endif
    }
}
