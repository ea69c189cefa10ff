// Random choices: Bernoulli with a tensor of probabilities, and dropout. One work-item owns one Philox block of four
// elements. -DOUT=dtype -DIN=dtype, -DQUADS: four at a time where they lie so (GPUs)
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/random/philox.cl"
#ifdef QUADS
#include "core/quad.cl"
// Whether four elements from `first` on are there and lie as quads in tensors with these offsets.
#define QUAD_THERE(offsets) (first + 4 <= n && ((offsets) & 3) == 0)
#endif

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
#ifdef QUADS
    if (QUAD_THERE(input_offset | out_offset | mask_offset)) {
        const quad_t(IN) x = load_quad(IN, input + first);
        const uchar4 kept = (uchar4)(uniform24(r.x) < keep, uniform24(r.y) < keep, uniform24(r.z) < keep,
                                     uniform24(r.w) < keep);
#define KEPT(e) (x.e * (compute_t(IN))(kept.e ? scale : 0.0f))
        store_quad(uint8, mask + first, kept);
        store_quad(IN, out + first, (quad_t(IN))(KEPT(x), KEPT(y), KEPT(z), KEPT(w)));
        return;
    }
#endif
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
#ifdef QUADS
    const ulong first = get_global_id(0) * 4;
    gradient += gradient_offset;
    mask += mask_offset;
    input_gradient += input_gradient_offset;
    if (QUAD_THERE(gradient_offset | mask_offset | input_gradient_offset)) {
        const quad_t(IN) x = load_quad(IN, gradient + first);
        const uchar4 kept = load_quad(uint8, mask + first);
#define GIVEN(e) (kept.e ? x.e * (compute_t(IN))scale : (compute_t(IN))0)
        store_quad(IN, input_gradient + first, (quad_t(IN))(GIVEN(x), GIVEN(y), GIVEN(z), GIVEN(w)));
        return;
    }
    for (ulong i = first; i < min(first + 4, n); ++i)
        store(IN, input_gradient, i, mask[i] ? load(IN, gradient, i) * (compute_t(IN))scale : (compute_t(IN))0);
#else
    ulong i = get_global_id(0);
    if (i >= n)
        return;
    store(IN, input_gradient + input_gradient_offset, i,
          mask[mask_offset + i] ? load(IN, gradient + gradient_offset, i) * (compute_t(IN))scale : (compute_t(IN))0);
#endif
}
