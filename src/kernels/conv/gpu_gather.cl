// Where the kernels for GPUs find a pixel and its taps. Options:
//   -DX=<dtype> -DREAL -DOFFSET   as in gemm/gpu_micro_kernel.cl
//   -DONE_TAP=0|1   -DINSIDE=0|1 (no tap is ever outside)   -DPLANES=0|1 (the first axis is more than 1)
#include "core/dtype.cl"
#include "kernels/conv/gpu_problem.cl"

typedef storage_t(X) stored;

typedef struct {
    int n, z, y, x;
} position;

static inline int divided(const gpu_conv_problem* p, int n, int axis)
{
    return (mul_hi((uint)n, p->magic[axis]) + (uint)n) >> p->magic_shift[axis];
}

static inline position find_position(const gpu_conv_problem* p, int pixel)
{
    position at;
    const int row = divided(p, pixel, 2);
    at.x = pixel - row * p->out[2];
    at.n = divided(p, row, 1);
    at.y = row - at.n * p->out[1];
    at.z = 0;
#if PLANES
    const int plane = at.n;
    at.n = divided(p, plane, 0);
    at.z = plane - at.n * p->out[0];
#endif
    return at;
}

static inline OFFSET result_place(const gpu_conv_problem* p, position at)
{
    return at.n * (OFFSET)p->result_image + at.z * p->result_axis[0] + at.y * p->result_axis[1] +
           at.x * p->result_axis[2];
}

// Tap 0 of a position: its element in the source, which may lie outside, and its coordinates.
typedef struct {
    OFFSET first;
    int z, y, x;
} source_place;

static inline source_place find_source(const gpu_conv_problem* p, position at)
{
    source_place place;
    place.z = at.z * p->scale[0] + p->shift[0];
    place.y = at.y * p->scale[1] + p->shift[1];
    place.x = at.x * p->scale[2] + p->shift[2];
    place.first = at.n * (OFFSET)p->source_image + place.z * p->source_axis[0] + place.y * p->source_axis[1] +
                  place.x * p->source_axis[2];
    return place;
}

// Where an entry of the table stands for a position, if it is wanted and inside; else the source's first element.
static inline OFFSET tap_element(const gpu_conv_problem* p, source_place place, int4 tap, int* wanted)
{
#if !INSIDE
    const int y = place.y + tap.z, x = place.x + tap.w;
    *wanted &= (uint)y < (uint)p->in[1] && (uint)x < (uint)p->in[2];
#if PLANES
    *wanted &= (uint)(place.z + tap.y) < (uint)p->in[0];
#endif
#endif
    return *wanted ? place.first + tap.x : 0;
}

static inline int4 find_tap(const gpu_conv_problem* p, const __global int4* table, int k)
{
#if ONE_TAP
    return (int4)(k * p->source_channel, 0, 0, 0);
#else
    return table[k];
#endif
}

static inline REAL load_tap(const __global stored* source, const gpu_conv_problem* p, source_place place, int4 tap,
                            int wanted)
{
    const OFFSET at = tap_element(p, place, tap, &wanted);
    const REAL v = load(X, source + at, 0);
    return wanted ? v : 0;
}
