// A square tile of LANES rows of ELEMENT (-DLANES=4|8|16) in registers, on CPUs: row i is interleaved with row
// i + LANES / 2 until rows are columns.
typedef CLPRIM_CAT(ELEMENT, LANES) row_t;
typedef row_t __attribute__((aligned(sizeof(ELEMENT)))) anywhere_t;

#if LANES == 16
#define STAGES 4
#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LAST_HALVES(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define STAGES 3
#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LAST_HALVES(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define STAGES 2
#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define LAST_HALVES(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

static inline void transpose_tile(row_t rows[LANES])
{
    row_t mixed[LANES];
    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        #pragma unroll
        for (int i = 0; i < LANES / 2; ++i) {
            mixed[2 * i] = FIRST_HALVES(rows[i], rows[i + LANES / 2]);
            mixed[2 * i + 1] = LAST_HALVES(rows[i], rows[i + LANES / 2]);
        }
        #pragma unroll
        for (int i = 0; i < LANES; ++i)
            rows[i] = mixed[i];
    }
}
