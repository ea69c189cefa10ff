#include <inductor/ranges.hpp>

#include <algorithm>

#include <c10/util/Exception.h>

namespace torch_ocl {
namespace {

using Size = std::size_t;

// A work-item for each element; smaller groups where one per compute unit would not come out.
clprim::Range linear(const clprim::Device& device, Size largest, Size count)
{
    Size local = largest;
    while (local > 64 && local * device.compute_units > count)
        local /= 2;
    return clprim::Range::linear(count, local);
}

Size round_up(Size count, Size step)
{
    return (count + step - 1) / step * step;
}

// Groups of several rows: of short ones a CPU driver would spend its time between groups. Enough groups are left for
// all compute units.
clprim::Range rows(const clprim::Device& device, Size length, Size count)
{
    const bool cpu = device.kind == clprim::DeviceKind::cpu;
    const Size widest = std::min<Size>(cpu ? 1024 : 256, device.max_work_group_size);
    const Size largest = std::min<Size>(cpu ? 4096 : 256, device.max_work_group_size);
    Size local = 16;
    while (local < widest && local < length)
        local *= 2;
    const Size least = 4 * device.compute_units, groups = round_up(length, local) / local;
    Size others = 1;
    while (2 * local * others <= largest && groups * count >= 2 * others * least)
        others *= 2;
    return {{round_up(length, local), round_up(count, others), 1}, {local, others, 1}, 2};
}

// Groups of squares, or of columns of them: what lies across a tensor's rows fetches lines of memory that the group's
// next rows need, too.
clprim::Range tiles(const clprim::Device& device, Size length, Size count)
{
    const bool cpu = device.kind == clprim::DeviceKind::cpu;
    const Size others = std::min<Size>(cpu ? 64 : 16, std::max<Size>(device.max_work_group_size / 16, 1));
    return {{round_up(length, 16), round_up(count, others), 1}, {16, others, 1}, 2};
}

// Groups of some ten thousand elements, as long as enough of them are left for all compute units.
clprim::Range items(const clprim::Device& device, Size count, Size elements)
{
    const Size least = 4 * device.compute_units, most = std::min<Size>(256, device.max_work_group_size);
    Size local = 1;
    while (2 * local <= most && 2 * local * elements <= 16384 && 2 * local * least <= count)
        local *= 2;
    return clprim::Range::linear(count, local);
}

}  // namespace

clprim::Range inductor_range(const clprim::Device& device, TorchOclRange kind, const std::int64_t* sizes)
{
    const bool cpu = device.kind == clprim::DeviceKind::cpu;
    const Size largest = std::min<Size>(cpu ? 1024 : 256, device.max_work_group_size);
    const auto at = [&](int i) { return static_cast<Size>(sizes[i]); };
    switch (kind) {
    case TORCH_OCL_LINEAR: return linear(device, largest, at(0));
    case TORCH_OCL_ROWS: return rows(device, at(0), at(1));
    case TORCH_OCL_TILES: return tiles(device, at(0), at(1));
    // A work-item for each output of a reduction.
    case TORCH_OCL_OUTPUTS: return clprim::Range::linear(at(0), at(0) <= 16 ? 16 : cpu || at(0) < 65536 ? 64 : largest);
    case TORCH_OCL_ITEMS: return items(device, at(0), at(1));
    case TORCH_OCL_GROUPS: return {{at(0) * at(1), 1, 1}, {at(1), 1, 1}, 1};
    case TORCH_OCL_FIXED: return {{at(0), at(1), at(2)}, {at(3), at(4), at(5)}, 3};
    }
    TORCH_CHECK(false, "a kernel of Inductor has no range of kind ", static_cast<int>(kind));
}

}  // namespace torch_ocl
