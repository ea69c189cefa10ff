// tanh and the normal distribution function of floats, of one or of a vector of them.
// p 2^n of q = n + r, or 0 where q is below what the exponent holds. A CPU's compiler would branch there, and put no
// vectors around the branch; 2^-127 is 0 in power_of_two.
#ifdef CLPRIM_DEVICE_CPU
#define CLPRIM_OR_NOTHING(V, q, n, p, POWER_OF_TWO) p * POWER_OF_TWO(n < -127 ? (V)-127 : n)
#else
#define CLPRIM_OR_NOTHING(V, q, n, p, POWER_OF_TWO) q < -126 ? (V)0 : p * POWER_OF_TWO(n)
#endif
// Float has own forms of tanh and of the normal distribution function, without branches and calls, which compilers turn
// into vectors. Their polynomials are minimax fits in double, made for these forms.
// V is float or, in code of vectors, a vector of it, I the same of int.
// power_of_two: 2^n for n in [-126, 127]; anything for NaN.
// tanh_of: with 2 |x| log2(e) = n + r, |r| <= 1/2:  e = exp(2 |x|) - 1 = 2^n (2^r - 1) + (2^n - 1),
// tanh |x| = e / (e + 2). At most 4 units in the last place; odd, so that -0 stays.
// normal_cdf: the lower tail is 2^q(|x|): log2 of it is nearly a parabola. Relative error of x times it at most 6e-7
// where x > -1, 3e-6 down to -4, 2e-5 to -8, 1e-3 to -12.9, since q's own rounding grows with it; 0 from there, where
// floats end.
#define CLPRIM_SMOOTH_FUNCTIONS(V, I, POWER_OF_TWO, TANH_OF, NORMAL_CDF)                                              \
    static inline V POWER_OF_TWO(V n) { return as_##V((convert_##I(n) + 127) << 23); }                                \
    static inline V TANH_OF(V x)                                                                                      \
    {                                                                                                                 \
        const V size = fabs(x), u = (size > 9.5f ? (V)9.5f : size) * 2.88539008f;                                     \
        const V n = rint(u), r = u - n, scale = POWER_OF_TWO(n);                                                      \
        V p = 0.000154035079f;                                                                                        \
        p = p * r + 0.00133907353f;                                                                                   \
        p = p * r + 0.00961823761f;                                                                                   \
        p = p * r + 0.0555035733f;                                                                                    \
        p = p * r + 0.240226492f;                                                                                     \
        p = p * r + 0.693147182f;                                                                                     \
        const V e = scale * (p * r) + (scale - 1);                                                                    \
        return copysign(e / (e + 2), x);                                                                              \
    }                                                                                                                 \
    static inline V NORMAL_CDF(V x)                                                                                   \
    {                                                                                                                 \
        const V size = fabs(x), a = size > 13.2f ? (V)13.2f : size;                                                   \
        V q = 1.05184232e-12f;                                                                                        \
        q = q * a - 8.94431681e-11f;                                                                                  \
        q = q * a + 3.37124151e-09f;                                                                                  \
        q = q * a - 7.41043849e-08f;                                                                                  \
        q = q * a + 1.04921355e-06f;                                                                                  \
        q = q * a - 9.90739318e-06f;                                                                                  \
        q = q * a + 6.10677016e-05f;                                                                                  \
        q = q * a - 0.000205156815f;                                                                                  \
        q = q * a - 0.000190657025f;                                                                                  \
        q = q * a + 0.00721954787f;                                                                                   \
        q = q * a - 0.0526505932f;                                                                                    \
        q = q * a - 0.459144503f;                                                                                     \
        q = q * a - 1.15111423f;                                                                                      \
        q = q * a - 0.999999821f;                                                                                     \
        const V n = rint(q), r = q - n;                                                                               \
        V p = 0.00132764666f;                                                                                         \
        p = p * r + 0.00967554096f;                                                                                   \
        p = p * r + 0.0555071346f;                                                                                    \
        p = p * r + 0.240221202f;                                                                                     \
        p = p * r + 0.693146944f;                                                                                     \
        p = p * r + 1.00000012f;                                                                                      \
        const V tail = CLPRIM_OR_NOTHING(V, q, n, p, POWER_OF_TWO);                                                   \
        return x > 0 ? 1 - tail : tail;                                                                               \
    }
