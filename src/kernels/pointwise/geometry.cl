// Index arithmetic of generated kernels. The program defines RANK, OPERANDS and index_t (uint, or ulong when 32 bits do
// not reach). Dimension 0 is the fastest.
typedef struct {
    index_t size[RANK];
    index_t magic[RANK], shift[RANK];      // division by size without dividing, see Divider in iteration.hpp
    index_t stride[RANK][OPERANDS];        // in elements
} geometry_t;

// A program that knows strides of 1 says so here.
#ifndef STRIDE
#define STRIDE(g, d, k) (g)->stride[d][k]
#endif

// The quotient of n by size[d].
static inline index_t divide(const geometry_t* g, int d, index_t n)
{
#ifdef WIDE_INDEX
    return n / g->size[d];
#else
    return (mul_hi(n, g->magic[d]) + n) >> g->shift[d];
#endif
}

// Adds the offsets of linear index n over dimensions [first, end) to position[k], for every operand k.
static inline void locate(const geometry_t* g, int first, int end, offset_t n, offset_t* position)
{
    #pragma unroll
    for (int d = first; d < end; ++d) {
        offset_t index = n;
        if (d + 1 < end) {
            index_t quotient = divide(g, d, n);
            index = (index_t)n - quotient * g->size[d];
            n = quotient;
        }
        #pragma unroll
        for (int k = 0; k < OPERANDS; ++k)
            position[k] += index * STRIDE(g, d, k);
    }
}
