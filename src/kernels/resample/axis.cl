// Resampling along one axis by a table of taps. Tensors are [outer, size, inner]; a work-item owns one element of y.
// Neighbours along the launch's first axis are neighbours in memory: (inner, out, outer) where inner is long, else
// (out * inner, outer, 1). -DX, -DY: dtypes; -DACC: type of weights and sums; -DFLAT: the second form; without
// -DWEIGHTED elements are moved as they are.
#include "core/dtype.cl"

__kernel void resample_axis(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                            const __global int* indices, ulong indices_offset, const __global ACC* weights,
                            ulong weights_offset, uint in, uint out, uint inner, uint taps, ACC fill)
{
#ifdef FLAT
    const uint place = get_global_id(0), o = inner == 1 ? place : place / inner, lane = place - o * inner;
    const ulong outer = get_global_id(1);
    if (o >= out)
        return;
#else
    const uint lane = get_global_id(0), o = get_global_id(1);
    const ulong outer = get_global_id(2);
#endif
    x += x_offset + outer * in * inner + lane;
    y += y_offset;
    const ulong item = (outer * out + o) * inner + lane;
    indices += indices_offset + o * taps;
    const int first = indices[0];
#ifdef WEIGHTED
    weights += weights_offset + o * taps;
    ACC sum = 0;
    if (first < 0)
        sum = fill;
    else
        for (uint t = 0; t < taps; ++t)
            sum += weights[t] * (ACC)load(X, x, (ulong)indices[t] * inner);
#ifdef INTEGERS
    sum = clamp(rint(sum), (ACC)LOWEST, (ACC)HIGHEST);
    store(Y, y, item, (compute_t(Y))sum);
#else
    store(Y, y, item, sum);
#endif
#else
    if (first < 0)
        store(Y, y, item, (compute_t(Y))fill);
    else
        y[item] = x[(ulong)first * inner];
#endif
}
