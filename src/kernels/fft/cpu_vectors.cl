// Vectors of 16 numbers from and to memory, where real and imaginary parts alternate. Used with R and vec.

static inline vec zip_low(vec a, vec b)
{
    vec c;
    c.even = a.lo;
    c.odd = b.lo;
    return c;
}
static inline vec zip_high(vec a, vec b)
{
    vec c;
    c.even = a.hi;
    c.odd = b.hi;
    return c;
}
static inline vec backwards(vec a) { return a.sfedcba9876543210; }

static inline number load_pairs(const __global R* x, const int exchanged)
{
    const vec a = vload16(0, x), b = vload16(1, x);
    const vec re = (vec)(a.even, b.even), im = (vec)(a.odd, b.odd);
    return exchanged ? (number){im, re} : (number){re, im};
}

static inline void store_pairs(number v, __global R* y, const int exchanged)
{
    const vec re = exchanged ? v.im : v.re, im = exchanged ? v.re : v.im;
    vstore16(zip_low(re, im), 0, y);
    vstore16(zip_high(re, im), 1, y);
}
