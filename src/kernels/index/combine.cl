// How an update joins what is there: -DT, -DREDUCE_sum|product|minimum|maximum|assign [-DCOMPLEX].
static inline compute_t(T) combine(compute_t(T) a, compute_t(T) b)
{
#if defined(REDUCE_sum)
    return a + b;
#elif defined(REDUCE_product) && defined(COMPLEX)
    return (compute_t(T))(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
#elif defined(REDUCE_product)
    return a * b;
#elif defined(REDUCE_minimum)
    return a != a || a < b ? a : b;   // a NaN stays, and b is taken if it is one
#elif defined(REDUCE_maximum)
    return a != a || a > b ? a : b;
#else
    return b;
#endif
}
