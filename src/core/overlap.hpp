// Whether elements of results share memory.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <clprim/tensor.hpp>

namespace clprim::detail {

// Whether two elements of a tensor may be one number in memory, as those of an expanded tensor are. Says so also of
// interleaved axes that a closer look would tell apart.
inline bool may_overlap(const Tensor& tensor)
{
    std::vector<std::pair<std::int64_t, std::int64_t>> axes;   // stride, size
    for (std::size_t i = 0; i < tensor.dim(); ++i)
        if (tensor.size(i) > 1)
            axes.emplace_back(std::abs(tensor.stride(i)), tensor.size(i));
    std::ranges::sort(axes);
    std::int64_t reach = 0;                                    // from the first element to the last
    for (const auto& [stride, size] : axes) {
        if (stride <= reach)
            return tensor.numel() > 0;
        reach += stride * (size - 1);
    }
    return false;
}

// Whether the stretches of memory that two tensors lie in meet.
inline bool meet(const Tensor& a, const Tensor& b)
{
    const auto stretch = [](const Tensor& t) {
        std::int64_t low = t.offset, high = t.offset + 1;
        for (std::size_t i = 0; i < t.dim(); ++i)
            (t.stride(i) < 0 ? low : high) += (t.size(i) - 1) * t.stride(i);
        const auto bytes = static_cast<std::int64_t>(size_of(t.dtype));
        return std::pair(low * bytes, high * bytes);
    };
    if (!a.defined() || !b.defined() || a.memory != b.memory || a.numel() == 0 || b.numel() == 0)
        return false;
    const auto [a_low, a_high] = stretch(a);
    const auto [b_low, b_high] = stretch(b);
    return a_low < b_high && b_low < a_high;
}

}  // namespace clprim::detail
