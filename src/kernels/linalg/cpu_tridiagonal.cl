// Eigenvalues and eigenvectors of symmetric and Hermitian matrices on CPUs: Householder's reduction to tridiagonal form
// (cpu_hermitian.cl for complex ones), then QL steps with implicit shifts (Bowdler, Martin, Reinsch and Wilkinson
// 1968). -DX, -DREAL, -DCOMPLEX: see number.cl; -DNAME: the type of real elements, float or double. TEAM is 1.
#include "kernels/linalg/number.cl"
#include "kernels/linalg/cpu_rows.cl"

#define CHUNK 32   // real numbers of an eigenvector that are turned at once
#ifdef CLPRIM_FP64
typedef double scalar;
#define NEGLIGIBLE ((scalar)(sizeof(R) == 8 ? 0x1p-52 : 0x1p-26))
#else
typedef float scalar;
#define NEGLIGIBLE 0x1p-24f
#endif

#ifdef COMPLEX
#include "kernels/linalg/cpu_hermitian.cl"
#define COLUMNS (CHUNK / 2)   // of the eigenvectors
#else
#define COLUMNS CHUNK

// What the reflector before has left to do: rows become row - left[i] w - other[i] v, with vectors v and w.
typedef struct {
    const __global R* v;
    const __global R* w;
} update_t;

static inline void update_row(__global R* row, update_t before, R left, R other, int count)
{
    for (int j = 0; j < count; ++j)
        row[j] -= left * before.w[j] + other * before.v[j];
}

// The same for ROWS rows and what they make with `vector` afterwards, so that a matrix passes once for each reflector.
#define ROWS 4
static inline void update_rows(__global R* rows, long stride, update_t before, const R* left, const R* other,
                               const __global R* vector, int count, R* products)
{
    vec sums[ROWS];
    R tails[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        sums[r] = 0, tails[r] = 0;
    int j = 0;
    for (; j + 16 <= count; j += 16) {
        const vec v = LOAD(before.v + j), w = LOAD(before.w + j), x = LOAD(vector + j);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const vec y = LOAD(rows + r * stride + j) - left[r] * w - other[r] * v;
            STORE(y, rows + r * stride + j);
            sums[r] += y * x;
        }
    }
    for (; j < count; ++j)
        for (int r = 0; r < ROWS; ++r) {
            const R y = rows[r * stride + j] - left[r] * before.w[j] - other[r] * before.v[j];
            rows[r * stride + j] = y;
            tails[r] += y * vector[j];
        }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        products[r] = sum_of(sums[r]) + tails[r];
}

