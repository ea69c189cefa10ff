// Transposes 16 x 16 blocks in registers: four rounds of interleaving row i with row i + 8. TRANSPOSE_16(GET, PUT) uses
// GET(name, i), which must declare `const float16 r##name` (row i), and PUT(name, i), which takes column i
// from u##name.
#define TRANSPOSE_LOW(a, b)                                                                                          \
    (float16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define TRANSPOSE_HIGH(a, b)                                                                                         \
    (float16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf)
#define TRANSPOSE_PAIR(to, from, i, j, low, high)                                                                    \
    const float16 to##low = TRANSPOSE_LOW(from##i, from##j), to##high = TRANSPOSE_HIGH(from##i, from##j);
#define TRANSPOSE_ROUND(to, from)                                                                                    \
    TRANSPOSE_PAIR(to, from, 0, 8, 0, 1) TRANSPOSE_PAIR(to, from, 1, 9, 2, 3) TRANSPOSE_PAIR(to, from, 2, a, 4, 5)   \
    TRANSPOSE_PAIR(to, from, 3, b, 6, 7) TRANSPOSE_PAIR(to, from, 4, c, 8, 9) TRANSPOSE_PAIR(to, from, 5, d, a, b)   \
    TRANSPOSE_PAIR(to, from, 6, e, c, d) TRANSPOSE_PAIR(to, from, 7, f, e, f)
#define TRANSPOSE_ROWS(F)                                                                                            \
    F(0, 0) F(1, 1) F(2, 2) F(3, 3) F(4, 4) F(5, 5) F(6, 6) F(7, 7) F(8, 8) F(9, 9) F(a, 10) F(b, 11) F(c, 12)       \
    F(d, 13) F(e, 14) F(f, 15)
#define TRANSPOSE_16(GET, PUT)                                                                                       \
    {                                                                                                                \
        TRANSPOSE_ROWS(GET)                                                                                          \
        TRANSPOSE_ROUND(s, r)                                                                                        \
        TRANSPOSE_ROUND(t, s)                                                                                        \
        TRANSPOSE_ROUND(q, t)                                                                                        \
        TRANSPOSE_ROUND(u, q)                                                                                        \
        TRANSPOSE_ROWS(PUT)                                                                                          \
    }
