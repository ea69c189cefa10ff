// Rows times two vectors of columns by instructions of x86 processors that add the products of a word's numbers to a
// sum: vpdpbusd (AVX-512 VNNI and AVX-VNNI), of four unsigned bytes of a row and four signed ones of a column, or
// vdpbf16ps (AVX-512 BF16), of two bfloat16. In assembly, since compilers do not find them. Drivers read it as for a
// machine without registers, so that it cannot name those that it changes: it puts them back. For the same reason it
// changes no flags.
//
//     row 0: | word | word | ...    each word goes to all lanes of a vector and is multiplied with
//     row 1: | word | word | ...    words of columns: first | c0 c1 c2 ... |, second | c16 c17 ... |
//
// Needs: -DDOT_VECTOR=<bytes of a vector, 64 or 32> [-DDOT_VEX: the encoding of AVX-VNNI] [DOT_BFLOAT16] and in bytes
//     DOT_ROW, from a row to the next             DOT_SUM_ROW, DOT_SUM_SECOND, from sums to the next row's and to the
//     DOT_STEP_ROWS, DOT_STEP_WEIGHTS, of a step  second vector's
// and DOT_STEP(WORD), the words of a step of k: WORD(0) WORD(1) ... Words of columns lie 64 bytes apart.
#if DOT_VECTOR == 64
#define DOT_ROWS 8          // at a time
#define DOT_COLUMNS 32
#define DOT_R "%%zmm"
#define DOT_MOVE "vmovdqu64 "
#else
#define DOT_ROWS 4
#define DOT_COLUMNS 16
#define DOT_R "%%ymm"
#define DOT_MOVE "vmovdqu "
#endif
#define DOT_TEXT(x) DOT_TEXT_OF(x)
#define DOT_TEXT_OF(x) #x
#ifdef DOT_BFLOAT16
#define DOT_PRODUCT "vdpbf16ps "
#elif defined(DOT_VEX)
#define DOT_PRODUCT "%{vex%} vpdpbusd "
#else
#define DOT_PRODUCT "vpdpbusd "
#endif

// Registers: two for the sums of each row, and these.
#if DOT_VECTOR == 64
#define DOT_OTHERS(DO) DO(16) DO(17) DO(18)
#define DOT_FIRST DOT_R "16"
#define DOT_SECOND DOT_R "17"
#define DOT_WORD DOT_R "18"
#else
#define DOT_OTHERS(DO) DO(8) DO(9) DO(10)
#define DOT_FIRST DOT_R "8"
#define DOT_SECOND DOT_R "9"
#define DOT_WORD DOT_R "10"
#endif
#ifdef DOT_VEX
#define DOT_WHOLE_R "%%ymm"
#define DOT_MOVE_WHOLE "vmovdqu "
#else   // a write to 32 bytes clears the others
#define DOT_WHOLE_R "%%zmm"
#define DOT_MOVE_WHOLE "vmovdqu64 "
#endif
#define DOT_EACH_ROW_1(DO, w) DO(w, 0, 0, 1)
#define DOT_EACH_ROW_2(DO, w) DOT_EACH_ROW_1(DO, w) DO(w, 1, 2, 3)
#define DOT_EACH_ROW_3(DO, w) DOT_EACH_ROW_2(DO, w) DO(w, 2, 4, 5)
#define DOT_EACH_ROW_4(DO, w) DOT_EACH_ROW_3(DO, w) DO(w, 3, 6, 7)
#define DOT_EACH_ROW_8(DO, w) DOT_EACH_ROW_4(DO, w) DO(w, 4, 8, 9) DO(w, 5, 10, 11) DO(w, 6, 12, 13) DO(w, 7, 14, 15)

#define DOT_SAVE(r) DOT_MOVE_WHOLE DOT_WHOLE_R #r ", 64*" #r "(%6)\n\t"
#define DOT_RESTORE(r) DOT_MOVE_WHOLE "64*" #r "(%6), " DOT_WHOLE_R #r "\n\t"
#define DOT_SAVE_ROW(w, r, one, two) DOT_SAVE(one) DOT_SAVE(two)
#define DOT_RESTORE_ROW(w, r, one, two) DOT_RESTORE(one) DOT_RESTORE(two)
#define DOT_SUMS(r) #r "*" DOT_TEXT(DOT_SUM_ROW) "(%3)"
#define DOT_SECOND_SUMS(r) #r "*" DOT_TEXT(DOT_SUM_ROW) "+" DOT_TEXT(DOT_SUM_SECOND) "(%3)"
#define DOT_LOAD_ROW(w, r, one, two)                                                                        \
    DOT_MOVE DOT_SUMS(r) ", " DOT_R #one "\n\t" DOT_MOVE DOT_SECOND_SUMS(r) ", " DOT_R #two "\n\t"
#define DOT_STORE_ROW(w, r, one, two)                                                                       \
    DOT_MOVE DOT_R #one ", " DOT_SUMS(r) "\n\t" DOT_MOVE DOT_R #two ", " DOT_SECOND_SUMS(r) "\n\t"
#define DOT_MULTIPLY_ROW(w, r, one, two)                                                                    \
    "vpbroadcastd " #r "*" DOT_TEXT(DOT_ROW) "+4*" #w "(%0), " DOT_WORD "\n\t"                                        \
    DOT_PRODUCT DOT_FIRST ", " DOT_WORD ", " DOT_R #one "\n\t"                                              \
    DOT_PRODUCT DOT_SECOND ", " DOT_WORD ", " DOT_R #two "\n\t"
