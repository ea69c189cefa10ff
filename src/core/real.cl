// What the type REAL, in which a kernel computes, is: float, double, uint or ulong.
#define IS_INTEGER_float 0
#define IS_INTEGER_double 0
#define IS_INTEGER_uint 1
#define IS_INTEGER_ulong 1
#define REAL_IS_INTEGER CLPRIM_CAT(IS_INTEGER_, REAL)
