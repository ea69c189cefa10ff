// Which tile a work-group multiplies by a matrix engine.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <kernels/gemm/gpu_cut.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::detail {
namespace {

// Vector engines of a compute unit as drivers count them, each of which has a matrix engine.
double engines(MatrixEngine engine, const Device& device)
{
    const bool intel = engine == MatrixEngine::dpas8 || engine == MatrixEngine::dpas16;
    return (intel ? 1.0 : 4.0) * static_cast<double>(device.compute_units);
}

}  // namespace

std::span<const RatedTile> matrix_tiles(MatrixEngine engine)
{
    static constexpr RatedTile dpas16[] = {{{4, 4, 4, 4}, 20}, {{4, 2, 4, 4}, 19}, {{8, 1, 4, 4}, 17},
                                           {{2, 4, 4, 4}, 17}, {{2, 2, 4, 2}, 11}};
    static constexpr RatedTile dpas8[] = {{{4, 4, 4, 4}, 20}, {{8, 2, 3, 4}, 16}, {{2, 8, 4, 3}, 16},
                                          {{4, 2, 3, 4}, 15}, {{4, 4, 2, 2}, 10}};
    static constexpr RatedTile mma[] = {{{2, 2, 4, 4}, 45}, {{2, 2, 3, 4}, 44}, {{2, 2, 4, 2}, 34},
                                        {{2, 2, 2, 4}, 34}, {{2, 2, 2, 2}, 26}};
    // Of Turing, whose cores hold 64 KiB of slabs: a group of eight sub-groups, or two of four.
    static constexpr RatedTile mma75[] = {{{4, 2, 2, 4}, 66}, {{2, 4, 4, 2}, 66}, {{2, 2, 4, 2}, 51},
                                          {{2, 2, 2, 4}, 51}, {{2, 2, 2, 2}, 41}};
    static constexpr RatedTile wmma[] = {{{4, 2, 4, 4}, 32}, {{2, 2, 4, 4}, 30}, {{2, 2, 3, 4}, 27}, {{4, 1, 3, 4}, 25},
                                         {{1, 4, 4, 3}, 26}, {{2, 1, 3, 4}, 24}, {{2, 2, 2, 2}, 16}};
    static constexpr RatedTile mfma[] = {{{2, 2, 4, 2}, 40}, {{2, 2, 2, 2}, 31}, {{2, 1, 2, 2}, 27},
                                         {{1, 2, 2, 2}, 27}, {{2, 1, 1, 2}, 17}};
    switch (engine) {
    case MatrixEngine::dpas16: return dpas16;
    case MatrixEngine::dpas8: return dpas8;
    case MatrixEngine::mma75: return mma75;
    case MatrixEngine::wmma:
    case MatrixEngine::wmma12: return wmma;
    case MatrixEngine::mfma: return mfma;
    default: return mma;
    }
}

std::span<const RatedTile> gemm_tiles(MatrixEngine engine)
{
    // How fast an H100 goes through the loop of each.
    static constexpr RatedTile mma[] = {
        {{8, 1, 1, 8, 3, 32, true}, 105},
        {{4, 2, 4, 4, 4, 16}, 60}, {{2, 4, 4, 4, 4, 16}, 60}, {{2, 2, 4, 4, 4, 16}, 46}, {{2, 2, 4, 4, 6, 16}, 46},
        {{2, 2, 4, 2, 3, 32}, 31}, {{2, 2, 2, 4, 3, 32}, 31}, {{2, 2, 2, 2, 4, 32}, 24}, {{2, 2, 4, 4}, 62},
        {{2, 2, 3, 4}, 37},        {{2, 2, 4, 2}, 41},        {{2, 2, 2, 4}, 34},        {{2, 2, 2, 2}, 34}};
    // With both operands along k.
    static constexpr RatedTile dpas8[] = {{{8, 4, 4, 4}, 23.5}, {{4, 8, 4, 4}, 23.5}, {{4, 4, 4, 4}, 22},
                                          {{8, 2, 3, 4}, 19},   {{2, 8, 4, 3}, 18.5}, {{4, 2, 3, 4}, 18},
                                          {{4, 4, 2, 2}, 11}};
    static constexpr RatedTile wmma[] = {{{4, 2, 4, 4}, 39}, {{2, 2, 4, 4}, 37}, {{2, 2, 3, 4}, 32}, {{4, 1, 3, 4}, 32},
                                         {{1, 4, 4, 3}, 32}, {{2, 1, 3, 4}, 31}, {{2, 2, 2, 2}, 21}};
    switch (engine) {
    case MatrixEngine::mma: return mma;
    case MatrixEngine::dpas8: return dpas8;
    case MatrixEngine::wmma:
    case MatrixEngine::wmma12: return wmma;
    default: return matrix_tiles(engine);
    }
}

