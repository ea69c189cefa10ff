// Convolution by block reads of two dimensions on the host side: what gpu_matrix_blocks.cpp and
// gpu_matrix_blocks_weight.cpp share.
#pragma once

#include <kernels/conv/gpu_matrix.hpp>

namespace clprim::conv {

constexpr cl_long block_k = 32;                          // BLOCK_K of gemm/fragments_blocks.cl
constexpr cl_long most_distance = cl_long{1} << 30;      // elements that kernels count in int, their bytes too

// Whether block reads can take the images of the source, rows of pixels being rows of a matrix.
bool blocks_fit(const ImplicitProblem& p, cl_long offset);

// How a call's source is read: in place, or a copy with channels innermost and columns, or rows, next.
struct BlockPlan {
    bool copied = false, turned = false;
    cl_long channels = 0;   // of a group, which the copy fills up with zeros
    cl_long image_rows = 0;   // of a copy whose images follow each other as one, zeros between them; 0: they do not
    cl_long strides[5] = {};

    void tell(ImplicitProblem& p) const;
};

// Strides of a copy.
void lay_out_copy(const ImplicitProblem& p, BlockPlan& plan);
Tensor copied(Queue& queue, const Tensor& t, const ImplicitProblem& p, const BlockPlan& plan);

bool reads_blocks(const Device& device);

}  // namespace clprim::conv
