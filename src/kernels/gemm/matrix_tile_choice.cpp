// Which tile a work-group multiplies by a matrix engine.
#include <algorithm>
#include <cmath>

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
    static constexpr RatedTile wmma[] = {{{4, 2, 4, 4}, 32}, {{2, 2, 4, 4}, 30}, {{2, 2, 3, 4}, 27}, {{4, 1, 3, 4}, 25},
                                         {{1, 4, 4, 3}, 26}, {{2, 1, 3, 4}, 24}, {{2, 2, 2, 2}, 16}};
    static constexpr RatedTile mfma[] = {{{2, 2, 4, 2}, 40}, {{2, 2, 2, 2}, 31}, {{2, 1, 2, 2}, 27},
                                         {{1, 2, 2, 2}, 27}, {{2, 1, 1, 2}, 17}};
    switch (engine) {
    case MatrixEngine::dpas16: return dpas16;
    case MatrixEngine::dpas8: return dpas8;
    case MatrixEngine::wmma:
    case MatrixEngine::wmma12: return wmma;
    case MatrixEngine::mfma: return mfma;
    default: return mma;
    }
}

bool tile_fits(MatrixEngineChoice engine, const MatrixTile& tile, const Device& device)
{
    constexpr std::size_t beside = 1024;   // what kernels keep beside the slabs
    const MatrixEngineShape& shape = shape_of(engine.engine);
    return static_cast<std::size_t>(shape.items(tile)) <= device.max_work_group_size &&
           shape.local_memory(tile, engine.emulated) + beside <= device.local_memory;
}

bool tile_suits(MatrixEngine engine, const MatrixTile& tile, const MatrixExtent& sums)
{
    constexpr std::int64_t groups_of_line = 32 / 8;   // of SLAB_K of gemm/fragments.cl
    const MatrixEngineShape& shape = shape_of(engine);
    const auto whole = [&](std::int64_t lines) { return lines * groups_of_line % (2 * shape.items(tile)) == 0; };
    return (sums.a_along_k || whole(shape.rows(tile))) && (sums.b_along_k || whole(shape.columns(tile)));
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

}  // namespace clprim::detail
