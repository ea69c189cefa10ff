// The register tile of gpu_micro_kernel.cl on the host side.
#pragma once

#include <functional>
#include <string>

#include <clprim/context.hpp>
#include <core/gpu_rate.hpp>
#include <core/parameters.hpp>

namespace clprim::detail {

struct GpuTile {
    std::int64_t lines;    // TILE: sums along each side of a group's block, 32, 64 or 128
    std::int64_t slab_k;   // products of a sum per pass through local memory
    int registers = 0;     // most of a work-item, where a driver takes such an option; 0: as its compiler likes
    int sub_group = 0;     // SUB_GROUP, where its compiler would take a larger one; 0: as it likes
    int resident = 2;      // groups that a core has registers for, as far as they matter to who waits
    bool interleaved = false;   // work-items, as gpu_micro_kernel.cl has it
    int stages = 0;        // slabs in local memory by tiled_stages.cl; 0: without it

    std::int64_t side() const { return lines == 32 ? 8 : 16; }   // SIDE: work-items along each side of a group
    std::int64_t items() const { return side() * side(); }
    std::string options() const;   // " -DTILE=128 -DSLAB_K=8" and the like
    std::size_t local_memory(DataType real) const;   // bytes of both slabs
    Workload work(const GpuRate& rate, double groups, double depth) const;   // blocks of sums of `depth` products
};

// The sub-groups that kernels with many sums ask for: 16 on Intel's Xe-HPC and later, whose compiler may take 32, of
// which a work-item has half the registers; 0 where it decides well.
int spilling_sub_group(const Device& device);
// Intel's GPUs before Xe-HPC and Xe2: sub-groups of 8, registers of 32 bytes.
bool has_eights(const Device& device);
// Whether the driver is NVIDIA's, which takes the most registers of a work-item as an option.
bool on_nvidia(const Device& device);

constexpr std::size_t smallest_tile_items = 64;   // the least that a device's work-groups must hold

// The large tile, half the reads of the small one, where sums are float and `large_tiles` of them fill the device;
// the smallest where work-groups of the others are too large for the device.
GpuTile gpu_tile(const Device& device, DataType real, std::int64_t large_tiles);

// What blocks of one launch compute: sums, in `groups` of rows and columns, of `depth` products each.
struct TiledSums {
    std::int64_t rows, columns, groups, depth;
    double elements;           // partial results of one of the parts that depth may be cut into
    std::int64_t most_parts;
    bool added_anyway = false;   // as best_parts has it
};
struct TiledCut {
    GpuTile tile;
    std::int64_t parts;
    double clocks = 0;   // estimated
};
// The tile and the number of parts that take the least time by core/gpu_rate.hpp; gpu_tile and the best parts on
// Intel's GPUs. `adapt` makes of each tile what the kernel asks for.
CLPRIM_API TiledCut best_tiled_cut(const Device& device, DataType real, const TiledSums& sums,
                                   const std::function<void(GpuTile&)>& adapt = {});

// Its parameters, and the tile at a point; NotSupported where the group is too large for the slab, or the slab for the
// device.
Space gpu_tile_space(const GpuTile& usual, const Device& device);
GpuTile gpu_tile_at(const Point& point, const Device& device, DataType real);

}  // namespace clprim::detail
