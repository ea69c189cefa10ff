// Depthwise convolutions of eight-bit integers by kernels of 3x3 on x86 processors with AVX-512 VNNI: numbers of
// sixteen channels become words of 32 bits as they are read, vpdpwssd multiplies them with weights and adds, and sums
// are quantised in registers. A number is read once for all results of a row that it is a tap of.
//
//     weights: [sixteen channels][row][tap, and their sum][channel] words, zero points taken off
//
// Columns outside of x count as its zero point, which is taken off the sums; rows outside have no weights.
//
// -DX=int8|uint8 (what is read or packed) -DY=int8|uint8
#include "kernels/integer/conv_epilogue.cl"

#define LANES 16
#define TAPS 3
#define ROW_WORDS ((TAPS + 1) * LANES)
#define UNROLL __attribute__((opencl_unroll_hint(3)))

// The first channel of a block: the last one ends with the last channel.
static inline long first_channel(const integer_conv_problem* p, long block)
{
    return min(block * LANES, p->groups - LANES);
}

// Products take the lower halves of words; the upper ones are zeros.
__kernel void pack_depthwise(const __global storage_t(X)* w, ulong w_offset, const __global storage_t(X)* zeros,
                             ulong zeros_offset, __global int* words, ulong words_offset, integer_conv_problem p)
{
    const long block = get_global_id(0);
    words += words_offset + block * TAPS * ROW_WORDS;
    for (int j = 0; j < LANES; ++j) {
        const long o = first_channel(&p, block) + j;
        for (long row = 0; row < TAPS; ++row) {
            __global int* to = words + row * ROW_WORDS + j;
            int sum = 0;
            for (long tap = 0; tap < TAPS; ++tap) {
                const int value = (int)w[w_offset + o * p.w_strides[0] + row * p.w_strides[3] + tap * p.w_strides[4]] -
                                  (int)AT(zeros + zeros_offset, p.w_zero, o);
                to[tap * LANES] = value & 0xffff;
                sum += value;
            }
            to[TAPS * LANES] = sum;
        }
    }
}

// What the loop over a row's results takes.
typedef struct {
    int columns[TAPS][TAPS][LANES];      // [column][row]: those before the first that is read
    int begin[LANES];
    float scale[LANES];
    ulong weights[TAPS];                 // of rows
    float low, high;                     // less the zero point
    int zero, filling;
} row_operands;

#define OPERANDS_AT "64*24"              // in bytes; registers are kept before
#define COLUMN(c, r) "64*(24+3*" #c "+" #r ")(%6)"
#define BEHIND_COLUMNS "64*(24+9)"
#define KEEP(r) "vmovdqu64 %%zmm" #r ", 64*" #r "(%6)\n\t"
#define GIVE_BACK(r) "vmovdqu64 64*" #r "(%6), %%zmm" #r "\n\t"
#define ALL_REGISTERS(DO)                                                                                   \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)   \
    DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#define WEIGHTS_OF_ROW(r, one, two, three)                                                                  \
    "mov " BEHIND_COLUMNS "+128+8*" #r "(%6), %2\n\tvmovdqu64 (%2), %%zmm" #one "\n\t"                      \
    "vmovdqu64 64(%2), %%zmm" #two "\n\tvmovdqu64 128(%2), %%zmm" #three "\n\t"
#define MOVE(from, to) "vmovdqa64 %%zmm" #from ", %%zmm" #to "\n\t"
#define MULTIPLY(x, w) "vpdpwssd %%zmm" #w ", %%zmm" #x ", %%zmm18\n\t"
#define WIDEN_int8 "vpmovsxbd "
#define WIDEN_uint8 "vpmovzxbd "
#define WIDEN CLPRIM_CAT(WIDEN_, X)
// A column of three rows: %0 points at the first, %3 and %5 are how far the others lie behind.
#define READ_COLUMN(one, two, three)                                                                        \
    WIDEN "(%0), %%zmm" #one "\n\t" WIDEN "(%0,%3,1), %%zmm" #two "\n\t" WIDEN "(%0,%5,1), %%zmm" #three "\n\t" \
    "lea (%0,%7,1), %0\n\t"
// Columns 0 to 2 are registers 0 to 8, weights 9 to 17 [row][tap].
#define NEXT_COLUMNS_1                                                                                      \
    MOVE(3, 0) MOVE(4, 1) MOVE(5, 2) MOVE(6, 3) MOVE(7, 4) MOVE(8, 5) READ_COLUMN(6, 7, 8)