bool tile_fits(MatrixEngineChoice engine, const MatrixTile& tile, const Device& device)
{
    // What kernels keep beside the slabs: products nothing, which may declare the bytes too that NVIDIA's driver keeps
    // for itself beside arguments (core/device.cpp).
    const std::size_t beside = tile.stages > 0 ? 0 : 1024, kept_from_arguments = tile.stages > 0 ? 4 : 0;
    const MatrixEngineShape& shape = shape_of(engine.engine);
    return static_cast<std::size_t>(shape.items(tile)) <= device.max_work_group_size &&
           shape.local_memory(tile, engine.emulated) + beside <= device.local_memory + kept_from_arguments &&
           (tile.stages == 0 || copies_past_registers(engine, device)) &&
           (!tile.warpgroups || has_warpgroups(engine, device));
}

bool tile_suits(MatrixEngine engine, const MatrixTile& tile, const MatrixExtent& sums)
{
    const MatrixEngineShape& shape = shape_of(engine);
    const auto whole = [&](std::int64_t lines) {
        return lines * tile.depth / 8 % ((tile.stages > 0 ? 1 : 2) * shape.items(tile)) == 0;
    };
    return (sums.a_along_k || whole(shape.rows(tile))) && (sums.b_along_k || whole(shape.columns(tile)));
}

MatrixTile warpgroup_tile(MatrixEngineChoice engine)
{
    const std::span<const RatedTile> tiles = gemm_tiles(engine.engine);
    return std::ranges::find_if(tiles, [](const RatedTile& rated) { return rated.tile.warpgroups; })->tile;
}

MatrixTile in_stages(MatrixEngineChoice engine, const MatrixTile& tile, const Device& device)
{
    constexpr std::size_t beside = 2048;   // what kernels keep beside the slabs
    if (!copies_past_registers(engine, device))
        return tile;
    MatrixTile result = tile;
    const std::int64_t fragments = tile.fragments_m * tile.fragments_n;
    result.stages = fragments == 16 || fragments == 4 ? 4 : 3;
    result.depth = fragments == 16 ? 16 : 32;
    const bool fits = shape_of(engine.engine).local_memory(result, engine.emulated) + beside <= device.local_memory;
    return fits && tile_suits(engine.engine, result, {}) ? result : tile;
}

std::int64_t best_tile(MatrixEngineChoice engine, const MatrixExtent& sums, const Device& device)
{
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const std::span<const RatedTile> tiles = matrix_tiles(engine.engine);
    const auto blocks = [](std::int64_t lines, std::int64_t of) {
        return std::ceil(static_cast<double>(lines) / static_cast<double>(of));
    };
    const auto cost = [&](const RatedTile& rated) {
        const MatrixTile& tile = rated.tile;
        const double groups = blocks(sums.rows, shape.rows(tile)) * blocks(sums.columns, shape.columns(tile)) *
                              static_cast<double>(sums.groups);
        const double each = static_cast<double>(tile.sub_groups_m * tile.sub_groups_n);
        const double turns = std::ceil(groups * each / engines(engine.engine, device));
        return turns * static_cast<double>(tile.fragments_m * tile.fragments_n) / rated.share;
    };
    std::int64_t best = std::ssize(tiles) - 1;   // the smallest, which all devices with an engine can take
    if (engine.emulated)
        return best;
    for (std::int64_t i = best; i >= 0; --i) {
        const RatedTile& tile = tiles[static_cast<std::size_t>(i)];
        if (tile_fits(engine, tile.tile, device) && tile_suits(engine.engine, tile.tile, sums) &&
            cost(tile) <= cost(tiles[static_cast<std::size_t>(best)]))
            best = i;
    }
    return best;
}

