// Rows of bfloat16 that lie anywhere times one or two vectors of columns, by AVX-512 BF16 (vdpbf16ps): twelve rows at a
// time, whose sums stay in registers over all of k.
//
//     row 0:  | word | word | ...    each word, two neighbours along k, goes to all lanes of a vector and meets
//     row 1:  | word | word | ...    words of columns: | c0 c1 .. c15 | c16 .. c31 |, word after word
//
// Rows come in parts of equal length, as taps of a convolution are, each part of each row from an address of its own.
// Sums become bfloat16 in registers, plus a number for each column and not below a bound, or go to memory as they are.
//
// In assembly, since compilers do not find the instruction. Drivers read it as for a machine with few registers and
// none that could be named as changed: so all are put back, and flags are left alone.
#define ROWS_AT_ONCE 12
#define ROWS_VECTORS 28                      // of the processor that are changed
#define ROWS_KEPT (8 * ROWS_VECTORS)         // of `kept`, where the general registers' places follow
#define ROWS_FIELDS (ROWS_KEPT + 15)         // and then operands

typedef struct {
    ulong table;     // addresses, R for each part and then R for the results, of R rows; R of the next rows follow.
                     // Parts are named by their ends, since they are counted from there
    ulong weights;   // words as above, part after part
    ulong back;      // bytes of a part, a multiple of eight, negative
    ulong parts, groups;         // at least one
    ulong left, place;           // used by the code
    ulong sums;      // where sums go, R rows of as many floats as columns; 0: they become results
    ulong bias;      // a float for each column
    ulong column;    // bytes from a row's result to that of the first column
    uint least, none;            // of a result, a float's bits
} row_operands;
#define ROWS_AT(field) "64*28+8*15+8*" #field "(%%rdi)"
#define ROWS_TABLE ROWS_AT(0)
#define ROWS_WEIGHTS ROWS_AT(1)
#define ROWS_BACK ROWS_AT(2)
#define ROWS_PARTS ROWS_AT(3)
#define ROWS_GROUPS ROWS_AT(4)
#define ROWS_LEFT ROWS_AT(5)
#define ROWS_PLACE ROWS_AT(6)
#define ROWS_SUMS ROWS_AT(7)
#define ROWS_BIAS ROWS_AT(8)
#define ROWS_COLUMN ROWS_AT(9)
#define ROWS_LEAST ROWS_AT(10)

// DO(row, its register, its vectors of sums)
#define ROWS_EACH_1(DO) DO(0, "%%rax", 0, 1)
#define ROWS_EACH_2(DO) ROWS_EACH_1(DO) DO(1, "%%rbx", 2, 3)
#define ROWS_EACH_4(DO) ROWS_EACH_2(DO) DO(2, "%%rdx", 4, 5) DO(3, "%%rbp", 6, 7)
#define ROWS_EACH_8(DO)                                                                                     \
    ROWS_EACH_4(DO) DO(4, "%%r8", 8, 9) DO(5, "%%r9", 10, 11) DO(6, "%%r10", 12, 13) DO(7, "%%r11", 14, 15)
#define ROWS_EACH_12(DO)                                                                                    \
    ROWS_EACH_8(DO) DO(8, "%%r12", 16, 17) DO(9, "%%r13", 18, 19) DO(10, "%%r14", 20, 21) DO(11, "%%r15", 22, 23)

#define ROWS_GENERAL(DO)                                                                                    \
    DO(0, rax) DO(1, rbx) DO(2, rdx) DO(3, rbp) DO(4, r8) DO(5, r9) DO(6, r10) DO(7, r11) DO(8, r12)        \
    DO(9, r13) DO(10, r14) DO(11, r15) DO(12, rcx) DO(13, rsi)
#define ROWS_KEEP_GENERAL(i, name) "mov %%" #name ", 64*28+8*" #i "(%0)\n\t"
#define ROWS_RESTORE_GENERAL(i, name) "mov 64*28+8*" #i "(%%rdi), %%" #name "\n\t"
#define ROWS_KEEP(v) "vmovups %%zmm" #v ", 64*" #v "(%%rdi)\n\t"
#define ROWS_RESTORE(v) "vmovups 64*" #v "(%%rdi), %%zmm" #v "\n\t"
#define ROWS_OTHERS(DO) DO(24) DO(25) DO(26) DO(27)
#define ROWS_KEEP_SUMS_2(r, row, one, two) ROWS_KEEP(one) ROWS_KEEP(two)
#define ROWS_KEEP_SUMS_1(r, row, one, two) ROWS_KEEP(one)
#define ROWS_RESTORE_SUMS_2(r, row, one, two) ROWS_RESTORE(one) ROWS_RESTORE(two)
#define ROWS_RESTORE_SUMS_1(r, row, one, two) ROWS_RESTORE(one)

