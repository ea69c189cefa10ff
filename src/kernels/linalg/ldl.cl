// A = L D L^T, or L D L^H, of symmetric or Hermitian matrices by Bunch and Kaufman's diagonal pivoting (1977), and
// systems with such factors. The lower triangle is read and overwritten as LAPACK's sytrf and hetrf do: blocks of D of
// order 1 or 2, the latter with two equal negative pivots. -DX, -DREAL, -DCOMPLEX, -DTEAM: see number.cl.
#include "kernels/linalg/number.cl"

#define A(i, j) a[(long)(i) * n + (j)]

static inline T reflected(T a, int hermitian) { return hermitian ? conjugate(a) : a; }
static inline T on_diagonal(T a, int hermitian) { return hermitian ? from_real(real_part(a)) : a; }
static inline R diagonal_size(T a, int hermitian) { return hermitian ? fabs(real_part(a)) : pivot_size(a); }
static inline T quotient(T a, T b) { return times(a, inverse(b)); }

typedef struct { R size; int place; } largest_t;

// The largest element of row or column i below the diagonal, or left of it, and where it is; of equal ones the first.
static inline largest_t largest_of(const __global T* a, int n, int i, int begin, int end, bool row, __local R* sizes,
                                   __local int* places)
{
    const int self = get_local_id(0);
    largest_t own = {-1, begin};
    for (int j = begin + self; j < end; j += TEAM) {
        const R size = pivot_size(row ? A(i, j) : A(j, i));
        if (size > own.size) {
            own.size = size;
            own.place = j;
        }
    }
    sizes[self] = own.size;
    places[self] = own.place;
    barrier(CLK_LOCAL_MEM_FENCE);
    largest_t most = {-1, begin};
    for (int k = 0; k < TEAM; ++k)
        if (sizes[k] > most.size || (sizes[k] == most.size && places[k] < most.place)) {
            most.size = sizes[k];
            most.place = places[k];
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    return most;
}

// A work-group owns a matrix.
__kernel void ldl_factor(__global T* a, ulong a_offset, __global int* pivots, ulong pivots_offset, __global int* info,
                         ulong info_offset, int n, int hermitian)
{
    __local R sizes[TEAM];
    __local int places[TEAM];
    const int self = get_local_id(0);
    const ulong matrix = get_group_id(0);
    a += a_offset + matrix * n * n;
    pivots += pivots_offset + matrix * n;
    info += info_offset + matrix;
    const R alpha = (1 + sqrt((R)17)) / 8;
    int failed = 0;
    for (int k = 0; k < n;) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        const R here = diagonal_size(A(k, k), hermitian);
        const largest_t below = largest_of(a, n, k, k + 1, n, false, sizes, places);
        const R column = below.size > 0 ? below.size : 0;
        int chosen = k, order = 1;
        const bool singular = fmax(here, column) == 0 || here != here;
        if (singular)
            failed = failed ? failed : k + 1;
        // Every work-item comes to every barrier, needed or not: compilers of CPUs get them wrong inside branches.
        const bool look = !singular && here < alpha * column;
        const int other = look ? below.place : k;
        const largest_t left = largest_of(a, n, other, k, other, true, sizes, places);
        const largest_t under = largest_of(a, n, other, look ? other + 1 : n, n, false, sizes, places);
        const R row = fmax(left.size, under.size);
        if (look && here < alpha * column * (column / row)) {
            chosen = other;
            order = diagonal_size(A(other, other), hermitian) >= alpha * row ? 1 : 2;
        }
        const int last = k + order - 1;   // of the block
        barrier(CLK_GLOBAL_MEM_FENCE);    // all have chosen
        if (chosen != last) {
            for (int i = chosen + 1 + self; i < n; i += TEAM) {
                const T held = A(i, last);
                A(i, last) = A(i, chosen);
                A(i, chosen) = held;
            }
            for (int j = last + 1 + self; j < chosen; j += TEAM) {
                const T held = reflected(A(j, last), hermitian);
                A(j, last) = reflected(A(chosen, j), hermitian);
                A(chosen, j) = held;
            }
            if (self == 0) {
                A(chosen, last) = reflected(A(chosen, last), hermitian);
                const T held = on_diagonal(A(last, last), hermitian);
                A(last, last) = on_diagonal(A(chosen, chosen), hermitian);
                A(chosen, chosen) = held;
                if (order == 2) {
                    A(k, k) = on_diagonal(A(k, k), hermitian);
                    const T beside = A(k + 1, k);
                    A(k + 1, k) = A(chosen, k);
                    A(chosen, k) = beside;
                }
            }
        }
        else if (self == 0) {
            A(k, k) = on_diagonal(A(k, k), hermitian);
            A(last, last) = on_diagonal(A(last, last), hermitian);
        }
        if (self == 0) {
            pivots[k] = order == 1 ? chosen + 1 : -(chosen + 1);
            if (order == 2)
                pivots[k + 1] = -(chosen + 1);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        const int from = k + order;
        // With D = (p, q'; q, r): rows (w, u) of L solve (w, u) D = (x, y); all is divided by q, which is large.
        const T p = A(k, k), scale = inverse(p), q = A(last, k), r = A(last, last), q2 = reflected(q, hermitian);
        const T d11 = quotient(r, q), d22 = quotient(p, q2), t = inverse(times(d11, d22) - from_real(1));
        if (!singular)
            for (int i = from + self; i < n; i += TEAM)
                for (int j = from; j <= i; ++j) {
                    if (order == 1)
                        A(i, j) -= times(times(A(i, k), scale), reflected(A(j, k), hermitian));
                    else {
                        const T x = A(j, k), y = A(j, k + 1);
                        const T w = times(t, quotient(times(d11, x) - y, q2));
                        const T u = times(t, quotient(times(d22, y) - x, q));
                        A(i, j) -=
                            times(A(i, k), reflected(w, hermitian)) + times(A(i, k + 1), reflected(u, hermitian));
                    }
                    if (i == j)
                        A(i, j) = on_diagonal(A(i, j), hermitian);
                }
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (!singular)
            for (int i = from + self; i < n; i += TEAM) {
                if (order == 1)
                    A(i, k) = times(A(i, k), scale);
                else {
                    const T x = A(i, k), y = A(i, k + 1);
                    A(i, k) = times(t, quotient(times(d11, x) - y, q2));
                    A(i, k + 1) = times(t, quotient(times(d22, y) - x, q));
                }
            }
        k += order;
    }
    if (self == 0)
        *info = failed;
}

// Solves A X = B in place of B [n, columns]. A work-item owns a column.
__kernel void ldl_solve(const __global T* a, ulong a_offset, const __global int* pivots, ulong pivots_offset,
                        __global T* b, ulong b_offset, int n, int columns, int hermitian)
{
    const long column = get_global_id(0), matrix = get_global_id(1);
    if (column >= columns)
        return;
    a += a_offset + matrix * n * n;
    pivots += pivots_offset + matrix * n;
    b += b_offset + matrix * n * columns + column;
#define B(i) b[(long)(i) * columns]
    for (int k = 0; k < n;) {   // B becomes D^-1 L^-1 P^T B
        const int order = pivots[k] > 0 ? 1 : 2, last = min(k + order - 1, n - 1);
        const int other = clamp((order == 1 ? pivots[k] : -pivots[k]) - 1, 0, n - 1);
        const T held = B(last);
        B(last) = B(other);
        B(other) = held;
        for (int i = k + order; i < n; ++i) {
            T sum = times(A(i, k), B(k));
            if (order == 2)
                sum += times(A(i, last), B(last));
            B(i) -= sum;
        }
        if (order == 1)
            B(k) = quotient(B(k), A(k, k));
        else {
            const T q = A(last, k), q2 = reflected(q, hermitian), p = quotient(A(k, k), q2), r = quotient(A(last, last), q);
            const T scale = inverse(times(p, r) - from_real(1)), x = quotient(B(k), q2), y = quotient(B(last), q);
            B(k) = times(times(r, x) - y, scale);
            B(last) = times(times(p, y) - x, scale);
        }
        k += order;
    }
    for (int k = n - 1; k >= 0;) {   // and P L^-T, or P L^-H, of that
        const int order = pivots[k] > 0 || k == 0 ? 1 : 2;
        for (int part = 0; part < order; ++part) {
            T sum = B(k - part);
            for (int i = k + 1; i < n; ++i)
                sum -= times(reflected(A(i, k - part), hermitian), B(i));
            B(k - part) = sum;
        }
        const int other = clamp((pivots[k] > 0 ? pivots[k] : -pivots[k]) - 1, 0, n - 1);
        const T held = B(k);
        B(k) = B(other);
        B(other) = held;
        k -= order;
    }
}
