// Elementwise kernels. The generator (pointwise.cpp) puts in front of this text: PARAMETERS and SHIFT, the inline function
// `element` that computes one element, and ELEMENT(i), which calls it at i.
#define index_of_group_item(k) (get_group_id(0) * get_local_size(0) * ITEMS + (k) * get_local_size(0) + get_local_id(0))
#ifdef CLPRIM_DEVICE_CPU
#define ITEMS 1
#else
#define ITEMS 4      // elements per work-item, a work-group apart: loads stay coalesced and are in flight together
#endif

#if defined(VARIANT_LINEAR)
// All operands are dense, or one element: a work-item owns ITEMS elements.
__kernel void pointwise(PARAMETERS ulong count)
{
    SHIFT
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        index_t i = index_of_group_item(k);
        if (i < count)
            ELEMENT(i);
    }
}

#elif defined(VARIANT_ROWS)
// Operands are dense or stand still along the fastest dimension, of `count` elements (global id 0); the others are taken
// apart from global id 1.
__kernel void pointwise(PARAMETERS ulong count, const geometry_t outer)
{
    SHIFT
    index_t i = get_global_id(0);
    if (i < count) {
        index_t position[OPERANDS] = {0};
        locate(&outer, 0, RANK, get_global_id(1), position);
        ELEMENT(i);
    }
}

#else
// Any strides.
__kernel void pointwise(PARAMETERS ulong count, const geometry_t all)
{
    SHIFT
    index_t i = get_global_id(0);
    if (i < count) {
        index_t position[OPERANDS] = {0};
        locate(&all, 0, RANK, i, position);
        ELEMENT(i);
    }
}
#endif
