// Sorting of places into bins by counting (bins.hpp). count_bins counts into `begins`, whose running sums are the bins'
// ends; fill_bins takes places from there downwards, and leaves where bins begin; sort_bins removes every trace of the
// order in which that happened.
#include "kernels/bins/sort_bin.cl"

__kernel void count_bins(const __global int* numbers, ulong numbers_offset, __global int* begins, ulong begins_offset,
                         ulong count)
{
    const ulong i = get_global_id(0);
    if (i >= count)
        return;
    const int bin = numbers[numbers_offset + i];
    if (bin >= 0)
        atomic_inc((volatile __global int*)begins + begins_offset + bin);
}

__kernel void fill_bins(const __global int* numbers, ulong numbers_offset, __global int* begins, ulong begins_offset,
                        __global int* list, ulong list_offset, ulong count)
{
    const ulong i = get_global_id(0);
    if (i >= count)
        return;
    const int bin = numbers[numbers_offset + i];
    if (bin >= 0)
        list[list_offset + atomic_dec((volatile __global int*)begins + begins_offset + bin) - 1] = (int)i;
}

__kernel void sort_bins(const __global int* begins, ulong begins_offset, __global int* list, ulong list_offset,
                        ulong bins)
{
    const ulong bin = get_global_id(0);
    if (bin >= bins)
        return;
    begins += begins_offset + bin;
    sort_bin(list + list_offset + begins[0], begins[1] - begins[0]);
}
