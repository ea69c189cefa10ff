// The figures of -DFORMAT_<name>: see float8.cl.
#if defined(FORMAT_e4m3fn)
#define MANTISSA 3
#define BIAS 7
#define LIMIT 0x43f00000u   // 480: the first number that does not round to one of the format
#elif defined(FORMAT_e5m2)
#define MANTISSA 2
#define BIAS 15
#define LIMIT 0x47800000u
#elif defined(FORMAT_e4m3fnuz)
#define MANTISSA 3
#define BIAS 8
#define LIMIT 0x43800000u
#define FNUZ
#elif defined(FORMAT_e5m2fnuz)
#define MANTISSA 2
#define BIAS 16
#define LIMIT 0x47800000u
#define FNUZ
#endif
