// Launch choices shared by kernels written with core/vector.cl.
#pragma once

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <string>
#include <string_view>

#include <clprim/context.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {

// Lanes of a vector and work-items of a team: one work-item with 16 lanes on a CPU, a work-group of scalars or quads on
// a GPU.
struct Team {
    unsigned vec, size;
    unsigned teams = 1;   // of a work-group
};

// Small teams share a group: cores hold few groups.
inline void share_group(Team& team, const Device& device)
{
    while (team.size > 1 && 2 * team.size * team.teams <= std::min<std::size_t>(128, device.max_work_group_size))
        team.teams *= 2;
}

inline Team team_for(const Device& device, unsigned gpu_size = 256)
{
    if (device.kind == DeviceKind::cpu)
        return {16, 1};
    while (gpu_size > device.max_work_group_size)
        gpu_size /= 2;
    return {1, gpu_size};
}

// A GPU's team for rows of `row` elements: of quads if the rows of all tensors lie at multiples of four elements, and
// no larger than a row needs.
inline Team team_for_rows(const Device& device, std::int64_t row, std::initializer_list<const Tensor*> tensors)
{
    Team team = team_for(device);
    if (team.size == 1)
        return team;
    const auto in_quads = [](const Tensor* tensor) { return !tensor->defined() || tensor->buffer_offset() % 4 == 0; };
    if (row % 4 == 0 && std::all_of(tensors.begin(), tensors.end(), in_quads))
        team.vec = 4;
    while (team.size > 32 && std::int64_t(team.size / 2) * team.vec >= row)
        team.size /= 2;
    return team;
}

// On a GPU, groups in which the work-items of a column share its `parts`, a few each, beside those of other columns,
// whose values lie side by side: (columns, 1) groups of (columns of a group, work-items of a column).
inline Range column_range(const Device& device, std::size_t columns, std::size_t parts)
{
    const std::size_t most = std::bit_floor(std::min<std::size_t>(256, device.max_work_group_size));
    const std::size_t least = std::min<std::size_t>(std::bit_ceil(columns), 8);
    const std::size_t high = std::min(std::bit_ceil((parts + 3) / 4), most / least);
    const std::size_t wide = std::min(most / high, std::bit_ceil(columns));
    return Range::groups({(columns + wide - 1) / wide, 1, 1}, {wide, high, 1});
}

// A work-item for each element of `depth` planes of `height` x `width`: groups of 64 that reach into the second axis
// where the first is short, on CPUs of more rows, since each group is a call there.
inline Range plane_range(const Device& device, std::size_t width, std::size_t height, std::size_t depth)
{
    const bool cpu = device.kind == DeviceKind::cpu;
    const std::size_t wide = std::min<std::size_t>(std::bit_ceil(width), cpu ? 256 : 64);
    const std::size_t high = cpu ? std::min(512 / wide, std::bit_ceil(height)) : 64 / wide;
    return Range::groups({(width + wide - 1) / wide, (height + high - 1) / high, depth}, {wide, high, 1});
}

// Type that sums of elements are kept in.
inline DataType accumulate_type(DataType type) { return type == DataType::float64 ? type : DataType::float32; }

// A value of that type as a kernel argument: passes itself as float or double.
struct AccScalar {
    double value;
    DataType type;
};

inline void add_arguments(Launch&) {}
template <class First, class... Rest>
void add_arguments(Launch& launch, const First& first, const Rest&... rest)
{
    if constexpr (std::is_same_v<First, AccScalar>) {
        if (first.type == DataType::float64)
            launch.arg(first.value);
        else
            launch.arg(static_cast<float>(first.value));
    } else {
        launch.arg(first);
    }
    add_arguments(launch, rest...);
}

// Queue::launch that also takes AccScalar.
template <class... Arguments>
void launch(Queue& queue, Kernel& kernel, const Range& range, const Arguments&... arguments)
{
    Launch launch(queue, kernel);
    add_arguments(launch, arguments...);
    launch.run(range);
}

// " -DX=float32" and so on.
inline std::string define(std::string_view name, DataType type)
{
    return detail::concat(" -D", name, "=", type == DataType::boolean ? "boolean" : name_of(type));
}
inline std::string define_team(Team team, DataType accumulate)
{
    return detail::concat(" -DVEC=", team.vec, " -DTEAM=", team.size, " -DACC=", opencl_compute_type(accumulate),
                          " -DPARTIAL=", name_of(accumulate), team.teams > 1 ? " -DTEAMS=" : "",
                          team.teams > 1 ? std::to_string(team.teams) : "");
}

}  // namespace clprim::detail
