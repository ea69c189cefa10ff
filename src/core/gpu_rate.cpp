#include <core/gpu_rate.hpp>

#include <algorithm>
#include <cmath>

#include <core/matrix_engine.hpp>

namespace clprim::detail {
namespace {

bool has_large_cores(const Device& device)
{
    return device.vendor.starts_with("NVIDIA") || device.vendor.starts_with("Advanced Micro Devices") ||
           device.vendor.starts_with("AMD");
}

// While one sub-group waits for memory or for its own sums, a second one on the engine works, half as well where both
// meet at the barriers of their work-group.
double share_of_peak(double groups, double sub_groups)
{
    return 0.4 + 0.2 * std::min(std::max(groups, 1.0) + 0.5 * (sub_groups - 1), 2.0);
}

// What a work-group takes to begin and to end.
constexpr double clocks_around = 1500;

}  // namespace

bool is_intel(const Device& device) { return device.has_extension("cl_intel_required_subgroup_size"); }

std::int64_t resident_items(const Device& device)
{
    // Drivers of Intel count vector engines, of eight threads with sixteen lanes each.
    return std::int64_t{device.compute_units} * (is_intel(device) ? 128 : has_large_cores(device) ? 2048 : 1024);
}

GpuRate gpu_rate(const Device& device)
{
    const double units = std::max(1u, device.compute_units);
    if (is_intel(device)) {   // whose drivers count vector engines
        const auto& sizes = device.sub_group_sizes;
        const bool eights = std::ranges::find(sizes, std::size_t{8}) != sizes.end();
        const double cores = std::max(1.0, units / (eights ? 16 : 8));
        if (!eights && device.has_extension("cl_intel_subgroup_split_matrix_multiply_accumulate"))
            return {cores, units, 16, 256, 2};   // Xe-HPC
        if (!eights)
            return {cores, units, 16, 128, 1};
        const bool matrices = device.has_extension("cl_intel_subgroup_matrix_multiply_accumulate");
        return {cores, units, 8, matrices ? 64.0 : 8.0, 0.5};
    }
    const MatrixEngineChoice choice = matrix_engine(device);
    switch (choice.emulated ? MatrixEngine::none : choice.engine) {
    case MatrixEngine::mma: {
        // Stacked memory, of those for servers, whose capability is a whole number: an H100 moves 3.0 TB/s.
        const int capability = compute_capability(device);
        const bool stacked = capability > 0 && capability % 10 == 0;
        return {units, 4 * units, 32, 128, stacked ? 3.0 : 1.6};
    }
    case MatrixEngine::mma75: return {units, 4 * units, 16, 64, 1.4};
    case MatrixEngine::wmma:
    case MatrixEngine::wmma12: return {units, 4 * units, 48, 128, 2};
    case MatrixEngine::mfma: return {units, 4 * units, 32, 256, 2};
    default: break;
    }
    return has_large_cores(device) ? GpuRate{units, 4 * units, 32, 32, 1.6} : GpuRate{units, units, 32, 32, 2};
}

double launch_clocks(const GpuRate& rate, const Workload& work)
{
    const double held = work.groups * work.engines / rate.engines;
    const double turns = work.streams ? std::max(held, 1.0) : std::ceil(held);
    if (work.waits > 0) {
        const double together = std::min(std::max(turns, 1.0), work.resident);
        return turns * (std::max(work.clocks, (work.clocks + work.waits) / together) + clocks_around + work.around);
    }
    return turns * (work.clocks + clocks_around + work.around) / share_of_peak(held, work.sub_groups);
}

double parts_clocks(const GpuRate& rate, double parts, double elements)
{
    constexpr double each = 100;   // a work-item adds one part after the other, a few of which are under way at once
    return 2 * sizeof(float) * parts * elements / (rate.bytes * rate.engines) + each * parts;
}

Parts best_parts(const GpuRate& rate, const Workload& work, double elements, std::int64_t most, bool added_anyway)
{
    constexpr double worth = 0.9;   // of the time of one part: the rates are rough
    Parts best{};
    double whole = 0;
    most = std::max<std::int64_t>(most, 1);
    for (std::int64_t count = 1; count <= most; count += std::max<std::int64_t>(count / 8, 1)) {
        const auto n = static_cast<double>(count);
        Workload part = work;
        part.groups *= n;
        part.clocks /= n;
        part.waits /= n;
        double clocks = launch_clocks(rate, part);
        if (added_anyway || count > 1)
            clocks += parts_clocks(rate, n, elements) + clocks_between_launches;
        if (count == 1)
            whole = clocks;
        if (count == 1 || (clocks < best.clocks && clocks < worth * whole))
            best = {count, clocks};
    }
    return best;
}

}  // namespace clprim::detail
