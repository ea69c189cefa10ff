// Jacobi rotations. One-sided ones turn pairs of columns of a matrix until all are orthogonal. Columns lie as rows of
// w [n, m], those of the accumulated rotations as rows of v [n, n]. -DX, -DREAL, -DCOMPLEX: see number.cl. -DTEAM:
// work-items of a group.
#include "kernels/linalg/number.cl"

// (p, q) become (c p - s e q, s p + c e q): e turns the phase of q to that of p. With h = s / (1 + c), c = 1 - s h:
// small rotations change little, and lose as little (Rutishauser 1966).
static inline void rotate(__global T* p, __global T* q, int count, R s, R h, T phase)
{
    for (int i = 0; i < count; ++i) {
        const T x = p[i], y = times(phase, q[i]);
        p[i] = x - s * (y + h * x);
        q[i] = y + s * (x - h * y);
    }
}

// Whether the columns p and q had to be turned. What is nothing beside the matrix, whose largest element is about 1,
// stays: products of such columns have few digits or none, and rotations by them would not be unitary.
static inline bool orthogonalise(__global T* w, __global T* v, int p, int q, int m, int n, R tolerance, R nothing)
{
    __global T* x = w + (long)p * m;
    __global T* y = w + (long)q * m;
    R xx = 0, yy = 0;
    T xy = from_real(0);
    for (int i = 0; i < m; ++i) {
        xx += square(x[i]);
        yy += square(y[i]);
        xy += times(conjugate(x[i]), y[i]);
    }
    const R size = magnitude(xy);
    if (!(size > tolerance * sqrt(xx) * sqrt(yy)) || xx < nothing || yy < nothing)
        return false;
    const R zeta = (yy - xx) / (2 * size);
    const R t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    const R c = 1 / sqrt(1 + t * t), s = c * t;
    const T phase = conjugate(xy) / size;
    rotate(x, y, m, s, s / (1 + c), phase);
    rotate(v + (long)p * n, v + (long)q * n, n, s, s / (1 + c), phase);
    return true;
}

// Pair k of a round, the smaller first.
static inline int2 pair_of(int k, int round, int rounds)
{
    const int a = k == 0 ? rounds : round + k < rounds ? round + k : round + k - rounds;
    const int b = round >= k ? round - k : round - k + rounds;
    return (int2)(min(a, b), max(a, b));
}

// The power of two beside the largest magnitude of `count` numbers, which a whole work-group asks for.
static inline int exponent_of(const __global T* w, long count, __local R* partial)
{
    const int self = get_local_id(0);
    R largest = 0;
    for (long i = self; i < count; i += TEAM)
        largest = fmax(largest, magnitude(w[i]));
    partial[self] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TEAM; ++i)
        largest = fmax(largest, partial[i]);
    return largest > 0 && isfinite(largest) ? ilogb(largest) : 0;
}

static inline void scale(__global T* w, long count, int exponent)
{
    for (long i = get_local_id(0); i < count; i += TEAM)
#ifdef COMPLEX
        w[i] = (T)(ldexp(w[i].x, exponent), ldexp(w[i].y, exponent));
#else
        w[i] = ldexp(w[i], exponent);
#endif
}

// A work-group owns a matrix, a work-item some of the n / 2 pairs of a round; in the n - 1 rounds of a sweep (those of
// a tournament) all columns meet. v begins as the unit matrix.
__kernel void jacobi(__global T* w, ulong w_offset, __global T* v, ulong v_offset, int m, int n, int sweeps,
                     R tolerance, R nothing)
{
    __local R partial[TEAM];
    __local int turned;
    const int self = get_local_id(0), even = n + n % 2, rounds = even - 1;
    const ulong matrix = get_group_id(0);
    w += w_offset + matrix * n * m;
    v += v_offset + matrix * n * n;
    const int exponent = exponent_of(w, (long)n * m, partial);
    scale(w, (long)n * m, -exponent);
    for (long i = self; i < (long)n * n; i += TEAM)
        v[i] = from_real(i / n == i % n);
    for (int sweep = 0; sweep < sweeps; ++sweep) {
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        if (self == 0)
            turned = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int round = 0; round < rounds; ++round) {
            for (int k = self; k < even / 2; k += TEAM) {
                const int2 at = pair_of(k, round, rounds);
                if (at.y < n && orthogonalise(w, v, at.x, at.y, m, n, tolerance, nothing))
                    turned = 1;
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!turned)
            break;
    }
    scale(w, (long)n * m, exponent);
}

