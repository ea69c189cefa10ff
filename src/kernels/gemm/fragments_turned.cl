// Fragments of ENGINE_WMMA12 straight from global memory, where their lines are neighbours, without local memory: loads
// that transpose. Each eight lanes read eight k of eight lines and receive, each, the eight k of one of them.
//     fragment = load_turned(g, from);    from: eight lines from turned_line(lane) on of the fragment, at k
//                                         turned_k(lane)
#define BUILTIN_TURNED __builtin_amdgcn_global_load_tr_b128_v8i16
static inline int turned_line(int lane) { return lane / 8 % 2 * 8; }
static inline int turned_k(int lane) { return lane / SIDE * 8 + lane % 8; }

#if EMULATED
static inline fragment_a load_turned(sub_group g, const __global uchar* from)
{
    ushort values[8];
    barrier(CLK_LOCAL_MEM_FENCE);
    vstore4(*(const __global uint4*)from, g.lane, g.exchange);
    barrier(CLK_LOCAL_MEM_FENCE);
    const __local ushort* column = (const __local ushort*)g.exchange + g.lane / 8 * 64 + g.lane % 8;
    for (int e = 0; e < 8; ++e)
        values[e] = column[8 * e];
    return as_uint4(vload8(0, values));
}
#else
static inline fragment_a load_turned(sub_group g, const __global uchar* from)
{
    return as_uint4(BUILTIN_TURNED((__global short8*)from));
}
#endif

// Zeros for k from `count` on.
static inline fragment_a first_of_turned(sub_group g, fragment_a v, int count)
{
    const short8 k = (short8)(0, 1, 2, 3, 4, 5, 6, 7) + (short8)(g.lane / SIDE * 8);
    return v & as_uint4(k < (short8)count);   // vectors compare to all bits
}
