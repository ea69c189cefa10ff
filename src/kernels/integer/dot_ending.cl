// dot_tile.cl for the last words of k: sums leave as what results are (conv_epilogue.cl), quantised in registers where
// those are bytes. Rows may lie anywhere, a step apart, so that pixels with channels innermost are read in place.
//
// Needs what dot_tile.cl needs, AVX-512's registers, and -DY=int32|float32|int8|uint8.
typedef struct {
    ulong rows, row_step, three_rows;      // steps come with three times them, since addresses have no such factor
    ulong begin, begin_step, three_begins; // what sums begin with, `begin_second` behind it for the second vector
    ulong to, to_step, three_tos;          // results, `to_second` behind them for the second vector
    ulong weights, steps;                  // of k, at least one
    ulong begin_second, to_second, second; // `second`: as that of dot_operands
    ulong scales;                          // of both vectors of columns; of real results offsets behind them
    float low, high;                       // less the zero point
    int zero, filling;
} dot_ending;

#define ENDING_PLACES 24    // of vectors in `saved`, and behind them the operands
#define ENDING_AT(field) "64*24+8*" #field "(%6)"
#define ENDING_OTHERS(DO) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
// The address of row r: %0 is that of row 0, %5 that of row 4, %3 the step, %8 three of them.
#define ROW_AT_0 "(%0)"
#define ROW_AT_1 "(%0,%3,1)"
#define ROW_AT_2 "(%0,%3,2)"
#define ROW_AT_3 "(%0,%8,1)"
#define ROW_AT_4 "(%5)"
#define ROW_AT_5 "(%5,%3,1)"
#define ROW_AT_6 "(%5,%3,2)"
#define ROW_AT_7 "(%5,%8,1)"
#define WORD_AT_0(w) "4*" #w "(%0)"
#define WORD_AT_1(w) "4*" #w "(%0,%3,1)"
#define WORD_AT_2(w) "4*" #w "(%0,%3,2)"
#define WORD_AT_3(w) "4*" #w "(%0,%8,1)"
#define WORD_AT_4(w) "4*" #w "(%5)"
#define WORD_AT_5(w) "4*" #w "(%5,%3,1)"
#define WORD_AT_6(w) "4*" #w "(%5,%3,2)"
#define WORD_AT_7(w) "4*" #w "(%5,%8,1)"
// Points at what three operands from `field` on say.
#define POINT_AT(base, step, three)                                                                         \
    "mov " ENDING_AT(base) ", %0\n\tmov " ENDING_AT(step) ", %3\n\tmov " ENDING_AT(three) ", %8\n\t"        \
    "lea (%0,%3,4), %5\n\t"
#define BOTH_FURTHER(field)                                                                                 \
    "mov " ENDING_AT(field) ", %2\n\tlea (%0,%2,1), %0\n\tlea (%5,%2,1), %5\n\t"
#define FURTHER(R, base, step)                                                                              \
    "mov " ENDING_AT(base) ", %0\n\tmov " ENDING_AT(step) ", %3\n\tlea (%0,%3," #R "), %0\n\t"              \
    "mov %0, " ENDING_AT(base) "\n\t"
#define LOAD_FIRST(w, r, one, two) "vmovdqu64 " ROW_AT_##r ", %%zmm" #one "\n\t"
#define LOAD_SECOND(w, r, one, two) "vmovdqu64 " ROW_AT_##r ", %%zmm" #two "\n\t"
#define MULTIPLY_WORD(w, r, one, two)                                                                       \
    "vpbroadcastd " WORD_AT_##r(w) ", %%zmm18\n\t"                                                          \
    "vpdpbusd %%zmm16, %%zmm18, %%zmm" #one "\n\tvpdpbusd %%zmm17, %%zmm18, %%zmm" #two "\n\t"
#define TWO_WORDS_0 "vmovdqu64 (%1), %%zmm16\n\tvmovdqu64 (%1,%7,1), %%zmm17\n\t"
#define TWO_WORDS_1 "vmovdqu64 64(%1), %%zmm16\n\tvmovdqu64 64(%1,%7,1), %%zmm17\n\t"
#define SCALE(sums, scales)                                                                                 \
    "vcvtdq2ps %%zmm" #sums ", %%zmm" #sums "\n\tvmulps %%zmm" #scales ", %%zmm" #sums ", %%zmm" #sums "\n\t"
#if KIND == BYTES
// Bounds are whole numbers: they may come before rounding. What is no number becomes the lower one.
#define END(r, sums, scales, offsets)                                                                       \
    SCALE(sums, scales)                                                                                     \
    "vmaxps %%zmm21, %%zmm" #sums ", %%zmm" #sums "\n\tvminps %%zmm22, %%zmm" #sums ", %%zmm" #sums "\n\t"  \
    "vcvtps2dq %%zmm" #sums ", %%zmm" #sums "\n\tvpaddd %%zmm23, %%zmm" #sums ", %%zmm" #sums "\n\t"        \
    "vpmovdb %%zmm" #sums ", " ROW_AT_##r "\n\t"
