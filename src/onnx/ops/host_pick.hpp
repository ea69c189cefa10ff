// Moves of elements on the host, for strings and for small tensors that shapes are computed from.
#pragma once

#include <cstring>

#include <clprim/value.hpp>

namespace clprim::onnx {

// The value of `shape` whose element i, row-major, is source's element from(i); strings too.
template <class From>
Value pick(const Value& source, const Dims& shape, From&& from)
{
    const auto count = static_cast<std::size_t>(shape.product());
    if (source.type() == ElementType::string) {
        std::vector<std::string> strings;
        for (std::size_t i = 0; i < count; ++i)
            strings.push_back(source.strings()[static_cast<std::size_t>(from(static_cast<std::int64_t>(i)))]);
        return Value::strings(shape, std::move(strings));
    }
    Value result = Value::zeros(source.type(), shape);
    const std::size_t width = size_of(storage_type(source.type()));
    const std::byte* bytes = source.host_bytes();
    std::byte* target = result.mutable_bytes();
    for (std::size_t i = 0; i < count; ++i)
        std::memcpy(target + i * width, bytes + static_cast<std::size_t>(from(static_cast<std::int64_t>(i))) * width,
                    width);
    return result;
}

// Row-major position i of `shape` as the sum of coordinate * stride.
inline std::int64_t strided_position(std::int64_t i, const Dims& shape, const Dims& strides)
{
    std::int64_t position = 0;
    for (std::size_t d = shape.size(); d-- > 0; i /= shape[d])
        position += i % shape[d] * strides[d];
    return position;
}

// Element (i0, i1, ...) of the result is the source's at offset + sum i_d * strides[d], in the source's row-major
// order.
inline Value pick_strided(const Value& source, const Dims& shape, const Dims& strides, std::int64_t offset = 0)
{
    return pick(source, shape, [&](std::int64_t i) { return offset + strided_position(i, shape, strides); });
}

}  // namespace clprim::onnx
