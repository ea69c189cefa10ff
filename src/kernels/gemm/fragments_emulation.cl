// Matrix instructions in plain OpenCL C, for tests and devices without: fragments.cl. An engine says in which lane and
// which of its 16-bit numbers an element lies, A_LANE(i, k), A_HALF(i, k), B_LANE(k, j), B_HALF(k, j), and how many
// words a lane holds, A_WORDS and B_WORDS. Lanes exchange them through local memory, which every device has.
#define EXCHANGE_WORDS (LANES * (A_WORDS + B_WORDS))

// Word `word` of each lane lies at [word][lane].
static inline ushort exchanged(const __local uint* words, int lane, int at)
{
    const uint word = words[at / 2 * LANES + lane];
    return (ushort)(at % 2 ? word >> 16 : word);
}

#if IS_BYTES
static inline int emulated_byte(ushort pair, int at, int is_unsigned)
{
    const uchar byte = (uchar)(pair >> at);
    return is_unsigned ? (int)byte : (int)as_char(byte);
}
static inline int add_product(ushort a, ushort b, int sum)
{
    const int low = emulated_byte(a, 0, A_UNSIGNED) * emulated_byte(b, 0, B_UNSIGNED);
    const int high = emulated_byte(a, 8, A_UNSIGNED) * emulated_byte(b, 8, B_UNSIGNED);
    return as_int(as_uint(sum) + as_uint(low + high));   // wraps
}
#else
static inline float add_product(ushort a, ushort b, float sum)
{
    return fma(CLPRIM_CAT(X, _to_float)(a), CLPRIM_CAT(X, _to_float)(b), sum);
}
#endif

static inline fragment_sums multiply_add(sub_group g, fragment_a a, fragment_b b, fragment_sums sums)
{
    uint a_words[A_WORDS], b_words[B_WORDS];
    SUM_TYPE values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, A_WORDS)(CLPRIM_CAT(as_uint, A_WORDS)(a), 0, a_words);
    CLPRIM_CAT(vstore, B_WORDS)(CLPRIM_CAT(as_uint, B_WORDS)(b), 0, b_words);
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(sums, 0, values);
    __local uint *const all_a = g.exchange, *const all_b = g.exchange + LANES * A_WORDS;
    barrier(CLK_LOCAL_MEM_FENCE);   // those of the product before have been read
    for (int i = 0; i < A_WORDS; ++i)
        all_a[i * LANES + g.lane] = a_words[i];
    for (int i = 0; i < B_WORDS; ++i)
        all_b[i * LANES + g.lane] = b_words[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = 0; e < FRAGMENT_SUMS; ++e) {
        const int i = FRAGMENT_ROW(e, g.lane), j = FRAGMENT_COLUMN(e, g.lane);
        for (int k = 0; k < FRAGMENT_K; ++k)
            values[e] = add_product(exchanged(all_a, A_LANE(i, k), A_HALF(i, k)),
                                    exchanged(all_b, B_LANE(k, j), B_HALF(k, j)), values[e]);
    }
    return CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}
