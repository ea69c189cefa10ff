// Launches gpu_matrix.cl.
#include <kernels/gemm/gpu_matrix.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <core/gpu_rate.hpp>
#include <kernels/gemm/gpu_cut.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t slab_k = 32, slab_pitch = slab_k / 2 + 4;   // of fragments.cl

// Whether block reads of two dimensions can take a matrix of `rows` x `columns`, its columns contiguous.
bool block_fits(const Tensor& tensor, std::int64_t rows, std::int64_t columns, std::int64_t pitch, std::int64_t batch)
{
    constexpr std::int64_t longest = 1 << 23;   // elements of 2 bytes, and rows
    const auto offset = static_cast<std::int64_t>(tensor.buffer_offset());
    return (offset | batch) % 32 == 0 && columns % 8 == 0 && pitch % 8 == 0 && columns >= 32 && rows < longest &&
           pitch >= columns && pitch < longest;
}

// Whether a matrix with `lines` along one direction and k along the other can be read in blocks, and lies along k.
bool block_along_k(const Tensor& tensor, std::int64_t lines, std::int64_t k, const MatrixLayout& layout, bool second)
{
    const std::int64_t line = second ? layout.column : layout.row, step = second ? layout.row : layout.column;
    return step == 1 && block_fits(tensor, lines, k, line, layout.batch);
}
bool block_across_k(const Tensor& tensor, std::int64_t lines, std::int64_t k, const MatrixLayout& layout, bool second)
{
    const std::int64_t line = second ? layout.column : layout.row, step = second ? layout.row : layout.column;
    return line == 1 && block_fits(tensor, k, lines, step, layout.batch);
}

// How fragments can be read without slabs (fragments_blocks.cl), if at all; whether slabs are read in eights.
struct Blocks {
    bool fit = false, a_along_k = false, b_along_k = false, aligned = false;
};
Blocks blocks_of(MatrixEngineChoice engine, const GemmProblem& p, const GemmTensors& t, const Device& device)
{
    const bool aligned = operands_in_groups(8, p, t);
    if (engine.engine != MatrixEngine::dpas16 ||
        !(engine.emulated || device.has_extension("cl_intel_subgroup_2d_block_io")))
        return {.aligned = aligned};
    const bool a = block_along_k(t.a, p.m, p.k, p.a, false), b = block_along_k(t.b, p.n, p.k, p.b, true);
    const bool readable_a = a || block_across_k(t.a, p.m, p.k, p.a, false);
    return {readable_a && (b || block_across_k(t.b, p.n, p.k, p.b, true)), a, b, aligned};
}

// The same block of C, where A lies across k: its fragments are taken apart by instructions, so few of them serve many
// columns.
MatrixTile flattened(const MatrixTile& tile)
{
    return {2 * tile.sub_groups_m, tile.sub_groups_n / 2, tile.fragments_m / 2, 2 * tile.fragments_n};
}

// A tile whose slabs pass through registers, which read them at any place.
MatrixTile through_registers(const MatrixTile& tile)
{
    if (tile.warpgroups)
        return {2, 2, 4, 4};
    return {2, 2, tile.fragments_m, tile.fragments_n};
}

// With m and n up to where operands that have been padded end.
GemmProblem with_padding(const GemmProblem& p, bool padded)
{
    GemmProblem result = p;
    if (padded)
        result.m = round_up(p.m, 8), result.n = round_up(p.n, 8);
    return result;
}

