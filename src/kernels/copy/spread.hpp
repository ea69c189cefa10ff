// How a copy spreads over the work-items of a GPU.
#pragma once

#include <algorithm>
#include <bit>

#include <clprim/queue.hpp>
#include <kernels/copy/collapse.hpp>

namespace clprim {

inline std::size_t groups_for(std::size_t size, std::size_t per_group) { return (size + per_group - 1) / per_group; }

// spread_t in copy.cl, and the work-items that go with it.
template <class Index>
struct SpreadArgument {
    Index along_x, x_skip, y_each, columns, step, source_step, target_step, outer;
};

inline std::size_t largest_group(const Device& device)
{
    return std::min<std::size_t>(256, std::bit_floor(device.max_work_group_size));
}

// Work-groups of one shape that leave few work-items without work: rows of any length fill sub-groups together.
inline Range evenly(std::size_t x, std::size_t y, std::size_t z, std::size_t largest)
{
    const std::size_t local_x = groups_for(x, groups_for(x, largest));
    const std::size_t local_y = groups_for(y, groups_for(y, largest / local_x));
    const std::size_t local_z = groups_for(z, groups_for(z, largest / local_x / local_y));
    return Range::groups({groups_for(x, local_x), groups_for(y, local_y), groups_for(z, local_z)},
                         {local_x, local_y, local_z});
}

// What a GPU's work-items own.
struct Spread {
    std::size_t along_x = 0, y_each = 1, columns, outer;
    Range range;

    Spread(const CopySpace& space, bool quads, const Device& device)
        : columns(space.size(0) / (quads ? 4 : 1)), outer(space.outer())
    {
        const std::size_t each = quads ? 2 : 4, rows = space.size(1), largest = largest_group(device);
        along_x = rows < each && columns >= 16 * each;
        y_each = along_x ? 1 : each;
        const std::size_t y = groups_for(rows, y_each);
        range = evenly(along_x ? groups_for(columns, each) : columns, y, outer, largest);
        if (along_x)   // a group's elements lie together
            range = Range::groups({groups_for(columns, each * range.local[0]), groups_for(y, range.local[1]),
                                   groups_for(outer, range.local[2])}, range.local);
    }

    template <class Index>
    SpreadArgument<Index> argument(const CopySpace& space, bool quads) const
    {
        const std::int64_t each = quads ? 2 : 4;
        const auto local = static_cast<std::int64_t>(range.local[0]);
        const std::int64_t step = along_x ? local : 1, unit = quads ? 4 : 1;
        const auto step_of = [&](const Dims& strides) {
            return along_x ? step * unit * strides[0] : space.rank() > 1 ? strides[1] : 0;
        };
        const auto index = [](auto value) { return static_cast<Index>(value); };
        return {index(along_x), index(along_x ? (each - 1) * local : 0), index(y_each), index(columns), index(step),
                index(step_of(space.source)), index(step_of(space.target)), index(outer)};
    }
};

}  // namespace clprim
