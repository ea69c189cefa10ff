// Triangular systems on CPUs: a work-item owns a strip of columns of the right-hand sides, which it keeps as lines of
// two vectors, and solves all rows of it, one system after the other where a factorisation gave two. -DX, -DREAL,
// -DCOMPLEX: see number.cl; -DNAME: the type of real elements; -DLANES: of a vector of them.
#include "kernels/linalg/number.cl"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(NAME, LANES) vec;
#define LOAD(p) CAT(vload, LANES)(0, p)
#define STORE(v, p) CAT(vstore, LANES)(v, 0, p)
#define ROWS 4   // of a matrix at a time: eight vectors of sums

#ifdef COMPLEX
#define COLUMNS LANES   // of a strip: real parts in the first vector of a line, imaginary ones in the second
#else
#define COLUMNS (2 * LANES)
#endif
#define LINE (2 * LANES)   // numbers of a line

typedef struct { long row, column, batch; } layout_t;
typedef struct { layout_t a; int upper, unit, conjugated, unused; } system_t;
typedef struct {
    system_t first, second;
    layout_t b, x;
    int n, columns, systems, batch, each, count, opposite, unused;   // each: matrices of a work-item; count: pivots
} solve_t;

typedef struct { vec p, q; } line_t;

static inline line_t read_line(const __global R* z) { return (line_t){LOAD(z), LOAD(z + LANES)}; }
static inline void write_line(line_t v, __global R* z)
{
    STORE(v.p, z);
    STORE(v.q, z + LANES);
}

#ifdef COMPLEX
static inline T element(const __global T* a, R sign) { return (T)(a->x, sign * a->y); }
static inline line_t less(line_t v, T s, line_t x)
{
    return (line_t){v.p - s.x * x.p + s.y * x.q, v.q - s.x * x.q - s.y * x.p};
}
static inline line_t scaled(line_t v, T s) { return (line_t){s.x * v.p - s.y * v.q, s.x * v.q + s.y * v.p}; }
#else
static inline T element(const __global T* a, R sign) { return *a; }
static inline line_t less(line_t v, T s, line_t x) { return (line_t){v.p - s * x.p, v.q - s * x.q}; }
static inline line_t scaled(line_t v, T s) { return (line_t){s * v.p, s * v.q}; }
#endif

// Solves for the lines z [n]. Upper matrices are lower ones from the last row and column on.
static inline void solve_lines(const __global T* a, system_t s, __global R* z, int n)
{
    const long last = n - 1;
    const long row = s.upper ? -s.a.row : s.a.row, column = s.upper ? -s.a.column : s.a.column;
    const long line = s.upper ? -LINE : LINE;
    const R sign = s.conjugated ? -1 : 1;
    if (s.upper) {
        a += last * (s.a.row + s.a.column);
        z += last * LINE;
    }
    int i = 0;
    for (; i + ROWS <= n; i += ROWS) {
        const __global T* own = a + i * row;
        line_t sums[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            sums[r] = read_line(z + (i + r) * line);
        for (int k = 0; k < i; ++k) {
            const line_t x = read_line(z + k * line);
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                sums[r] = less(sums[r], element(own + r * row + k * column, sign), x);
        }
        own += i * column;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int k = 0; k < r; ++k)
                sums[r] = less(sums[r], element(own + r * row + k * column, sign), sums[k]);
            if (!s.unit)
                sums[r] = scaled(sums[r], inverse(element(own + r * (row + column), sign)));
            write_line(sums[r], z + (i + r) * line);
        }
    }
    for (; i < n; ++i) {
        line_t sum = read_line(z + i * line);
        for (int k = 0; k < i; ++k)
            sum = less(sum, element(a + i * row + k * column, sign), read_line(z + k * line));
        if (!s.unit)
            sum = scaled(sum, inverse(element(a + i * (row + column), sign)));
        write_line(sum, z + i * line);
    }
}

static inline void exchange_lines(__global R* z, const __global int* pivots, solve_t p)
{
    for (int step = 0; step < p.count; ++step) {
        const int i = p.opposite ? p.count - 1 - step : step, other = pivots[i] - 1;
        if (other < 0 || other >= p.n || other == i)
            continue;
        const line_t held = read_line(z + (long)i * LINE);
        write_line(read_line(z + (long)other * LINE), z + (long)i * LINE);
        write_line(held, z + (long)other * LINE);
    }
}

