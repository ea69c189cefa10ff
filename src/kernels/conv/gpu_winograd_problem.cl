// What gpu_winograd.cl is told beside a gpu_conv_problem, for C++ and OpenCL C. A tile is 2x2 positions of the result.
typedef struct {
    CLPRIM_LONG weights_row, weights_channel, weights_tap[2];   // strides of the weights as they are given
    int tiles[2];              // of an image
    int first, count, all;     // of this launch, a multiple of four, those beyond the last are zeros; of all images
    int rows, depth;           // channels of the result and of the source, up to multiples of four: zeros
    unsigned int magic[2], magic_shift[2];   // division by tiles, as in gpu_problem.cl
} winograd_problem;
