#include "kernels/conv/epilogue.cl"

// Mirror of DepthwiseProblem (cpu_depthwise.hpp). Axes: y, x. Fields as in implicit_problem.cl.
typedef struct {
    long batch, groups, rows, depth;
    long taps[2], in[2], out[2];
    long tap_first[2], tap_period[2];
    long scale[2], shift[2], step[2];
    long source_strides[4], result_strides[4], w_strides[4];   // n, c, h, w and o, c, h, w
    long band, parts;                                          // rows of a band; shares of a weight gradient
    long source_size, result_size;                             // elements from the first to the last
    epilogue finish;
} depthwise_problem;
