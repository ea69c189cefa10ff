// A matrix of bytes whose lines (rows of A, columns of B) are packed along k, as kernels of CPUs are given it.
typedef struct {
    long lines, depth, line_step, k_step, batch_step, zero_step;   // zero_step -1: no zero points
} packed_matrix;
