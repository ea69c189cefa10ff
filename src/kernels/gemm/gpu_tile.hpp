// The register tile of gpu_micro_kernel.cl on the host side.
#pragma once

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

constexpr std::size_t smallest_tile_items = 64;   // the least that a device's work-groups must hold

// The large tile, half the reads of the small one, where sums are float and `large_tiles` of them fill the device;
// the smallest where work-groups of the others are too large for the device.
GpuTile gpu_tile(const Device& device, DataType real, std::int64_t large_tiles);

// Its parameters, and the tile at a point; NotSupported where the group is too large for the slab, or the slab for the
// device.
Space gpu_tile_space(const GpuTile& usual);
GpuTile gpu_tile_at(const Point& point, const Device& device, DataType real);

}  // namespace clprim::detail
