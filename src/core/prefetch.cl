// PREFETCH(p) asks for the line of memory at p: a processor's own prefetching begins anew with each row of a matrix.
// -DX86_PREFETCH: by that instruction; nothing without it.
#ifdef X86_PREFETCH
#define PREFETCH(p) __asm__ volatile("prefetcht0 (%0)" ::"r"(p))
#else
#define PREFETCH(p)
#endif
