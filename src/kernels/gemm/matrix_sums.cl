// How the sums of a work-group that multiplies by matrix instructions (matrix_tiles.cl) become neighbours in rows:
// those of one row of fragments of each sub-group pass through local memory at a time.
//
//     EACH_QUAD_OF_SUMS(i, j, v, BODY)   the statement, for v, four neighbours from column j on in row i of the block;
//                                       with -DQUADS_OF_ROWS=1 four from row i on in column j
//     EACH_QUAD_AHEAD(i, j, v, which, AHEAD, BODY)   the same with statements before it
#ifndef QUADS_OF_ROWS
#define QUADS_OF_ROWS 0
#endif
// Sums in local memory at a time. Rows of NVIDIA's fragments would meet in one bank.
#ifdef ENGINE_MMA
#define DUMP_PITCH (COLUMNS + 8)
#define DUMPED_QUADS (SUB_GROUPS_M * SUB_GROUPS_N * FRAGMENT_M * COLUMNS / 4)
#define DUMPED_AT(quad) quad / (COLUMNS / 4) * (DUMP_PITCH / 4) + quad % (COLUMNS / 4)
#else
#define DUMP_PITCH COLUMNS
#define DUMPED_QUADS DUMPED / 4
#define DUMPED_AT(quad) quad
#endif
#define DUMPED (SUB_GROUPS_M * SUB_GROUPS_N * FRAGMENT_M * DUMP_PITCH)

#if QUADS_OF_ROWS
#define QUAD_ROW(line, quad) quad % (FRAGMENT_M / 4) * 4
#define QUAD_COLUMN(quad) quad % (FRAGMENT_M * COLUMNS / 4) / (FRAGMENT_M / 4)
static inline SUM_VECTOR(4) dumped_rows(const __local SUM_TYPE* from)
{
    return (SUM_VECTOR(4))(from[0], from[DUMP_PITCH], from[2 * DUMP_PITCH], from[3 * DUMP_PITCH]);
}
#define DUMPED_QUAD(of, quad)                                                                                         \
    dumped_rows((const __local SUM_TYPE*)memory + (of * FRAGMENT_M + QUAD_ROW(0, quad)) * DUMP_PITCH +                \
                QUAD_COLUMN(quad))
#else
#define DUMPED_QUAD(of, quad) ((const __local SUM_VECTOR(4)*)memory)[DUMPED_AT(quad)]
#define QUAD_ROW(line, quad) line % FRAGMENT_M
#define QUAD_COLUMN(quad) quad % (COLUMNS / 4) * 4
#endif
// One row of a sub-group's fragments into local memory: [FRAGMENT_M][DUMP_PITCH].
static inline void dump_fragments(const fragment_sums sums[FRAGMENTS_N], __local SUM_TYPE* to, int lane)
{
    UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
    {
        SUM_TYPE values[FRAGMENT_SUMS];
        CLPRIM_CAT(vstore, FRAGMENT_SUMS)(sums[j], 0, values);
        UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
            to[FRAGMENT_ROW(e, lane) * DUMP_PITCH + j * FRAGMENT_N + FRAGMENT_COLUMN(e, lane)] = values[e];
    }
}

// Rows of fragments pass through local memory, so that what follows is there once and writes neighbours together.
#define DUMP_PART(part)                                                                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                     \
    UNROLL for (int fragment = 0; fragment < FRAGMENTS_M; ++fragment)                                                 \
        if (fragment == part)                                                                                         \
            dump_fragments(sums[fragment], (__local SUM_TYPE*)memory + team * FRAGMENT_M * DUMP_PITCH, g.lane);       \
    barrier(CLK_LOCAL_MEM_FENCE);
#define QUAD_PLACE(i, j, part, quad)                                                                                  \
    const int line = quad / (COLUMNS / 4), of = line / FRAGMENT_M;                                                    \
    const int i = of / SUB_GROUPS_N * ROWS + part * FRAGMENT_M + QUAD_ROW(line, quad);                                \
    const int j = of % SUB_GROUPS_N * COLUMNS + QUAD_COLUMN(quad);
#define EACH_QUAD_OF_SUMS(i, j, v, BODY)                                                                              \
    for (int part = 0; part < FRAGMENTS_M; ++part) {                                                                  \
        DUMP_PART(part)                                                                                               \
        ROLLED for (uint quad = item; quad < DUMPED_QUADS; quad += ITEMS) {                                           \
            QUAD_PLACE(i, j, part, quad)                                                                              \
            const SUM_VECTOR(4) v = DUMPED_QUAD(of, quad);                                                            \
            BODY                                                                                                      \
        }                                                                                                             \
    }
// The same, whose statements for QUADS_OF_ITEM quads, numbered by `which`, stand one after the other behind AHEAD for
// each of them: what that loads is under way together.
#define QUADS_OF_ITEM ((DUMPED_QUADS) / ITEMS)
#define EACH_QUAD_AHEAD(i, j, v, which, AHEAD, BODY)                                                                  \
    for (int part = 0; part < FRAGMENTS_M; ++part) {                                                                  \
        DUMP_PART(part)                                                                                               \
        UNROLL for (int which = 0; which < QUADS_OF_ITEM; ++which)                                                    \
        {                                                                                                             \
            const uint quad = item + which * ITEMS;                                                                   \
            QUAD_PLACE(i, j, part, quad)                                                                              \
            AHEAD                                                                                                     \
        }                                                                                                             \
        UNROLL for (int which = 0; which < QUADS_OF_ITEM; ++which)                                                    \
        {                                                                                                             \
            const uint quad = item + which * ITEMS;                                                                   \
            QUAD_PLACE(i, j, part, quad)                                                                              \
            const SUM_VECTOR(4) v = DUMPED_QUAD(of, quad);                                                            \
            BODY                                                                                                      \
        }                                                                                                             \
    }

// An array of a vector's values.
#define FOUR_VALUES(type, name, v) type name[4] = {v.x, v.y, v.z, v.w}

// The first `count` of four sums.
static inline void write_sums(SUM_VECTOR(4) v, __global SUM_TYPE* to, int count)
{
    FOUR_VALUES(const SUM_TYPE, values, v);
    UNROLL for (int e = 0; e < 4; ++e)
        if (e < count)
            to[e] = values[e];
}
