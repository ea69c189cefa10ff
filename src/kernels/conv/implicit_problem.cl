#include "kernels/conv/epilogue.cl"

// Mirrors of ImplicitProblem and PackProblem (implicit.hpp).
typedef struct {
    long batch, groups, rows, depth;                   // rows, depth: channels of the result and source per group
    long taps[3], in[3], out[3];                       // out: positions of the result that this launch computes
    long kernel_size[3], tap_first[3], tap_period[3];  // tap t is tap_first + t * tap_period of the kernel
    long scale[3], shift[3], step[3];                  // source position = position*scale + shift + tap*step
    long source_strides[5], result_strides[5];         // n, c, d, h, w, in elements
    long source_size;                                  // elements from the first to the last of the source
    long weight_stride;                                // reals from row to row
    long tile_rows, tile_pixels, tile_depth;           // forward and data: tile_depth is channels_block * taps_block
    long channels_block, taps_block, taps_inner;       // k = channel * taps + tap, or tap * channels + channel
    epilogue finish;
    long parts, result_size;                           // weight gradient: shares of the pixels
} implicit_problem;

typedef struct {
    long groups, rows, depth, taps[3];
    long group_stride, row_stride, depth_stride, tap_strides[3];
    long taps_inner;
} pack_problem;
