// Where elements of padded tensors come from, for pad.cl and cpu_pad.cl.
typedef struct { long in[3], out[3], before[3], inner; } pad_t;

#define UNSIGNED CLPRIM_CAT(u, INDEX)
#define SIZE(list, axis) ((INDEX)p.list[axis])

// The element that stands at position o of a padded axis.
static inline INDEX source(INDEX o, INDEX before, INDEX size)
{
    const INDEX i = o - before, last = size - 1;
#ifdef REFLECT
    return i < 0 ? -i : i > last ? 2 * last - i : i;
#else
    return i < 0 ? 0 : i > last ? last : i;
#endif
}
#define SOURCE(axis, o) source(o, SIZE(before, axis), SIZE(in, axis))

// A row's place: y of `height`, z of `depth`, and outer.
#define SPLIT_ROW(height, depth)                                                                                      \
    const INDEX plane = (UNSIGNED)row / (UNSIGNED)(height), at_y = row - plane * (height);                            \
    SPLIT_PLANE(depth)
#ifdef PLANES
#define SPLIT_PLANE(depth)                                                                                            \
    const INDEX outer = (UNSIGNED)plane / (UNSIGNED)(depth), at_z = plane - outer * (depth);
#else
#define SPLIT_PLANE(depth)
#endif
