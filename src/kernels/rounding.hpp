// Whole pieces that cover a size.
#pragma once

#include <algorithm>
#include <cstdint>

namespace clprim::detail {

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

// Work-items among which a CPU's cores share the reading of so many weights, where each prepares its operand once more:
// one for each core where weights are few, up to four where there is work to balance; as many for each core, since all
// would wait for the last one otherwise.
inline std::int64_t reading_items(std::int64_t weights, std::uint32_t compute_units)
{
    const std::int64_t cores = compute_units > 0 ? compute_units : 1;
    return round_up(std::clamp(weights >> 20, cores, 4 * cores), cores);
}

}  // namespace clprim::detail
