// FlexAttention on CPU devices, as kernels/attention/cpu.cl and its gradients are built: one work-item owns up to ROWS
// queries (of backward_keys: keys) of one head, in panels of TILE_COLUMNS lanes, and passes over the blocks of the
// others that the mask does not hide, in tiles of OTHERS rows. A panel's scores rest in local memory, one row for each
// of the others; both products are gemm's register tiles. What surrounds this text defines sizes, strides, and where
// the caller's functions are computed: a vector of scores at a time, what is the same for all rows ahead of them, or
// where they have no form of vectors (FLEX_BY_LANE) score by score.
#define QUADS(size) (((size) + 3) / 4 * 4)
// Tiles of `count` others, from `first` on, in blocks that the mask shows to a block: those that it cuts (kind 0), then
// those that it leaves whole.
#define EACH_TILE(first, b, h, block, count, block_size)                                                              \
    for (int kind = 0; kind < KINDS; ++kind)                                                                          \
        for (long at = 0, blocks = kind == 0 ? PARTIAL_COUNT(b, h, block) : FULL_COUNT(b, h, block); at < blocks;     \
             ++at)                                                                                                    \
            for (long first = (long)(block_size) * (kind == 0 ? PARTIAL_INDEX(b, h, block, at)                        \
                                                              : FULL_INDEX(b, h, block, at)),                         \
                      end = min((long)(count), first + (long)(block_size)); first < end; first += OTHERS)
// The first of the rows that a work-item owns, how many they are, and their block of the mask. The last come first: a
// causal mask shows most to them.
#define OWNED_ROWS(first, rows, block, count, block_size)                                                             \
    const long owner = (long)get_num_groups(0) - 1 - (long)get_group_id(0), block = owner / PARTS;                    \
    const long first = block * (block_size) + owner % PARTS * ROWS;                                                   \
    const long rows = min((long)ROWS, min((long)(count), (block + 1) * (long)(block_size)) - first);                  \
    if (rows <= 0)                                                                                                    \
        return;

// One score or a vector of them: the numbers of LANE_INDEX are those of queries or of keys.
#ifdef FLEX_BY_LANE
typedef REAL scores_real;
typedef int scores_integer;
#define EACH_SCORE for (int lane = 0; lane < TILE_LANES; ++lane)
#define GET_SCORES(p) (p)[lane]
#define PUT_SCORES(v, p) (p)[lane] = (v)
#define EXPONENTIAL exp
#define INDEX_AHEAD(name, first, count)
#define INDEX_OF_SCORES(name, first, count) const int name = (int)min((first) + lane, (long)(count) - 1);
#else
typedef tile_vector scores_real;
typedef int16 scores_integer;
#define EACH_SCORE
#define GET_SCORES(p) TILE_VLOAD(0, p)
#define PUT_SCORES(v, p) TILE_VSTORE(v, 0, p)
#define EXPONENTIAL exp_lanes
#define INDEX_AHEAD(name, first, count)                                                                               \
    const int16 name = min((int16)(int)(first) + LANES, (int16)(int)((count) - 1));                                   \
    const int lanes_left = (int)min((long)TILE_LANES, (long)(count) - (first));
#define INDEX_OF_SCORES(name, first, count)

// Of indices, one that is not good.
static inline long flex_bad_index(long16 index, int16 good)
{
    long indices[16];
    int is_good[16];
    vstore16(index, 0, indices);
    vstore16(good, 0, is_good);
    long result = 0;
    for (int i = 0; i < 16; ++i)
        result = is_good[i] ? result : indices[i];
    return result;
}
#endif

// What a score's exponent is taken from, of its row's statistics to the base of 2: nothing is left of a row that sees
// nothing.
#define REFERENCE_OF(lse) ((lse) == -INFINITY ? (REAL)INFINITY : (REAL)(lse) * LN_2)
