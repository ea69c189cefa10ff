#include <clprim/tensor.hpp>

#include <array>
#include <numeric>
#include <vector>

namespace clprim {

void Dims::resize(std::size_t count)
{
    if (count > capacity_) {
        const std::size_t capacity = std::max(count, 2 * capacity_);
        auto grown = std::make_unique<std::int64_t[]>(capacity);
        std::copy_n(data(), size_, grown.get());
        heap_ = std::move(grown);
        capacity_ = capacity;
    }
    if (count > size_)
        std::fill(data() + size_, data() + count, 0);
    size_ = count;
}

void Dims::swap(Dims& other) noexcept
{
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap_ranges(inline_, inline_ + inline_capacity, other.inline_);
    heap_.swap(other.heap_);
}

std::string to_string(const Dims& dims)
{
    std::string text = "[";
    for (std::size_t i = 0; i < dims.size(); ++i)
        text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

Dims contiguous_strides(const Dims& shape)
{
    Dims strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;)   // may wrap for shapes that no memory holds
        strides[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(strides[i]) *
                                                   static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i], 1)));
    return strides;
}

namespace {

// Whether walking the axes in `order`, innermost first, covers memory without gaps.
bool dense_in_order(const Tensor& tensor, std::span<const std::size_t> order)
{
    std::int64_t expected = 1;
    for (std::size_t axis : order) {
        if (tensor.shape[axis] == 1)
            continue;
        if (tensor.strides[axis] != expected)
            return false;
        expected *= tensor.shape[axis];
    }
    return true;
}

}  // namespace

bool Tensor::is_contiguous() const
{
    if (numel() == 0)
        return true;
    std::int64_t expected = 1;
    for (std::size_t i = dim(); i-- > 0;) {
        if (shape[i] == 1)
            continue;
        if (strides[i] != expected)
            return false;
        expected *= shape[i];
    }
    return true;
}

bool Tensor::is_channels_last() const
{
    if (dim() < 3 || dim() > 5)
        return false;
    std::array<std::size_t, 5> order{1};
    std::size_t n = 1;
    for (std::size_t axis = dim() - 1; axis >= 2; --axis)
        order[n++] = axis;
    order[n++] = 0;
    return dense_in_order(*this, {order.data(), n});
}

bool Tensor::is_non_overlapping_and_dense() const
{
    if (numel() == 0)
        return true;
    std::vector<std::size_t> order(dim());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return strides[a] < strides[b]; });
    return dense_in_order(*this, order);
}

Tensor Tensor::reshape(const Dims& new_shape) const
{
    require(is_contiguous(), "reshape: a tensor of shape ", to_string(shape), " and strides ", to_string(strides),
            " is not contiguous");
    bool countable = true;                               // a product that wraps could be the right one
    std::int64_t count = 1;
    for (auto size : new_shape)
        countable &= size >= 0 && !__builtin_mul_overflow(count, size, &count);
    require(countable && count == numel(), "reshape: shape ", to_string(new_shape), " does not hold the ", numel(),
            " elements of shape ", to_string(shape));
    return {memory, offset, dtype, new_shape, contiguous_strides(new_shape)};
}

Tensor Tensor::permute(std::initializer_list<int> axes) const
{
    require(axes.size() == dim(), "permute: ", axes.size(), " axes given for a tensor of ", dim(), " dimensions");
    Tensor result{memory, offset, dtype, Dims(dim(), 0), Dims(dim(), 0)};
    std::vector<bool> seen(dim());
    std::size_t i = 0;
    for (int axis : axes) {
        require(axis >= 0 && static_cast<std::size_t>(axis) < dim() && !seen[axis], "permute: axis ", axis,
                " is out of range or repeated");
        seen[axis] = true;
        result.shape[i] = shape[axis];
        result.strides[i++] = strides[axis];
    }
    return result;
}

Tensor Tensor::transpose(std::size_t a, std::size_t b) const
{
    require(a < dim() && b < dim(), "transpose: axes ", a, " and ", b, " of a tensor of ", dim(), " dimensions");
    Tensor result = *this;
    std::swap(result.shape[a], result.shape[b]);
    std::swap(result.strides[a], result.strides[b]);
    return result;
}

Tensor Tensor::slice(std::size_t axis, std::int64_t begin, std::int64_t end) const
{
    require(axis < dim(), "slice: axis ", axis, " of a tensor of ", dim(), " dimensions");
    require(0 <= begin && begin <= end && end <= shape[axis], "slice: range ", begin, " to ", end,
            " of an axis of size ", shape[axis]);
    Tensor result = *this;
    result.offset += begin * strides[axis];
    result.shape[axis] = end - begin;
    return result;
}

Tensor Tensor::expand(const Dims& new_shape) const
{
    require(new_shape.size() >= dim(), "expand: shape ", to_string(new_shape), " has fewer dimensions than ",
            to_string(shape));
    const std::size_t lead = new_shape.size() - dim();
    Tensor result{memory, offset, dtype, new_shape, Dims(new_shape.size(), 0)};
    for (std::size_t i = 0; i < dim(); ++i) {
        const bool same = shape[i] == new_shape[lead + i];
        require(same || shape[i] == 1, "expand: shape ", to_string(shape), " does not expand to ",
                to_string(new_shape));
        result.strides[lead + i] = same ? strides[i] : 0;
    }
    return result;
}

}  // namespace clprim
