// Copies from global to local memory past registers, of NVIDIA's GPUs from compute capability 8.0 on (-DEMULATED=1:
// through them, at once).
//
//     copy_sixteen(to, from, zeros, wanted)   sixteen bytes, or as many zeros; both addresses are multiples of 16
//     END_OF_COPIES                           closes a group of copies
//     WAIT_FOR_COPIES(pending)                until at most `pending` of the latest groups are under way: what others
//                                             copied is there once a barrier has shown it to this work-item, too
#ifndef COPIES_THROUGH   // "ca" for what work-groups beside each other read: the first cache keeps it
#define COPIES_THROUGH "cg"
#endif
#if EMULATED
static inline void copy_sixteen(__local void* to, const __global void* from, int zeros, int wanted)
{
    if (wanted)
        *(__local uint4*)to = zeros ? (uint4)0 : *(const __global uint4*)from;
}
#define END_OF_COPIES
#define WAIT_FOR_COPIES(pending)
#else
static inline void copy_sixteen(__local void* to, const __global void* from, int zeros, int wanted)
{
    __asm__ volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async." COPIES_THROUGH
                     ".shared.global [%0], [%1], 16, %3; }"
                     :
                     : "r"((uint)(size_t)to), "l"((ulong)(size_t)from), "r"(wanted), "r"(zeros ? 0 : 16)
                     : "memory");
}
#define END_OF_COPIES __asm__ volatile("cp.async.commit_group;" : : : "memory");
#define WAIT_FOR_COPIES(pending) __asm__ volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
#endif
