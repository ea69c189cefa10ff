// What the CPU kernels of convolution share on the host side.
#pragma once

#include <functional>

#include <kernels/conv/problem.hpp>

namespace clprim::conv {

// Same fields and order as in implicit_problem.cl.
struct ImplicitProblem {
    cl_long batch, groups, rows, depth;
    cl_long taps[3], in[3], out[3];
    cl_long kernel[3], tap_first[3], tap_period[3];
    cl_long scale[3], shift[3], step[3];
    cl_long source_strides[5], result_strides[5];
    cl_long source_size, weight_stride;
    cl_long tile_rows, tile_pixels, tile_depth;
    cl_long channels_block, taps_block, taps_inner;
    Epilogue epilogue;
    cl_long parts, result_size;

    cl_long pixels() const { return batch * out[0] * out[1] * out[2]; }
    cl_long total_depth() const { return depth * taps[0] * taps[1] * taps[2]; }
};

struct PackProblem {
    cl_long groups, rows, depth, taps[3];
    cl_long group_stride, row_stride, depth_stride, tap_strides[3];
    cl_long taps_inner;
};

// Few channels would make short sums of each tap: of the first layer's images. A copy with channels innermost and zeros
// for borders has the taps of a row side by side, as one tap of more channels. Same fields and order as patch_problem
// in cpu_channels.cl.
struct PatchProblem {
    cl_long batch, channels, in[3], pad[3], padded[3], strides[5];
};

constexpr cl_long amx_side = 32;    // AMX_SIDE of gemm/amx.cl: rows of a strip, columns of a panel, k of a block
// Bfloat16 that an element is split into, and words of a strip or panel of `depth` k without its header.
inline cl_long amx_parts(DataType dtype) { return dtype == DataType::float32 ? 3 : dtype == DataType::float16 ? 2 : 1; }
inline cl_long amx_words(DataType dtype, cl_long depth) { return (depth + 31) / 32 * 512 * amx_parts(dtype); }

constexpr cl_long wide = 32;        // columns of a register tile (float)
constexpr std::size_t local_memory_wanted = 256 * 1024;

inline cl_long ceil_div(cl_long a, cl_long b) { return (a + b - 1) / b; }

// Elements from the first to the last of a tensor.
inline cl_long span_of(const Tensor& tensor)
{
    cl_long size = 1;
    for (std::size_t i = 0; i < tensor.dim(); ++i)
        size += (tensor.size(i) - 1) * tensor.stride(i);
    return size;
}

inline DataType real_type(DataType dtype) { return dtype == DataType::float64 ? DataType::float64 : DataType::float32; }

// Whether the weights of each output channel lie together in the order (channel, tap), or (tap, channel).
bool weights_in_order(const Problem& problem, bool taps_inner);
// How a matrix [group, row][k] of the weights of a pass is filled from the tensor.
PackProblem pack_problem(const Call& call, bool taps_inner);
// The same of the taps of one launch, channels innermost.
struct LaunchWeights {
    Tensor w;
    PackProblem taps;
};
LaunchWeights weights_of_launch(const Call& call, const ImplicitProblem& p);
// The weights as a matrix of reals [group, row][k], in place where they lie so; says in `p` how they lie.
Tensor weight_matrix(Queue& queue, const Call& call, ImplicitProblem& p);
// Makes one long row of positions along rows and planes where nothing tells them apart.
void merge_positions(ImplicitProblem& p);
// What cpu_implicit would cost a launch in float32: cycles of the slowest core, if nothing ever waited.
double implicit_cost(ImplicitProblem p, const Device& device);
// Has `p` read a copy with `channels` numbers a pixel, the taps of a row as one; how the copy is made.
PatchProblem cut_patches(const Call& call, ImplicitProblem& p, cl_long channels);
// Why a convolution with channels innermost has more taps or places than channel_places.cl numbers, with a copy of
// `patch_channels` channels or, of 0, without.
Rejection beyond_places(const Call& call, cl_long patch_channels);
// Rows of a panel of weights: PANEL in channel_tiles.cl.
cl_long channels_panel_rows(const Device& device, DataType dtype);
// How programs with channel_tiles.cl are built.
std::string channels_options(const Device& device, const Call& call);
// Why a pass cannot use AMX's tile registers.
Rejection rejects_amx(const Call& call, const Device& device);
// dw from p.parts sums of [group, output][row], rows in the order that p.taps_inner says.
void add_parts(Queue& queue, const Call& call, const Tensor& sums, const ImplicitProblem& p);
// The same of sums, rows in the order (tap, channel), in which numbers of x met zeros that stand for no pixel of dy.
void add_parts_looking_again(Queue& queue, const Call& call, const Tensor& sums, const ImplicitProblem& p);
void fill_zero(Queue& queue, const Tensor& tensor);

// The call with a planar copy of its source if that is channels_last with too few channels per group for vectors.
Call with_planar_source(Queue& queue, const Call& call);

// A forward or data pass on a CPU: `launch` enqueues one launch of for_each_launch, whose source and weights are
// made ready.
using ImplicitLaunch = void (*)(Queue&, const Call&, const Tensor& weights, ImplicitProblem, cl_long result_first);
void run_implicit_pass(Queue& queue, const Call& caller, ImplicitLaunch launch);
// A weight gradient on a CPU: `choose_tiles` sets tile_rows (rows), tile_pixels (outputs) and tile_depth (pixels) of a
// work-item's block and calls choose_parts, `launch` enqueues `items` work-items that write the parts' sums.
using WeightLaunch = std::function<void(const Call&, const ImplicitProblem&, const Tensor& sums, std::size_t items)>;
void run_weight_pass(Queue& queue, const Call& caller, const std::function<void(ImplicitProblem&)>& choose_tiles,
                     const WeightLaunch& launch);
// How many shares of the pixels occupy all compute units.
void choose_parts(ImplicitProblem& p, const Device& device);

// Everything that does not depend on the launch; source and result are x and y, the other way round for the data pass.
ImplicitProblem common_problem(const Call& call);
// The one launch of a forward pass; the weight gradient walks the same positions.
ImplicitProblem forward_problem(const Call& call);
// The launches of a forward or data pass, each with the element of the result where it begins. A data pass has one per
// residue of the position modulo the stride.
void for_each_launch(const Call& call, const std::function<void(const ImplicitProblem&, cl_long)>& launch);

}  // namespace clprim::conv