#define NEXT_COLUMNS_2 MOVE(6, 0) MOVE(7, 1) MOVE(8, 2) READ_COLUMN(3, 4, 5) READ_COLUMN(6, 7, 8)

// `count` results, at least one, from `from` on, the first column that is read. Flags stay as they are.
#define DEFINE_ROW(REACH)                                                                                   \
    static inline void row_of_results_##REACH(ulong from, ulong second, ulong third, ulong step, ulong to,  \
                                              ulong to_step, ulong count, ulong kept)                       \
    {                                                                                                       \
        ulong at = 0;                                                                                       \
        __asm__ volatile(                                                                                   \
            ALL_REGISTERS(KEEP)                                                                             \
            "vmovdqu64 " COLUMN(0, 0) ", %%zmm0\n\tvmovdqu64 " COLUMN(0, 1) ", %%zmm1\n\t"                  \
            "vmovdqu64 " COLUMN(0, 2) ", %%zmm2\n\tvmovdqu64 " COLUMN(1, 0) ", %%zmm3\n\t"                  \
            "vmovdqu64 " COLUMN(1, 1) ", %%zmm4\n\tvmovdqu64 " COLUMN(1, 2) ", %%zmm5\n\t"                  \
            "vmovdqu64 " COLUMN(2, 0) ", %%zmm6\n\tvmovdqu64 " COLUMN(2, 1) ", %%zmm7\n\t"                  \
            "vmovdqu64 " COLUMN(2, 2) ", %%zmm8\n\t"                                                        \
            WEIGHTS_OF_ROW(0, 9, 10, 11) WEIGHTS_OF_ROW(1, 12, 13, 14) WEIGHTS_OF_ROW(2, 15, 16, 17)        \
            "vmovdqu64 " BEHIND_COLUMNS "(%6), %%zmm19\n\tvmovdqu64 " BEHIND_COLUMNS "+64(%6), %%zmm20\n\t" \
            "vpbroadcastd " BEHIND_COLUMNS "+152(%6), %%zmm21\n\t"                                          \
            "vpbroadcastd " BEHIND_COLUMNS "+156(%6), %%zmm22\n\t"                                          \
            "vpbroadcastd " BEHIND_COLUMNS "+160(%6), %%zmm23\n\t"                                          \
            "1:\n\t" NEXT_COLUMNS_##REACH MOVE(19, 18)                                                      \
            MULTIPLY(0, 9) MULTIPLY(1, 12) MULTIPLY(2, 15) MULTIPLY(3, 10) MULTIPLY(4, 13) MULTIPLY(5, 16)  \
            MULTIPLY(6, 11) MULTIPLY(7, 14) MULTIPLY(8, 17)                                                 \
            "vcvtdq2ps %%zmm18, %%zmm18\n\tvmulps %%zmm20, %%zmm18, %%zmm18\n\t"                            \
            "vmaxps %%zmm21, %%zmm18, %%zmm18\n\tvminps %%zmm22, %%zmm18, %%zmm18\n\t"                      \
            "vcvtps2dq %%zmm18, %%zmm18\n\tvpaddd %%zmm23, %%zmm18, %%zmm18\n\tvpmovdb %%zmm18, (%1)\n\t"   \
            "lea (%1,%8,1), %1\n\t"                                                                         \
            "lea -1(%4), %4\n\txchg %4, %%rcx\n\tjrcxz 2f\n\txchg %4, %%rcx\n\tjmp 1b\n\t"                  \
            "2:\n\txchg %4, %%rcx\n\t"                                                                      \
            ALL_REGISTERS(GIVE_BACK)                                                                        \
            : "+r"(from), "+r"(to), "+r"(at), "+r"(second), "+r"(count), "+r"(third), "+r"(kept), "+r"(step), \
              "+r"(to_step)                                                                                 \
            :                                                                                               \
            : "memory");                                                                                    \
    }
DEFINE_ROW(1)
DEFINE_ROW(2)

typedef const __global storage_t(X)* bytes;

