// Where a Hessenberg matrix falls apart: LAPACK's tests (zlahqr, dlahqr; Ahues and Tisseur 1997).
#include "kernels/linalg/number.cl"

#define H(i, j) h[(long)(i) * n + (j)]

// The last k in (low, i] at which H(k, k - 1) is negligible; `low` if none is.
static inline int split(const __global T* h, int n, int low, int i, const __global int* range)
{
    const R smallest = (R)TINY * ((range[1] - range[0] + 1) / (R)EPSILON);
    for (int k = i; k > low; --k) {
        const R below = pivot_size(H(k, k - 1)), here = pivot_size(H(k, k));
        if (below <= smallest)
            return k;
        R size = pivot_size(H(k - 1, k - 1)) + here;
        if (size == 0) {
            if (k - 2 >= range[0])
                size += magnitude(H(k - 1, k - 2));
            if (k + 1 <= range[1])
                size += magnitude(H(k + 1, k));
        }
        if (magnitude(H(k, k - 1)) <= (R)EPSILON * size) {
            const R above = pivot_size(H(k - 1, k)), gap = pivot_size(H(k - 1, k - 1) - H(k, k));
            const R ab = fmax(below, above), ba = fmin(below, above);
            const R aa = fmax(here, gap), bb = fmin(here, gap), s = aa + ab;
            if (ba * (ab / s) <= fmax(smallest, (R)EPSILON * (bb * (aa / s))))
                return k;
        }
    }
    return low;
}
