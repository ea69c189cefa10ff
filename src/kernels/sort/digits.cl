// Long rows on GPUs, sorted by digits of eight bits from the lowest on. A row is cut into blocks of `tiles` tiles, a
// work-group each. For each digit count_digits counts those of a block, and move_by_digit knows from the counts of
// all blocks where its items go: it sorts digits of a tile with their places in local memory, by half of their bits
// and then by the other half, and writes what belongs together side by side. Stable, without sub-groups, and nobody
// waits for another group. Launch: (blocks, rows).
//   -DBITS=size of elements -DORDER_float|int|uint [-DDESCENDING] -DPOSITION=int64|int32 of results;
//   with ORDER_float -DINFINITY_BITS
//   [-DSUB_GROUP=16: on Intel's GPUs, where larger ones would spill]
//   -DFIRST: elements of the input come in, else keys and places;  -DLAST: values and positions go out, the first
//   `keep` of a row;  without either only BITS counts, 32 for less.
// rows: operands input, values, indices, each at the first element of its row.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"

#define DIGITS 256
#define GROUP 256        // a work-item for each digit
#define EACH_ITEM 15     // of a tile: counts of four bits hold them, and a step of 15 words meets all banks
#define TILE (GROUP * EACH_ITEM)
#define BLOCKS_OF_SUM 32 // whose counts are added up

#if BITS == 64
typedef ulong digits_t;
#else
typedef uint digits_t;
#endif
#define ALL_ONES ((digits_t)(~0ul >> (64 - BITS)))

#if defined(FIRST) || defined(LAST)
#if BITS == 8
typedef uchar bits_t;
#elif BITS == 16
typedef ushort bits_t;
#elif BITS == 32
typedef uint bits_t;
#else
typedef ulong bits_t;
#endif
#define SIGN_BIT ((digits_t)1 << (BITS - 1))

// Keys are in the order of elements; all NaNs are one, and the two zeros.
static inline digits_t digits_of(digits_t bits)
{
#if defined(ORDER_float)
    const digits_t size = bits & (SIGN_BIT - 1);
    digits_t key = size == 0 ? SIGN_BIT : bits & SIGN_BIT ? ~bits & ALL_ONES : bits | SIGN_BIT;
    key = size > INFINITY_BITS ? ALL_ONES : key;
#elif defined(ORDER_int)
    digits_t key = bits ^ SIGN_BIT;
#else
    digits_t key = bits;
#endif
#ifdef DESCENDING
    key = ~key & ALL_ONES;
#endif
    return key;
}

// The element of a key, and whether there are others of the same.
static inline bits_t element_of(digits_t key, bool* one_of_several)
{
#ifdef DESCENDING
    key = ~key & ALL_ONES;
#endif
    *one_of_several = false;
#if defined(ORDER_float)
    *one_of_several = (key == SIGN_BIT) | (key == ALL_ONES);
    return (bits_t)(key & SIGN_BIT ? key ^ SIGN_BIT : ~key);
#elif defined(ORDER_int)
    return (bits_t)(key ^ SIGN_BIT);
#else
    return (bits_t)key;
#endif
}

typedef bits_t element_t;
typedef CLPRIM_CAT(storage_, POSITION) position_t;
#define INPUT_TAKEN const __global element_t *input, ulong input_offset, long input_stride,
#define FIND_ROW                          \
    offset_t o[OPERANDS];                 \
    geometry_offsets(rows, (index_t)row, o); \
    input += input_offset + o[0];
#define ROWS_TAKEN , geometry_t rows
#else
#define INPUT_TAKEN
#define FIND_ROW
#define ROWS_TAKEN
#endif
#ifdef FIRST
#define DIGITS_TAKEN INPUT_TAKEN
#define DIGITS_AT(i) digits_of((digits_t)input[(long)(i) * input_stride])
#define FIND_DIGITS FIND_ROW
#define COUNT_ROWS_TAKEN ROWS_TAKEN
#else
#define DIGITS_TAKEN const __global digits_t *keys, ulong keys_offset,
#define DIGITS_AT(i) keys[i]
#define FIND_DIGITS keys += keys_offset + (ulong)row * n;
#define COUNT_ROWS_TAKEN
#endif

#define DIGIT(key) ((uint)((key) >> shift) & (DIGITS - 1))

