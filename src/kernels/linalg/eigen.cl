// Eigenvalues of general matrices, what is the same for real and complex ones: balancing, reduction to Hessenberg form,
// and the vectors' way back. A work-group of TEAM work-items owns a matrix [n, n], row-major. -DX, -DREAL, -DCOMPLEX:
// see number.cl. -DCX: the complex dtype. -DEPSILON: spacing of R at 1; -DTINY: its smallest normal number.
#include "kernels/linalg/number.cl"

typedef compute_t(CX) C;   // complex

#define A(i, j) a[(long)(i) * n + (j)]

// All work-items get the sum, or the largest, of what each has; NaN counts as the largest.
static inline R team_sum(__local R* partial, R own)
{
    partial[get_local_id(0)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    R sum = 0;
    for (int i = 0; i < TEAM; ++i)
        sum += partial[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}
static inline R team_max(__local R* partial, R own)
{
    partial[get_local_id(0)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    R most = 0;
    for (int i = 0; i < TEAM; ++i)
        most = partial[i] > most || partial[i] != partial[i] ? partial[i] : most;
    barrier(CLK_LOCAL_MEM_FENCE);
    return most;
}

// Exchanges rows and columns i and k of rows up to `last` and columns from `first` on. All work-items take part.
static inline void exchange(__global T* a, int n, int i, int k, int first, int last)
{
    const int self = get_local_id(0);
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (i != k) {
        for (int row = self; row <= last; row += TEAM) {
            const T held = A(row, i);
            A(row, i) = A(row, k);
            A(row, k) = held;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int column = first + self; column < n; column += TEAM) {
            const T held = A(i, column);
            A(i, column) = A(k, column);
            A(k, column) = held;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

// The first line of [low, high], from `from` in direction `step`, that is zero but for its diagonal element; -1 if none.
static inline int isolated(const __global T* a, int n, int low, int high, bool rows, __local R* partial)
{
    for (int at = 0; at <= high - low; ++at) {
        const int i = rows ? high - at : low + at;
        R found = 0;
        for (int j = low + get_local_id(0); j <= high; j += TEAM)
            if (j != i) {
                const T v = rows ? A(i, j) : A(j, i);
                found += real_part(v) != 0 || !is_real(v);
            }
        if (team_sum(partial, found) == 0)
            return i;
    }
    return -1;
}

// Parlett and Reinsch (1969), as LAPACK does it: eigenvalues that stand alone move to the corners, [range[0], range[1]]
// is what is left, and its rows and columns are scaled by powers of 2 until their norms are close. places and scale say
// what was done. range[2]: whether all elements are finite.
__kernel void balance(__global T* a, ulong a_offset, __global R* scale, ulong scale_offset, __global int* places,
                      ulong places_offset, __global int* range, ulong range_offset, int n)
{
    __local R partial[TEAM];
    const int self = get_local_id(0);
    const ulong matrix = get_group_id(0);
    a += a_offset + matrix * n * n;
    scale += scale_offset + matrix * n;
    places += places_offset + matrix * n;
    range += range_offset + matrix * 3;

    R odd = 0;
    for (long i = self; i < (long)n * n; i += TEAM)
        odd += 0 * pivot_size(a[i]);
    const bool finite = team_sum(partial, odd) == 0;
    for (int i = self; i < n; i += TEAM) {
        scale[i] = 1;
        places[i] = i;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    int low = 0, high = n - 1;
    while (finite && high >= 0) {
        const int i = isolated(a, n, 0, high, true, partial);
        if (i < 0)
            break;
        if (self == 0)
            places[high] = i;
        exchange(a, n, i, high, 0, high);
        --high;
    }
    while (finite && low < high) {
        const int j = isolated(a, n, low, high, false, partial);
        if (j < 0)
            break;
        if (self == 0)
            places[low] = j;
        exchange(a, n, j, low, low, high);
        ++low;
    }
    for (bool again = finite && low < high; again;) {
        again = false;
        for (int i = low; i <= high; ++i) {
            R largest_c = 0, largest_r = 0;
            for (int j = self; j < n; j += TEAM) {
                if (j <= high)
                    largest_c = fmax(largest_c, magnitude(A(j, i)));
                if (j >= low)
                    largest_r = fmax(largest_r, magnitude(A(i, j)));
            }
            largest_c = team_max(partial, largest_c);
            largest_r = team_max(partial, largest_r);
            if (largest_c == 0 || largest_r == 0)
                continue;
            R c = 0, r = 0;
            for (int j = low + self; j <= high; j += TEAM) {
                c += square(A(j, i) / largest_c);
                r += square(A(i, j) / largest_r);
            }
            c = largest_c * sqrt(team_sum(partial, c));
            r = largest_r * sqrt(team_sum(partial, r));
            if (c == 0 || r == 0)
                continue;
            const R least = 2 * (R)TINY / (R)EPSILON, most = 1 / least, sum = c + r;
            R f = 1, g = r / 2;
            while (c < g && fmax(fmax(f, c), largest_c) < most && fmin(fmin(r, g), largest_r) > least) {
                f *= 2, c *= 2, largest_c *= 2;
                r /= 2, g /= 2, largest_r /= 2;
            }
            g = c / 2;
            while (g >= r && fmax(r, largest_r) < most && fmin(fmin(f, c), fmin(g, largest_c)) > least) {
                f /= 2, c /= 2, g /= 2, largest_c /= 2;
                r *= 2, largest_r *= 2;
            }
            const R own = scale[i];
            if (c + r >= (R)0.95 * sum || (f < 1 && own < 1 && f * own <= least) || (f > 1 && own > 1 && own >= most / f))
                continue;
            again = true;
            barrier(CLK_GLOBAL_MEM_FENCE);   // all have read the line and its scale
            if (self == 0)
                scale[i] = own * f;
            for (int j = low + self; j < n; j += TEAM)
                A(i, j) *= 1 / f;
            barrier(CLK_GLOBAL_MEM_FENCE);
            for (int j = self; j <= high; j += TEAM)
                A(j, i) *= f;
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
    }
    if (self == 0) {
        range[0] = low;
        range[1] = high;
        range[2] = finite;
    }
}

// A = Z H Z^H by Householder reflectors within the range; z may be null. v: n numbers for each matrix.
__kernel void hessenberg(__global T* a, ulong a_offset, __global T* z, ulong z_offset, __global T* v, ulong v_offset,
                         const __global int* range, ulong range_offset, int n)
{
    __local R partial[TEAM];
    const int self = get_local_id(0);
    const ulong matrix = get_group_id(0);
    const bool vectors = z != 0;
    a += a_offset + matrix * n * n;
    z += z_offset + matrix * n * n;
    v += v_offset + matrix * n;
    range += range_offset + matrix * 3;
    const int low = range[0], high = range[1];
    for (long i = self; vectors && i < (long)n * n; i += TEAM)
        z[i] = from_real(i / n == i % n);
    for (int k = low; range[2] && k <= high - 2; ++k) {
        R largest = 0;
        for (int i = k + 1 + self; i <= high; i += TEAM)
            largest = fmax(largest, magnitude(A(i, k)));
        largest = team_max(partial, largest);
        R below = 0;   // of squares, scaled so that they neither overflow nor vanish
        for (int i = k + 2 + self; largest > 0 && i <= high; i += TEAM)
            below += square(A(i, k) / largest);
        below = team_sum(partial, below);
        const T alpha = A(k + 1, k);
        if (below == 0 && is_real(alpha))
            continue;
        const R length = largest * sqrt(below + square(alpha / largest)), beta = real_part(alpha) >= 0 ? -length : length;
        const T tau = (from_real(beta) - alpha) / beta, factor = inverse(alpha - from_real(beta));
        for (int i = k + 1 + self; i <= high; i += TEAM)
            v[i] = i == k + 1 ? from_real(1) : times(A(i, k), factor);
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = k + 1 + self; i <= high; i += TEAM)
            A(i, k) = i == k + 1 ? from_real(beta) : from_real(0);
        for (int j = k + 1 + self; j < n; j += TEAM) {   // from the left, with H^H
            T sum = from_real(0);
            for (int i = k + 1; i <= high; ++i)
                sum += times(conjugate(v[i]), A(i, j));
            sum = times(sum, conjugate(tau));
            for (int i = k + 1; i <= high; ++i)
                A(i, j) -= times(v[i], sum);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = self; i < (vectors ? n + high + 1 : high + 1); i += TEAM) {   // from the right, with H
            __global T* row = i <= high ? a + (long)i * n : z + (long)(i - high - 1) * n;
            T sum = from_real(0);
            for (int j = k + 1; j <= high; ++j)
                sum += times(row[j], v[j]);
            sum = times(sum, tau);
            for (int j = k + 1; j <= high; ++j)
                row[j] -= times(sum, conjugate(v[j]));
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

// Vectors of the balanced matrix [n, n] as rows become columns of `vectors`, of norm 1 and with a real largest element.
// Of a real matrix rows k and k + 1 hold the real and the imaginary part of the pair of vectors k and k + 1. A work-item
// owns a vector (of a pair: both).
__kernel void finish_vectors(__global T* rows, ulong rows_offset, const __global R* scale, ulong scale_offset,
                             const __global int* places, ulong places_offset, const __global int* range,
                             ulong range_offset, const __global C* values, ulong values_offset, __global C* vectors,
                             ulong vectors_offset, int n, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const ulong matrix = item / n;
    const int k = item % n;
    rows += rows_offset + item * n;
    scale += scale_offset + matrix * n;
    places += places_offset + matrix * n;
    range += range_offset + matrix * 3;
    vectors += vectors_offset + matrix * n * n + k;
    const R imaginary = values[values_offset + item].y;
#ifdef COMPLEX
    const int parts = 1;
#else
    const int parts = imaginary != 0 ? 2 : 1;
    if (imaginary < 0)
        return;
#endif
    const int low = range[0], high = range[1];
    for (int part = 0; part < parts; ++part) {
        __global T* x = rows + (long)part * n;
        for (int i = low; i <= high; ++i)
            x[i] *= scale[i];
        for (int at = 0; at < n; ++at) {   // takes the exchanges back: last made first
            const int i = at < low ? low - 1 - at : high + 1 + (at - low);
            if (i >= n)
                break;
            const int other = places[i];
            const T held = x[i];
            x[i] = x[other];
            x[other] = held;
        }
    }
    R largest = 0;
    for (int i = 0; i < n; ++i) {
        largest = fmax(largest, magnitude(rows[i]));
        if (parts == 2)
            largest = fmax(largest, magnitude(rows[n + i]));
    }
    R sum = 0, most = -1;
    C top = (C)(1, 0);
    for (int i = 0; i < n; ++i) {
#ifdef COMPLEX
        const C v = rows[i] / largest;
#else
        const C v = (C)(rows[i] / largest, parts == 2 ? rows[n + i] / largest : 0);
#endif
        const R size = v.x * v.x + v.y * v.y;
        sum += size;
        if (size > most) {
            most = size;
            top = v;
        }
    }
    const R length = largest * sqrt(sum), root = sqrt(most);
#ifdef COMPLEX
    const bool turned = true;
#else
    const bool turned = parts == 2;
#endif
    const C turn = turned ? (C)(top.x / root, -top.y / root) / length : (C)(1 / length, 0);
    bool first = true;
    for (int i = 0; i < n; ++i) {
#ifdef COMPLEX
        const C v = rows[i], w = v / largest;
#else
        const C v = (C)(rows[i], parts == 2 ? rows[n + i] : 0), w = v / largest;
#endif
        C out = (C)(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
        if (turned && first && w.x * w.x + w.y * w.y == most) {
            out.y = 0;
            first = false;
        }
        vectors[(long)i * n] = out;
        if (parts == 2)
            vectors[(long)i * n + 1] = (C)(out.x, -out.y);
    }
}
