// Sorting of places into bins by counting (bins.hpp). count_bins counts into `begins`, whose running sums are the
// bins' ends; fill_bins takes places from there downwards, and leaves where bins begin; sort_bins removes every trace
// of the order in which that happened. Many numbers are sorted by their digits instead (sort/digits.hpp), which takes
// no longer where most of them fall into one bin: then find_bins finds where bins begin.

// Sorts the n numbers of a bin: insertion for the usual handful, heap sort where many fall on one place.
static inline void sift_down(__global int* a, int root, int end)
{
    for (int child; (child = 2 * root + 1) < end; root = child) {
        if (child + 1 < end && a[child + 1] > a[child])
            ++child;
        if (a[root] >= a[child])
            return;
        const int t = a[root];
        a[root] = a[child];
        a[child] = t;
    }
}

static inline void sort_bin(__global int* a, int n)
{
    if (n <= 32) {
        for (int i = 1; i < n; ++i) {
            const int v = a[i];
            int j = i;
            for (; j > 0 && a[j - 1] > v; --j)
                a[j] = a[j - 1];
            a[j] = v;
        }
        return;
    }
    for (int i = n / 2 - 1; i >= 0; --i)
        sift_down(a, i, n);
    for (int end = n - 1; end > 0; --end) {
        const int t = a[0];
        a[0] = a[end];
        a[end] = t;
        sift_down(a, 0, end);
    }
}

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

// Where bins begin in sorted numbers, behind which are those of none.
__kernel void find_bins(const __global uint* sorted, ulong sorted_offset, __global int* begins, ulong begins_offset,
                        uint count, ulong bins)
{
    const ulong bin = get_global_id(0);
    if (bin > bins)
        return;
    sorted += sorted_offset;
    uint low = 0, high = count;
    while (low < high) {
        const uint middle = low + (high - low) / 2;
        if (sorted[middle] < (uint)bin)
            low = middle + 1;
        else
            high = middle;
    }
    begins[begins_offset + bin] = (int)low;
}