#define ROWS_ZERO(v) "vpxord %%zmm" #v ", %%zmm" #v ", %%zmm" #v "\n\t"
#define ROWS_BEGIN_2(r, row, one, two) ROWS_ZERO(one) ROWS_ZERO(two)
#define ROWS_BEGIN_1(r, row, one, two) ROWS_ZERO(one)
#define ROWS_FIND(r, row, one, two) "mov 8*" #r "(%%rcx), " row "\n\t"
#define ROWS_WORD_0(row) "vpbroadcastd (" row ",%%rcx), %%zmm26\n\t"
#define ROWS_WORD_1(row) "vpbroadcastd 4(" row ",%%rcx), %%zmm26\n\t"
#define ROWS_ADD(columns, v) "vdpbf16ps %%zmm" #columns ", %%zmm26, %%zmm" #v "\n\t"
#define ROWS_MULTIPLY_0_2(r, row, one, two) ROWS_WORD_0(row) ROWS_ADD(24, one) ROWS_ADD(25, two)
#define ROWS_MULTIPLY_1_2(r, row, one, two) ROWS_WORD_1(row) ROWS_ADD(24, one) ROWS_ADD(25, two)
#define ROWS_MULTIPLY_0_1(r, row, one, two) ROWS_WORD_0(row) ROWS_ADD(24, one)
#define ROWS_MULTIPLY_1_1(r, row, one, two) ROWS_WORD_1(row) ROWS_ADD(24, one)
#define ROWS_COLUMNS_0_2 "vmovups (%%rsi), %%zmm24\n\tvmovups 64(%%rsi), %%zmm25\n\t"
#define ROWS_COLUMNS_1_2 "vmovups 128(%%rsi), %%zmm24\n\tvmovups 192(%%rsi), %%zmm25\n\tlea 256(%%rsi), %%rsi\n\t"
#define ROWS_COLUMNS_0_1 "vmovups (%%rsi), %%zmm24\n\t"
#define ROWS_COLUMNS_1_1 "vmovups 64(%%rsi), %%zmm24\n\tlea 128(%%rsi), %%rsi\n\t"

#define ROWS_STORE_2(r, row, one, two)                                                                      \
    "vmovups %%zmm" #one ", 128*" #r "(%%rcx)\n\tvmovups %%zmm" #two ", 128*" #r "+64(%%rcx)\n\t"
#define ROWS_STORE_1(r, row, one, two) "vmovups %%zmm" #one ", 64*" #r "(%%rcx)\n\t"
#define ROWS_BIAS_2 "vmovups (%%rcx), %%zmm24\n\tvmovups 64(%%rcx), %%zmm25\n\t"
#define ROWS_BIAS_1 "vmovups (%%rcx), %%zmm24\n\t"
// The larger one of NaN and a bound is what stands first here.
#define ROWS_FINISH(v, bias)                                                                                \
    "vaddps %%zmm" #bias ", %%zmm" #v ", %%zmm" #v "\n\tvmaxps %%zmm" #v ", %%zmm27, %%zmm" #v "\n\t"
#define ROWS_END_2(r, row, one, two)                                                                        \
    ROWS_FINISH(one, 24) ROWS_FINISH(two, 25)                                                               \
    "vcvtne2ps2bf16 %%zmm" #one ", %%zmm" #two ", %%zmm26\n\tvmovups %%zmm26, (" row ",%%rsi)\n\t"
#define ROWS_END_1(r, row, one, two)                                                                        \
    ROWS_FINISH(one, 24) "vcvtneps2bf16 %%zmm" #one ", %%ymm26\n\tvmovups %%ymm26, (" row ",%%rsi)\n\t"

// One less of a count, and back to `begin` while some are left.
#define ROWS_AGAIN(count, begin, end)                                                                       \
    "mov " count ", %%rcx\n\tlea -1(%%rcx), %%rcx\n\tmov %%rcx, " count "\n\t"                              \
    "jrcxz " end "f\n\tjmp " begin "b\n\t" end ":\n\t"
// Addresses of R rows, and on to those behind them.
#define ROWS_ADDRESSES(R)                                                                                   \
    "mov " ROWS_PLACE ", %%rcx\n\t" ROWS_EACH_##R(ROWS_FIND) "lea 8*" #R "(%%rcx), %%rcx\n\t"               \
    "mov %%rcx, " ROWS_PLACE "\n\t"

