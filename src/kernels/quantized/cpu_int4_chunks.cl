// Rows of x as chunks of digits (cpu_int4.cl).
#define LARGEST_STEPS (DIGITS == 1 ? 127.0f : DIGITS == 2 ? 127.0f * 256.0f : 127.0f * 65536.0f)
#define SPREAD_BITS (DIGITS == 2 ? 5 : 9)

// Of each four lanes, and of all in four vectors.
static inline int4 fours_of(int16 v) { return v.s048c + v.s159d + v.s26ae + v.s37bf; }
#define FOLD(a, b, c, d, OF)                                                                                \
    OF(OF((a.x, b.x, c.x, d.x), (a.y, b.y, c.y, d.y)), OF((a.z, b.z, c.z, d.z), (a.w, b.w, c.w, d.w)))
#define SUM_OF_INTS(a, b) ((int4)a + (int4)b)
#define LARGER_OF_INTS(a, b) max((int4)a, (int4)b)
static inline float4 quarter(float16 v)
{
    const float8 half_of = v.lo + v.hi;
    return half_of.lo + half_of.hi;
}
static inline int4 largest_quarter(int16 v)
{
    const int8 half_of = max(v.lo, v.hi);
    return max(half_of.lo, half_of.hi);
}

#if ROWS == 1
#define CHUNK __local char
#define CHUNK_OF(type) __local type
#else
#define CHUNK __global char
#define CHUNK_OF(type) __global type
#endif

// The largest magnitude of a block that has digits: larger numbers, infinities and NaN have none. Where numbers have
// more than one digit up to two that are more than SPREAD times all others count as such: those would lose their own
// digits, which shows where weights of the large ones are zero.
#define SPREAD ((float)(1 << SPREAD_BITS))
static inline float limit_of(const __global storage_t(X)* x)
{
    float limit = FLT_MAX, size = 0;
    for (int left = 2; left >= 0;) {
        int large = 0, small = 0;
        size = 0;
        for (int i = 0; i < 32; ++i) {
            const float magnitude = fabs(load(X, x, i));
            size = magnitude <= limit ? max(size, magnitude) : size;
        }
        for (int i = 0; i < 32; ++i) {
            const float magnitude = fabs(load(X, x, i));
            large += magnitude <= limit && magnitude > size / SPREAD;
            small += magnitude != 0 && magnitude <= size / SPREAD;
        }
        left -= large;
        if (DIGITS == 1 || small == 0)
            break;
        limit = left >= 0 ? size / SPREAD : limit;
    }
    return size;
}

static inline int16 magnitudes_of(float16 v) { return as_int16(v) & 0x7fffffff; }

// Whether limit_of is less than the largest number of a block.
static inline bool may_have_large(float16 a, float16 b)
{
    const int16 low = magnitudes_of(a), high = magnitudes_of(b);
    const int4 four = largest_quarter(max(low, high));
    const int size = max(max(four.x, four.y), max(four.z, four.w)), cut = size - (SPREAD_BITS << 23);
    if (DIGITS == 1 || size >= 0x7f800000)
        return size >= 0x7f800000;
    const int16 large = (low > cut) + (high > cut);   // -1 each
    const int4 sums = fours_of(large);
    return sums.x + sums.y + sums.z + sums.w >= -2;
}

// `count` blocks of x, from `x` on, to row `row` of a chunk; the others have no inputs. Numbers that have no digits
// count as zero and are noted. Steps are no smaller than 2^-126.
static inline void put_row(const __global storage_t(X)* x, long count, long row, CHUNK* chunk)
{
    CHUNK* to = chunk + ROW_BYTES * row;
    float16 first[4], second[4];
    int4 largest[4], sums[4];
    uint special = 0;
    UNROLL for (int block = 0; block < 4; ++block) {
        first[block] = second[block] = 0;
        if (block < count) {
            first[block] = load_vector(X, x, 32 * block);
            second[block] = load_vector(X, x, 32 * block + 16);
        }
        if (block < count && may_have_large(first[block], second[block])) {
            const float16 limit = limit_of(x + 32 * block);
            const int16 low = fabs(first[block]) <= limit, high = fabs(second[block]) <= limit;
            special |= all(low & high) ? 0 : 1u << block;
            first[block] = low ? first[block] : 0.0f;
            second[block] = high ? second[block] : 0.0f;
        }
        largest[block] = largest_quarter(max(magnitudes_of(first[block]), magnitudes_of(second[block])));
    }
    const int4 sizes = FOLD(largest[0], largest[1], largest[2], largest[3], LARGER_OF_INTS);
    const float4 factor = min(LARGEST_STEPS / as_float4(sizes), 0x1p126f), scale = 1.0f / factor;
    const float factors[4] = {factor.x, factor.y, factor.z, factor.w};
    UNROLL for (int block = 0; block < 4; ++block) {
        int16 low = convert_int16_rte(first[block] * factors[block]);
        int16 high = convert_int16_rte(second[block] * factors[block]);
        sums[block] = fours_of(low + high);
        UNROLL for (int digit = DIGITS - 1; digit >= 0; --digit) {
            const char16 low_digit = convert_char16(low << 24 >> 24), high_digit = convert_char16(high << 24 >> 24);
            vstore16(low_digit, block, to + 128 * digit);
            vstore16(high_digit, block, to + 128 * digit + 64);
            low = (low - convert_int16(low_digit)) >> 8;
            high = (high - convert_int16(high_digit)) >> 8;
        }
        vstore4(-8 * sums[block], block, (CHUNK_OF(int)*)(to + 128 * DIGITS));
    }
    const float16 scales = (float16)(scale.xxxx, scale.yyyy, scale.zzzz, scale.wwww);
    vstore16(scales, 0, (CHUNK_OF(float)*)(to + 128 * DIGITS + 64));
    const int4 totals = FOLD(sums[0], sums[1], sums[2], sums[3], SUM_OF_INTS);
    vstore4(scale * convert_float4(totals), row, (CHUNK_OF(float)*)(chunk + SUMS_AT));
    ((CHUNK_OF(uint)*)(chunk + SPECIAL_AT))[row] = special;
}

static inline void put_mask(long count, CHUNK* chunk)
{
    *(CHUNK_OF(uint)*)(chunk + MASK_AT) = count >= 4 ? 0xffffu : (1u << (4 * count)) - 1u;
}

#if ROWS > 1
// Chunks of x, a work-item one of ROWS rows: [rows / ROWS][depth / INPUTS]. Rows beyond the last repeat it.
__kernel void put_chunks(const __global storage_t(X)* x, ulong x_offset, __global char* chunks, ulong chunks_offset,
                         int4_problem p)
{
    const long number = get_global_id(0), first = (long)get_global_id(1) * ROWS;
    const long count = (p.depth + INPUTS - 1) / INPUTS, blocks = p.depth / 32 - 4 * number;
    if (number >= count || first >= p.rows)
        return;
    __global char* chunk = chunks + chunks_offset + (first / ROWS * count + number) * CHUNK_BYTES;
    for (long row = 0; row < ROWS; ++row)
        put_row(x + x_offset + min(first + row, p.rows - 1) * p.x_row + number * INPUTS, blocks, row, chunk);
    put_mask(blocks, chunk);
}
#endif

