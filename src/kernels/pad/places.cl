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

// Positions of a padded axis show element i: the k-th of them for k from `first` to before `end`, some of which may lie
// outside.
typedef struct {
    INDEX first, end;
} copies_t;

static inline copies_t copies(INDEX i, INDEX before, INDEX in, INDEX out)
{
    const INDEX last = in - 1;
#ifdef REFLECT   // mirrored at the first element, itself, mirrored at the last
    return (copies_t){i > 0 && i <= before ? 0 : 1, i < last && before + 2 * last - i < out ? 3 : 2};
#else
    return (copies_t){0, 1 + (i == 0 ? max(before, (INDEX)0) : 0) + (i == last ? max(out - before - in, (INDEX)0) : 0)};
#endif
}

// The k-th, or a negative number.
static inline INDEX copy_at(INDEX i, INDEX k, INDEX before, INDEX in, INDEX out)
{
#ifdef REFLECT
    const INDEX o = before + (k == 0 ? -i : k == 1 ? i : 2 * (in - 1) - i);
#else
    const INDEX o = before + i + k - (i == 0 ? max(before, (INDEX)0) : 0);
#endif
    return o < out ? o : -1;
}
#define COPIES(axis, i) copies(i, SIZE(before, axis), SIZE(in, axis), SIZE(out, axis))
#define EACH_COPY(o, axis, i)                                                                                         \
    for (INDEX o##_k = COPIES(axis, i).first; o##_k < COPIES(axis, i).end; ++o##_k)
#define COPY_AT(o, axis, i) copy_at(i, o##_k, SIZE(before, axis), SIZE(in, axis), SIZE(out, axis))
