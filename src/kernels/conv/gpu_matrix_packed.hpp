// Operands of convolutions by matrix instructions as their slabs read them.
#pragma once

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {

// Positions around an image, each way along d, h and w.
struct Border {
    cl_long before[3] = {}, after[3] = {};
};

// A tensor as the kernels read it: channels innermost, in each group as many as a multiple of eight. A copy may have a
// border of zeros.
struct Packed {
    Tensor tensor;
    cl_long strides[5];   // n, c, d, h, w
    cl_long channels;     // in memory, of a group
    Border border = {};

    void tell(ImplicitProblem& p) const
    {
        std::copy_n(strides, 5, p.source_strides);
        for (int i = 0; i < 3; ++i) {
            p.in[i] += border.before[i] + border.after[i];
            p.shift[i] += border.before[i];
        }
    }
};

// One side of a call: a tensor and how it is seen.
struct Side {
    const Tensor& tensor;
    const cl_long (&strides)[5];
    const cl_long (&sizes)[3];
    cl_long batch, groups, channels;

    // Whether it can be read in place; `dense`: and one position lies as far from the next as any other.
    bool fits(bool dense) const;
};
Side x_side(const Call& call);
Side y_side(const Call& call);

// A copy of `source` with its last axis filled up with zeros to `length`.
Tensor filled_up(Queue& queue, const Tensor& source, cl_long length);

// The border that lets no tap of a call's launches lie outside, where slabs are of several taps, each of which would
// have to be looked at; none where that would make a copy twice as large.
Border border_of(const Call& call, const Side& side);

// A side in place, if it fits, or a copy.
Packed packed(Queue& queue, const Side& side, bool dense, const Border& border = {});

}  // namespace clprim::conv
