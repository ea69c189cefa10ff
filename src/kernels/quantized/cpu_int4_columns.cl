// Four columns of four-bit numbers times chunks of x (cpu_int4.cl), in assembly: see gemm/dot_tile.cl, which also says
// why nothing is named that changes.
#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x
#define EACH_COLUMN(DO) DO(0) DO(1) DO(2) DO(3)
#if ROWS == 1
#define EACH_ROW(DO, c) DO(0, c)
#elif ROWS == 2
#define EACH_ROW(DO, c) DO(0, c) DO(1, c)
#else
#define EACH_ROW(DO, c) DO(0, c) DO(1, c) DO(2, c) DO(3, c)
#endif
// Registers: sums of four columns, those of a row side by side, in 0 to 15; a column's numbers, its scales, sums of a
// chunk; what is the same for all.
#define SUM_00 "%%zmm0"
#define SUM_01 "%%zmm1"
#define SUM_02 "%%zmm2"
#define SUM_03 "%%zmm3"
#define SUM_10 "%%zmm4"
#define SUM_11 "%%zmm5"
#define SUM_12 "%%zmm6"
#define SUM_13 "%%zmm7"
#define SUM_20 "%%zmm8"
#define SUM_21 "%%zmm9"
#define SUM_22 "%%zmm10"
#define SUM_23 "%%zmm11"
#define SUM_30 "%%zmm12"
#define SUM_31 "%%zmm13"
#define SUM_32 "%%zmm14"
#define SUM_33 "%%zmm15"
#define LOW "%%zmm16"
#define HIGH "%%zmm17"
#define SCALES "%%zmm18"
#define ADDED "%%zmm19"
#define FIFTEEN "%%zmm20"
#define LANES_OF_SCALES "%%zmm21"
#define EACH_REGISTER(DO)                                                                                   \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)   \
    DO(16) DO(17) DO(18) DO(19) DO(20) DO(21)
#define REGISTERS 22
#define SAVE(r) "vmovdqu64 %%zmm" #r ", 64*" #r "(%5)\n\t"
#define RESTORE(r) "vmovdqu64 64*" #r "(%5), %%zmm" #r "\n\t"
#define ARGUMENT(i) "64*" TEXT(REGISTERS) "+8*" #i "(%5)"
#define ARGUMENTS 16

#define COLUMN_AT_0 "(%0)"
#define COLUMN_AT_1 "(%0,%6,1)"
#define COLUMN_AT_2 "(%0,%6,2)"
#define COLUMN_AT_3 "(%0,%7,1)"
#define AHEAD_AT_0 "(%4)"
#define AHEAD_AT_1 "(%4,%6,1)"
#define AHEAD_AT_2 "(%4,%6,2)"
#define AHEAD_AT_3 "(%4,%7,1)"
#define SCALES_AT_0 "(%3)"
#define SCALES_AT_1 "(%3,%8,1)"
#define SCALES_AT_2 "(%3,%8,2)"
#define SCALES_AT_3 "(%3,%9,1)"
#if PIECES == 1
#define GET_SCALES(c) "vbroadcastss " SCALES_AT_##c ", " SCALES "\n\t"
#elif PIECES == 2
#define GET_SCALES(c)                                                                                       \
    "vbroadcastsd " SCALES_AT_##c ", " SCALES "\n\tvpermilps " LANES_OF_SCALES ", " SCALES ", " SCALES "\n\t"
#else
#define GET_SCALES(c)                                                                                       \
    "vbroadcastf32x4 " SCALES_AT_##c ", " SCALES "\n\tvpermilps " LANES_OF_SCALES ", " SCALES ", " SCALES "\n\t"
#endif
// What belongs to x is read for each column, from the cache, but that of one row, which is kept.
#define X_AT(r, place) "64*(" TEXT(place) ")+" TEXT(ROW_BYTES) "*" #r "(%1)"
#if ROWS == 1
#define GET_X_DIGIT(low, high, d)                                                                           \
    "vmovdqu64 " X_AT(0, 2 * d) ", " low "\n\tvmovdqu64 " X_AT(0, 2 * d + 1) ", " high "\n\t"
