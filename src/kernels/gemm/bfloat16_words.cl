// Pairs of bfloat16 along k as words, straight from memory: strips and panels of amx.cl where a number is one part of
// itself, without the way through floats. Words of lines are turned in registers where k does not lie as they need it.
// Includes nothing; cpu_amx.cl has what it needs.

// `count` numbers of a line (at most 32) as sixteen words, zero for the others.
static inline float16 line_words(const __global ushort* p, long count)
{
    if (count >= 32)
        return as_float16((uint16)(as_uint8(vload16(0, p)), as_uint8(vload16(1, p))));
    uint values[16];
    for (int i = 0; i < 16; ++i)
        values[i] = (2 * i < count ? p[2 * i] : 0) | (2 * i + 1 < count ? (uint)p[2 * i + 1] << 16 : 0);
    return as_float16(vload16(0, values));
}

static inline uint16 line_numbers(const __global ushort* p, long count)
{
    if (count >= 16)
        return convert_uint16(vload16(0, p));
    uint values[16];
    for (int i = 0; i < 16; ++i)
        values[i] = i < count ? p[i] : 0;
    return vload16(0, values);
}

// A word for each of `count` neighbours (at most 16): of this line, and of the next one if there is one.
static inline float16 two_lines(const __global ushort* p, long step, long lines, long count)
{
    if (lines <= 0)
        return 0;
    const uint16 even = line_numbers(p, count);
    return as_float16(lines > 1 ? even | line_numbers(p + step, count) << 16 : even);
}

#define TURN_WORDS(u, v)                                                                                    \
    EACH_PAIR(ZIP_PAIR, u, v) EACH_PAIR(ZIP_PAIR, v, u) EACH_PAIR(ZIP_PAIR, u, v) EACH_PAIR(ZIP_PAIR, v, u)

// A block of 32 k of sixteen columns, `step` apart, whose k are neighbours, to 16 x 16 words of a panel.
#define COLUMN_WORDS(j) v[j] = j < columns ? line_words(b + j * step, depth) : (float16)0;
#define PUT_WORDS(i) vstore16(as_uint16(v[i]), i, words);
#define DEFINE_TURN_COLUMNS(name, SPACE)                                                                    \
    static inline void name(const __global ushort* b, long step, long columns, long depth, SPACE uint* words)\
    {                                                                                                       \
        float16 v[16], u[16];                                                                               \
        EACH_LANE(COLUMN_WORDS)                                                                             \
        TURN_WORDS(u, v)                                                                                    \
        EACH_LANE(PUT_WORDS)                                                                                \
    }
DEFINE_TURN_COLUMNS(turn_columns_to_local, __local)
DEFINE_TURN_COLUMNS(turn_columns_to_global, __global)

// A block of 32 k, `step` apart, of sixteen rows, which are neighbours, to 16 x 16 words of a strip.
#define ROW_WORDS(pair) v[pair] = two_lines(a + 2 * pair * step, step, depth - 2 * pair, rows);
static inline void turn_rows(const __global ushort* a, long step, long rows, long depth, __local uint* words)
{
    float16 v[16], u[16];
    EACH_LANE(ROW_WORDS)
    TURN_WORDS(u, v)
    EACH_LANE(PUT_WORDS)
}
