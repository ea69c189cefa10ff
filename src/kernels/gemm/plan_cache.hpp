// Plans of products on a CPU are kept, since making one costs microseconds.
#pragma once

#include <array>

#include <core/lru_cache.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::detail {

// Whether rows so far apart meet in one set of the first-level cache.
inline bool meets_in_cache(std::int64_t step, std::int64_t element) { return step * element % 4096 == 0; }

template <class Plan>
class PlanCache {
public:
    Plan get(const GemmProblem& p, const Device& device, Plan (*make)(const GemmProblem&, const Device&))
    {
        const auto element = static_cast<std::int64_t>(size_of(gemm_compute_type(p.dtype)));
        const auto kind = [&](const MatrixLayout& layout) {
            return (layout.row == 1) + 2 * (layout.column == 1) + 4 * meets_in_cache(layout.row, element) +
                   8 * meets_in_cache(layout.column, element);
        };
        const Key key{device.index, p.batch, p.m, p.n, p.k, static_cast<std::int64_t>(p.dtype),
                      kind(p.a) + 16 * kind(p.b) + 256 * kind(p.c) + 4096 * (p.prepared_a != nullptr) +
                          8192 * (p.prepared_b != nullptr)};
        return plans_.get(key, [&] { return make(p, device); });
    }

private:
    using Key = std::array<std::int64_t, 7>;   // all that a plan depends on
    struct Hash {
        std::size_t operator()(const Key& key) const
        {
            std::uint64_t h = 0;
            for (std::int64_t word : key)
                h = (h ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
            return static_cast<std::size_t>(h);
        }
    };
    LruCache<Key, Plan, Hash> plans_{1024};
};

}  // namespace clprim::detail
