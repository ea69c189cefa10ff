// Convolution by matrix instructions on the host side: what its files share.
#pragma once

#include <optional>

#include <kernels/conv/implicit.hpp>
#include <kernels/conv/problem.hpp>
#include <kernels/gemm/gpu_matrix.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::conv {

struct MatrixProduct {
    GemmProblem problem;
    detail::GemmTensors tensors;
};

// The product that a call of one tap is, if all of its operands can be read eight elements at a time.
std::optional<MatrixProduct> as_matrix_product(const Call& call);

// Whether a kernel has more taps than a bit can stand for each of.
bool beyond_matrix_taps(const Problem& problem);
// A pass whose taps see no number twice, of few channels or of many taps: one product of patches, which are copied.
bool in_patches(const Call& call);
void run_in_patches(Queue& queue, const Call& call);

// A weight gradient of fewer channels than are read at a time: x is copied with `channels` for each pixel and a border
// of zeros, and all taps along a row become one of p.depth channels, which the problem is changed to. Nothing: it has
// more channels, or its taps along a row do not follow each other.
struct Runs {
    cl_long channels = 0, taps = 1, before[3] = {};   // of a pixel; in a run; pixels of the border
};
std::optional<Runs> runs_of(ImplicitProblem& p);
Tensor with_border(Queue& queue, const Call& call, const ImplicitProblem& p, const Runs& runs);

// A forward or data pass by block reads of two dimensions (gpu_matrix_blocks.cl), and whether they can take it.
bool in_blocks(const Call& call, const Device& device);
void run_in_blocks(Queue& queue, const Call& call);
// The same of a weight gradient (gpu_matrix_blocks_weight.cl).
bool weight_in_blocks(const Call& call, const Device& device);
void run_weight_in_blocks(Queue& queue, const Call& call);
// The blocks of sums of a weight gradient, of so many products each, a part of which has `least` of them.
struct WeightBlocks {
    cl_long count, depth, least;
};
// Into how many parts to cut them, whose sums are `size` floats each and are added up.
cl_long weight_parts(const Device& device, detail::MatrixEngineChoice engine, const detail::MatrixTile& tile,
                     const WeightBlocks& blocks, cl_long size);
// An axis on which images follow each other with zeros between them, so that no tap of a position sees another image:
// from one to the next as many points, each of them p.scale positions of x, whose `seen` first points some tap reads.
struct GridAxis {
    cl_long points, seen, before;   // taps reach as many points before position 0
};
GridAxis grid_axis(const ImplicitProblem& p, int axis);

// A weight gradient of lines of pixels (gpu_matrix_lines_weight.cl), whether it can and should be, and its sums.
bool weight_in_lines(const Call& call, const Device& device);
detail::MatrixExtent lines_extent(const ImplicitProblem& p);
void run_weight_in_lines(Queue& queue, const Call& call, const detail::MatrixTile& tile);
// Whether both build on a device and come out right there: found out once, by convolutions whose results are known, and
// kept on disk for as long as driver and kernels stay the same. Waits for the device.
bool blocks_work(const Device& device, DataType type);
// The same of weight gradients by loads that transpose (gpu_matrix_turned_weight.cl), which this point asks for.
bool turned_works(const Device& device, DataType type);
Point turned_point();

}  // namespace clprim::conv
