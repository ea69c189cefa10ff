// The iteration space of a kernel and where each operand's element lies (see geometry.hpp).
// Built with -DDIMS=n -DOPERANDS=n, and -DLARGE where an index or an offset does not fit into 31 bits.
#ifdef LARGE
typedef ulong index_t;
typedef long offset_t;
#else
typedef uint index_t;
typedef int offset_t;
#endif

typedef struct {
    long numel;
    long sizes[DIMS];               // innermost first
    long strides[OPERANDS][DIMS];   // in elements
} geometry_t;

// o[k] = element offset of operand k at linear position i.
static inline void geometry_offsets(const geometry_t g, index_t i, offset_t* o)
{
#pragma unroll
    for (int k = 0; k < OPERANDS; ++k)
        o[k] = 0;
#pragma unroll
    for (int d = 0; d < DIMS; ++d) {
        index_t coordinate = i;
        if (d + 1 < DIMS) {
            index_t size = (index_t)g.sizes[d];
            i = coordinate / size;
            coordinate -= i * size;
        }
#pragma unroll
        for (int k = 0; k < OPERANDS; ++k)
            o[k] += (offset_t)coordinate * (offset_t)g.strides[k][d];
    }
}
