// fill.cl for CPUs where axis 0 is long: work-item (x, y) owns up to CHUNK elements of axis 0 of `each` rows, which are
// counted over the further axes.
#include "kernels/copy/fill.cl"

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void fill_rows(__global storage_t(D)* target, ulong target_offset, space_t space, int rank, INDEX rows,
                        storage_t(D) value, INDEX each)
{
    const INDEX first = (INDEX)get_group_id(0) * CHUNK, length = min(space.shape[0] - first, (INDEX)CHUNK);
    const INDEX step = space.target[0], last = min(((INDEX)get_group_id(1) + 1) * each, rows);
    for (INDEX row = (INDEX)get_group_id(1) * each; row < last; ++row) {
        INDEX n = row, to = first * step;
        ADD_AXIS(1) ADD_AXIS(2) ADD_AXIS(3) ADD_AXIS(4) ADD_AXIS(5) ADD_AXIS(6) ADD_AXIS(7)
        __global storage_t(D)* from = target + target_offset + to;
        if (step == 1)
            for (INDEX i = 0; i < length; ++i)
                from[i] = value;
        else   // by elements: scattering vectors takes longer
#pragma clang loop vectorize(disable) unroll_count(8)
            for (INDEX i = 0; i < length; ++i, from += step)
                *from = value;
    }
}
