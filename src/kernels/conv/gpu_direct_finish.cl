// What a work-item of gpu_direct.cl, gpu_direct_rows.cl and gpu_winograd.cl makes of a sum before it stores it.
// -DACTIVATION
#include "kernels/conv/epilogue.cl"

DEFINE_ACTIVATE(activate, real)

static inline real finish(real v, real added, const __global stored* old, const gpu_conv_problem* p)
{
    const epilogue e = {p->has_bias, ACTIVATION, p->accumulate, p->alpha, p->beta};
    v += added;
    if (e.accumulate)
        v += load(T, old, 0);
    return activate(v, &e);
}
