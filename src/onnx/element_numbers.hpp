// Elements in host memory as numbers of C++.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <clprim/error.hpp>
#include <clprim/value.hpp>

#include "onnx/float_bits.hpp"

namespace clprim::onnx {

inline bool is_whole(ElementType type)
{
    return type == ElementType::uint4 || type == ElementType::int4 || type == ElementType::uint2 ||
           type == ElementType::int2 || (!is_narrow(type) && type != ElementType::string);
}

// Calls f with a number of the elements' C++ type. float16 and bfloat16 are not among them.
template <class F>
void with_element_type(DataType type, F&& f)
{
    switch (type) {
    case DataType::float32: return f(float{});
    case DataType::float64: return f(double{});
    case DataType::int8: return f(std::int8_t{});
    case DataType::int16: return f(std::int16_t{});
    case DataType::int32: return f(std::int32_t{});
    case DataType::int64: return f(std::int64_t{});
    case DataType::uint8: case DataType::boolean: return f(std::uint8_t{});
    case DataType::uint16: return f(std::uint16_t{});
    case DataType::uint32: return f(std::uint32_t{});
    case DataType::uint64: return f(std::uint64_t{});
    default: throw InvalidArgument("expected a real tensor, got one of " + std::string(name_of(type)));
    }
}

// Elements of real tensors as numbers of a C++ type, converted as C++ does.
template <class Out>
std::vector<Out> numbers_of(ElementType type, const std::byte* bytes, std::size_t count)
{
    std::vector<Out> result(count);
    if (type == ElementType::float16 || type == ElementType::bfloat16) {
        for (std::size_t i = 0; i < count; ++i) {
            std::uint16_t bits;
            std::memcpy(&bits, bytes + 2 * i, 2);
            result[i] = static_cast<Out>(type == ElementType::float16 ? half_to_float(bits) : bfloat16_to_float(bits));
        }
        return result;
    }
    require(is_whole(type), "expected a tensor of numbers, got one of ", name_of(type));
    with_element_type(storage_type(type), [&]<class T>(T) {
        for (std::size_t i = 0; i < count; ++i) {
            T element;
            std::memcpy(&element, bytes + i * sizeof(T), sizeof(T));
            result[i] = static_cast<Out>(element);
        }
    });
    return result;
}

}  // namespace clprim::onnx
