// What the files of cpu_depthwise.cpp share.
#pragma once

#include <cstdlib>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {

struct DepthwiseProblem {
    cl_long batch, groups, rows, depth;
    cl_long taps[2], in[2], out[2];
    cl_long tap_first[2], tap_period[2];
    cl_long scale[2], shift[2], step[2];
    cl_long source_strides[4], result_strides[4], w_strides[4];
    cl_long band, parts;
    cl_long source_size, result_size;
    Epilogue epilogue;

    cl_long extent(int axis, cl_long count) const
    {
        return count + std::abs((taps[axis] - 1) * step[axis]) / scale[axis];
    }
};

constexpr cl_long depthwise_lanes = 16;
constexpr cl_long depthwise_planes = 8;    // PLANES in cpu_depthwise_same.cl and cpu_depthwise_rows.cl

// LANES in lanes.cl.
inline cl_long depthwise_vector(DataType dtype)
{
    return dtype == DataType::float64 ? depthwise_lanes / 2 : depthwise_lanes;
}

// The depthwise view of a launch of the implicit matrix product.
DepthwiseProblem depthwise_from_implicit(const ImplicitProblem& q, const Problem& problem);

// Whether groups with one output each lie innermost.
bool has_channels_last(const Call& call);

// Whether both sides are dense planes with the same positions: cpu_depthwise_same.cl takes them.
bool has_same_positions(const DepthwiseProblem& p);

// A data gradient with stride 2 by one launch (cpu_depthwise_pairs.cl). False where it is not such, and nothing is
// launched.
bool run_depthwise_pairs(Queue& queue, const Call& call);

// A weight gradient by cpu_depthwise_field_weight.cl, likewise.
bool run_depthwise_weight_field(Queue& queue, const Call& call, const DepthwiseProblem& p);

}  // namespace clprim::conv