#define X_LOW_0 "%%zmm6"
#define X_HIGH_0 "%%zmm7"
#define X_LOW_1 "%%zmm8"
#define X_HIGH_1 "%%zmm9"
#define X_LOW_2 "%%zmm10"
#define X_HIGH_2 "%%zmm11"
#define X_LOW(r, d) X_LOW_##d
#define X_HIGH(r, d) X_HIGH_##d
#define X_START(r) "%%zmm4"
#define X_SCALES(r) "%%zmm5"
#define GET_X                                                                                               \
    "vmovdqu64 " X_AT(0, 2 * DIGITS) ", %%zmm4\n\tvmovdqu64 " X_AT(0, 2 * DIGITS + 1) ", %%zmm5\n\t"        \
    EACH_DIGIT(GET_X_OF, 0)
#define GET_X_OF(r, d) GET_X_DIGIT(X_LOW_##d, X_HIGH_##d, d)
#else
#define GET_X
#define X_LOW(r, d) X_AT(r, 2 * d)
#define X_HIGH(r, d) X_AT(r, 2 * d + 1)
#define X_START(r) X_AT(r, 2 * DIGITS)
#define X_SCALES(r) X_AT(r, 2 * DIGITS + 1)
#endif
#define ADD_DIGIT(r, d)                                                                                     \
    "vpdpbusd " X_LOW(r, d) ", " LOW ", " ADDED "\n\tvpdpbusd " X_HIGH(r, d) ", " HIGH ", " ADDED "\n\t"
#define ADD_LOWER_DIGIT(r, d) "vpslld $8, " ADDED ", " ADDED "\n\t" ADD_DIGIT(r, d)
#if DIGITS == 1
#define EACH_DIGIT(DO, r) DO(r, 0)
#define ADD_DIGITS(r) "vmovdqu64 " X_START(r) ", " ADDED "\n\t" ADD_DIGIT(r, 0)
#else
#if DIGITS == 2
#define EACH_DIGIT(DO, r) DO(r, 0) DO(r, 1)
#define ADD_LOWER_DIGITS(r) ADD_LOWER_DIGIT(r, 1)
#else
#define EACH_DIGIT(DO, r) DO(r, 0) DO(r, 1) DO(r, 2)
#define ADD_LOWER_DIGITS(r) ADD_LOWER_DIGIT(r, 1) ADD_LOWER_DIGIT(r, 2)
#endif
#define ADD_DIGITS(r)                                                                                       \
    "vpxord " ADDED ", " ADDED ", " ADDED "\n\t" ADD_DIGIT(r, 0) ADD_LOWER_DIGITS(r)                        \
    "vpaddd " X_START(r) ", " ADDED ", " ADDED "\n\t"
#endif
#define MULTIPLY(r, c)                                                                                      \
    ADD_DIGITS(r)                                                                                           \
    "vcvtdq2ps " ADDED ", " ADDED "\n\t"                                                                    \
    "vmulps " X_SCALES(r) ", " ADDED ", " ADDED "\n\t"                                                      \
    "vfmadd231ps " SCALES ", " ADDED ", " SUM_##r##c "\n\t"
#define COLUMN(c)                                                                                           \
    "vmovdqu32 " COLUMN_AT_##c ", " LOW "%{%%k1%}%{z%}\n\t"                                                 \
    "prefetcht0 " AHEAD_AT_##c "\n\t"                                                                       \
    "vpsrlw $4, " LOW ", " HIGH "\n\t"                                                                      \
    "vpandd " FIFTEEN ", " LOW ", " LOW "\n\t"                                                              \
    "vpandd " FIFTEEN ", " HIGH ", " HIGH "\n\t"                                                            \
    GET_SCALES(c) EACH_ROW(MULTIPLY, c)