#define DOT_WEIGHTS(w)                                                                                      \
    DOT_MOVE "64*" #w "(%1), " DOT_FIRST "\n\t" DOT_MOVE "64*" #w "(%1,%7,1), " DOT_SECOND "\n\t"
#define DOT_MULTIPLY_1(w) DOT_WEIGHTS(w) DOT_EACH_ROW_1(DOT_MULTIPLY_ROW, w)
#define DOT_MULTIPLY_2(w) DOT_WEIGHTS(w) DOT_EACH_ROW_2(DOT_MULTIPLY_ROW, w)
#define DOT_MULTIPLY_3(w) DOT_WEIGHTS(w) DOT_EACH_ROW_3(DOT_MULTIPLY_ROW, w)
#define DOT_MULTIPLY_4(w) DOT_WEIGHTS(w) DOT_EACH_ROW_4(DOT_MULTIPLY_ROW, w)
#define DOT_MULTIPLY_8(w) DOT_WEIGHTS(w) DOT_EACH_ROW_8(DOT_MULTIPLY_ROW, w)

// One less in `count`, and back to `begin` while some are left.
#define DOT_AGAIN(count, begin, end)                                                                        \
    "lea -1(" count "), " count "\n\txchg " count ", %%rcx\n\tjrcxz " end "f\n\t"                           \
    "xchg " count ", %%rcx\n\tjmp " begin "b\n\t" end ":\n\txchg " count ", %%rcx\n\t"

// Operands, all that are addresses being those of the first.
typedef struct {
    ulong rows, weights, sums;
    ulong second;   // how far the second vector of columns lies behind the first
    ulong steps;    // of k, at least one
} dot_operands;

#define DOT_PLACES 19   // of vectors in `saved`, and behind them
#define DOT_KEPT "64*19"

// Adds products to the sums of `groups` times R rows, at least one; R is 1, 2, 3, 4 or 8.
#define DEFINE_DOT_TILE(R)                                                                                  \
    static inline void dot_rows_##R(const dot_operands of, ulong groups)                                    \
    {                                                                                                       \
        ulong saved[8 * DOT_PLACES + 2] __attribute__((aligned(64)));                                       \
        saved[8 * DOT_PLACES] = of.weights;                                                                 \
        saved[8 * DOT_PLACES + 1] = of.steps;                                                               \
        ulong row = of.rows, next = of.rows, weights = of.weights, left = of.steps, sums = of.sums;         \
        __asm__ volatile(                                                                                   \
            DOT_EACH_ROW_##R(DOT_SAVE_ROW, 0) DOT_OTHERS(DOT_SAVE)                                          \
            "1:\n\t"                                                                                        \
            "mov %5, %0\n\t"                                                                                \
            "mov " DOT_KEPT "(%6), %1\n\t"                                                                       \
            "mov " DOT_KEPT "+8(%6), %2\n\t"                                                                     \
            DOT_EACH_ROW_##R(DOT_LOAD_ROW, 0)                                                               \
            "2:\n\t"                                                                                        \
            DOT_STEP(DOT_MULTIPLY_##R)                                                                      \
            "lea " DOT_TEXT(DOT_STEP_ROWS) "(%0), %0\n\t"                                                             \
            "lea " DOT_TEXT(DOT_STEP_WEIGHTS) "(%1), %1\n\t"                                                          \
            DOT_AGAIN("%2", "2", "3")                                                                       \
            DOT_EACH_ROW_##R(DOT_STORE_ROW, 0)                                                              \
            "lea " #R "*" DOT_TEXT(DOT_SUM_ROW) "(%3), %3\n\t"                                                        \
            "lea " #R "*" DOT_TEXT(DOT_ROW) "(%5), %5\n\t"                                                            \
            DOT_AGAIN("%4", "1", "4")                                                                       \
            DOT_EACH_ROW_##R(DOT_RESTORE_ROW, 0) DOT_OTHERS(DOT_RESTORE)                                    \
            : "+r"(row), "+r"(weights), "+r"(left), "+r"(sums), "+r"(groups), "+r"(next)                    \
            : "r"(saved), "r"(of.second)                                                                    \
            : "memory");                                                                                    \
    }
DEFINE_DOT_TILE(1)
DEFINE_DOT_TILE(2)
DEFINE_DOT_TILE(4)
#if DOT_ROWS == 8
DEFINE_DOT_TILE(8)
#endif

// As many rows as there are, no more.
static inline void dot_tile(dot_operands of, long rows)
{
    const long groups = rows / DOT_ROWS;
    if (groups) {
        CLPRIM_CAT(dot_rows_, DOT_ROWS)(of, groups);
        of.rows += groups * DOT_ROWS * DOT_ROW;
        of.sums += groups * DOT_ROWS * DOT_SUM_ROW;
        rows -= groups * DOT_ROWS;
    }
#define DOT_SOME(R)                                                                                         \
    if (rows & R) {                                                                                         \
        dot_rows_##R(of, 1);                                                                                \
        of.rows += R * DOT_ROW;                                                                           \
        of.sums += R * DOT_SUM_ROW;                                                                           \
    }
#if DOT_ROWS == 8
    DOT_SOME(4)
#endif
    DOT_SOME(2)
    DOT_SOME(1)
}
