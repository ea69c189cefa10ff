// What the kernels of gpu_matrix_lines.cl and gpu_matrix_lines_weight.cl are told: one text for C++ and OpenCL C.
// Axes are d, h, w; distances are in elements, of which tensors and lines have fewer than 2^31.

// A tensor and the lines that are made of it. Position `at` of a line, behind its first `before` zeros, is grid point
// `at` of image 0, then those of the other images; grid point i of an axis is position i*scale + residue of the tensor.
typedef struct {
    int image, channel, axis[3];   // strides of the tensor
    int pitch;                     // of lines, a multiple of LINE_PIECE
    int before, batch, channels;
    int in[3], grid[3], seen[3];           // positions of the tensor; of the grid; of those which ones are the tensor's
    int scale[3], shift[3], step[3], taps[3];
    unsigned int read[3];                    // bit r, up to 31: whether a tap reads residue r
    unsigned int magic[3], magic_shift[3];   // division by grid, as in gpu_problem.cl
} conv_lines;

typedef struct {
    conv_lines x;
    int dy_pitch;
    int rows, depth, total;          // outputs of a group, channels of x in one, products of (tap, channel)
    int depth_in_all, part_depth;    // grid points of all images, filled up to whole slabs; those of a part
} conv_lines_weight;

#define LINE_PIECE 64   // elements of a line, of as many lines as
#define LINES_TOGETHER 32   // that a work-group of
#define LINE_ITEMS 256   // work-items copies