std::string program_options(MatrixEngineChoice engine, const MatrixTile& tile, const GemmProblem& p,
                            const GemmTensors& t, bool partial, const Blocks& blocks)
{
    // Sums that leave along C's rows where those are contiguous.
    const bool along_rows = !partial && p.c.column != 1 && p.c.row == 1 && !is_mma(engine.engine);
    const bool aligned_c = along_rows ? in_groups(4, t.c, p.m, p.c.row, p.c.column, p.c.batch)
                                      : in_groups(4, t.c, p.n, p.c.column, p.c.row, p.c.batch);
    return gemm_options(p.dtype) + matrix_tile_options(engine, tile) +
           fmt::format(" -DA_ALONG_K={:d} -DB_ALONG_K={:d} -DALIGNED={:d} -DALIGNED_C={:d} -DOFFSET={}",
                       blocks.fit ? blocks.a_along_k : a_along_k(p), blocks.fit ? blocks.b_along_k : b_along_k(p),
                       blocks.aligned, aligned_c, byte_offset_type(p, t)) +
           (along_rows ? " -DQUADS_OF_ROWS=1" : "") +
           (blocks.aligned ? "" : fmt::format(" -DNEIGHBOURS={:d}", has_neighbours(10, p, t))) +
           fmt::format(" -DBLOCKS={:d} -DPARTIAL={:d} -DADD_D={:d} -DACTIVATION={}{}", blocks.fit, partial,
                       p.add_d && !partial, partial ? 0 : static_cast<int>(p.activation),
                       t.c.dtype == p.dtype || partial ? "" : detail::concat(" -DC_TYPE=", name_of(t.c.dtype)));
}

}  // namespace

std::size_t MatrixEngineShape::local_memory(const MatrixTile& tile, bool emulated) const
{
    const std::int64_t slabs = (rows(tile) + columns(tile)) *
                               (tile.stages > 0 ? tile.stages * tile.depth / 2 : 2 * slab_pitch);
    std::int64_t row = tile.fragments_n * n + (macro.starts_with("ENGINE_MMA") ? 8 : 0);   // DUMP_PITCH
    if (tile.warpgroups)
        row = 32 + 8;   // PART_PITCH
    const std::int64_t dumped = tile.sub_groups_m * tile.sub_groups_n * m * row;
    const std::int64_t exchanged = emulated && !tile.warpgroups ? items(tile) * exchange_words : 0;
    return static_cast<std::size_t>(4 * (std::max(slabs, dumped) + exchanged));
}

const MatrixEngineShape& shape_of(MatrixEngine engine)
{
    static const MatrixEngineShape dpas16{"ENGINE_DPAS16", 16, 8, 16, 12, {4, 4, 4, 4}, {2, 2, 4, 2}};
    static const MatrixEngineShape dpas8{"ENGINE_DPAS8", 8, 8, 8, 16, {4, 4, 4, 4}, {4, 4, 2, 2}};
    static const MatrixEngineShape mma{"ENGINE_MMA", 32, 16, 16, 8, {2, 4, 4, 2}, {2, 2, 2, 2}};
    static const MatrixEngineShape mma75{"ENGINE_MMA=75", 32, 16, 16, 8, {2, 4, 4, 2}, {2, 2, 2, 2}};
    static const MatrixEngineShape wmma{"ENGINE_WMMA", 32, 16, 16, 16, {4, 2, 4, 4}, {2, 2, 2, 2}};
    static const MatrixEngineShape wmma12{"ENGINE_WMMA12", 32, 16, 16, 8, {4, 2, 4, 4}, {2, 2, 2, 2}};
    static const MatrixEngineShape mfma{"ENGINE_MFMA", 64, 32, 32, 4, {2, 2, 2, 2}, {2, 1, 1, 2}};
    switch (engine) {
    case MatrixEngine::dpas16: return dpas16;
    case MatrixEngine::dpas8: return dpas8;
    case MatrixEngine::mma75: return mma75;
    case MatrixEngine::wmma: return wmma;
    case MatrixEngine::wmma12: return wmma12;
    case MatrixEngine::mfma: return mfma;
    default: return mma;
    }
}

