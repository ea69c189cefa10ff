// Mirror of clprim::conv::Problem (problem.hpp).
typedef struct {
    long batch, groups;
    long in_channels, out_channels;
    long in[3], out[3], kernel_size[3];
    long stride[3], pad[3], dilation[3];
    long x_strides[5], y_strides[5], w_strides[5];
} conv_problem;
