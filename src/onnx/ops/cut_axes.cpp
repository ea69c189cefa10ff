#include "onnx/ops/cut_axes.hpp"

#include <algorithm>

namespace clprim::onnx {

std::optional<Dims> sizes_of_reshape(const Call& call, std::size_t input, const Dims& from)
{
    if (!call.input(input).on_host())
        return std::nullopt;
    Dims result;
    std::int64_t known = 1;
    std::optional<std::size_t> open;
    for (const std::int64_t given : call.ints(input)) {
        const std::size_t at = result.size();
        if (given == 0 && at >= from.size())
            return std::nullopt;
        if (given == -1 && !open)
            open = at;
        result.push_back(given == 0 ? from[at] : given);
        if (result.back() < (given == -1 ? -1 : 1) || result.back() > from.product())
            return std::nullopt;
        known *= given == -1 ? 1 : result.back();
        if (known > from.product())
            return std::nullopt;
    }
    if (open)
        result[*open] = from.product() / known;
    return result.product() == from.product() ? std::optional(result) : std::nullopt;
}

std::optional<Cuts> cuts_into(const Dims& from, const Dims& to)
{
    if (from.size() > to.size())
        return std::nullopt;
    Cuts result;
    std::size_t next = 0;
    const std::size_t most = to.size() - 2;
    for (std::size_t axis = 0; axis + 2 < from.size(); ++axis) {
        std::int64_t size = 1;
        const std::size_t begin = next;
        for (; size < from[axis] && next < most; ++next)
            size *= to[next];
        const bool last = axis + 3 == from.size();         // axes of one element go anywhere
        for (; next < most && to[next] == 1 && (last || from[axis] != 1 || begin == next); ++next) {}
        if (size != from[axis])
            return std::nullopt;
        result.push_back(next - begin);
    }
    const bool same = next == most && from[from.size() - 2] == to[most] && from.back() == to.back();
    return same ? std::optional(result) : std::nullopt;
}

Tensor cut(const Tensor& t, const Cuts& cuts, const Dims& to)
{
    Tensor result = t;
    result.shape = result.strides = Dims();
    std::size_t next = 0;
    for (std::size_t axis = 0; axis < cuts.size(); ++axis) {
        std::int64_t stride = t.strides[axis];
        for (std::size_t i = next; i < next + cuts[axis]; ++i)
            stride *= to[i];
        for (std::size_t end = next + cuts[axis]; next < end; ++next) {
            stride /= to[next];
            result.shape.push_back(t.shape[axis] == 1 ? 1 : to[next]);
            result.strides.push_back(t.shape[axis] == 1 ? 0 : stride);
        }
    }
    for (std::size_t axis = cuts.size(); axis < t.dim(); ++axis) {
        result.shape.push_back(t.shape[axis]);
        result.strides.push_back(t.strides[axis]);
    }
    return result;
}

Tensor with_axes(const Tensor& t, std::size_t dims)
{
    Tensor result = t;
    result.shape = result.strides = Dims(dims - t.dim(), 0);
    std::ranges::fill(result.shape, 1);
    for (std::size_t axis = 0; axis < t.dim(); ++axis) {
        result.shape.push_back(t.shape[axis]);
        result.strides.push_back(t.strides[axis]);
    }
    return result;
}

}  // namespace clprim::onnx