namespace {

// As gpu_matrix.cl sees it.
GemmProblem seen(MatrixEngineChoice engine, const GemmProblem& p)
{
    return better_turned(engine, p) ? transposed(p) : p;
}

MatrixExtent extent_of(const GemmProblem& p) { return {p.m, p.n, p.batch, a_along_k(p), b_along_k(p)}; }

// Whether slabs can be copied past registers, by sizes and strides: they lie in groups of eight, or are padded first
// (pays_to_pad).
bool copies_slabs(const GemmProblem& p)
{
    const auto in_eights = [](std::int64_t near_count, std::int64_t near, std::int64_t far, std::int64_t batch) {
        return near == 1 && (near_count | far | batch) % 8 == 0;
    };
    const bool a_along = a_along_k(p), b_along = b_along_k(p), odd_depth = p.k % 8 != 0 && (a_along || b_along);
    const bool a = a_along ? in_eights(p.k, p.a.column, p.a.row, p.a.batch)
                           : in_eights(p.m, p.a.row, p.a.column, p.a.batch);
    const bool b = b_along ? in_eights(p.k, p.b.row, p.b.column, p.b.batch)
                           : in_eights(p.n, p.b.column, p.b.row, p.b.batch);
    const std::int64_t padded = (a && !odd_depth ? 0 : p.m) + (b && !odd_depth ? 0 : p.n);
    return padded == 0 || std::min(p.m, p.n) >= 64 || 2 * padded <= p.m + p.n;
}

// Tiles that a product can take, by index.
std::vector<std::int64_t> tiles_for(MatrixEngineChoice engine, const GemmProblem& p, const Device& device)
{
    std::vector<std::int64_t> result;
    const auto tiles = gemm_tiles(engine.engine);
    for (std::int64_t i = 0; i < std::ssize(tiles); ++i) {
        const MatrixTile& tile = tiles[static_cast<std::size_t>(i)].tile;
        if (tile_fits(engine, tile, device) && tile_suits(engine.engine, tile, extent_of(p)) &&
            (!tile.warpgroups || copies_slabs(p)))
            result.push_back(i);
    }
    return result;
}

// What a block takes to begin and to end on an H100: fewer of the groups beside each other on a core are then at the
// same point of it, the smaller they are.
double clocks_around(MatrixEngine engine, const MatrixTile& tile, double sums_of_engine)
{
    if (!is_mma(engine))
        return 0;
    const bool small = tile.stages == 0 && tile.fragments_m * tile.fragments_n == 4;
    return (small ? 1.2 : 4.1) * sums_of_engine;
}

// Instructions that put a word of two k together from lines that are neighbours, and store it alone.
double around_word(MatrixEngine engine)
{
    switch (engine) {
    case MatrixEngine::dpas8: return 2;
    case MatrixEngine::wmma:
    case MatrixEngine::wmma12: return 1.25;
    default: return 0;
    }
}

// A tile's share where operands do not lie along k.
double share_of(MatrixEngine engine, const RatedTile& rated, const GemmProblem& p)
{
    const MatrixTile& tile = rated.tile;
    const MatrixEngineShape& shape = shape_of(engine);
    const std::int64_t lines = (a_along_k(p) ? 0 : shape.rows(tile)) + (b_along_k(p) ? 0 : shape.columns(tile));
    const auto words = static_cast<double>(lines * tile.depth / 2) / static_cast<double>(shape.items(tile));
    const auto products = static_cast<double>(tile.fragments_m * tile.fragments_n * tile.depth / 16);
    return 100 * products / (100 * products / rated.share + words * around_word(engine));
}

Workload work_of(MatrixEngineChoice engine, const RatedTile& rated, const GemmProblem& p, const GpuRate& rate)
{
    const MatrixEngineShape& shape = shape_of(engine.engine);
    double best = 0;
    for (const RatedTile& tile : gemm_tiles(engine.engine))
        best = std::max(best, tile.tile.warpgroups ? 0 : tile.share);   // the rate is that of instructions of one warp
    const std::int64_t rows = shape.rows(rated.tile), columns = shape.columns(rated.tile);
    const double sub_groups = static_cast<double>(rated.tile.sub_groups_m * rated.tile.sub_groups_n);
    const double engines = rated.tile.warpgroups ? 4 : sub_groups;   // an instruction of a warpgroup takes all four
    const double sums_of_engine = static_cast<double>(rows * columns) / engines;
    return {.groups = static_cast<double>(divide_up(p.m, rows) * divide_up(p.n, columns) * p.batch), .engines = engines,
            .clocks = sums_of_engine * static_cast<double>(p.k) * best /
                      (rate.matrix * share_of(engine.engine, rated, p)),
            .sub_groups = rated.tile.warpgroups ? sub_groups / 4 : 1,
            .around = clocks_around(engine.engine, rated.tile, sums_of_engine)};
}

struct IndexedCut {
    std::int64_t tile, splits;
};

IndexedCut best_cut(MatrixEngineChoice engine, const GemmProblem& p, const Device& device)
{
    const auto tiles = gemm_tiles(engine.engine);
    if (engine.emulated)   // not worth a choice; the smallest keeps tests short
        return {std::ssize(tiles) - 1, 1};
    const GpuRate rate = gpu_rate(device);
    IndexedCut best{std::ssize(tiles) - 1, 1};
    double least = std::numeric_limits<double>::infinity();
    for (const std::int64_t i : tiles_for(engine, p, device)) {
        const Workload work = work_of(engine, tiles[static_cast<std::size_t>(i)], p, rate);
        const Parts parts = best_splits(rate, p, work, matrix_split_step);
        if (parts.clocks < least)
            least = parts.clocks, best = {i, parts.count};
    }
    return best;
}

}  // namespace

