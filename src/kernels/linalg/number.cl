// Arithmetic on T, the type of elements, real or complex; R is its real type. -DX: dtype; -DCOMPLEX for complex ones.
#include "core/dtype.cl"

typedef compute_t(X) T;
typedef compute_t(REAL) R;

#if defined(TEAM) && TEAM == 1   // one work-item waits for nobody
#define barrier(fence)
#endif

#ifdef COMPLEX
static inline T times(T a, T b) { return (T)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
static inline T conjugate(T a) { return (T)(a.x, -a.y); }
static inline R real_part(T a) { return a.x; }
static inline T from_real(R a) { return (T)(a, 0); }
static inline R magnitude(T a) { return hypot(a.x, a.y); }
static inline R pivot_size(T a) { return fabs(a.x) + fabs(a.y); }   // what LAPACK compares pivots by
static inline R square(T a) { return a.x * a.x + a.y * a.y; }
static inline bool is_real(T a) { return a.y == 0; }
static inline T inverse(T a)   // scaled, so that squares neither overflow nor vanish
{
    const R top = fmax(fabs(a.x), fabs(a.y));
    const T b = a / top;
    return conjugate(b) / (top * (b.x * b.x + b.y * b.y));
}
#else
static inline T times(T a, T b) { return a * b; }
static inline T conjugate(T a) { return a; }
static inline R real_part(T a) { return a; }
static inline T from_real(R a) { return a; }
static inline R magnitude(T a) { return fabs(a); }
static inline R pivot_size(T a) { return fabs(a); }
static inline R square(T a) { return a * a; }
static inline bool is_real(T a) { return true; }
static inline T inverse(T a) { return 1 / a; }
#endif
