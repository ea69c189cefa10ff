// A work-item owns a row. Its k x k matrix Q (Q_tt = sum of r_jt^2, Q_tj = -r_jt r_tj) and the vector Q p lie in
// `work`, element by element next to those of the other rows.
#include "core/dtype.cl"

#define Q(t, j) work[((long)(t) * k + (j)) * rows]
#define QP(t) Q(k, t)

// The probability of class i against class j.
static inline float versus(__global const float* pairs, int i, int j, int k)
{
    const int a = min(i, j), b = max(i, j);
    const float r = pairs[(long)a * (2 * k - a - 1) / 2 + b - a - 1];
    return i < j ? r : 1 - r;
}

__kernel void couple_pairs(__global const float* pairs, ulong pairs_offset, __global float* classes,
                           ulong classes_offset, __global float* work, ulong work_offset, long rows, int k)
{
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    pairs += pairs_offset + row * ((long)k * (k - 1) / 2);
    __global float* p = classes + classes_offset + row * k;
    work += work_offset + row;
    for (int t = 0; t < k; ++t) {
        float sum = 0;
        for (int j = 0; j < k; ++j)
            if (j != t) {
                const float other = versus(pairs, j, t, k);
                sum += other * other;
                Q(t, j) = -other * versus(pairs, t, j, k);
            }
        Q(t, t) = sum;
        p[t] = 1.0f / k;
    }
    for (int step = 0; step < max(100, k); ++step) {
        float total = 0, error = 0;   // total: p Q p
        for (int t = 0; t < k; ++t) {
            float sum = 0;
            for (int j = 0; j < k; ++j)
                sum += Q(t, j) * p[j];
            QP(t) = sum;
            total += p[t] * sum;
        }
        for (int t = 0; t < k; ++t)
            error = fmax(error, fabs(QP(t) - total));
        if (error < 0.005f / k)
            break;
        for (int t = 0; t < k; ++t) {
            const float change = (total - QP(t)) / Q(t, t), scale = 1 / (1 + change);
            total = (total + change * (change * Q(t, t) + 2 * QP(t))) * scale * scale;
            p[t] += change;
            for (int j = 0; j < k; ++j) {
                QP(j) = (QP(j) + change * Q(t, j)) * scale;
                p[j] *= scale;
            }
        }
    }
}