std::string matrix_tile_options(MatrixEngineChoice engine, const MatrixTile& tile)
{
    const bool dpas = engine.engine == MatrixEngine::dpas16 || engine.engine == MatrixEngine::dpas8;
    return fmt::format(" -D{} -DEMULATED={:d} -DSUB_GROUPS_M={} -DSUB_GROUPS_N={} -DFRAGMENTS_M={} -DFRAGMENTS_N={}"
                       "{}{}{}",
                       shape_of(engine.engine).macro, engine.emulated, tile.sub_groups_m, tile.sub_groups_n,
                       tile.fragments_m, tile.fragments_n,
                       tile.stages > 0 ? fmt::format(" -DSTAGES={} -DSLAB_K={}", tile.stages, tile.depth) : "",
                       !tile.warpgroups  ? ""
                       : engine.emulated ? " -DWARPGROUPS=1"
                                         : " -DWARPGROUPS=1 -cl-nv-maxrregcount=128",   // for two groups on a core
                       dpas && !engine.emulated ? " -cl-intel-256-GRF-per-thread" : "");
}

bool better_turned(MatrixEngineChoice engine, const GemmProblem& p)
{
    const bool turned = better_turned(p);
    if (engine.engine != MatrixEngine::dpas8 || std::min(p.m, p.n) == 1)
        return turned;
    // Fragments of A that does not lie along k, and those of B that does, come by one message each, others by two.
    const GemmProblem seen = turned ? transposed(p) : p;
    return turned != (a_along_k(seen) && !b_along_k(seen));
}

const MatrixTile& matrix_tile(MatrixEngineChoice engine, std::int64_t large_tiles, const Device& device)
{
    const MatrixEngineShape& shape = shape_of(engine.engine);
    return !engine.emulated && static_cast<double>(large_tiles) >= gpu_rate(device).cores ? shape.large : shape.small;
}

namespace {

Rejection engine_rejects(MatrixEngineChoice engine, const Device& device)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (engine.engine == MatrixEngine::none)
        return "no matrix engine";
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const MatrixTile& largest = engine.emulated ? shape.small : shape.large;
    if (device.max_work_group_size < static_cast<std::size_t>(shape.items(largest)))
        return fmt::format("work-groups of less than {} work-items", shape.items(largest));
    if (device.local_memory < shape.local_memory(largest, engine.emulated))
        return "too little local memory";
    return std::nullopt;
}

// Of the device's own engine, which is tried at first use.
Rejection engine_rejects(DataType type, const Device& device)
{
    if (device.kind != DeviceKind::gpu)   // before the costly questions
        return "for GPUs";
    const MatrixEngineChoice engine = matrix_engine(device);
    if (auto reason = engine_rejects(engine, device))
        return reason;
    if (engine.emulated || matrix_engine_works(device, engine.engine, type))
        return std::nullopt;
    require<NotSupported>(!engine.named, "CLPRIM_MATRIX_ENGINE=", name_of(engine.engine), ": ", device.name,
                          " does not build its kernel, or computes wrong products of ", name_of(type));
    return fmt::format("{} does not work on this device", name_of(engine.engine));
}

Rejection type_rejects(MatrixEngineChoice engine, DataType type)
{
    if (type != DataType::float16 && type != DataType::bfloat16)
        return "for float16 and bfloat16";
    if (type == DataType::bfloat16 && engine.engine == MatrixEngine::mma75 && !engine.emulated)
        return "the matrix engine knows no bfloat16";
    return std::nullopt;
}

}  // namespace

Rejection matrix_engine_rejects_by(MatrixEngineChoice engine, DataType type, const Device& device)
{
    const Rejection reason = type_rejects(engine, type);
    return reason ? reason : engine_rejects(engine, device);
}

Rejection matrix_engine_rejects(DataType type, const Device& device)
{
    const Rejection reason = type_rejects(matrix_engine(device), type);
    return reason ? reason : engine_rejects(type, device);
}

Rejection matrix_engine_rejects_bytes(const Device& device) { return engine_rejects(DataType::int8, device); }

