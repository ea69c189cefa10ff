#include <kernels/index/geometry.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include <kernels/pointwise/iteration.hpp>

namespace clprim {

Geometry::Geometry(std::span<const Tensor* const> operands, bool keep_order)
{
    std::vector<Dims> strides;
    for (const Tensor* operand : operands) {
        require(operand->shape == operands[0]->shape, "operands of one iteration have shapes ",
                to_string(operands[0]->shape), " and ", to_string(operand->shape));
        strides.push_back(operand->strides);
    }
    collapse(operands[0]->shape, std::move(strides), keep_order);
}

Geometry::Geometry(const Dims& shape, std::span<const Dims> strides, bool keep_order)
{
    collapse(shape, {strides.begin(), strides.end()}, keep_order);
}

void Geometry::collapse(Dims shape, std::vector<Dims> strides, bool keep_order)
{
    numel_ = shape.product();
    strides_.resize(strides.size());

    std::vector<std::size_t> axes;   // innermost first
    for (std::size_t axis = shape.size(); axis-- > 0;)
        if (shape[axis] != 1)
            axes.push_back(axis);
    if (!keep_order)
        std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
            for (const Dims& s : strides)   // the first operand that moves along both decides
                if (s[a] != s[b] && s[a] != 0 && s[b] != 0)
                    return std::abs(s[a]) < std::abs(s[b]);
            return false;
        });

    for (std::size_t axis : axes) {
        bool joins = !sizes_.empty();
        for (std::size_t k = 0; joins && k < strides.size(); ++k)
            joins = strides[k][axis] == strides_[k].back() * sizes_.back();
        if (joins) {
            sizes_.back() *= shape[axis];
            continue;
        }
        sizes_.push_back(shape[axis]);
        for (std::size_t k = 0; k < strides.size(); ++k)
            strides_[k].push_back(strides[k][axis]);
    }
    require<NotSupported>(sizes_.size() <= 16, "more than 16 dimensions that cannot be merged");
}

// Few program variants: 1, 2, 3, 4, 8 or 16 dimensions.
int Geometry::padded_dims() const
{
    const int n = std::max(dims(), 1);
    return n <= 4 ? n : n <= 8 ? 8 : 16;
}

bool Geometry::large() const
{
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    if (numel_ > limit)
        return true;
    for (const auto& strides : strides_) {
        std::int64_t span = 0;
        for (int d = 0; d < dims(); ++d)
            span += std::abs(strides[d]) * std::max<std::int64_t>(sizes_[d] - 1, 0);
        if (span > limit)
            return true;
    }
    return false;
}

std::string Geometry::options() const
{
    return " -DDIMS=" + std::to_string(padded_dims()) + " -DOPERANDS=" + std::to_string(strides_.size()) +
           (large() ? " -DLARGE" : "");
}

// geometry_t of geometry.cl.
void Geometry::set_argument(Launch& launch) const
{
    const std::size_t n = padded_dims();
    if (large()) {
        std::vector<std::int64_t> words(1 + n * (1 + strides_.size()), 0);
        words[0] = numel_;
        std::fill_n(words.begin() + 1, n, 1);
        std::copy(sizes_.begin(), sizes_.end(), words.begin() + 1);
        for (std::size_t k = 0; k < strides_.size(); ++k)
            std::copy(strides_[k].begin(), strides_[k].end(), words.begin() + 1 + n * (1 + k));
        launch.set(words.size() * sizeof(std::int64_t), words.data());
        return;
    }
    std::vector<std::uint32_t> words{static_cast<std::uint32_t>(numel_)};
    std::vector<std::uint32_t> padded(n, 1);
    std::copy(sizes_.begin(), sizes_.end(), padded.begin());
    words.insert(words.end(), padded.begin(), padded.end());
    for (const std::uint32_t size : padded)
        words.push_back(Divider(size).magic);
    for (const std::uint32_t size : padded)
        words.push_back(Divider(size).shift);
    for (const auto& strides : strides_) {
        words.insert(words.end(), strides.begin(), strides.end());
        words.resize(words.size() + n - strides.size(), 0);
    }
    launch.set(words.size() * sizeof(std::uint32_t), words.data());
}

bool Geometry::widen(int factor, unsigned wide)
{
    if (dims() == 0 || numel_ == 0 || sizes_[0] % factor != 0)
        return false;
    for (std::size_t k = 0; k < strides_.size(); ++k) {
        const bool moves = wide >> k & 1u;
        if (strides_[k][0] != (moves ? 1 : 0))
            return false;
        for (int d = 1; moves && d < dims(); ++d)
            if (strides_[k][d] % factor != 0)
                return false;
    }
    numel_ /= factor;
    sizes_[0] /= factor;
    for (std::size_t k = 0; k < strides_.size(); ++k)
        for (int d = 1; (wide >> k & 1u) && d < dims(); ++d)
            strides_[k][d] /= factor;
    return true;
}

}  // namespace clprim
