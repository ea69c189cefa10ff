// Eigenvalues of complex Hessenberg matrices by single-shift QR, and eigenvectors of the triangular result. Shifts and
// deflation as in LAPACK's zlahqr, so that eigenvalues come in the same order. Options as for eigen.cl.
#include "kernels/linalg/deflation.cl"

static inline T quotient(T a, T b)
{
    return times(a, inverse(b));
}

static inline T root_of(T a)   // the principal square root
{
    const R size = magnitude(a);
    if (size == 0)
        return from_real(0);
    const R larger = sqrt((size + fabs(a.x)) / 2);
    return a.x >= 0 ? (T)(larger, a.y / (2 * larger)) : (T)(fabs(a.y) / (2 * larger), a.y < 0 ? -larger : larger);
}

// Columns k and k + 1 of rows [first, last] from the right by 1 - tau v v^H, v = (1, w).
static inline void reflect_columns(__global T* h, int n, int k, int first, int last, T tau, T w)
{
    for (int j = first + get_local_id(0); j <= last; j += TEAM) {
        const T sum = times(tau, H(j, k) + times(w, H(j, k + 1)));
        H(j, k) -= sum;
        H(j, k + 1) -= times(sum, conjugate(w));
    }
}

// h becomes triangular and z takes the transformations; with z null only what eigenvalues need is computed. info: 0, -1
// where the matrix is not finite, or how many eigenvalues were not found.
__kernel void schur(__global T* h, ulong h_offset, __global T* z, ulong z_offset, __global T* values,
                    ulong values_offset, const __global int* range, ulong range_offset, __global int* info,
                    ulong info_offset, int n)
{
    const int self = get_local_id(0);
    const ulong matrix = get_group_id(0);
    const bool vectors = z != 0;
    h += h_offset + matrix * n * n;
    z += z_offset + matrix * n * n;
    values += values_offset + matrix * n;
    range += range_offset + matrix * 3;
    const int low = range[0], high = range[1], limit = 30 * max(10, high - low + 1);
    const bool finite = range[2];
    if (self == 0)
        info[info_offset + matrix] = finite ? 0 : -1;
    for (int i = self; i < n; i += TEAM)
        if (!finite || i < low || i > high)
            values[i] = finite ? H(i, i) : (T)(NAN, NAN);
    int i = high, steps = 0, since = 0;
    while (finite && i >= low) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        const int l = split(h, n, low, i, range);
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (self == 0 && l > low)
            H(l, l - 1) = from_real(0);
        if (l == i) {
            if (self == 0)
                values[i] = H(i, i);
            i = l - 1, steps = since = 0;
            continue;
        }
        if (steps++ > limit) {
            for (int j = low + self; j <= i; j += TEAM)
                values[j] = (T)(NAN, NAN);
            if (self == 0)
                info[info_offset + matrix] = i + 1;
            break;
        }
        ++since;
        T shift;
        if (since % 20 == 0)   // exceptional shifts, at the bottom and at the top by turns
            shift = H(i, i) + from_real((R)0.75 * magnitude(H(i, i - 1)));
        else if (since % 10 == 0)
            shift = H(l, l) + from_real((R)0.75 * magnitude(H(l + 1, l)));
        else {   // Wilkinson's: the eigenvalue of the corner that is nearer to its last element
            shift = H(i, i);
            const T u = times(root_of(H(i - 1, i)), root_of(H(i, i - 1)));
            R s = pivot_size(u);
            if (s != 0) {
                const T x = (H(i - 1, i - 1) - shift) / 2;
                const R size = pivot_size(x);
                s = fmax(s, size);
                T y = s * root_of(times(x / s, x / s) + times(u / s, u / s));
                if (size > 0 && x.x / size * y.x + x.y / size * y.y < 0)
                    y = -y;
                shift -= times(u, quotient(u, x + y));
            }
        }
        int m = i - 1;
        T v0, v1;
        for (;; --m) {   // two consecutive small subdiagonal elements
            const T h11 = H(m, m) - shift, below = H(m + 1, m);
            const R s = pivot_size(h11) + magnitude(below);
            v0 = h11 / s;
            v1 = below / s;
            if (m == l || magnitude(H(m, m - 1)) * magnitude(v1) <=
                              (R)EPSILON * (pivot_size(v0) * (pivot_size(H(m, m)) + pivot_size(H(m + 1, m + 1)))))
                break;
        }
        const int first_row = vectors ? 0 : l, last_column = vectors ? n - 1 : i;
        for (int k = m; k < i; ++k) {
            if (k > m) {
                v0 = H(k, k - 1);
                v1 = H(k + 1, k - 1);
            }
            T tau = from_real(0), w = from_real(0), beta = v0;
            const R most = fmax(magnitude(v0), magnitude(v1));
            if (most > 0 && (magnitude(v1) != 0 || !is_real(v0))) {
                const R length = most * sqrt(square(v0 / most) + square(v1 / most));
                beta = from_real(real_part(v0) >= 0 ? -length : length);
                tau = (beta - v0) / beta.x;
                w = times(v1, inverse(v0 - beta));
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
            if (self == 0 && k > m) {
                H(k, k - 1) = beta;
                H(k + 1, k - 1) = from_real(0);
            }
            else if (self == 0 && m > l)
                H(k, k - 1) = times(H(k, k - 1), from_real(1) - conjugate(tau));
            for (int j = k + self; j <= last_column; j += TEAM) {
                const T sum = times(conjugate(tau), H(k, j) + times(conjugate(w), H(k + 1, j)));
                H(k, j) -= sum;
                H(k + 1, j) -= times(sum, w);
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
            reflect_columns(h, n, k, first_row, min(k + 2, i), tau, w);
            if (vectors)
                reflect_columns(z, n, k, 0, n - 1, tau, w);
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
    }
}

// Row k of x becomes the eigenvector k of the triangular h, by back substitution. A work-item owns an eigenvalue.
__kernel void schur_vectors(const __global T* h, ulong h_offset, const __global T* values, ulong values_offset,
                            __global T* x, ulong x_offset, int n, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    h += h_offset + item / n * n * n;
    x += x_offset + item * n;
    const int last = item % n;
    const T value = values[values_offset + item];
    R norm = 0;
    for (int i = 0; i <= last; ++i) {
        norm = fmax(norm, pivot_size(H(i, last)) + pivot_size(H(i, i)));
        x[i] = from_real(i == last);
    }
    for (int i = last + 1; i < n; ++i)
        x[i] = from_real(0);
    const R smallest = fmax((R)EPSILON * norm, (R)TINY);
    for (int i = last - 1; i >= 0; --i) {
        T sum = from_real(0);
        for (int j = i + 1; j <= last; ++j)
            sum += times(H(i, j), x[j]);
        T divisor = H(i, i) - value;
        if (pivot_size(divisor) < smallest)
            divisor = from_real(smallest);
        x[i] = -quotient(sum, divisor);
        const R most = pivot_size(x[i]);
        if ((R)EPSILON * most * most > 1)
            for (int j = i; j <= last; ++j)
                x[j] /= most;
    }
}