#define CLEAR_ROW(r, c) "vpxord " SUM_##r##c ", " SUM_##r##c ", " SUM_##r##c "\n\t"
#define CLEAR(c) EACH_ROW(CLEAR_ROW, c)
#define STORE_ROW(r, c) "vmovdqu64 " SUM_##r##c ", 64*(4*" #r "+" #c ")(%0)\n\t"
#define STORE(c) EACH_ROW(STORE_ROW, c)
// One less in `count`, and back to `begin` while some are left.
#define AGAIN(count, begin, end)                                                                            \
    "lea -1(" count "), " count "\n\txchg " count ", %%rcx\n\tjrcxz " end "f\n\t"                           \
    "xchg " count ", %%rcx\n\tjmp " begin "b\n\t" end ":\n\txchg " count ", %%rcx\n\t"

typedef struct {
    ulong w, row, stream, ahead;   // bytes from a column to the next, between streams, and to what is asked for
    ulong x, chunks;
    ulong scales, scale_row, scale_stream;
    ulong sums;                    // [fours][ROWS][4] vectors
    ulong fours;                   // columns of each stream, at least one
} int4_columns;

static inline void add_columns(const int4_columns of)
{
    ulong kept[8 * REGISTERS + ARGUMENTS] __attribute__((aligned(64)));
    ulong* arguments = kept + 8 * REGISTERS;
    arguments[0] = of.w;
    arguments[1] = of.scales;
    arguments[2] = of.x;
    arguments[3] = of.chunks;
    arguments[4] = of.sums;
    arguments[5] = of.fours;
    arguments[6] = of.ahead;
    arguments[8] = 0x0f0f0f0f0f0f0f0ful;
    uint lanes[16] __attribute__((aligned(64)));   // of four, in each four
    for (int i = 0; i < 16; ++i)
        lanes[i] = i / 4 * PIECES / 4;
    arguments[9] = (ulong)lanes;
    arguments[10] = of.row;
    arguments[11] = of.scale_row;
    ulong w, x, left, scales, ahead;
    __asm__ volatile(
        EACH_REGISTER(SAVE)
        "kmovq %%k1, " ARGUMENT(7) "\n\t"
        "vpbroadcastq " ARGUMENT(8) ", " FIFTEEN "\n\t"
        "mov " ARGUMENT(9) ", %0\n\tvmovdqa64 (%0), " LANES_OF_SCALES "\n\t"
        "1:\n\t"
        "mov " ARGUMENT(0) ", %0\n\tmov " ARGUMENT(10) ", %4\n\tlea (%0,%4,1), %4\n\tmov %4, " ARGUMENT(0) "\n\t"
        "mov " ARGUMENT(6) ", %4\n\tlea (%4,%0,1), %4\n\t"
        "mov " ARGUMENT(1) ", %3\n\tmov " ARGUMENT(11) ", %1\n\tlea (%3,%1,1), %1\n\tmov %1, " ARGUMENT(1) "\n\t"
        "mov " ARGUMENT(2) ", %1\n\tmov " ARGUMENT(3) ", %2\n\t"
        EACH_COLUMN(CLEAR)
        "2:\n\t"
        "kmovw " TEXT(MASK_AT) "(%1), %%k1\n\t"
        GET_X
        EACH_COLUMN(COLUMN)
        "lea 64(%0), %0\n\tlea 64(%4), %4\n\t"
        "lea " TEXT(CHUNK_BYTES) "(%1), %1\n\t"
        "lea 4*" TEXT(PIECES) "(%3), %3\n\t"
        AGAIN("%2", "2", "3")
        "mov " ARGUMENT(4) ", %0\n\t"
        EACH_COLUMN(STORE)
        "lea 256*" TEXT(ROWS) "(%0), %0\n\tmov %0, " ARGUMENT(4) "\n\t"
        "mov " ARGUMENT(5) ", %2\n\tlea -1(%2), %0\n\tmov %0, " ARGUMENT(5) "\n\t"
        AGAIN("%2", "1", "4")
        "kmovq " ARGUMENT(7) ", %%k1\n\t"
        EACH_REGISTER(RESTORE)
        : "=&r"(w), "=&r"(x), "=&r"(left), "=&r"(scales), "=&r"(ahead)
        : "r"(kept), "r"(of.stream), "r"(3 * of.stream), "r"(of.scale_stream), "r"(3 * of.scale_stream)
        : "memory");
}

