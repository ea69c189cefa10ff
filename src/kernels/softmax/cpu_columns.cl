// The columns of softmax.cl on CPUs. A work-item owns neighbours along inner, for one outer: VECTORS of VEC lanes, so
// that each step along the axis touches whole cache lines; registers hold what belongs to them. The last may be fewer.
#define VECTORS 4
#define WIDTH (VECTORS * VEC)
#define COLUMN_ATTRIBUTES __attribute__((reqd_work_group_size(1, 1, 1)))
#define LOCATE_COLUMN                                                                                                 \
    const uint blocks = (inner + WIDTH - 1) / WIDTH;                                                                  \
    const uint column = (uint)(get_group_id(0) % blocks) * WIDTH;                                                     \
    const uint width = min(inner - column, (uint)WIDTH);                                                              \
    const ulong start = get_group_id(0) / blocks * n * inner + column;
// Runs the body for each row along the axis and each vector v of it: its place `at` and its `lanes`. `whole`: all of
// them are, as compilers know where they are called so.
#define EACH_COLUMN                                                                                                   \
    _Pragma("unroll") for (uint v = 0; v < VECTORS; ++v)                                                              \
        if (whole || v * VEC < width)
#define EACH_ELEMENT for (uint i = 0; i < n; ++i) EACH_COLUMN
#define AT ((ulong)i * inner + v * VEC)
#define COUNT (whole ? (uint)VEC : min(width - v * VEC, (uint)VEC))

static inline void forward_of(const __global storage_t(X)* x, __global storage_t(Y)* y, uint n, uint inner, uint width,
                              bool whole)
{
    vec_t m[VECTORS], sum[VECTORS];
    for (uint v = 0; v < VECTORS; ++v) {
        m[v] = -INFINITY;
        sum[v] = 0;
    }
    EACH_ELEMENT
        m[v] = fmax(m[v], load_part(X, x, AT, COUNT, 0));
    EACH_ELEMENT
        sum[v] += exp_negative(load_part(X, x, AT, COUNT, 0) - m[v]);
    EACH_COLUMN
        sum[v] = sum_to_scale(sum[v]);
    EACH_ELEMENT
    {
        store_part(Y, y, AT, COUNT, forward_value(load_part(X, x, AT, COUNT, 0), m[v], sum[v]));
    }
}

static inline void backward_of(const __global storage_t(Y)* dy, const __global storage_t(Y)* y,
                               __global storage_t(X)* dx, uint n, uint inner, uint width, bool whole)
{
    vec_t sum[VECTORS];
    for (uint v = 0; v < VECTORS; ++v)
        sum[v] = 0;
    EACH_ELEMENT
        sum[v] += backward_term(load_part(Y, dy, AT, COUNT, 0), load_part(Y, y, AT, COUNT, 0));
    EACH_ELEMENT
    {
        store_part(X, dx, AT, COUNT,
                   backward_value(load_part(Y, dy, AT, COUNT, 0), load_part(Y, y, AT, COUNT, 0), sum[v]));
    }
}

__kernel COLUMN_ATTRIBUTES
void forward_columns(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                     ulong outer, uint n, uint inner)
{
    LOCATE_COLUMN
    x += x_offset + start;
    y += y_offset + start;
    if (width == WIDTH)
        forward_of(x, y, n, inner, WIDTH, true);
    else
        forward_of(x, y, n, inner, width, false);
}

__kernel COLUMN_ATTRIBUTES
void backward_columns(const __global storage_t(Y)* dy, ulong dy_offset, const __global storage_t(Y)* y,
                      ulong y_offset, __global storage_t(X)* dx, ulong dx_offset, ulong outer, uint n, uint inner)
{
    LOCATE_COLUMN
    dy += dy_offset + start;
    y += y_offset + start;
    dx += dx_offset + start;
    if (width == WIDTH)
        backward_of(dy, y, dx, n, inner, WIDTH, true);
    else
        backward_of(dy, y, dx, n, inner, width, false);
}
