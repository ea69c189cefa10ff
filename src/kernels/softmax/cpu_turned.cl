// Short rows on CPUs: a work-item takes sixteen rows at a time and turns them, so that a vector has one column of all
// and no step adds up lanes. n is at most MOST. Sixteen rows are whole vectors wherever they begin; only the last ones
// may be fewer, whose other lanes compute something that nobody writes. Part of softmax.cl.
enum { ROWS = 16 };

// v[i][j] becomes v[j][i].
static inline void turn(vec_t v[ROWS])
{
    vec_t t[ROWS];
#define EXCHANGE(to, from, i, distance, LOW, HIGH)                                                                    \
    to[i] = LOW(from[i], from[(i) + distance]);                                                                       \
    to[(i) + distance] = HIGH(from[i], from[(i) + distance]);
#define LOW_1(a, b) __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
#define HIGH_1(a, b) __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
#define LOW_2(a, b) __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define LOW_8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH_8(a, b) __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define FOUR(to, from, a, b, c, d, distance)                                                                          \
    EXCHANGE(to, from, a, distance, LOW_##distance, HIGH_##distance)                                                  \
    EXCHANGE(to, from, b, distance, LOW_##distance, HIGH_##distance)                                                  \
    EXCHANGE(to, from, c, distance, LOW_##distance, HIGH_##distance)                                                  \
    EXCHANGE(to, from, d, distance, LOW_##distance, HIGH_##distance)
    FOUR(t, v, 0, 2, 4, 6, 1)
    FOUR(t, v, 8, 10, 12, 14, 1)
    FOUR(v, t, 0, 1, 4, 5, 2)
    FOUR(v, t, 8, 9, 12, 13, 2)
    FOUR(t, v, 0, 1, 2, 3, 4)
    FOUR(t, v, 8, 9, 10, 11, 4)
    FOUR(v, t, 0, 1, 2, 3, 8)
    FOUR(v, t, 4, 5, 6, 7, 8)
}

// `count` elements that are several whole vectors, but for the last rows'.
#define COPY_IN(D, from, count, to)                                                                                   \
    for (uint i = 0; i < (count); i += 16)                                                                            \
        vstore16(load_part(D, from, i, min((count) - i, 16u), 0), 0, (to) + i);
#define COPY_OUT(D, from, count, to)                                                                                  \
    for (uint i = 0; i < (count); i += 16) {                                                                          \
        store_part(D, to, i, min((count) - i, 16u), vload16(0, (from) + i));                                          \
    }

// Rows of n behind each other to columns, of which whole sixteens are written, and back.
static inline void to_columns(const float* rows, uint n, vec_t* columns)
{
    for (uint i = 0; i < n; i += 16) {
        vec_t v[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            v[k] = vload16(0, rows + k * n + i);
        turn(v);
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            columns[i + k] = v[k];
    }
}

// What a vector has beyond its row's end is in the place of later rows' beginnings, which are written after it.
static inline void to_rows(vec_t* columns, uint n, float* rows)
{
    for (int i = (n - 1) / 16 * 16; i >= 0; i -= 16) {
        vec_t v[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            v[k] = columns[i + k];
        turn(v);
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            vstore16(v[k], 0, rows + k * n + i);
    }
}

#define EACH_ROWS                                                                                                     \
    const ulong end = min((ulong)(get_group_id(0) + 1) * share, rows);                                                \
    for (ulong row = get_group_id(0) * (ulong)share; row < end; row += ROWS)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void forward_turned(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                    ulong rows, uint n, uint share)
{
    float flat[16 * MOST + 16];
    vec_t columns[MOST + 15];
    x += x_offset;
    y += y_offset;
    EACH_ROWS {
        const uint count = min(end - row, (ulong)ROWS) * n;
        COPY_IN(X, x + row * n, count, flat)
        to_columns(flat, n, columns);
        vec_t m = -INFINITY, sum = 0;
        for (uint i = 0; i < n; ++i)
            m = fmax(m, columns[i]);
        for (uint i = 0; i < n; ++i) {
            const vec_t e = exp_negative(columns[i] - m);
            sum += e;
#ifndef LOG
            columns[i] = e;
#endif
        }
        const vec_t s = sum_to_scale(sum);
        for (uint i = 0; i < n; ++i)
#ifdef LOG
            columns[i] = columns[i] - m - s;
#else
            columns[i] *= s;
#endif
        to_rows(columns, n, flat);
        COPY_OUT(Y, flat, count, y + row * n)
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void backward_turned(const __global storage_t(Y)* dy, ulong dy_offset, const __global storage_t(Y)* y, ulong y_offset,
                     __global storage_t(X)* dx, ulong dx_offset, ulong rows, uint n, uint share)
{
    float flat[16 * MOST + 16];
    vec_t grad[MOST + 15], out[MOST + 15];
    dy += dy_offset;
    y += y_offset;
    dx += dx_offset;
    EACH_ROWS {
        const uint count = min(end - row, (ulong)ROWS) * n;
        COPY_IN(Y, dy + row * n, count, flat)
        to_columns(flat, n, grad);
        COPY_IN(Y, y + row * n, count, flat)
        to_columns(flat, n, out);
        vec_t sum = 0;
        for (uint i = 0; i < n; ++i)
            sum += backward_term(grad[i], out[i]);
        for (uint i = 0; i < n; ++i)
            grad[i] = backward_value(grad[i], out[i], sum);
        to_rows(grad, n, flat);
        COPY_OUT(X, flat, count, dx + row * n)
    }
}
