// The compiler of Intel's runtime for CPUs (2026.2) ends the process where it makes one call of a number's sine and
// cosine and that number is itself one of such two: sin(cos(x)) with its derivative. It does not find the sine in these
// words. Where sin is a macro already, as PoCL's is, it is another compiler's.
#if defined(CLPRIM_DEVICE_CPU) && !defined(sin)
#define sin(x) (-sin(-(x)))
#endif
