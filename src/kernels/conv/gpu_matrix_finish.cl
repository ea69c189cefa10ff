// What becomes of sums of a convolution by matrix instructions. Options: -DACTIVATION=.. of epilogue.cl.
#include "core/quad.cl"
#include "kernels/conv/epilogue.cl"

DEFINE_ACTIVATE(activate, float)

static inline float finish(float v, float bias, const __global stored* old, const gpu_conv_problem* p)
{
    const epilogue e = {p->has_bias, ACTIVATION, p->accumulate, p->alpha, p->beta};
    v += bias;
    if (p->accumulate)
        v += load(X, old, 0);
    return activate(v, &e);
}
