#include <kernels/pointwise/iteration.hpp>

#include <bit>
#include <cstring>

namespace clprim {

std::int64_t Iteration::numel() const
{
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d)
        n *= size[d];
    return n;
}

void Iteration::append(std::int64_t extent, std::span<const std::int64_t> strides)
{
    require<NotSupported>(rank < max_rank, "tensors with more than ", max_rank,
                          " dimensions that cannot be merged are not supported");
    size[rank] = extent;
    std::copy(strides.begin(), strides.end(), stride[rank].begin());
    ++rank;
}

void Iteration::pad(int dimensions)
{
    for (; rank < dimensions; ++rank) {
        size[rank] = 1;
        stride[rank].fill(0);
    }
}

void Iteration::sort(int leader)
{
    // True if dimension a must be faster than b: decided by the first operand in which both move and which tells them
    // apart. Like TensorIterator, so that dense layouts of any order become one dimension.
    auto compare = [&](int a, int b, int k) {
        std::int64_t sa = stride[a][k], sb = stride[b][k];
        return sa == 0 || sb == 0 || sa == sb ? 0 : sa < sb ? 1 : -1;
    };
    auto faster = [&](int a, int b) {
        int order = 0;
        for (int k = leader; k >= 0 && order == 0; --k)
            order = compare(a, b, k);
        for (int k = leader + 1; k < operands && order == 0; ++k)
            order = compare(a, b, k);
        return order > 0;
    };
    for (int i = 1; i < rank; ++i)
        for (int j = i; j > 0 && faster(j, j - 1); --j) {
            std::swap(size[j], size[j - 1]);
            std::swap(stride[j], stride[j - 1]);
        }
}

void Iteration::collapse()
{
    int last = 0;
    for (int d = 0; d < rank; ++d) {
        if (size[d] == 1)
            continue;
        bool merge = last > 0;
        for (int k = 0; merge && k < operands; ++k)
            merge = stride[last - 1][k] * size[last - 1] == stride[d][k];
        if (merge) {
            size[last - 1] *= size[d];
        } else {
            if (d != last) {
                size[last] = size[d];
                stride[last] = stride[d];
            }
            ++last;
        }
    }
    rank = last;
}

std::int64_t Iteration::reach() const
{
    std::int64_t most = 0;
    for (int k = 0; k < operands; ++k) {
        std::int64_t offset = 0;
        for (int d = 0; d < rank; ++d)
            offset += (size[d] - 1) * stride[d][k];
        most = std::max(most, offset);
    }
    return most;
}

void broadcast_strides(const Tensor& tensor, const Dims& shape, const char* what, std::span<std::int64_t> strides)
{
    std::size_t missing = shape.size() - std::min(shape.size(), tensor.dim());
    bool fits = tensor.dim() <= shape.size();
    for (std::size_t d = 0; fits && d < shape.size(); ++d) {
        if (d < missing || (tensor.shape[d - missing] == 1 && shape[d] != 1)) {
            strides[d] = 0;
        } else {
            fits = tensor.shape[d - missing] == shape[d];
            strides[d] = tensor.strides[d - missing];
        }
    }
    if (!fits) [[unlikely]]   // not require: its strings would be made at every launch
        throw InvalidArgument(detail::concat(what, " of shape ", to_string(tensor.shape), " does not broadcast to ",
                                             to_string(shape)));
}

Divider::Divider(std::uint32_t divisor)
{
    divisor = std::max(divisor, 1u);   // an empty dimension is never divided by
    shift = divisor <= 1 ? 0 : 32 - std::countl_zero(divisor - 1);
    magic =
        static_cast<std::uint32_t>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - divisor)) / divisor + 1);
}

namespace {

template <class Index>
std::size_t write_geometry_as(const Iteration& loops, int first, int rank, std::byte* target)
{
    std::byte* const begin = target;
    auto put = [&](auto value) {
        std::memcpy(target, &value, sizeof value);
        target += sizeof value;
    };
    auto extent = [&](int d) { return first + d < loops.rank ? loops.size[first + d] : 1; };
    for (int d = 0; d < rank; ++d)
        put(static_cast<Index>(extent(d)));
    for (int d = 0; d < rank; ++d)
        put(static_cast<Index>(sizeof(Index) == 4 ? Divider(static_cast<std::uint32_t>(extent(d))).magic : 0));
    for (int d = 0; d < rank; ++d)
        put(static_cast<Index>(sizeof(Index) == 4 ? Divider(static_cast<std::uint32_t>(extent(d))).shift : 0));
    for (int d = 0; d < rank; ++d)
        for (int k = 0; k < loops.operands; ++k)
            put(static_cast<Index>(first + d < loops.rank ? loops.stride[first + d][k] : 0));
    return static_cast<std::size_t>(target - begin);
}

}  // namespace

std::size_t write_geometry(const Iteration& loops, int first, int rank, bool wide, GeometryBytes& bytes)
{
    return wide ? write_geometry_as<std::uint64_t>(loops, first, rank, bytes.data())
                : write_geometry_as<std::uint32_t>(loops, first, rank, bytes.data());
}

int rank_bucket(int rank)
{
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(rank, 1))));
}

}  // namespace clprim
