// Blocks that 31 bits number, as do rows, are divided in as many.
#ifdef LARGE
typedef ulong block_t;
#else
typedef uint block_t;
#endif