// A work-item owns sixteen channels of a row of results. REACH: columns from result to result.
static inline void depthwise_row(bytes x, int zero, const __global int* words, const conv_ending* ending,
                                 __global storage_t(Y)* y, const integer_conv_problem* p, const long reach)
{
    ulong kept[8 * 24 + sizeof(row_operands) / sizeof(ulong)] __attribute__((aligned(64)));
    row_operands* operands = (row_operands*)(kept + 8 * 24);
    int nothing[TAPS * LANES] __attribute__((aligned(64)));
    const long row = get_group_id(1), channel = first_channel(p, get_group_id(0));
    const long row_y = row % p->out[1], image = row / p->out[1], line = row_y * p->stride[1] - p->pad[1];
    const vector_ending ends[2] = {ending_of(ending, channel), ending_of(ending, channel + 8)};
    words += get_group_id(0) * TAPS * ROW_WORDS;
    x += image * p->x_strides[0] + channel;
    y += image * p->y_strides[0] + row_y * p->y_strides[3] + channel;
    bytes rows[TAPS];
    int16 begin = (int16)(ends[0].bias, ends[1].bias);
    UNROLL for (int r = 0; r < TAPS; ++r)
    {
        const long at = line + r * p->dilation[1];
        rows[r] = x + clamp(at, 0l, p->in[1] - 1) * p->x_strides[3];
        operands->weights[r] = (ulong)(words + r * ROW_WORDS);
        if (at >= 0 && at < p->in[1]) {
            begin -= vload16(TAPS, words + r * ROW_WORDS) * zero;
            continue;
        }
        UNROLL for (int t = 0; t < TAPS; ++t) vstore16((int16)0, t, nothing);
        operands->weights[r] = (ulong)nothing;
    }
    vstore16(begin, 0, operands->begin);
    vstore8(ends[0].scale, 0, operands->scale);
    vstore8(ends[1].scale, 1, operands->scale);
    operands->low = ends[0].low.s0;
    operands->high = ends[0].high.s0;
    operands->zero = ends[0].zero.s0;
    // Results whose last columns are inside of x, as far as they follow one another, are one piece; others are alone.
    const long step = p->x_strides[4];
    long i = 0;
    while (i < p->out[2]) {
        const long column = i * reach - p->pad[2], fresh = column + TAPS - reach;   // the first that is read
        const long count = fresh >= 0 && fresh + reach <= p->in[2]
                               ? min((p->in[2] - fresh) / reach, p->out[2] - i) : 0;
        if (count > 0) {
            // They move by `reach` before the first result.
            UNROLL for (int t = 0; t < TAPS; ++t)
            {
                const long at = column - reach + t;
                UNROLL for (int r = 0; r < TAPS; ++r)
                    vstore16(t >= reach && at >= 0 && at < p->in[2] ? convert_int16(vload16(0, rows[r] + at * step))
                                                                    : (int16)zero,
                             0, operands->columns[t][r]);
            }
            const ulong from = (ulong)(rows[0] + fresh * step), to = (ulong)(y + i * p->y_strides[4]);
            if (reach == 1)
                row_of_results_1(from, rows[1] - rows[0], rows[2] - rows[0], step, to, p->y_strides[4], count,
                                 (ulong)kept);
            else
                row_of_results_2(from, rows[1] - rows[0], rows[2] - rows[0], step, to, p->y_strides[4], count,
                                 (ulong)kept);
            i += count;
            continue;
        }
        int16 sums = begin;
        for (int t = 0; t < TAPS; ++t) {
            const long at = column + t;
            for (int r = 0; r < TAPS; ++r) {
                const int16 numbers = at >= 0 && at < p->in[2] ? convert_int16(vload16(0, rows[r] + at * step))
                                                               : (int16)zero;
                sums += numbers * (vload16(t, (const int*)operands->weights[r]) << 16 >> 16);
            }
        }
        const results one = ended_eight(&ends[0], sums.lo), two = ended_eight(&ends[1], sums.hi);
        STORE_RESULTS(one, two, y + i * p->y_strides[4]);
        ++i;
    }
}

#define DEFINE_DEPTHWISE(REACH)                                                                             \
    __kernel __attribute__((reqd_work_group_size(1, 1, 1)))                                                 \
    void depthwise_3_##REACH(const __global storage_t(X)* x, ulong x_offset,                                \
                             const __global storage_t(X)* x_zero, ulong x_zero_offset,                      \
                             const __global int* words, ulong words_offset, ENDING_ARGUMENTS,               \
                             __global storage_t(Y)* y, ulong y_offset, integer_conv_problem p)              \
    {                                                                                                       \
        const conv_ending ending = ENDING(p);                                                               \
        depthwise_row(x + x_offset, (int)AT(x_zero + x_zero_offset, p.x_zero, 0), words + words_offset, &ending, \
                      y + y_offset, &p, REACH);                                                             \
    }
#if KIND == BYTES
DEFINE_DEPTHWISE(1)
DEFINE_DEPTHWISE(2)
#endif
