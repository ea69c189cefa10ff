// What the kernels for GPUs are told of a launch: one text for C++ and OpenCL C, of 32-bit fields where images are
// below 2^31 elements anyway. Axes are d, h, w; strides are in elements.
#ifdef __cplusplus
#define CLPRIM_LONG cl_long
#else
#define CLPRIM_LONG long
#endif

typedef struct {
    CLPRIM_LONG source_image, source_group, result_image, result_group;   // strides of images and of groups
    int source_channel, result_channel, source_axis[3], result_axis[3];   // strides of channels and positions
    int in[3], out[3];                        // positions of the source; of the result, that this launch computes
    int taps[3], scale[3], shift[3], step[3]; // a tap reads the source at position*scale + shift + tap*step
    int rows, depth, total;                   // channels of the result and source in a group; products of a sum
    int pixels, part_pixels;                  // positions of all images; those of one part of a weight gradient
    int taps_inner;                           // k = channel*taps + tap, or tap*channels + channel
    unsigned int magic[3], magic_shift[3];    // division by out: (mul_hi(n, magic) + n) >> shift, n below 2^31
    int has_bias, accumulate;
    float alpha, beta;                        // of the activation
} gpu_conv_problem;

// Of gpu_matrix_blocks.cl, beside a gpu_conv_problem whose p.out[1] counts pieces of the result's rows.
typedef struct {
    int rows;                  // of the result
    int run, runs, run_step;   // k, or rows of dw, that follow each other in a row of the source, a multiple of 32 but
                               // where MASKED; how many runs there are for a row of taps, at which distance in elements
    int source_width, weights_width;   // bytes of a row of the source, and of the packed weights
} conv_blocks_problem;

// Of gpu_matrix.cl: where the bits of an axis' taps begin, and how many there may be.
#define TAP_BITS_X 0
#define TAP_BITS_Y 11
#define TAP_BITS_Z 22
#define MOST_TAPS_X 11
#define MOST_TAPS_Y 11
#define MOST_TAPS_Z 9
