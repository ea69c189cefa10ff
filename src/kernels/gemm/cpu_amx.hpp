// How the products of cpu_amx.cl are cut; apart from its launcher so that tests can try every way.
#pragma once

#include <limits>

#include <kernels/gemm/problem.hpp>

namespace clprim::detail {

constexpr std::int64_t amx_side = 32;   // rows of a strip, columns of a panel, k of a block of words

// PANELS_... of cpu_amx.cl.
enum AmxPanelsPlace : std::int32_t { amx_panels_local, amx_panels_own, amx_panels_shared };

// amx_plan of cpu_amx.cl.
struct AmxKernelPlan {
    std::int64_t block_rows, block_columns, splits, split_depth, depth;
    std::int32_t panels_place, plain;   // `plain` is settled at launch
};

struct AmxPlan {
    AmxKernelPlan kernel{};
    bool turned = false;   // computed as C' = B' A'
    double cost = std::numeric_limits<double>::infinity();   // cycles of the slowest core
};

// Bfloat16 numbers that an element is split into.
inline std::int64_t amx_parts(DataType type)
{
    return type == DataType::float32 ? 3 : type == DataType::float16 ? 2 : 1;
}
// 32-bit words of a block of 32 k by 32 rows or columns, and of a strip or panel of `depth` k with its header.
inline std::int64_t amx_block_words(DataType type) { return 512 * amx_parts(type); }
inline std::int64_t amx_panel_words(DataType type, std::int64_t depth)
{
    return 16 + depth / amx_side * amx_block_words(type);
}

// The same by vectors of bfloat16 (cpu_amx and cpu_amx_advises_against serve both).
CLPRIM_API Rejection cpu_bfloat16_rejects(const GemmProblem&, const Device&);

// Rows read where they lie, by vectors of bfloat16.
Rejection cpu_bfloat16_rows_rejects(const GemmProblem&, const Device&);
Rejection cpu_bfloat16_rows_advises_against(const GemmProblem&, const Device&);
void cpu_bfloat16_rows(Queue&, const GemmProblem&, const GemmTensors&);

CLPRIM_API AmxPlan amx_plan(const GemmProblem& problem, const Device& device);
CLPRIM_API void cpu_amx_by(const AmxPlan& plan, Queue& queue, const GemmProblem& problem,
                           const GemmTensors& tensors);

}  // namespace clprim::detail
