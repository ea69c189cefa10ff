// Shapes of pictures and blocks, of (y, x).
typedef struct { int channels, in[2], out[2], extent[2], stride[2], padding[2], dilation[2]; } unfold_t;
