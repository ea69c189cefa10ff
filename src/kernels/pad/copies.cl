// Where an element of a padded tensor is shown, for gradients.
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