// Rows of b, or without one of the unit matrix, from column `first` on.
static inline void gather_lines(const __global T* b, layout_t lb, __global R* z, int n, int first, int width)
{
    for (int i = 0; i < n; ++i) {
        __global R* line = z + (long)i * LINE;
#ifndef COMPLEX
        if (b && width == COLUMNS && lb.column == 1) {
            write_line(read_line(b + i * lb.row + first), line);
            continue;
        }
#endif
        for (int j = 0; j < COLUMNS; ++j) {
            const T value = j >= width ? from_real(0)
                            : b        ? b[i * lb.row + (first + j) * lb.column]
                                       : from_real(i == first + j);
#ifdef COMPLEX
            line[j] = value.x;
            line[LANES + j] = value.y;
#else
            line[j] = value;
#endif
        }
    }
}

static inline void scatter_lines(const __global R* z, __global T* x, layout_t lx, int n, int first, int width)
{
    for (int i = 0; i < n; ++i) {
        const __global R* line = z + (long)i * LINE;
#ifdef COMPLEX
        for (int j = 0; j < width; ++j)
            x[i * lx.row + (first + j) * lx.column] = (T)(line[j], line[LANES + j]);
#else
        if (width == COLUMNS && lx.column == 1) {
            write_line(read_line(line), x + i * lx.row + first);
            continue;
        }
        for (int j = 0; j < width; ++j)
            x[i * lx.row + (first + j) * lx.column] = line[j];
#endif
    }
}

// Work-item (strip, matrices). z: n lines of its own.
__kernel void solve(const __global T* a, ulong a_offset, const __global T* b, ulong b_offset, __global T* x,
                    ulong x_offset, const __global int* pivots, ulong pivots_offset, __global R* z, ulong z_offset,
                    solve_t p)
{
    const int first = get_global_id(0) * COLUMNS, width = min(p.columns - first, COLUMNS);
    const int begin = get_global_id(1) * p.each, end = min(p.batch, begin + p.each);
    z += z_offset + (get_global_id(1) * get_global_size(0) + get_global_id(0)) * p.n * LINE;
    for (int matrix = begin; matrix < end; ++matrix) {
        const __global int* own_pivots = pivots + pivots_offset + (long)matrix * p.count;
        const __global T* own_a = a + a_offset;
        gather_lines(b ? b + b_offset + matrix * p.b.batch : b, p.b, z, p.n, first, width);
        if (pivots && !p.opposite)
            exchange_lines(z, own_pivots, p);
        if (p.systems > 0)
            solve_lines(own_a + matrix * p.first.a.batch, p.first, z, p.n);
        if (p.systems > 1)
            solve_lines(own_a + matrix * p.second.a.batch, p.second, z, p.n);
        if (pivots && p.opposite)
            exchange_lines(z, own_pivots, p);
        scatter_lines(z, x + x_offset + matrix * p.x.batch, p.x, p.n, first, width);
    }
}

#ifndef COMPLEX
static inline R sum_of(vec v)
{
    R sum = 0;
    R lanes[LANES];
    CAT(vstore, LANES)(v, 0, lanes);
#pragma unroll
    for (int width = LANES / 2; width > 0; width /= 2)
#pragma unroll
        for (int j = 0; j < width; ++j)
            lanes[j] += lanes[j + width];
    return lanes[0];
}

