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

std::int64_t Dims::large_product() const
{
    if (std::find(begin(), end(), 0) != end())
        return 0;
    throw InvalidArgument("shape " + to_string(*this) + " has more elements than 64 bits can count");
}

void Dims::throw_beyond(std::size_t i) const
{
    throw InvalidArgument(detail::concat("axis ", static_cast<std::int64_t>(i), " of ", to_string(*this),
                                         ", which has ", size_, " entries"));
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

std::size_t Tensor::nbytes() const
{
    std::size_t bytes = 0;
    require(!__builtin_mul_overflow(static_cast<std::size_t>(numel()), size_of(dtype), &bytes), "a tensor of shape ",
            to_string(shape), " has more bytes than 64 bits can count");
    return bytes;
}

namespace {

// The elements before and after the first one that the strides reach; false where 64 bits cannot say.
bool reach(const Tensor& tensor, std::int64_t& low, std::int64_t& high)
{
    low = high = 0;
    for (std::size_t i = 0; i < tensor.dim(); ++i) {
        std::int64_t way = 0;
        if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &way) ||
            __builtin_add_overflow(way < 0 ? low : high, way, way < 0 ? &low : &high))
            return false;
    }
    return !__builtin_add_overflow(low, tensor.offset, &low) && !__builtin_add_overflow(high, tensor.offset, &high);
}

}  // namespace

void Tensor::check(std::string_view operator_name, std::string_view argument) const
{
    bool sound = memory != nullptr && strides.size() == shape.size() && is_data_type(dtype),
         empty = false;
    for (const auto size : shape) {
        sound &= size >= 0;
        empty |= size == 0;
    }
    std::int64_t low = 0, high = 0, held = 0;
    if (sound) [[likely]] {
        held = static_cast<std::int64_t>(memory->requested / size_of(dtype));
        if (empty || (reach(*this, low, high) && low >= 0 && high < held)) [[likely]]
            return;
    }
    std::string text = detail::concat(operator_name, ": ", argument);
    require(memory != nullptr, text, " is undefined; expected a tensor");
    require(is_data_type(dtype), text, " has no valid dtype");
    require(strides.size() == shape.size(), text, " has ", shape.size(), " sizes but ", strides.size(), " strides");
    for (const auto size : shape)
        require(size >= 0, text, " has a negative size: ", to_string(shape));
    throw InvalidArgument(detail::concat(text, " of shape ", to_string(shape), ", strides ", to_string(strides),
                                         " and offset ", offset, " reaches beyond its memory, which holds ", held,
                                         " elements of ", name_of(dtype)));
}

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
