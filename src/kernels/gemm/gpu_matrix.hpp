// Products by matrix instructions on the host side.
#pragma once

#include <span>

#include <core/matrix_engine.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::detail {

// How a work-group's block of C is made of sub-groups and fragments (gpu_matrix.cl), and how many slabs of which depth
// lie in local memory at a time where they are copied there past registers (matrix_stages.cl).
struct MatrixTile {
    std::int64_t sub_groups_m, sub_groups_n, fragments_m, fragments_n, stages = 0, depth = 32;
    bool warpgroups = false;   // four sub-groups below each other multiply together (warpgroup_stages.cl)
};

// What fragments.cl says of an engine, and its tiles: the large one where enough of them fill the device.
struct MatrixEngineShape {
    std::string_view macro;
    std::int64_t lanes, m, n, exchange_words;   // of a fragment of sums; words of a lane's operands
    MatrixTile large, small;

    std::int64_t rows(const MatrixTile& tile) const { return tile.sub_groups_m * tile.fragments_m * m; }
    std::int64_t columns(const MatrixTile& tile) const { return tile.sub_groups_n * tile.fragments_n * n; }
    std::int64_t items(const MatrixTile& tile) const { return tile.sub_groups_m * tile.sub_groups_n * lanes; }
    std::size_t local_memory(const MatrixTile& tile, bool emulated) const;
};
const MatrixEngineShape& shape_of(MatrixEngine engine);

// Options of matrix_tiles.cl that say engine and tile, and those of the compiler.
std::string matrix_tile_options(MatrixEngineChoice engine, const MatrixTile& tile);
// Whether the product is computed as that of transposed matrices.
bool better_turned(MatrixEngineChoice, const GemmProblem&);
// The large tile where `tiles` of them fill the device.
const MatrixTile& matrix_tile(MatrixEngineChoice engine, std::int64_t large_tiles, const Device& device);

// A tile, and how many of a hundred instructions of its loop multiply matrices, as compilers make it.
struct RatedTile {
    MatrixTile tile;
    double share;
};
// Those of an engine that slabs are multiplied by, largest first.
CLPRIM_API std::span<const RatedTile> matrix_tiles(MatrixEngine);
// Those of plain products: before them those whose slabs are copied past registers, for operands in groups of eight.
CLPRIM_API std::span<const RatedTile> gemm_tiles(MatrixEngine);
// A tile whose operands come in groups of eight, with slabs copied past registers where the engine does and a device's
// local memory takes them.
MatrixTile in_stages(MatrixEngineChoice, const MatrixTile&, const Device&);
// The tile that warpgroups multiply, of an engine that has one.
MatrixTile warpgroup_tile(MatrixEngineChoice);
// Whether a device can take a tile.
CLPRIM_API bool tile_fits(MatrixEngineChoice, const MatrixTile&, const Device&);
// Sums in all: lines of each direction, in as many groups, and whether neighbours of A and B are brought along k.
struct MatrixExtent {
    std::int64_t rows, columns, groups;
    bool a_along_k = true, b_along_k = true;
};
// Whether the work-items of a tile bring slabs in equal parts: whole pairs of operands that do not lie along k.
CLPRIM_API bool tile_suits(MatrixEngine, const MatrixTile&, const MatrixExtent&);
// Index of the tile that takes the least time on the vector engine with the most of them; the smallest by emulation.
std::int64_t best_tile(MatrixEngineChoice, const MatrixExtent&, const Device&);

// Why a device cannot multiply matrices of a type by an engine; by its own one, which is tried at first use.
Rejection matrix_engine_rejects_by(MatrixEngineChoice, DataType, const Device&);
Rejection matrix_engine_rejects(DataType, const Device&);
// The same of products of eight-bit integers (integer/gpu_matrix.cl).
Rejection matrix_engine_rejects_bytes(const Device&);
// Why it should not, where all of `rows` x `columns` sums are computed in whole tiles.
Rejection matrix_engine_advises_against(double rows, double columns, const Device&);

Rejection gpu_matrix_rejects(const GemmProblem&, const Device&);
Rejection gpu_matrix_advises_against(const GemmProblem&, const Device&);
void gpu_matrix(Queue&, const GemmProblem&, const GemmTensors&);
Space gpu_matrix_space(const GemmProblem&, const Device&);
void gpu_matrix_at(Queue&, const GemmProblem&, const Point&, const GemmTensors&);

// float32 of reduced precision: operands are split into bfloat16 (gpu_split.cl).
Rejection gpu_split_rejects(const GemmProblem&, const Device&);
Rejection gpu_split_advises_against(const GemmProblem&, const Device&);
void gpu_split(Queue&, const GemmProblem&, const GemmTensors&);
CLPRIM_API void gpu_split_by(MatrixEngineChoice, Queue&, const GemmProblem&, const GemmTensors&);

// Lines that begin at odd places are read a number at a time. Where several blocks read them, or they are the smaller
// part of what is read, it pays to copy such an operand first, padded with zeros to multiples of eight.
bool pays_to_pad(const GemmProblem&, const GemmTensors&);
void pad_operands(Queue&, GemmProblem&, GemmTensors&);

constexpr std::int64_t matrix_split_step = 256;   // of which parts of k are multiples

// How a product is cut: a tile, and parts of k.
struct MatrixCut {
    MatrixTile tile;
    std::int64_t splits;
};
// The one that takes the least time by core/gpu_rate.hpp.
MatrixCut gemm_cut(MatrixEngineChoice, const GemmProblem&, const Device&);
// By the engine and the cut that are named. C and D may be of float32 beside A and B of 16 bits. `padded`: operands
// that are not whole groups of eight in the direction of m or n may be read as if they were.
CLPRIM_API Rejection gpu_matrix_rejects_by(MatrixEngineChoice, const GemmProblem&, const Device&);
CLPRIM_API void gpu_matrix_in(MatrixEngineChoice, const MatrixCut&, Queue&, const GemmProblem&, const GemmTensors&,
                              bool padded = false);
CLPRIM_API void gpu_matrix_by(MatrixEngineChoice, bool large, Queue&, const GemmProblem&, const GemmTensors&);

// Whether the device builds the engine's kernel and computes products of a type right, int8 for those of eight-bit
// integers: found out once, by products
// whose results are known, and kept on disk for as long as driver and kernel stay the same. Waits for the device.
// try_matrix_engine asks anew.
CLPRIM_API bool try_matrix_engine(const Device& device, MatrixEngineChoice engine, DataType type);
bool matrix_engine_works(const Device& device, MatrixEngine engine, DataType type);
// The same of tiles whose slabs are copied past registers.
CLPRIM_API bool try_copies_past_registers(const Device& device, MatrixEngineChoice engine);
bool copies_past_registers(MatrixEngineChoice engine, const Device& device);
// The same of tiles that warpgroups multiply.
CLPRIM_API bool try_warpgroups(const Device& device, MatrixEngineChoice engine);
bool has_warpgroups(MatrixEngineChoice engine, const Device& device);

}  // namespace clprim::detail