// What ROWS rows of a, whose elements lie together, make with x.
static inline void products_of(const __global R* a, long row, const __global R* x, int count, R* products)
{
    vec sums[ROWS];
    R tails[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        sums[r] = 0, tails[r] = 0;
    int j = 0;
    for (; j + LANES <= count; j += LANES) {
        const vec v = LOAD(x + j);
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            sums[r] += v * LOAD(a + r * row + j);
    }
    for (; j < count; ++j)
        for (int r = 0; r < ROWS; ++r)
            tails[r] += x[j] * a[r * row + j];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        products[r] = sum_of(sums[r]) + tails[r];
}

// x[j] -= sum of a's columns, whose elements lie together, times `factors`
static inline void less_columns(const __global R* a, long column, const R* factors, __global R* x, int count)
{
    int j = 0;
    for (; j + LANES <= count; j += LANES) {
        vec sum = LOAD(x + j);
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            sum -= factors[r] * LOAD(a + r * column + j);
        STORE(sum, x + j);
    }
    for (; j < count; ++j) {
        R sum = x[j];
        for (int r = 0; r < ROWS; ++r)
            sum -= factors[r] * a[r * column + j];
        x[j] = sum;
    }
}

// One right-hand side z [n], in blocks of ROWS rows: by products of rows or, where those of a's columns lie together,
// by what a block changes in the rest.
static inline void solve_column(const __global R* a, system_t s, __global R* z, int n)
{
    const bool rows = s.a.column == 1;
    for (int done = 0; done < n; done += ROWS) {
        const int count = min(ROWS, n - done), begin = s.upper ? n - done - count : done, end = begin + count;
        R x[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            x[r] = 0;
        if (rows && count == ROWS)
            products_of(a + begin * s.a.row + (s.upper ? end : 0), s.a.row, z + (s.upper ? end : 0), done, x);
        else if (rows)
            for (int r = 0; r < count; ++r)
                for (int k = s.upper ? end : 0; k < (s.upper ? n : begin); ++k)
                    x[r] += a[(begin + r) * s.a.row + k] * z[k];
        for (int step = 0; step < count; ++step) {
            const int r = s.upper ? count - 1 - step : step, i = begin + r;
            R sum = z[i] - x[r];
            for (int k = s.upper ? i + 1 : begin; k < (s.upper ? end : i); ++k)
                sum -= a[i * s.a.row + k * s.a.column] * z[k];
            z[i] = s.unit ? sum : sum * inverse(a[i * (s.a.row + s.a.column)]);
        }
        if (rows)
            continue;
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            x[r] = r < count ? z[begin + r] : 0;
        if (count == ROWS && s.upper)
            less_columns(a + begin * s.a.column, s.a.column, x, z, begin);
        else if (count == ROWS)
            less_columns(a + begin * s.a.column + end, s.a.column, x, z + end, n - end);
        else
            for (int r = 0; r < count; ++r)
                for (int k = s.upper ? 0 : end; k < (s.upper ? begin : n); ++k)
                    z[k] -= x[r] * a[k + (begin + r) * s.a.column];
    }
}

static inline void exchange_numbers(__global R* z, const __global int* pivots, solve_t p)
{
    for (int step = 0; step < p.count; ++step) {
        const int i = p.opposite ? p.count - 1 - step : step, other = pivots[i] - 1;
        if (other < 0 || other >= p.n)
            continue;
        const R held = z[i];
        z[i] = z[other];
        z[other] = held;
    }
}

// Work-item (column, matrices). z: n numbers of its own.
__kernel void solve_columns(const __global T* a, ulong a_offset, const __global T* b, ulong b_offset, __global T* x,
                            ulong x_offset, const __global int* pivots, ulong pivots_offset, __global R* z,
                            ulong z_offset, solve_t p)
{
    const int own = get_global_id(0), begin = get_global_id(1) * p.each, end = min(p.batch, begin + p.each);
    z += z_offset + (get_global_id(1) * get_global_size(0) + own) * p.n;
    for (int matrix = begin; matrix < end; ++matrix) {
        const __global int* own_pivots = pivots + pivots_offset + (long)matrix * p.count;
        const __global T* column = b ? b + b_offset + matrix * p.b.batch + own * p.b.column : b;
        for (int i = 0; i < p.n; ++i)
            z[i] = b ? column[i * p.b.row] : i == own;
        if (pivots && !p.opposite)
            exchange_numbers(z, own_pivots, p);
        solve_column(a + a_offset + matrix * p.first.a.batch, p.first, z, p.n);
        if (p.systems > 1)
            solve_column(a + a_offset + matrix * p.second.a.batch, p.second, z, p.n);
        if (pivots && p.opposite)
            exchange_numbers(z, own_pivots, p);
        __global T* result = x + x_offset + matrix * p.x.batch + own * p.x.column;
        for (int i = 0; i < p.n; ++i)
            result[i * p.x.row] = z[i];
    }
}
#endif
