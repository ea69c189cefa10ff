#include <kernels/copy/collapse.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace clprim {

bool CopySpace::fits_32_bits() const
{
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    std::int64_t last_source = 0, last_target = 0;
    for (std::size_t i = 0; i < rank(); ++i) {
        last_source += (shape[i] - 1) * source[i];
        last_target += (shape[i] - 1) * target[i];
    }
    return numel() < limit && last_source < limit && last_target < limit;
}

CopySpace collapse(const Dims& shape, const Dims& source, const Dims& target)
{
    std::vector<std::size_t> axes;
    for (std::size_t i = 0; i < shape.size(); ++i)
        if (shape[i] != 1)
            axes.push_back(i);
    // Stable from the last axis on, so that equal strides (0 after expand) keep row-major order.
    std::reverse(axes.begin(), axes.end());
    std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
        return std::pair(target[a], source[a]) < std::pair(target[b], source[b]);
    });

    CopySpace space;
    for (const std::size_t axis : axes) {
        if (const std::size_t n = space.rank(); n > 0) {
            const std::int64_t size = space.shape[n - 1];
            if (source[axis] == space.source[n - 1] * size && target[axis] == space.target[n - 1] * size) {
                space.shape[n - 1] = size * shape[axis];
                continue;
            }
        }
        space.shape.push_back(shape[axis]);
        space.source.push_back(source[axis]);
        space.target.push_back(target[axis]);
    }
    return space;
}

}  // namespace clprim
