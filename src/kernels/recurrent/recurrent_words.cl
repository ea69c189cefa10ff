// Recurrent weights of bytes as fours along k, which vpdpbusd multiplies and adds: the state, numbers of 24 bits of
// which each is three unsigned bytes, are three rows of dot_tile.cl. What is rounded away lies where float32 rounds as
// well.
//
//     [direction][column / 16][k / 4][16 columns] words, of as many columns and k as fill whole tiles, zeros behind;
//     [direction][column] sums over k, which take off what makes the state's numbers positive
//
// Words are of signed bytes: unsigned ones are less 128.
#define DOT_ROW 1024   // the most hidden numbers
#define DOT_STEP_ROWS 16
#define DOT_STEP_WEIGHTS 256
#define DOT_STEP(WORD) WORD(0) WORD(1) WORD(2) WORD(3)
#define DOT_SUM_ROW 128
#if DOT_VECTOR == 64
#define DOT_SUM_SECOND 64
#else
#define DOT_SUM_SECOND 32
#endif
#include "kernels/gemm/dot_tile.cl"
DEFINE_DOT_TILE(3)

#define PANEL 16
static inline uint words_along(uint hidden) { return (hidden + 15) / 16 * 4; }
static inline uint whole_columns(uint width) { return (width + 31) / 32 * 32; }
static inline ulong words_of_direction(uint hidden) { return (ulong)whole_columns(4 * hidden) * words_along(hidden); }

#ifdef BYTES   // of `from`, [direction][hidden][4 hidden]
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_words(const __global storage_t(BYTES)* from, ulong from_offset, __global int* words, ulong words_offset,
                uint hidden)
{
    const uint width = 4 * hidden, along = words_along(hidden), panel = get_group_id(0), direction = get_group_id(1);
    from += from_offset + (ulong)direction * hidden * width;
    words += words_offset;
    __global int* sums = words + get_num_groups(1) * words_of_direction(hidden) +
                         (ulong)direction * whole_columns(width) + panel * PANEL;
    words += direction * words_of_direction(hidden) + (ulong)panel * along * PANEL;
    for (uint i = 0; i < PANEL; ++i) {
        const uint column = panel * PANEL + i;
        int sum = 0;
        for (uint w = 0; w < along; ++w) {
            char4 four = 0;
            for (uint b = 0; b < 4; ++b) {
                const uint k = 4 * w + b;
                const int byte = column < width && k < hidden ? (int)from[(ulong)k * width + column] - LOWEST : 0;
                ((char*)&four)[b] = (char)byte;
                sum += byte;
            }
            words[w * PANEL + i] = as_int(four);
        }
        sums[i] = sum;
    }
}
#endif

// sums[c] += scales[c] (state . column c less its zero point): `words` and `column_sums` are of the direction,
// `largest` bounds the state.
static inline void add_word_products(__local float* sums, uint hidden, const __global int* words,
                                     const __global int* column_sums, const __global float* scales,
                                     const __global float* zeros, const __local float* state, float largest)
{
    const uint width = 4 * hidden, along = words_along(hidden);
    const float steps = 127 * 65536;
    uchar digits[3 * DOT_ROW] __attribute__((aligned(64)));
    int products[3 * 32] __attribute__((aligned(64)));
    float total = 0, rest[16];
    for (uint k = 0; k < 4 * along; k += 16) {
        for (uint i = 0; i < 16; ++i)
            rest[i] = k + i < hidden ? state[k + i] : 0.0f;
        const float16 numbers = vload16(0, rest);
        const float8 eight = numbers.lo + numbers.hi;
        const float4 four = eight.lo + eight.hi;
        total += (four.x + four.z) + (four.y + four.w);
        const uint16 whole = convert_uint16(convert_int16_rte(numbers * (steps / largest)) + (1 << 23));
        vstore16(convert_uchar16(whole & 255), 0, digits + k);
        vstore16(convert_uchar16(whole >> 8 & 255), 0, digits + DOT_ROW + k);
        vstore16(convert_uchar16(whole >> 16), 0, digits + 2 * DOT_ROW + k);
    }
    for (uint tile = 0; tile < width; tile += DOT_COLUMNS) {
        for (uint c = 0; c < DOT_COLUMNS; c += 16) {
            vstore16((int16)0, 0, products + c);
            vstore16((int16)0, 0, products + 32 + c);
            vstore16(-128 * vload16(0, column_sums + tile + c), 0, products + 64 + c);
        }
        const dot_operands of = {(ulong)digits, (ulong)(words + tile * along), (ulong)products,
                                 DOT_VECTOR == 64 ? along * PANEL * 4ul : 32ul, along / 4};
        dot_rows_3(of, 1);
        for (uint c = 0; c < DOT_COLUMNS && tile + c < width; c += 16) {
            const float16 low = convert_float16(vload16(0, products + c)),
                          middle = convert_float16(vload16(0, products + 32 + c)),
                          high = convert_float16(vload16(0, products + 64 + c));
            const float16 inner = fma(high, 65536.0f, fma(middle, 256.0f, low)) * (largest / steps);
            const uint at = tile + c;
            if (at + 16 <= width) {
                vstore16(vload16(0, sums + at) + vload16(0, scales + at) * (inner - vload16(0, zeros + at) * total), 0,
                         sums + at);
            } else {
                vstore16(inner, 0, rest);
                for (uint i = 0; at + i < width; ++i)
                    sums[at + i] += scales[at + i] * (rest[i] - zeros[at + i] * total);
            }
        }
    }
}
