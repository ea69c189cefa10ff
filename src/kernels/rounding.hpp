// Whole pieces that cover a size.
#pragma once

#include <cstdint>

namespace clprim::detail {

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

}  // namespace clprim::detail
