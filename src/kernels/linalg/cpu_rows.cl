// Rows of real or complex numbers as vectors of real ones, for kernels of CPUs whose work-items own matrices. Needs
// number.cl; -DNAME: the type of real elements.
#ifndef CAT
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#endif
typedef CAT(NAME, 16) vec;
#define LOAD(p) vload16(0, p)
#define STORE(v, p) vstore16(v, 0, p)
#define PARTS ((int)(sizeof(T) / sizeof(R)))

#ifdef COMPLEX   // i times a number: parts exchanged
#define SIGNS ((vec)(-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1))
static inline vec turned(vec v) { return SIGNS * v.s1032547698badcfe; }
static inline vec multiple(T factor, vec v) { return factor.x * v + factor.y * turned(v); }
#else
static inline vec multiple(T factor, vec v) { return factor * v; }
#endif

static inline R sum_of(vec v)
{
    const CAT(NAME, 8) a = v.lo + v.hi;
    const CAT(NAME, 4) b = a.lo + a.hi;
    return b.x + b.y + b.z + b.w;
}

// The sum of conj(x[j]) y[j].
static inline T dot_of(const __global T* x, const __global T* y, int count)
{
    const __global R* a = (const __global R*)x;
    const __global R* b = (const __global R*)y;
    const int numbers = count * PARTS;
    vec even = 0, odd = 0;
    int j = 0;
#ifdef COMPLEX
    for (; j + 16 <= numbers; j += 16) {
        const vec p = LOAD(a + j), q = LOAD(b + j);
        even += p * q;
        odd += turned(p) * q;
    }
    T sum = (T)(sum_of(even), sum_of(odd));
#else
    for (; j + 32 <= numbers; j += 32) {
        even += LOAD(a + j) * LOAD(b + j);
        odd += LOAD(a + j + 16) * LOAD(b + j + 16);
    }
    if (j + 16 <= numbers) {
        even += LOAD(a + j) * LOAD(b + j);
        j += 16;
    }
    T sum = sum_of(even + odd);
#endif
    for (j /= PARTS; j < count; ++j)
        sum += times(conjugate(x[j]), y[j]);
    return sum;
}

static inline R square_of(const __global T* x, int count)
{
    const __global R* a = (const __global R*)x;
    const int numbers = count * PARTS;
    vec sums = 0;
    int j = 0;
    for (; j + 16 <= numbers; j += 16)
        sums += LOAD(a + j) * LOAD(a + j);
    R sum = sum_of(sums);
    for (; j < numbers; ++j)
        sum += a[j] * a[j];
    return sum;
}