// Two-sided rotations of Hermitian matrices: A becomes J^H A J, diagonal in the end, and row p of v the conjugate of
// eigenvector p. What a rotation does to its own 2 x 2 block is written as it should be, not as it comes out, so that
// elements beside the diagonal fall far below the rounding of those on it. A work-group owns a matrix; turns holds 4
// numbers and phases one for each pair of a round.
__kernel void jacobi_hermitian(__global T* a, ulong a_offset, __global T* v, ulong v_offset, __global R* turns,
                               ulong turns_offset, __global T* phases, ulong phases_offset, int n, int sweeps, R epsilon)
{
    __local R partial[TEAM];
    __local int turned;
    const int self = get_local_id(0), even = n + n % 2, rounds = even - 1, pairs = even / 2;
    const ulong matrix = get_group_id(0);
    a += a_offset + matrix * n * n;
    v += v_offset + matrix * n * n;
    turns += turns_offset + matrix * pairs * 4;
    phases += phases_offset + matrix * pairs;
    R largest = 0, sum = 0;
    for (long i = self; i < (long)n * n; i += TEAM)
        largest = fmax(largest, magnitude(a[i]));
    partial[self] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TEAM; ++i)
        largest = fmax(largest, partial[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long i = self; i < (long)n * n; i += TEAM) {
        sum += largest > 0 ? square(a[i] / largest) : 0;
        v[i] = from_real(i / n == i % n);
    }
    partial[self] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    R total = 0;
    for (int i = 0; i < TEAM; ++i)
        total += partial[i];
    const R negligible = epsilon * (largest * sqrt(total) / n);
    for (int sweep = 0; sweep < sweeps; ++sweep) {
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        if (self == 0)
            turned = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int round = 0; round < rounds; ++round) {
            for (int k = self; k < pairs; k += TEAM) {
                const int2 at = pair_of(k, round, rounds);
                const int p = at.x, q = at.y;
                turns[4 * k] = 0;
                if (q >= n)
                    continue;
                const T beside = a[(long)p * n + q];
                const R size = magnitude(beside);
                if (!(size > negligible))
                    continue;
                turned = 1;
                const R pp = real_part(a[(long)p * n + p]), qq = real_part(a[(long)q * n + q]);
                const R zeta = (qq - pp) / (2 * size);
                const R t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
                const R c = 1 / sqrt(1 + t * t), s = c * t;
                turns[4 * k] = s;
                turns[4 * k + 1] = s / (1 + c);
                turns[4 * k + 2] = pp - t * size;
                turns[4 * k + 3] = qq + t * size;
                phases[k] = conjugate(beside) / size;
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
            for (int k = self; k < pairs; k += TEAM) {
                const R s = turns[4 * k], h = turns[4 * k + 1];
                const int2 at = pair_of(k, round, rounds);
                if (s != 0) {
                    const T back = conjugate(phases[k]);
                    rotate(a + (long)at.x * n, a + (long)at.y * n, n, s, h, back);
                    rotate(v + (long)at.x * n, v + (long)at.y * n, n, s, h, back);
                }
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
            for (int i = self; i < n; i += TEAM) {
                __global T* row = a + (long)i * n;
                for (int k = 0; k < pairs; ++k) {
                    const R s = turns[4 * k];
                    if (s == 0)
                        continue;
                    const int2 at = pair_of(k, round, rounds);
                    const bool own = i == at.x, other = i == at.y;
                    const R h = turns[4 * k + 1];
                    const T x = row[at.x], y = times(phases[k], row[at.y]);
                    row[at.x] = own ? from_real(turns[4 * k + 2]) : other ? from_real(0) : x - s * (y + h * x);
                    row[at.y] = other ? from_real(turns[4 * k + 3]) : own ? from_real(0) : y + s * (x - h * y);
                }
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!turned)
            break;
    }
}

// values[p] = norm of column p.
__kernel void column_norms(const __global T* w, ulong w_offset, __global R* values, ulong values_offset, int m,
                           ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    w += w_offset + item * m;
    R largest = 0, sum = 0, poison = 0;   // fmax passes over NaN, a sum does not
    for (int i = 0; i < m; ++i) {
        largest = fmax(largest, magnitude(w[i]));
        poison += 0 * real_part(w[i]);
    }
    for (int i = 0; largest > 0 && i < m; ++i)
        sum += square(w[i] / largest);
    values[values_offset + item] = largest * sqrt(sum) + poison;
}

// values[p] = v^H A^T v / v^H v for row p of v: as exact as the vectors and A, whatever rounding the rotations left on the
// diagonal.
__kernel void rayleigh_quotients(const __global T* a, ulong a_offset, const __global T* v, ulong v_offset,
                                 __global R* values, ulong values_offset, int n, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    a += a_offset + item / n * n * n;
    v += v_offset + item * n;
    R sum = 0, length = 0;
    for (int i = 0; i < n; ++i) {
        T product = from_real(0);
        for (int j = 0; j < n; ++j)
            product += times(a[(long)j * n + i], v[j]);
        sum += real_part(times(conjugate(v[i]), product));
        length += square(v[i]);
    }
    values[values_offset + item] = sum / length;
}

// NaN counts as the largest.
static inline bool above(R a, R b) { return a > b || (a != a && b == b); }

// Work-item p of a matrix moves value and columns to their place in descending or ascending order.
__kernel void sort_columns(const __global T* w, ulong w_offset, const __global T* v, ulong v_offset,
                           const __global R* values, ulong values_offset, __global T* sorted_w, ulong sorted_w_offset,
                           __global T* sorted_v, ulong sorted_v_offset, __global R* sorted, ulong sorted_offset, int m,
                           int n, int ascending, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const ulong first = item / n * n;
    const R own = values[values_offset + item];
    ulong rank = 0;
    for (ulong i = first; i < first + n; ++i) {
        const R other = values[values_offset + i];
        const bool larger = above(other, own), smaller = above(own, other);
        rank += (ascending ? smaller : larger) || (!larger && !smaller && i < item);
    }
    sorted[sorted_offset + first + rank] = own;
    for (int i = 0; sorted_w && i < m; ++i)
        sorted_w[sorted_w_offset + (first + rank) * m + i] = w[w_offset + item * m + i];
    for (int i = 0; i < n; ++i)
        sorted_v[sorted_v_offset + (first + rank) * n + i] = v[v_offset + item * n + i];
}