// Work-item: a matrix. a [n, n] becomes vectors of reflectors, row k that of elements k + 1 on, which tau scales;
// diagonal and beside [n] the tridiagonal matrix, with elements below 2 by a power of two, whose exponent is kept.
// lines [2, n] is for the kernel alone, and begins as zeros.
__kernel void tridiagonalise(__global R* a, ulong a_offset, __global R* diagonal, ulong diagonal_offset,
                             __global R* beside, ulong beside_offset, __global R* tau, ulong tau_offset,
                             __global int* exponents, ulong exponents_offset, __global R* lines, ulong lines_offset,
                             int n)
{
    const ulong matrix = get_global_id(0);
    a += a_offset + matrix * n * n;
    diagonal += diagonal_offset + matrix * n;
    beside += beside_offset + matrix * n;
    tau += tau_offset + matrix * n;
    lines += lines_offset + matrix * 2 * n;
    R largest = 0;
    for (long i = 0; i < (long)n * n; ++i)
        largest = fmax(largest, fabs(a[i]));
    const int exponent = largest > 0 && isfinite(largest) ? ilogb(largest) : 0;
    exponents[exponents_offset + matrix] = exponent;
    if (exponent > 30 || exponent < -30)   // squares stay within range otherwise
        for (long i = 0; i < (long)n * n; ++i)
            a[i] = ldexp(a[i], -exponent);
    else
        exponents[exponents_offset + matrix] = 0;
    update_t before = {lines, lines};   // zeros: nothing is left to do
    __global R* w = lines;
    for (int k = 0; k + 2 < n; ++k) {
        __global R* row = a + (long)k * n;
        const int first = k + 1, count = n - first;
        update_row(row + k, (update_t){before.v + k, before.w + k}, before.v[k], before.w[k], n - k);
        diagonal[k] = row[k];
        __global R* v = row + first;
        const R head = v[0], rest = dot_of(v + 1, v + 1, count - 1);
        const R norm = sqrt(head * head + rest);
        const R alpha = head > 0 ? -norm : norm;
        const bool nothing = rest <= (sizeof(R) == 8 ? (R)1e-290 : (R)1e-34f);   // beside elements of about 1
        beside[k] = nothing ? head : alpha;
        v[0] = head - alpha;
        const R scale = nothing ? 0 : 2 / (v[0] * v[0] + rest);
        tau[k] = scale;
        // The vector w of the step before is read while that of this one is written.
        __global R* next = k == 0 || w == lines ? lines + n : lines;
        const update_t left = {before.v + first, before.w + first};
        int i = first;
        for (; i + ROWS <= n; i += ROWS) {
            R products[ROWS], vs[ROWS], ws[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                vs[r] = before.v[i + r], ws[r] = before.w[i + r];
            update_rows(a + (long)i * n + first, n, left, vs, ws, v, count, products);
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                next[i + r] = scale * products[r];
        }
        for (; i < n; ++i) {
            __global R* other = a + (long)i * n + first;
            update_row(other, left, before.v[i], before.w[i], count);
            next[i] = scale * dot_of(other, v, count);
        }
        const R half_product = (R)0.5 * scale * dot_of(next + first, v, count);
        for (int j = 0; j < count; ++j)
            next[first + j] -= half_product * v[j];
        if (nothing)   // v is no reflector's then
            for (int j = 0; j < count; ++j)
                next[first + j] = 0;
        before = (update_t){row, next};
        w = next;
    }
    for (int k = max(0, n - 2); k < n; ++k) {
        __global R* row = a + (long)k * n;
        update_row(row + k, (update_t){before.v + k, before.w + k}, before.v[k], before.w[k], n - k);
        diagonal[k] = row[k];
        if (k + 1 < n)
            beside[k] = row[k + 1];
        tau[k] = 0;
    }
}

// Rows of z [n, CHUNK] times the reflectors, from the unit matrix's elements of columns `from` on.
static inline void unit_reflected(__global R* z, const __global R* a, const __global R* tau, int from, int n)
{
    for (int j = 0; j < n; ++j)
        for (int c = 0; c < CHUNK; ++c)
            z[j * CHUNK + c] = j == from + c;
    for (int k = 0; k + 2 < n; ++k) {
        if (tau[k] == 0)
            continue;
        const __global R* v = a + (long)k * n;
        vec low = 0, high = 0;
        for (int j = k + 1; j < n; ++j) {
            low += v[j] * LOAD(z + j * CHUNK);
            high += v[j] * LOAD(z + j * CHUNK + 16);
        }
        low *= tau[k];
        high *= tau[k];
        for (int j = k + 1; j < n; ++j) {
            STORE(LOAD(z + j * CHUNK) - v[j] * low, z + j * CHUNK);
            STORE(LOAD(z + j * CHUNK + 16) - v[j] * high, z + j * CHUNK + 16);
        }
    }
}

#endif

// Turns neighbouring rows of z, from `end` down to `begin`, by cosines and sines.
static inline void turn_rows(__global R* z, const __global R* cosines, const __global R* sines, int begin, int end)
{
    vec low = LOAD(z + end * CHUNK), high = LOAD(z + end * CHUNK + 16);
    for (int i = end - 1; i >= begin; --i) {
        const R c = cosines[i], s = sines[i];
        const vec x = LOAD(z + i * CHUNK), y = LOAD(z + i * CHUNK + 16);
        STORE(s * x + c * low, z + (i + 1) * CHUNK);
        STORE(s * y + c * high, z + (i + 1) * CHUNK + 16);
        low = c * x - s * low;
        high = c * y - s * high;
    }
    STORE(low, z + begin * CHUNK);
    STORE(high, z + begin * CHUNK + 16);
}

// One QL step on elements begin .. end, with the shift of the smaller block at its beginning: returns where its turns
// begin.
static inline int ql_step(__global scalar* d, __global scalar* e, __global R* cosines, __global R* sines, int begin,
                          int end)
{
    scalar g = (d[begin + 1] - d[begin]) / (2 * e[begin]);
    scalar r = sqrt(g * g + 1);
    g = d[end] - d[begin] + e[begin] / (g + (g < 0 ? -r : r));
    scalar s = 1, c = 1, p = 0;
    for (int i = end - 1; i >= begin; --i) {
        const scalar f = s * e[i], b = c * e[i];
        r = sqrt(f * f + g * g);
        e[i + 1] = r;
        if (r == 0) {
            d[i + 1] -= p;
            e[end] = 0;
            return i + 1;
        }
        const scalar over = 1 / r;
        s = f * over;
        c = g * over;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        cosines[i] = c;
        sines[i] = s;
    }
    d[begin] -= p;
    e[begin] = g;
    e[end] = 0;
    return begin;
}

// NaN counts as the largest.
static inline bool above(scalar a, scalar b) { return a > b || (a != a && b == b); }

// Work-item (part, matrix): `chunks` chunks of columns of the eigenvectors, for which it finds the values itself, which
// takes less time than waiting for others. z: parts x chunks x n x CHUNK numbers of its own, or none if only values are
// asked for; numbers: parts x 2 n; turns: parts x 2 n.
__kernel void ql(const __global T* a, ulong a_offset, const __global R* diagonal, ulong diagonal_offset,
                 const __global R* beside, ulong beside_offset, const __global R* tau, ulong tau_offset,
                 const __global int* exponents, ulong exponents_offset, __global R* z, ulong z_offset,
                 __global scalar* numbers, ulong numbers_offset, __global R* turns, ulong turns_offset,
                 __global T* vectors, ulong vectors_offset, __global R* values, ulong values_offset,
#ifdef COMPLEX
                 const __global T* phases, ulong phases_offset,
#endif
                 int n, int chunks)
{
    const int part = get_global_id(0), parts = get_global_size(0);
    const ulong matrix = get_global_id(1), own = matrix * parts + part;
    a += a_offset + matrix * n * n;
    const int exponent = exponents[exponents_offset + matrix], first = part * chunks * COLUMNS;
    __global scalar* d = numbers + numbers_offset + own * 2 * n;
    __global scalar* e = d + n;
    __global R* cosines = turns + turns_offset + own * 2 * n;
    __global R* sines = cosines + n;
    for (int i = 0; i < n; ++i) {
        d[i] = diagonal[diagonal_offset + matrix * n + i];
        e[i] = i + 1 < n ? beside[beside_offset + matrix * n + i] : 0;
    }
    if (z) {
        z += z_offset + own * chunks * n * CHUNK;
        for (int chunk = 0; chunk < chunks; ++chunk)
            unit_reflected(z + (long)chunk * n * CHUNK, a, tau + tau_offset + matrix * n,
#ifdef COMPLEX
                           phases + phases_offset + matrix * n,
#endif
                           first + chunk * COLUMNS, n);
    }
    for (int begin = 0; begin < n; ++begin)
        for (int step = 0; step < 60; ++step) {
            int end = begin;
            while (end + 1 < n && !(fabs(e[end]) <= NEGLIGIBLE * (fabs(d[end]) + fabs(d[end + 1]))))
                ++end;
            if (end == begin)
                break;
            const int last = ql_step(d, e, cosines, sines, begin, end);
            for (int chunk = 0; z && last < end && chunk < chunks; ++chunk)
                turn_rows(z + (long)chunk * n * CHUNK, cosines, sines, last, end);
        }
    for (int i = 0; i < n; ++i) {
        int rank = 0;
        for (int j = 0; j < n; ++j)
            rank += above(d[i], d[j]) || (!above(d[j], d[i]) && j < i);
        if (part == 0)
            values[values_offset + matrix * n + rank] = ldexp((R)d[i], exponent);
        for (int c = 0; z && c < chunks * COLUMNS && first + c < n; ++c) {
            const __global R* from = z + (long)(c / COLUMNS) * n * CHUNK + i * CHUNK + c % COLUMNS;
#ifdef COMPLEX
            const T element = (T)(from[0], from[COLUMNS]);
#else
            const T element = *from;
#endif
            vectors[vectors_offset + (matrix * n + rank) * n + first + c] = element;
        }
    }
}
