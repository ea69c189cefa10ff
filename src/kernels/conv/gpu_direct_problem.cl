// What gpu_direct.cl and gpu_direct_weight.cl are told of a launch, for C++ and OpenCL C, beside gpu_conv_problem.
// Work-items are counted along COUNTS axes; of each, how many there are and how to divide by that, as in
// gpu_problem.cl.
#define COUNT_X 0        // blocks of PIXELS pixels of a row of the result
#define COUNT_Y 1        // blocks of LINES rows
#define COUNT_Z 2        // planes
#define COUNT_C 3        // blocks of ROWS channels of the result, of all groups
#define COUNT_ROWS 4     // the same of one group
#define COUNT_INNER 5    // work-groups that share an image and a block of channels
#define COUNTS 6

typedef struct {
    gpu_conv_problem conv;
    int counts[COUNTS];
    unsigned int magic[COUNTS], magic_shift[COUNTS];
    int items;           // work-items that have something to do; of one part of a weight gradient: its blocks
    int parts, outputs;  // of a weight gradient: shares of the blocks, channels of the result in all groups
} gpu_direct_problem;