Rejection matrix_engine_advises_against(double rows, double columns, const Device& device)
{
    const MatrixEngineChoice engine = matrix_engine(device);
    if (engine.named)
        return std::nullopt;
    if (engine.emulated)
        return "no matrix engine, only its emulation";
    // Every engine multiplies at least four times as fast as vectors of floats, which lose less at edges.
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const auto whole = [](double lines, std::int64_t tile) {
        return std::ceil(lines / static_cast<double>(tile)) * static_cast<double>(tile);
    };
    if (whole(rows, shape.rows(shape.small)) * whole(columns, shape.columns(shape.small)) > 4 * rows * columns)
        return "mostly edges";
    return std::nullopt;
}

Rejection gpu_matrix_rejects_by(MatrixEngineChoice engine, const GemmProblem& problem, const Device& device)
{
    return problem.k == 0 ? Rejection("k is 0") : matrix_engine_rejects_by(engine, problem.dtype, device);
}

Rejection gpu_matrix_rejects(const GemmProblem& problem, const Device& device)
{
    return problem.k == 0 ? Rejection("k is 0") : matrix_engine_rejects(problem.dtype, device);
}

Rejection gpu_matrix_advises_against(const GemmProblem& problem, const Device& device)
{
    return matrix_engine_advises_against(static_cast<double>(problem.m), static_cast<double>(problem.n), device);
}

void gpu_matrix(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    const MatrixEngineChoice engine = matrix_engine(queue.device());
    gpu_matrix_in(engine, gemm_cut(engine, problem, queue.device()), queue, problem, tensors);
}

void gpu_matrix_by(MatrixEngineChoice engine, bool large, Queue& queue, const GemmProblem& problem,
                   const GemmTensors& tensors)
{
    const MatrixEngineShape& shape = shape_of(engine.engine);
    gpu_matrix_in(engine, {large ? shape.large : shape.small, 1}, queue, problem, tensors);
}

void gpu_matrix_in(MatrixEngineChoice engine, const MatrixCut& wanted, Queue& queue, const GemmProblem& asked,
                   const GemmTensors& given, bool padded)
{
    if (!padded && pays_to_pad(asked, given)) {
        GemmProblem problem = asked;
        GemmTensors tensors = given;
        pad_operands(queue, problem, tensors);
        return gpu_matrix_in(engine, wanted, queue, problem, tensors, true);
    }
    const GemmProblem whole = with_padding(asked, padded);
    const bool best = better_turned(engine, asked);
    const auto blocks_if = [&](bool turned) {
        return blocks_of(engine, turned ? transposed(whole) : whole, turned ? transposed(given) : given,
                         queue.device());
    };
    // Rows of A along k make the shorter loop, even where C is then written in short pieces: it is written only once.
    const Blocks straight = blocks_if(best), other = blocks_if(!best);
    const bool turned = straight.fit && !straight.a_along_k && other.a_along_k ? !best : best;
    const Blocks blocks = turned == best ? straight : other;
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const GemmTensors tensors = turned ? transposed(given) : given;
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const MatrixTile block =
        wanted.tile.stages > 0 && !blocks.aligned ? through_registers(wanted.tile) : wanted.tile;
    const bool fits = block.sub_groups_n % 2 == 0 && block.fragments_m % 2 == 0 &&
                      shape.local_memory(flattened(block), engine.emulated) <= queue.device().local_memory;
    const MatrixTile tile = blocks.fit && !blocks.a_along_k && fits ? flattened(block) : block;
    const GpuCut cut = gpu_cut(problem, divide_up(problem.n, shape.columns(tile)),
                               divide_up(problem.m, shape.rows(tile)), wanted.splits, matrix_split_step);
    const Program& program = queue.context().program(
        "kernels/gemm/gpu_matrix.cl", program_options(engine, tile, problem, tensors, cut.splits > 1, blocks));
    launch_cut(queue, program, problem, tensors, cut, {static_cast<std::size_t>(shape.items(tile)), 1});
}

}  // namespace clprim::detail
