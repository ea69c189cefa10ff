// The iteration space of a kernel and where each operand's element lies (see geometry.hpp).
// Built with -DDIMS=n -DOPERANDS=n, and -DLARGE where an index or an offset does not fit into 31 bits.
//
// -DEACH=n (Geometry::share): a work-item has positions i + e * g.apart for e below EACH, and operand k lies
// STEPPED(g, o, k, e) there. With -DRAGGED the last work-items have fewer: those for which HAS(g, i, e).
#ifdef EACH
#define SHARE_FIELDS(unsigned_t, signed_t) unsigned_t apart, end; signed_t steps[OPERANDS];
#define STEPPED(g, o, k, e) ((e) == 0 ? (o)[k] : (o)[k] + (e) * (g).steps[k])
#else
#define EACH 1
#define SHARE_FIELDS(unsigned_t, signed_t)
#define STEPPED(g, o, k, e) (o)[k]
#endif
#ifdef RAGGED
#define HAS(g, i, e) ((i) + (e) * (g).apart < (index_t)(g).end)
#else
#define HAS(g, i, e) true
#endif
#ifdef LARGE
typedef ulong index_t;
typedef long offset_t;
typedef struct {
    long numel;
    long sizes[DIMS];               // innermost first
    long strides[OPERANDS][DIMS];   // in elements
    SHARE_FIELDS(long, long)
} geometry_t;
#else
typedef uint index_t;
typedef int offset_t;
typedef struct {
    uint numel;
    uint sizes[DIMS];
    uint magic[DIMS], shift[DIMS];  // division by size without dividing, see Divider in pointwise/iteration.hpp
    int strides[OPERANDS][DIMS];
    SHARE_FIELDS(uint, int)
} geometry_t;
#endif

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
#ifdef LARGE
            i = coordinate / (index_t)g.sizes[d];
#else
            i = (mul_hi(coordinate, g.magic[d]) + coordinate) >> g.shift[d];
#endif
            coordinate -= i * (index_t)g.sizes[d];
        }
#pragma unroll
        for (int k = 0; k < OPERANDS; ++k)
            o[k] += (offset_t)coordinate * (offset_t)g.strides[k][d];
    }
}
