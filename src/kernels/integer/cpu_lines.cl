// Lines of eight-bit integers (rows of A, columns of B) packed along k for instructions that multiply fours of bytes.
// Lines come in groups of SIDE, k in blocks of BLOCK, both filled with zeros; a word is four numbers along k:
//
//     A: [strip][block][half][16 rows][16 words]          B: [panel][block][half][16 words][16 columns]
//
// Bytes are signed, unsigned ones less 128; or -DUNSIGNED, signed ones plus 128. So are their zero points. Behind the
// words stand each line's sum and its zero point, for
//
//     sum (a - za) (b - zb) = sum a b - za sum b - zb (sum a - k za),
//
// modulo 2^32.
//
// -DX=int8|uint8 (what is packed) [-DUNSIGNED]
#include "core/dtype.cl"
#include "kernels/integer/byte_blocks.cl"
#include "kernels/integer/packed_matrix.cl"

#ifdef UNSIGNED
#define FLIP_int8 0x80808080u
#define FLIP_uint8 0u
#else
#define FLIP_int8 0u
#define FLIP_uint8 0x80808080u
#endif
#define FLIP CLPRIM_CAT(FLIP_, X)

typedef const __global storage_t(X)* bytes;

static inline int16 sums_of_bytes(uint16 words)
{
#ifdef UNSIGNED
    const uint16 w = words;
    return as_int16((w & 0xff) + (w >> 8 & 0xff) + (w >> 16 & 0xff) + (w >> 24));
#else
    const int16 w = as_int16(words);
    return (w << 24 >> 24) + (w << 16 >> 24) + (w << 8 >> 24) + (w >> 24);
#endif
}

// The word of numbers `k` to `k + 3` of a line, those beyond the depth zero.
static inline uint word_at(bytes line, long k, const packed_matrix* p)
{
    if (p->k_step == 1 && k + 4 <= p->depth)
        return as_uint(vload4(0, line + k)) ^ FLIP;
    uint word = 0;
    for (int i = 0; i < 4 && k + i < p->depth; ++i)
        word |= (((uint)line[(k + i) * p->k_step] ^ FLIP) & 0xff) << 8 * i;
    return word;
}

// Sixteen words of a line.
static inline uint16 words_along(bytes line, long k, const packed_matrix* p)
{
    if (p->k_step == 1 && k + BLOCK <= p->depth) {
        line += k;
        return (uint16)(as_uint4(vload16(0, line)), as_uint4(vload16(1, line)), as_uint4(vload16(2, line)),
                        as_uint4(vload16(3, line))) ^ FLIP;
    }
    uint words[16];
    for (int i = 0; i < 16; ++i)
        words[i] = word_at(line, k + 4 * i, p);
    return vload16(0, words);
}

// A word of each of sixteen lines, those beyond the last zero.
static inline uint16 words_across(bytes lines, long count, long k, const packed_matrix* p)
{
    if (p->line_step == 1 && count >= 16 && k + 4 <= p->depth) {
        uint16 words = 0;
        for (int i = 0; i < 4; ++i)
            words |= (convert_uint16(vload16(0, lines + (k + i) * p->k_step)) & 0xff) << 8 * i;
        return words ^ FLIP;
    }
    uint words[16];
    for (int i = 0; i < 16; ++i)
        words[i] = i < count ? word_at(lines + i * p->line_step, k, p) : 0;
    return vload16(0, words);
}

static inline int zero_of(const __global storage_t(X)* zeros, long line, const packed_matrix* p)
{
    const uint zero = p->zero_step < 0 ? 0 : (uint)zeros[line * p->zero_step];
    const uint byte = (zero ^ FLIP) & 0xff;
#ifdef UNSIGNED
    return (int)byte;
#else
    return (char)byte;
#endif
}

// A work-item packs SIDE lines; those beyond the last are zeros.
#define DEFINE_PACK(name, PACK_HALF)                                                                        \
    __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void name(                                      \
        bytes from, ulong from_offset, bytes zeros, ulong zeros_offset, __global uint* to, ulong to_offset, \
        __global int2* sums, ulong sums_offset, packed_matrix p)                                            \
    {                                                                                                       \
        const long first = get_group_id(0) * SIDE, blocks = (p.depth + BLOCK - 1) / BLOCK;              \
        const long group = get_group_id(1) * get_num_groups(0) + get_group_id(0);                           \
        from += from_offset + get_group_id(1) * p.batch_step;                                               \
        zeros += zeros_offset;                                                                              \
        to += to_offset + group * blocks * BLOCK_WORDS;                                                     \
        sums += sums_offset / 2 + group * SIDE;                                                         \
        for (int half_begin = 0; half_begin < SIDE; half_begin += 16) {                                 \
            const long line = first + half_begin, count = p.lines - line;                                   \
            int totals[16];                                                                                 \
            PACK_HALF(from + line * p.line_step, count, blocks, to + half_begin * 16, &p, totals);          \
            for (int i = 0; i < 16; ++i)                                                                    \
                sums[half_begin + i] = (int2)(totals[i], i < count ? zero_of(zeros, line + i, &p) : 0);     \
        }                                                                                                   \
    }

static inline void pack_half_of_rows(bytes from, long count, long blocks, __global uint* to, const packed_matrix* p,
                                     int* totals)
{
    for (int i = 0; i < 16; ++i) {
        int16 sum = 0;
        for (long block = 0; block < blocks; ++block) {
            const uint16 words = i < count ? words_along(from + i * p->line_step, block * BLOCK, p) : 0;
            vstore16(words, i, to + block * BLOCK_WORDS);
            sum += sums_of_bytes(words);
        }
        const int8 a = sum.lo + sum.hi;
        const int4 b = a.lo + a.hi;
        totals[i] = b.x + b.y + b.z + b.w;
    }
}

static inline void pack_half_of_columns(bytes from, long count, long blocks, __global uint* to, const packed_matrix* p,
                                        int* totals)
{
    int16 sum = 0;
    for (long block = 0; block < blocks; ++block)
        for (int i = 0; i < 16; ++i) {
            const uint16 words = words_across(from, count, block * BLOCK + 4 * i, p);
            vstore16(words, i, to + block * BLOCK_WORDS);
            sum += sums_of_bytes(words);
        }
    vstore16(sum, 0, totals);
}
DEFINE_PACK(pack_rows, pack_half_of_rows)
DEFINE_PACK(pack_columns, pack_half_of_columns)

