// Sliding blocks of pictures as columns (im2col) and back (col2im).
#pragma once

#include <array>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct Blocks {
    std::array<int, 2> kernel{1, 1}, dilation{1, 1}, padding{0, 0}, stride{1, 1};
};

// x [N, C, H, W] to columns [N, C kh kw, L], L the number of blocks; padding is 0. Any dtype; contiguous.
void im2col(Queue& queue, const Tensor& x, const Tensor& columns, const Blocks& blocks);
// The sum of all columns at each element, the transpose of im2col. The same bits every run.
void col2im(Queue& queue, const Tensor& columns, const Tensor& x, const Blocks& blocks);

}  // namespace clprim
CLPRIM_API_END