// Of each block, and of BLOCKS_OF_SUM of them together.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void count_digits(DIGITS_TAKEN __global uint* counts, ulong counts_offset, __global uint* sums, ulong sums_offset,
                  uint n, uint tiles, uint shift COUNT_ROWS_TAKEN)
{
    __local uint mine[GROUP / 32 * DIGITS];   // neighbours count together: fewer wait for each other
    const uint id = get_local_id(0), block = get_group_id(0), blocks = get_num_groups(0), row = get_global_id(1);
    FIND_DIGITS
#pragma unroll
    for (uint k = 0; k < GROUP / 32; ++k)
        mine[k * DIGITS + id] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint begin = block * tiles * TILE, end = min(begin + min(tiles * TILE, n - begin), n);
    __local uint* own = mine + id / 32 * DIGITS;
    uint i = begin + id;
    for (; i + 3 * GROUP < end; i += 4 * GROUP) {
        digits_t key[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
            key[e] = DIGITS_AT(i + e * GROUP);
#pragma unroll
        for (int e = 0; e < 4; ++e)
            atomic_inc(&own[DIGIT(key[e])]);
    }
    for (; i < end; i += GROUP)
        atomic_inc(&own[DIGIT(DIGITS_AT(i))]);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint count = 0;
#pragma unroll
    for (uint k = 0; k < GROUP / 32; ++k)
        count += mine[k * DIGITS + id];
    counts[counts_offset + ((ulong)row * blocks + block) * DIGITS + id] = count;
    const uint sums_of_row = (blocks + BLOCKS_OF_SUM - 1) / BLOCKS_OF_SUM;
    if (count)
        atomic_add(&sums[sums_offset + ((ulong)row * sums_of_row + block / BLOCKS_OF_SUM) * DIGITS + id], count);
}

// Turns `value` into the sum of those of work-items up to this one; `scratch` has two places for each, of which the
// first half holds all sums afterwards.
#define RUNNING_SUM(scratch, id, value)                                        \
    scratch[id] = value;                                                       \
    barrier(CLK_LOCAL_MEM_FENCE);                                              \
    for (uint distance = 1, from = 0; distance < GROUP; distance *= 2) {       \
        if (id >= distance)                                                    \
            value += scratch[from + id - distance];                            \
        from = GROUP - from;                                                   \
        scratch[from + id] = value;                                            \
        barrier(CLK_LOCAL_MEM_FENCE);                                          \
    }

// Two counts of a work-item each, eight words of all of them; steps of eight words meet all banks.
#define COUNTER(i) ((i) + (i) / 32)

#ifdef SUB_GROUP
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#endif
void move_by_digit(
#if defined(FIRST) || defined(LAST)
    INPUT_TAKEN
#endif
#ifndef FIRST
    const __global digits_t* keys, ulong keys_offset, const __global uint* places, ulong places_offset,
#endif
#ifdef LAST
    __global element_t* values, ulong values_offset, long values_stride, __global position_t* indices,
    ulong indices_offset, long indices_stride, uint keep,
#else
    __global digits_t* to_keys, ulong to_keys_offset, __global uint* to_places, ulong to_places_offset,
#endif
    const __global uint* counts, ulong counts_offset, const __global uint* sums, ulong sums_offset, uint n,
    uint tiles, uint shift ROWS_TAKEN)
{
    __local uint items[TILE];   // digits with places in the tile below them
    __local uint counters[COUNTER(8 * GROUP)], scratch[2 * GROUP], offsets[DIGITS], starts[DIGITS];
    const uint id = get_local_id(0), block = get_group_id(0), blocks = get_num_groups(0), row = get_global_id(1);
#ifdef FIRST
    FIND_DIGITS
#else
    FIND_ROW
    FIND_DIGITS
    places += places_offset + (ulong)row * n;
#endif
#ifdef LAST
    values += values_offset + o[1];
    indices += indices_offset + o[2];
#else
    to_keys += to_keys_offset + (ulong)row * n;
    to_places += to_places_offset + (ulong)row * n;
#endif

    // Where items of each digit of this block go.
    const uint sums_of_row = (blocks + BLOCKS_OF_SUM - 1) / BLOCKS_OF_SUM, own_sum = block / BLOCKS_OF_SUM;
    counts += counts_offset + (ulong)row * blocks * DIGITS + id;
    sums += sums_offset + (ulong)row * sums_of_row * DIGITS + id;
    uint before = 0, total = 0;
    for (uint s = 0; s < sums_of_row; ++s) {
        const uint sum = sums[s * DIGITS];
        before += s < own_sum ? sum : 0;
        total += sum;
    }
    for (uint b = own_sum * BLOCKS_OF_SUM; b < block; ++b)
        before += counts[b * DIGITS];
    uint until = total;
    RUNNING_SUM(scratch, id, until)
    offsets[id] = before + until - total;

    const uint first = block * tiles * TILE;
    const uint used = min(tiles, (n - first + TILE - 1) / TILE);
    for (uint tile = 0; tile < used; ++tile) {
        // id, which compilers do not know to be the same in every tile: they would keep dozens of places for it.
        const uint me = id + (uint)(tile == ~n);
        const uint base = first + tile * TILE, count = min((uint)TILE, n - base);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int e = 0; e < EACH_ITEM; ++e) {
            const uint t = me + e * GROUP;
            const uint digit = t < count ? DIGIT(DIGITS_AT(base + t)) : DIGITS - 1;   // what is not there comes last
            items[t] = digit << 16 | t;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint shift_of = 16; shift_of < 24; shift_of += 4) {   // by four bits, and by the other four
            const uint self = me + (uint)(shift_of == ~n);   // as above, for both steps
            uint own[EACH_ITEM], to[EACH_ITEM];
            ulong counts = 0;   // sixteen of four bits
#pragma unroll
            for (int e = 0; e < EACH_ITEM; ++e) {
                own[e] = items[self * EACH_ITEM + e];
                const uint at = 4 * ((own[e] >> shift_of) & 15);
                to[e] = (uint)(counts >> at) & 15;
                counts += 1ul << at;
            }
            const uint low = (uint)counts, high = (uint)(counts >> 32);
#pragma unroll
            for (uint w = 0; w < 8; ++w)
                counters[COUNTER(w * GROUP + self)] = ((low >> (4 * w)) & 15) | ((high >> (4 * w)) & 15) << 16;
            barrier(CLK_LOCAL_MEM_FENCE);
            // Digit by digit and work-item by work-item.
            uint word[8], sum = 0;
#pragma unroll
            for (uint w = 0; w < 8; ++w) {
                word[w] = counters[COUNTER(self * 8 + w)];
                sum += word[w];
            }
            uint ahead = sum;
            RUNNING_SUM(scratch, id, ahead)
            ahead += (scratch[GROUP - 1] << 16) - sum;   // the upper digits come after all of the lower ones
#pragma unroll
            for (uint w = 0; w < 8; ++w) {
                counters[COUNTER(self * 8 + w)] = ahead;
                ahead += word[w];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
            for (int e = 0; e < EACH_ITEM; ++e) {
                const uint digit = (own[e] >> shift_of) & 15, word_of = counters[COUNTER((digit & 7) * GROUP + self)];
                items[to[e] + (digit & 8 ? word_of >> 16 : word_of & 0xffff)] = own[e];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#pragma unroll
        for (int e = 0; e < EACH_ITEM; ++e) {
            const uint t = me + e * GROUP, digit = items[t] >> 16;
            if (t == 0 || items[max(t, 1u) - 1] >> 16 != digit)
                starts[digit] = t;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 5
        for (int e = 0; e < EACH_ITEM; ++e) {
            const uint t = me + e * GROUP, item = items[t], digit = item >> 16, from = base + (item & 0xffff);
            const uint at = offsets[digit] - starts[digit] + t;
            if (t < count) {
                const digits_t key = DIGITS_AT(from);   // once more, from a cache
#ifdef FIRST
                const uint place = from;
#else
                const uint place = places[from];
#endif
#ifdef LAST
                if (at < keep) {
                    bool one_of_several;
                    bits_t element = element_of(key, &one_of_several);
                    if (one_of_several)
                        element = input[(long)place * input_stride];
                    values[at * values_stride] = element;
                    indices[at * indices_stride] = (position_t)place;
                }
#else
                to_keys[at] = key;
                to_places[at] = place;
#endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int e = 0; e < EACH_ITEM; ++e) {
            const uint t = me + e * GROUP, digit = items[t] >> 16;
            if (t == TILE - 1 || items[min(t + 1, TILE - 1u)] >> 16 != digit)
                offsets[digit] += t + 1 - starts[digit];
        }
    }
}
