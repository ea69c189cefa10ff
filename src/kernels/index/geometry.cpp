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
           (large() ? " -DLARGE" : "") + (each_ > 1 ? " -DEACH=" + std::to_string(each_) : "") +
           (end_ ? " -DRAGGED" : "");
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
        if (each_ > 1) {
            words.insert(words.end(), {apart_, end_});
            words.insert(words.end(), steps_.begin(), steps_.end());
        }
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
    if (each_ > 1) {
        words.insert(words.end(), {static_cast<std::uint32_t>(apart_), static_cast<std::uint32_t>(end_)});
        words.insert(words.end(), steps_.begin(), steps_.end());
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

// Best is one that the last operand does not move along, then one that all work-items have `each` positions of, else
// the one that leaves the fewest without. The innermost one must leave neighbours to a sub-group.
int Geometry::shared_dimension(int each) const
{
    const auto score = [&](int d) {
        const std::int64_t per_item = (sizes_[d] + each - 1) / each;
        const bool exact = sizes_[d] % each == 0;
        if (d == 0 && dims() > 1 && (!exact || per_item < 16))
            return 0.0;
        const bool still = strides_.back()[d] == 0;
        return static_cast<double>(sizes_[d]) / static_cast<double>(per_item * each) + (exact ? 1 : 0) +
               (exact && still ? 1 : 0);
    };
    int best = dims() - 1;
    for (int d = dims() - 1; d >= 0; --d)
        if (score(d) >= score(best))
            best = d;
    return best;
}

void Geometry::share(int each)
{
    if (sizes_.empty()) {
        sizes_.push_back(1);
        for (auto& strides : strides_)
            strides.push_back(0);
    }
    const int d = shared_dimension(each);
    const bool exact = sizes_[d] % each == 0;
    if (!exact) {   // the outermost one, so that a work-item's positions are told by their number
        std::rotate(sizes_.begin() + d, sizes_.begin() + d + 1, sizes_.end());
        for (auto& strides : strides_)
            std::rotate(strides.begin() + d, strides.begin() + d + 1, strides.end());
    }
    std::int64_t& size = exact ? sizes_[d] : sizes_.back();
    const std::int64_t per_item = (size + each - 1) / each;
    end_ = exact ? 0 : numel_;
    apart_ = numel_ / size * per_item;
    numel_ = apart_;
    size = per_item;
    each_ = each;
    for (const auto& strides : strides_)
        steps_.push_back(per_item * (exact ? strides[d] : strides.back()));
}

bool Geometry::share_neighbours(int each, unsigned dense)
{
    if (dims() == 0 || sizes_[0] % each != 0)
        return false;
    for (std::size_t k = 0; k < strides_.size(); ++k) {
        if (!(dense >> k & 1u))
            continue;
        for (int d = 0; d < dims(); ++d)
            if (d == 0 ? strides_[k][0] != 1 : strides_[k][d] % each != 0)
                return false;
    }
    numel_ /= each;
    sizes_[0] /= each;
    each_ = each;
    for (auto& strides : strides_) {
        steps_.push_back(strides[0]);
        strides[0] *= each;
    }
    return true;
}

}  // namespace clprim
