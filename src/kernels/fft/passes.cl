// PASS(radix, product of the radices before) for each of the PASSES.
PASS(RADIX_0, 1)
#define DONE_1 (RADIX_0)
#if PASSES > 1
PASS(RADIX_1, DONE_1)
#define DONE_2 (DONE_1 * RADIX_1)
#endif
#if PASSES > 2
PASS(RADIX_2, DONE_2)
#define DONE_3 (DONE_2 * RADIX_2)
#endif
#if PASSES > 3
PASS(RADIX_3, DONE_3)
#define DONE_4 (DONE_3 * RADIX_3)
#endif
#if PASSES > 4
PASS(RADIX_4, DONE_4)
#define DONE_5 (DONE_4 * RADIX_4)
#endif
#if PASSES > 5
PASS(RADIX_5, DONE_5)
#define DONE_6 (DONE_5 * RADIX_5)
#endif
#if PASSES > 6
PASS(RADIX_6, DONE_6)
#define DONE_7 (DONE_6 * RADIX_6)
#endif
#if PASSES > 7
PASS(RADIX_7, DONE_7)
#endif
