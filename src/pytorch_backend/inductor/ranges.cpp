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

clprim::Range rows(bool cpu, Size largest, Size length, Size count)
{
    Size local = 16;
    while (local < largest && local < length)
        local *= 2;
    Size others = 1;
    while (!cpu && local * others < largest && count % (2 * others) == 0 && count > 0)
        others *= 2;
    return {{(length + local - 1) / local * local, count, 1}, {local, others, 1}, 2};
}

}  // namespace

clprim::Range inductor_range(const clprim::Device& device, TorchOclRange kind, const std::int64_t* sizes)
{
    const bool cpu = device.kind == clprim::DeviceKind::cpu;
    const Size largest = std::min<Size>(cpu ? 1024 : 256, device.max_work_group_size);
    const auto at = [&](int i) { return static_cast<Size>(sizes[i]); };
    switch (kind) {
    case TORCH_OCL_LINEAR: return linear(device, largest, at(0));
    case TORCH_OCL_ROWS: return rows(cpu, largest, at(0), at(1));
    // A work-item for each output of a reduction.
    case TORCH_OCL_OUTPUTS: return clprim::Range::linear(at(0), at(0) <= 16 ? 16 : cpu || at(0) < 65536 ? 64 : largest);
    case TORCH_OCL_GROUPS: return {{at(0) * at(1), 1, 1}, {at(1), 1, 1}, 1};
    case TORCH_OCL_FIXED: return {{at(0), at(1), at(2)}, {at(3), at(4), at(5)}, 3};
    }
    TORCH_CHECK(false, "a kernel of Inductor has no range of kind ", static_cast<int>(kind));
}

}  // namespace torch_ocl
