// Products of small matrices by the matrix instructions of GPUs, behind one interface.
//
// A sub-group of LANES work-items holds a FRAGMENT_M x FRAGMENT_K piece of A and a FRAGMENT_K x FRAGMENT_N piece of B,
// both of 16-bit numbers (X: float16 or bfloat16), and FRAGMENT_M x FRAGMENT_N sums in float. With -DX=int8 a number is
// a pair of bytes along k, and sums are int: -DA_UNSIGNED=1 and -DB_UNSIGNED=1 say that its bytes are 0 to 255, which
// MFMA does not know. A and B come from slabs in local memory, which hold SLAB_K k of some `lines` (rows of A, columns
// of B); how they lie is the engine's own:
//     int at = a_place(along_k, lines, line, k);    a word of the slab; may be added to that of multiples of 16 (LANES
//                                                   if that is less)
//     place_a_along_k(slab + at, v)                 eight neighbours along k, of a multiple of 8 on
//     place_a_along_lines(slab + at, lines, v, w)   eight lines, of a multiple of 8 on, at an even k and at k + 1
//     int begin = begin_a(g, along_k, lines, line);   where this lane's part of the slab lies; once, outside of loops
//     fragment_a a = load_a(g, slab, begin, along_k, lines, i, k);   `i` fragments further on, at k
//     sums = multiply_add(g, a, b, sums);
//     FRAGMENT_ROW(e, lane), FRAGMENT_COLUMN(e, lane)   where element e of a lane's sums lies
// and the same of B. All work-items of a group call them together.
//
// Engines (one of them is defined):
//   ENGINE_DPAS16, ENGINE_DPAS8   Intel's systolic arrays in sub-groups of 16 (Xe2, Xe-HPC) and 8 (Xe-HPG)
//   ENGINE_MMA                    NVIDIA's tensor cores from compute capability 8.0 on: mma.sync and ldmatrix;
//                                 =75: those of Turing, without bfloat16
//   ENGINE_WMMA, ENGINE_WMMA12    AMD's WMMA of RDNA 3 (gfx11) and RDNA 4 (gfx12), wave32
//   ENGINE_MFMA                   AMD's MFMA of CDNA 2 and 3 (gfx90a, gfx94x), wave64
// With -DEMULATED=1 the instructions are computed in plain OpenCL C from the same registers of the same lanes
// (fragments_emulation.cl); everything else is the code that GPUs run.
#ifndef SLAB_K   // of kernels whose slabs are longer
#define SLAB_K 32
#endif
#define SLAB_PITCH (SLAB_K / 2 + 4)   // words of a line along k: 16-byte addresses, apart in banks

#define SUM_float16 float
#define SUM_bfloat16 float
#define SUM_int8 int
#define SUM_TYPE CLPRIM_CAT(SUM_, X)
#define SUM_VECTOR(n) CLPRIM_CAT(SUM_TYPE, n)
#define IS_BYTES_int8 1
#define IS_BYTES CLPRIM_CAT(IS_BYTES_, X)
#ifndef A_UNSIGNED
#define A_UNSIGNED 0
#endif
#ifndef B_UNSIGNED
#define B_UNSIGNED 0
#endif

// Work-item g.lane of a sub-group; `exchange` is local memory of the sub-group's own, for the emulation.
typedef struct {
    int lane;
    __local uint* exchange;
} sub_group;

// Pairs along k of eight lines, from the lines at k and at k + 1: what engines keep in words.
static inline uint8 pairs_of_lines(uint4 v, uint4 w)
{
    const ushort8 a = as_ushort8(v), b = as_ushort8(w);
    return as_uint8((ushort16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7,
                               b.s7));
}

static inline void place_words(__local uint* to, int step, uint8 v)
{
    to[0] = v.s0;
    to[step] = v.s1;
    to[2 * step] = v.s2;
    to[3 * step] = v.s3;
    to[4 * step] = v.s4;
    to[5 * step] = v.s5;
    to[6 * step] = v.s6;
    to[7 * step] = v.s7;
}

#if defined(ENGINE_DPAS16) || defined(ENGINE_DPAS8)
#include "kernels/gemm/fragments_dpas.cl"
#elif defined(ENGINE_MMA)
#include "kernels/gemm/fragments_mma.cl"
#else
#include "kernels/gemm/fragments_amd.cl"
#endif
#if EMULATED
#include "kernels/gemm/fragments_emulation.cl"
#endif
#ifndef UNIFORM
#define UNIFORM(x) (x)
#endif
