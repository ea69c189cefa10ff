// Resampling along one axis by a table of taps. Tensors are [outer, size, inner]; a work-item owns one element of y.
// -DX, -DY: dtypes; -DACC: type of weights and sums; without -DWEIGHTED elements are moved as they are.
#include "core/dtype.cl"

__kernel void resample_axis(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                            const __global int* indices, ulong indices_offset, const __global ACC* weights,
                            ulong weights_offset, uint in, uint out, uint inner, uint taps, ACC fill, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const ulong row = item / inner;
    const uint lane = (uint)(item % inner), o = (uint)(row % out);
    x += x_offset + row / out * in * inner + lane;
    y += y_offset;
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
