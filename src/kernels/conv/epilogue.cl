// What becomes of a finished sum: bias, the result's old value, activation. Mirror of Epilogue (problem.hpp).
#define ACTIVATION_NONE 0
#define ACTIVATION_RELU 1
#define ACTIVATION_CLIP 2
#define ACTIVATION_LEAKY_RELU 3
#define ACTIVATION_SILU 4
#define ACTIVATION_HARD_SWISH 5
#define ACTIVATION_HARD_SIGMOID 6
#define ACTIVATION_SIGMOID 7
#define ACTIVATION_GELU 8
#define ACTIVATION_GELU_TANH 9

typedef struct {
    long has_bias, activation, accumulate;
    float alpha, beta;
} epilogue;

// How activations take powers of e.
#ifndef EPILOGUE_EXP
#define EPILOGUE_EXP exp
#endif
// Gelu is large, and so is in programs only that are asked for it: by -DEPILOGUE_GELU or as -DACTIVATION.
#if defined(ACTIVATION) && ACTIVATION >= ACTIVATION_GELU && !defined(EPILOGUE_GELU)
#define EPILOGUE_GELU
#endif
#ifndef EPILOGUE_GELU
#define GELU_CASES(type)
#else
#ifndef EPILOGUE_NORMAL_CDF
#define EPILOGUE_NORMAL_CDF(type, v) ((type)0.5f * (1 + erf((v) * (type)0.70710678118654752440)))
#define EPILOGUE_TANH tanh
#endif
#define GELU_CASES(type)                                                                                        \
    case ACTIVATION_GELU: return v * EPILOGUE_NORMAL_CDF(type, v);                                              \
    case ACTIVATION_GELU_TANH: {                                                                                \
        const type inner = (type)0.79788456080286535588 * (v + (type)0.044715 * v * v * v);                     \
        return (type)0.5f * v * (one + EPILOGUE_TANH(inner));                                                   \
    }
#endif
// Comparisons let NaN through.
#define BOUNDED(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))
#define DEFINE_ACTIVATE(name, type)                                                                             \
    static inline type name(type v, const epilogue* e)                                                          \
    {                                                                                                           \
        const type zero = 0, one = 1, six = 6, alpha = e->alpha, beta = e->beta;                                \
        switch ((int)e->activation) {                                                                           \
        case ACTIVATION_RELU: return v < zero ? zero : v;                                                       \
        case ACTIVATION_CLIP: return BOUNDED(v, alpha, beta);                                                   \
        case ACTIVATION_LEAKY_RELU: return v < zero ? v * alpha : v;                                            \
        case ACTIVATION_SILU: return v / (one + EPILOGUE_EXP(-v));                                              \
        case ACTIVATION_HARD_SWISH: {                                                                           \
            const type gate = v + 3;                                                                            \
            return v * BOUNDED(gate, zero, six) / six;                                                          \
        }                                                                                                       \
        case ACTIVATION_HARD_SIGMOID: {                                                                         \
            const type line = alpha * v + beta;                                                                 \
            return BOUNDED(line, zero, one);                                                                    \
        }                                                                                                       \
        case ACTIVATION_SIGMOID: return one / (one + EPILOGUE_EXP(-v));                                         \
        GELU_CASES(type)                                                                                        \
        default: return v;                                                                                      \
        }                                                                                                       \
    }