// R rows, `groups` times, by V vectors of columns.
#define DEFINE_ROWS(R, V)                                                                                   \
    static inline void multiply_rows_##R##_##V(const row_operands* of)                                      \
    {                                                                                                       \
        ulong kept[ROWS_FIELDS + sizeof(row_operands) / sizeof(ulong)] __attribute__((aligned(64)));        \
        *(row_operands*)(kept + ROWS_FIELDS) = *of;                                                         \
        __asm__ volatile(                                                                                   \
            "mov %%rdi, 64*28+8*14(%0)\n\t" ROWS_GENERAL(ROWS_KEEP_GENERAL) "mov %0, %%rdi\n\t"             \
            ROWS_EACH_##R(ROWS_KEEP_SUMS_##V) ROWS_OTHERS(ROWS_KEEP)                                        \
            "vbroadcastss " ROWS_LEAST ", %%zmm27\n\t"                                                      \
            "mov " ROWS_TABLE ", %%rcx\n\tmov %%rcx, " ROWS_PLACE "\n\t"                                    \
            "1:\n\t"                                                                                        \
            ROWS_EACH_##R(ROWS_BEGIN_##V)                                                                   \
            "mov " ROWS_PARTS ", %%rcx\n\tmov %%rcx, " ROWS_LEFT "\n\tmov " ROWS_WEIGHTS ", %%rsi\n\t"      \
            "2:\n\t"                                                                                        \
            ROWS_ADDRESSES(R)                                                                               \
            "mov " ROWS_BACK ", %%rcx\n\t"                                                                  \
            "3:\n\t"                                                                                        \
            ROWS_COLUMNS_0_##V ROWS_EACH_##R(ROWS_MULTIPLY_0_##V)                                           \
            ROWS_COLUMNS_1_##V ROWS_EACH_##R(ROWS_MULTIPLY_1_##V)                                           \
            "lea 8(%%rcx), %%rcx\n\tjrcxz 4f\n\tjmp 3b\n\t4:\n\t"                                           \
            ROWS_AGAIN(ROWS_LEFT, "2", "5")                                                                 \
            "mov " ROWS_SUMS ", %%rcx\n\tjrcxz 6f\n\tjmp 9f\n\t6:\n\t"                                     \
            "mov " ROWS_BIAS ", %%rcx\n\t" ROWS_BIAS_##V                                                    \
            ROWS_ADDRESSES(R)                                                                               \
            "mov " ROWS_COLUMN ", %%rsi\n\t"                                                                \
            ROWS_EACH_##R(ROWS_END_##V)                                                                     \
            "jmp 7f\n\t9:\n\t"                                                                             \
            ROWS_EACH_##R(ROWS_STORE_##V)                                                                   \
            "7:\n\t"                                                                                        \
            ROWS_AGAIN(ROWS_GROUPS, "1", "8")                                                               \
            ROWS_EACH_##R(ROWS_RESTORE_SUMS_##V) ROWS_OTHERS(ROWS_RESTORE)                                  \
            ROWS_GENERAL(ROWS_RESTORE_GENERAL) "mov 64*28+8*14(%%rdi), %%rdi\n\t"                           \
            :                                                                                               \
            : "r"(kept)                                                                                     \
            : "memory");                                                                                    \
    }
#define DEFINE_ROWS_BOTH(R) DEFINE_ROWS(R, 1) DEFINE_ROWS(R, 2)
DEFINE_ROWS_BOTH(1)
DEFINE_ROWS_BOTH(2)
DEFINE_ROWS_BOTH(4)
DEFINE_ROWS_BOTH(8)
DEFINE_ROWS_BOTH(12)

// How many of `left` rows are multiplied at a time.
static inline int rows_at_once(long left)
{
    return left >= 12 ? 12 : left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

// `rows` rows, as many as rows_at_once() says, times `vectors` vectors of columns.
static inline void multiply_rows(const row_operands* of, int rows, int vectors)
{
#define MULTIPLY_SOME(R)                                                                                    \
    case R:                                                                                                 \
        if (vectors == 2)                                                                                   \
            multiply_rows_##R##_2(of);                                                                      \
        else                                                                                                \
            multiply_rows_##R##_1(of);                                                                      \
        break;
    switch (rows) {
        MULTIPLY_SOME(12)
        MULTIPLY_SOME(8)
        MULTIPLY_SOME(4)
        MULTIPLY_SOME(2)
        MULTIPLY_SOME(1)
    }
}