#elif KIND == REALS
#define END(r, sums, scales, offsets)                                                                       \
    SCALE(sums, scales)                                                                                     \
    "vaddps %%zmm" #offsets ", %%zmm" #sums ", %%zmm" #sums "\n\tvmovdqu64 %%zmm" #sums ", " ROW_AT_##r "\n\t"
#else
#define END(r, sums, scales, offsets) "vmovdqu64 %%zmm" #sums ", " ROW_AT_##r "\n\t"
#endif
#define END_FIRST(w, r, one, two) END(r, one, 19, 21)
#define END_SECOND(w, r, one, two) END(r, two, 20, 22)

#if KIND == REALS
#define ENDING_CONSTANTS "vmovdqu64 128(%1), %%zmm21\n\tvmovdqu64 192(%1), %%zmm22\n\t"
#else
#define ENDING_CONSTANTS                                                                                    \
    "vpbroadcastd " ENDING_AT(15) ", %%zmm21\n\tvpbroadcastd 4+" ENDING_AT(15) ", %%zmm22\n\t"              \
    "vpbroadcastd " ENDING_AT(16) ", %%zmm23\n\t"
#endif

// `groups` times R rows, at least one.
#define DEFINE_ENDING_TILE(R)                                                                               \
    static inline void end_rows_##R(dot_ending* of, ulong groups)                                           \
    {                                                                                                       \
        ulong saved[8 * ENDING_PLACES + sizeof(dot_ending) / sizeof(ulong)] __attribute__((aligned(64)));   \
        *(dot_ending*)(saved + 8 * ENDING_PLACES) = *of;                                                    \
        ulong row = 0, row_4 = 0, weights = of->scales, left = 0, step = 0, three = 0, second = of->second; \
        ulong kept = (ulong)saved;                                                                          \
        __asm__ volatile(                                                                                   \
            DOT_EACH_ROW_##R(DOT_SAVE_ROW, 0) ENDING_OTHERS(DOT_SAVE)                                       \
            "vmovdqu64 (%1), %%zmm19\n\tvmovdqu64 64(%1), %%zmm20\n\t"                                      \
            ENDING_CONSTANTS                                                                                \
            "1:\n\t"                                                                                        \
            POINT_AT(3, 4, 5) DOT_EACH_ROW_##R(LOAD_FIRST, 0)                                               \
            BOTH_FURTHER(11) DOT_EACH_ROW_##R(LOAD_SECOND, 0)                                               \
            POINT_AT(0, 1, 2)                                                                               \
            "mov " ENDING_AT(9) ", %1\n\tmov " ENDING_AT(10) ", %2\n\t"                                     \
            "2:\n\t"                                                                                        \
            TWO_WORDS_0 DOT_EACH_ROW_##R(MULTIPLY_WORD, 0)                                                  \
            TWO_WORDS_1 DOT_EACH_ROW_##R(MULTIPLY_WORD, 1)                                                  \
            "lea 8(%0), %0\n\tlea 8(%5), %5\n\tlea 128(%1), %1\n\t"                                         \
            DOT_AGAIN("%2", "2", "3")                                                                       \
            POINT_AT(6, 7, 8) DOT_EACH_ROW_##R(END_FIRST, 0)                                                \
            BOTH_FURTHER(12) DOT_EACH_ROW_##R(END_SECOND, 0)                                                \
            FURTHER(R, 0, 1) FURTHER(R, 3, 4) FURTHER(R, 6, 7)                                              \
            DOT_AGAIN("%4", "1", "4")                                                                       \
            DOT_EACH_ROW_##R(DOT_RESTORE_ROW, 0) ENDING_OTHERS(DOT_RESTORE)                                 \
            : "+r"(row), "+r"(weights), "+r"(left), "+r"(step), "+r"(groups), "+r"(row_4), "+r"(kept),      \
              "+r"(second), "+r"(three)                                                                     \
            :                                                                                               \
            : "memory");                                                                                    \
        *of = *(dot_ending*)(saved + 8 * ENDING_PLACES);                                                    \
    }
DEFINE_ENDING_TILE(1)
DEFINE_ENDING_TILE(2)
DEFINE_ENDING_TILE(4)
DEFINE_ENDING_TILE(8)

// As many rows as there are, no more.
static inline void end_tile(dot_ending of, long rows)
{
    if (rows >= 8)
        end_rows_8(&of, rows / 8);
    if (rows & 4)
        end_rows_4(&of, 1);
    if (rows & 2)
        end_rows_2(&of, 1);
    if (rows & 1)
        end_rows_1(&of, 1);
}
