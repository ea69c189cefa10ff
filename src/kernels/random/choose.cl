// Random choices: Bernoulli with a tensor of probabilities, and dropout. One work-item owns one Philox block of four
// elements. -DOUT=dtype -DIN=dtype
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/random/philox.cl"

#define WORD(r, k) (k == 0 ? r.x : k == 1 ? r.y : k == 2 ? r.z : r.w)

__kernel void bernoulli(__global storage_t(OUT)* out, ulong out_offset, const __global storage_t(IN)* probability,
                        ulong probability_offset, ulong n, ulong seed, ulong stream, __global int* errors,
                        int operator_code)
{
    ulong first = (ulong)get_global_id(0) * 4;
    if (first >= n)
        return;
    out += out_offset;
    probability += probability_offset;
    uint4 r = philox(get_global_id(0), stream, seed);
#pragma unroll
    for (int k = 0; k < 4; ++k)
        if (first + k < n) {
            const float p = (float)load(IN, probability, first + k);
            if (!(p >= 0 && p <= 1))
                clprim_probability_error(errors, operator_code);
            store(OUT, out, first + k, (compute_t(OUT))(uniform24(WORD(r, k)) < p ? 1 : 0));
        }
}

__kernel void dropout(const __global storage_t(IN)* input, ulong input_offset, __global storage_t(IN)* out,
                      ulong out_offset, __global uchar* mask, ulong mask_offset, ulong n, float keep, float scale,
                      ulong seed, ulong stream)
{
    ulong first = (ulong)get_global_id(0) * 4;
    if (first >= n)
        return;
    input += input_offset;
    out += out_offset;
    mask += mask_offset;
    uint4 r = philox(get_global_id(0), stream, seed);
#pragma unroll
    for (int k = 0; k < 4; ++k)
        if (first + k < n) {
            uchar kept = uniform24(WORD(r, k)) < keep;
            mask[first + k] = kept;
            store(IN, out, first + k, load(IN, input, first + k) * (compute_t(IN))(kept ? scale : 0.0f));
        }
}

__kernel void dropout_backward(const __global storage_t(IN)* gradient, ulong gradient_offset,
                               const __global uchar* mask, ulong mask_offset, __global storage_t(IN)* input_gradient,
                               ulong input_gradient_offset, ulong n, float scale)
{
    ulong i = get_global_id(0);
    if (i >= n)
        return;
    store(IN, input_gradient + input_gradient_offset, i,
          mask[mask_offset + i] ? load(IN, gradient + gradient_offset, i) * (compute_t(IN))scale : (compute_t(IN))0);
}
