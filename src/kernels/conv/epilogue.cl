// What becomes of a finished sum: bias, the result's old value, activation. Mirror of Epilogue (problem.hpp).
#define ACTIVATION_NONE 0
#define ACTIVATION_RELU 1
#define ACTIVATION_CLIP 2
#define ACTIVATION_LEAKY_RELU 3
#define ACTIVATION_SILU 4
#define ACTIVATION_HARD_SWISH 5
#define ACTIVATION_HARD_SIGMOID 6
#define ACTIVATION_SIGMOID 7

typedef struct {
    long has_bias, activation, accumulate;
    float alpha, beta;
} epilogue;

// How activations take powers of e.
#ifndef EPILOGUE_EXP
#define EPILOGUE_EXP exp
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
        default: return v;                                                                                      \
        }                                                                                                       \
    }
