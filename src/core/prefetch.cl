// PREFETCH(p) asks for the line of memory at p: a processor's own prefetching begins anew with each row of a matrix.
// PREFETCH_FAR(p) asks the second-level cache for it, what is needed later than the first could keep it.
// -DX86_PREFETCH: by those instructions; nothing without it.
#ifdef X86_PREFETCH
#define PREFETCH(p) __asm__ volatile("prefetcht0 (%0)" ::"r"(p))
#define PREFETCH_FAR(p) __asm__ volatile("prefetcht1 (%0)" ::"r"(p))
#else
#define PREFETCH(p)
#define PREFETCH_FAR(p)
#endif
