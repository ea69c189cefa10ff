// How the products of cpu_packed.cl are cut; apart from its launcher so that tests can try every way.
#pragma once

#include <limits>

#include <kernels/gemm/problem.hpp>

namespace clprim::detail {

// PANELS_... of cpu_packed.cl.
enum PanelsPlace : std::int32_t { panels_local, panels_own, panels_shared, panels_single };

// packed_plan of cpu_packed.cl.
struct CpuKernelPlan {
    std::int64_t block_rows, block_columns, splits, split_depth, depth, strip;
    std::int32_t panels_place, direct, plain;   // `plain` is settled at launch
};

struct CpuPlan {
    CpuKernelPlan kernel{};
    bool turned = false;   // computed as C' = B' A'
    double cost = std::numeric_limits<double>::infinity();
};

constexpr std::int64_t longest_chunk = 384, a_step = 400;   // A_STEP of cpu_packed.cl
constexpr std::int64_t tile_bytes = 128;                    // a tile's row: two vectors of 64 bytes

// Whether a matrix holds what sums are kept in.
inline bool stores_sums(DataType type) { return size_of(type) == size_of(gemm_compute_type(type)); }

// Whether the panels of B that pack_b writes are kept between calls: B never changes, and they are no larger than it.
// Few rows read B where it lies, so that decoders need no second copy.
inline bool keeps_panels(const GemmProblem& problem)
{
    return problem.prepared_b && problem.batch == 1 && problem.m >= 8 && stores_sums(problem.dtype);
}

// 64-bit integer products would spill from a large tile.
inline int cpu_tile_rows(DataType type) { return type == DataType::int64 ? 4 : 12; }

CpuPlan cpu_plan(const GemmProblem& problem, const Device& device);
// The plan at a point of cpu_packed_space: rows, columns and depth are the most that a block has of them. NotSupported
// where it does not fit the caches or the problem.
CpuPlan cpu_plan_at(const GemmProblem& problem, const Device& device, const Point& point);
CLPRIM_API void cpu_packed_by(const CpuPlan& plan, Queue& queue, const GemmProblem& problem,
                              const GemmTensors& tensors);

}  // namespace clprim::detail
