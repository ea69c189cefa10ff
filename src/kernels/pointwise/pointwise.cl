// Elementwise kernels. The generator (pointwise.cpp) puts in front of this text: PARAMETERS and SHIFT, the inline
// function `element` that computes one element, and ELEMENT(i), which calls it at i. With QUADS defined, `element`
// computes QUADS times four neighbours, at i and at multiples of `ahead` behind it; with FOURS four elements, at i and
// at multiples of `ahead` behind it that are below `room`, or of a step of its own for an input with a stride. All
// loads come before the first store, which might overwrite what is still to be read for all that a compiler knows.

#ifdef SUB_GROUP
#define POINTWISE_KERNEL __kernel __attribute__((intel_reqd_sub_group_size(SUB_GROUP)))
#else
#define POINTWISE_KERNEL __kernel
#endif

#if defined(VARIANT_LINEAR)
// All operands are dense, or one element: a work-item owns one element on a CPU; on a GPU QUADS quads or four elements,
// a work-group apart, so that loads stay coalesced.
POINTWISE_KERNEL void pointwise(PARAMETERS ulong count)
{
    SHIFT
#if defined(QUADS)
    const offset_t i = ((offset_t)get_group_id(0) * get_local_size(0) * QUADS + get_local_id(0)) * 4;
    const offset_t step = (offset_t)get_local_size(0) * 4;
    const offset_t ahead = i + step < count ? step : 0;   // beyond the end: the first quad once more
    if (i < count)
        ELEMENT(i);
#elif defined(FOURS)
    const offset_t ahead = get_local_size(0), i = (offset_t)get_group_id(0) * ahead * 4 + get_local_id(0);
    const offset_t room = count - i;
    if (i < count)
        ELEMENT(i);
#else
    size_t i = get_global_id(0);
    if (i < count)
        ELEMENT(i);
#endif
}

#elif defined(VARIANT_ROWS)
// Operands are dense or stand still along the fastest dimension, of `count` elements (global id 0); the others are
// taken apart from global id 1. On CPUs those behind the second, where they are many, are from global id 2: what is the
// same for all rows of a group is computed once.
POINTWISE_KERNEL void pointwise(PARAMETERS ulong count, const geometry_t outer)
{
    SHIFT
#ifdef QUADS
    const offset_t i = get_global_id(0) * 4, ahead = 0;
#elif defined(FOURS)
    const offset_t ahead = get_local_size(0), i = (offset_t)get_group_id(0) * ahead * 4 + get_local_id(0);
    const offset_t room = count - i;
#else
    offset_t i = get_global_id(0);
#endif
    if (i < count) {
        offset_t position[OPERANDS] = {0};
#if defined(CLPRIM_DEVICE_CPU) && RANK > 2
        #pragma unroll
        for (int k = 0; k < OPERANDS; ++k)
            position[k] = get_global_id(1) * STRIDE(&outer, 0, k);
        locate(&outer, 1, RANK, get_global_id(2), position);
#else
        locate(&outer, 0, RANK, get_global_id(1), position);
#endif
        ELEMENT(i);
    }
}

#elif defined(VARIANT_STRIDED)
// The same where inputs may have any stride along the fastest dimension: the rows that a work-group has beside each
// other are what shares memory's lines.
POINTWISE_KERNEL void pointwise(PARAMETERS ulong count, const geometry_t all)
{
    SHIFT
    const offset_t ahead = get_local_size(0), i = (offset_t)get_group_id(0) * ahead * 4 + get_local_id(0);
    const offset_t room = count - i;
    if (i < count) {
        offset_t position[OPERANDS] = {0};
        locate(&all, 1, RANK, get_global_id(1), position);
        ELEMENT(i);
    }
}

#else
// Any strides.
POINTWISE_KERNEL void pointwise(PARAMETERS ulong count, const geometry_t all)
{
    SHIFT
    offset_t i = get_global_id(0);
    if (i < count) {
        offset_t position[OPERANDS] = {0};
        locate(&all, 0, RANK, i, position);
        ELEMENT(i);
    }
}
#endif
