// The columns of softmax.cl on GPUs. Work-items side by side own VEC neighbours along inner each; HIGH of them share a
// column, of which each takes every HIGH-th element. With -DKEPT_ROWS so many elements of each are all of it: it is
// read once. -DGROUP: work-items of a group.
#define WIDE (GROUP / HIGH)
#ifdef SUB_GROUP
#define COLUMN_KERNEL                                                                                                 \
    __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
#define COLUMN_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#endif
#ifdef KEPT_ROWS
#define EACH_ROW _Pragma("unroll") for (uint k = 0; k < KEPT_ROWS; ++k)
#define ROW(k) (row + (k) * HIGH)
#define KEPT_ROW(k) ((ulong)min(ROW(k), n - 1) * inner)   // loads without conditions are under way together
#else
#define EACH_ROW _Pragma("unroll 4") for (uint i = row; i < n; i += HIGH)
#define AT ((ulong)i * inner)
#endif

// Every work-item of a column gets the result; the same tree every run.
#if HIGH == 1
#define COLUMN_SCRATCH(name) __local vec_t* const name = 0
#define COLUMN_FOLD(NAME, OP2) static inline vec_t NAME(vec_t v, __local vec_t* scratch) { return v; }
#else
#define COLUMN_SCRATCH(name) __local vec_t name[GROUP]
#define COLUMN_FOLD(NAME, OP2)                                                                                        \
    static inline vec_t NAME(vec_t v, __local vec_t* scratch)                                                         \
    {                                                                                                                 \
        const uint rank = get_local_id(0);                                                                            \
        scratch[rank] = v;                                                                                            \
        for (uint half_group = GROUP / 2; half_group >= WIDE; half_group /= 2) {                                      \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
            if (rank < half_group)                                                                                    \
                scratch[rank] = OP2(scratch[rank], scratch[rank + half_group]);                                       \
        }                                                                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
        const vec_t result = scratch[rank % WIDE];                                                                    \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
        return result;                                                                                                \
    }
#endif
COLUMN_FOLD(column_sum, CLPRIM_ADD)
COLUMN_FOLD(column_max, fmax)

// Where column `item` begins.
static inline ulong start_of(ulong item, uint n, uint inner)
{
    const uint blocks = inner / VEC;
    if (item >> 32 == 0)   // 64-bit division takes hundreds of instructions
        return (ulong)((uint)item / blocks) * n * inner + (uint)item % blocks * VEC;
    return item / blocks * n * inner + item % blocks * VEC;
}

#define LOCATE_COLUMN                                                                                                 \
    const uint row = get_local_id(0) / WIDE;                                                                          \
    const ulong columns = outer * (inner / VEC), item = (ulong)get_group_id(0) * WIDE + get_local_id(0) % WIDE;       \
    const ulong start = start_of(min(item, columns - 1), n, inner);

COLUMN_KERNEL
void forward_columns(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                     ulong outer, uint n, uint inner)
{
    COLUMN_SCRATCH(scratch);
    LOCATE_COLUMN
    x += x_offset + start;
    y += y_offset + start;
    vec_t largest = -INFINITY, sum = 0;
#ifdef KEPT_ROWS
    vec_t kept[KEPT_ROWS];
    EACH_ROW
        kept[k] = load_vector(X, x, KEPT_ROW(k));
    EACH_ROW
        kept[k] = ROW(k) < n ? kept[k] : (vec_t)(-INFINITY);
    EACH_ROW
        largest = fmax(largest, kept[k]);
    const vec_t m = column_max(largest, scratch);
    EACH_ROW
    {
        const vec_t e = exp_negative(kept[k] - m);
        sum += ROW(k) < n ? e : (vec_t)(0);
#ifndef LOG
        kept[k] = e;
#endif
    }
#else
    EACH_ROW
        largest = fmax(largest, load_vector(X, x, AT));
    const vec_t m = column_max(largest, scratch);
    EACH_ROW
        sum += exp_negative(load_vector(X, x, AT) - m);
#endif
    const vec_t s = sum_to_scale(column_sum(sum, scratch));
    if (item >= columns)
        return;
#ifdef KEPT_ROWS
    EACH_ROW
        if (ROW(k) < n)
#ifdef LOG
            store_vector(Y, y, (ulong)ROW(k) * inner, kept[k] - m - s);
#else
            store_vector(Y, y, (ulong)ROW(k) * inner, kept[k] * s);
#endif
#else
    EACH_ROW
        store_vector(Y, y, AT, forward_value(load_vector(X, x, AT), m, s));
#endif
}

COLUMN_KERNEL
void backward_columns(const __global storage_t(Y)* dy, ulong dy_offset, const __global storage_t(Y)* y,
                      ulong y_offset, __global storage_t(X)* dx, ulong dx_offset, ulong outer, uint n, uint inner)
{
    COLUMN_SCRATCH(scratch);
    LOCATE_COLUMN
    dy += dy_offset + start;
    y += y_offset + start;
    dx += dx_offset + start;
    vec_t sum = 0;
#ifdef KEPT_ROWS
    vec_t grads[KEPT_ROWS], outs[KEPT_ROWS];
    EACH_ROW
    {
        grads[k] = load_vector(Y, dy, KEPT_ROW(k));
        outs[k] = load_vector(Y, y, KEPT_ROW(k));
    }
    EACH_ROW
        sum += ROW(k) < n ? backward_term(grads[k], outs[k]) : (vec_t)(0);
#else
    EACH_ROW
        sum += backward_term(load_vector(Y, dy, AT), load_vector(Y, y, AT));
#endif
    const vec_t total = column_sum(sum, scratch);
    if (item >= columns)
        return;
#ifdef KEPT_ROWS
    EACH_ROW
        if (ROW(k) < n)
            store_vector(X, dx, (ulong)ROW(k) * inner, backward_value(grads[k], outs[k], total));
#else
    EACH_ROW
        store_vector(X, dx, AT, backward_value(load_vector(Y, dy, AT), load_vector(Y, y, AT), total));
#endif
}