MatrixCut gemm_cut(MatrixEngineChoice engine, const GemmProblem& p, const Device& device)
{
    const IndexedCut cut = best_cut(engine, seen(engine, p), device);
    return {gemm_tiles(engine.engine)[static_cast<std::size_t>(cut.tile)].tile, cut.splits};
}

Space gpu_matrix_space(const GemmProblem& asked, const Device& device)
{
    const MatrixEngineChoice engine = matrix_engine(device);
    const IndexedCut usual = best_cut(engine, seen(engine, asked), device);
    return {{"tile", tiles_for(engine, seen(engine, asked), device), usual.tile},
            {"splits", {1, 2, 4, 8, 16, 32}, usual.splits}};
}

void gpu_matrix_at(Queue& queue, const GemmProblem& problem, const Point& point, const GemmTensors& tensors)
{
    const MatrixEngineChoice engine = matrix_engine(queue.device());
    const auto possible = tiles_for(engine, seen(engine, problem), queue.device());
    const std::int64_t tile = point.at("tile");
    require<NotSupported>(std::ranges::find(possible, tile) != possible.end(),
                          "gemm: the device or the operands cannot take tile ", tile);
    gpu_matrix_in(engine, {gemm_tiles(engine.engine)[static_cast<std::size_t>(tile)].tile, point.at("splits")}, queue,
                  problem, tensors);
}

}  // namespace clprim::detail
