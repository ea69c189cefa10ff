// Read by C++ and OpenCL C.
typedef struct {
    cl_long batch, groups, channels, outputs;   // channels and outputs of a group
    cl_long in[3], out[3], window[3], stride[3], dilation[3], pad[3];
    cl_long x_strides[5], w_strides[5], y_strides[5];
    cl_long x_zero, w_zero, bias, scale, y_zero;   // steps: -1 if there is none, 0 for one number, 1 for one a channel
    cl_long run_taps, run, runs;                   // taps whose bytes lie side by side; bytes with filling; runs of k
    cl_long block_pixels, block_panels;            // of a work-item
    cl_long readable;                              // elements from the first of x that may be read
    cl_int low, high;
    cl_int rows_in_place, rows_of_results;         // whether pixels lie a step apart in x, each whole, and in y
} integer_conv_problem;
