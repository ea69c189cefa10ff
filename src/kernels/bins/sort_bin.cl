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
