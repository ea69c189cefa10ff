// Rows of heads, as kernels with one work-item a row see them.
#include "kernels/attention/problem.cl"

// One query (i) or key of one head.
typedef struct {
    long b, h, kv_h, i;
} place;

static inline place place_of(const attention_problem* p, long row, long heads, long rows)
{
    if (((row | heads | rows) >> 31) == 0) {   // 64-bit division takes hundreds of instructions of GPUs
        const uint line = (uint)row / (uint)rows, b = line / (uint)heads, h = line - b * (uint)heads;
        return (place){b, h, h / ((uint)p->heads / (uint)p->kv_heads), (uint)row - line * (uint)rows};
    }
    const long h = row / rows % heads;
    return (place){row / rows / heads, h, h / (p->heads / p->kv_heads), row % rows};
}

static inline REAL dot_rows(const __global storage_t(X)* a, long a_step, const __global storage_t(X)* b, long b_step,
                            long size)
{
    REAL sum = 0;
    for (long e = 0; e < size; ++e)
        sum += (REAL)load(X, a, e * a_step) * (REAL)load(X, b, e * b_step);
    return sum;
}
