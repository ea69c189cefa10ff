// Complex numbers of `vec` real and imaginary parts. Used with R.
typedef struct {
    vec re, im;
} number;

static inline number plus(number a, number b) { return (number){a.re + b.re, a.im + b.im}; }
static inline number minus(number a, number b) { return (number){a.re - b.re, a.im - b.im}; }
static inline number scaled(R s, number a) { return (number){s * a.re, s * a.im}; }
static inline number turned(number a) { return (number){a.im, -a.re}; }   // by -i
static inline number times(number a, number b)
{
    return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
