// Element types of tensors and how OpenCL C names them.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class DataType : std::uint8_t {
    float32, float64, float16, bfloat16,
    int8, int16, int32, int64,
    uint8, uint16, uint32, uint64,
    boolean,
    complex32, complex64, complex128,
    bcomplex32,     // two bfloat16
};
inline constexpr int data_type_count = 17;

bool is_data_type(DataType type) noexcept;               // an enumerator's value, which a cast number need not be
std::size_t size_of(DataType type) noexcept;             // bytes per element
std::string_view name_of(DataType type) noexcept;        // "float32", "bfloat16", "boolean", ...; as in core/dtype.cl
DataType data_type_from_name(std::string_view name);     // inverse of name_of; throws InvalidArgument

bool is_floating_point(DataType type) noexcept;          // float32, float64, float16, bfloat16
bool is_complex(DataType type) noexcept;
bool is_integral(DataType type) noexcept;                // signed and unsigned integers, without boolean
bool is_signed(DataType type) noexcept;

// Whether C++'s T is how the host sees elements of a type: float for float32, std::int64_t for int64, bool or
// std::uint8_t for boolean, std::complex<float> for complex64; std::uint16_t also for the bits of float16 and bfloat16.
template <class T>
bool is_element(DataType type) noexcept;

// OpenCL C type in which an element lies in memory: "float", "ushort" bits for float16 (see the helpers in
// core/dtype.cl), "uchar" for boolean, "float2" for complex64.
std::string_view opencl_storage_type(DataType type) noexcept;

// OpenCL C type in which clprim computes with an element: float for float16 and bfloat16, "double" for float64.
std::string_view opencl_compute_type(DataType type) noexcept;

template <class T>
bool is_element(DataType type) noexcept
{
    if (sizeof(T) != size_of(type))
        return false;
    if constexpr (std::is_same_v<T, bool>)
        return type == DataType::boolean;
    else if constexpr (std::is_floating_point_v<T>)
        return is_floating_point(type);
    else if constexpr (std::is_same_v<T, std::byte>)
        return true;
    else if constexpr (std::is_integral_v<T>)
        return (is_integral(type) && is_signed(type) == std::is_signed_v<T>) ||
               (std::is_same_v<T, std::uint16_t> && is_floating_point(type)) ||
               (std::is_same_v<T, std::uint8_t> && type == DataType::boolean);
    else
        return is_complex(type) && std::is_same_v<T, std::complex<typename T::value_type>>;
}

}  // namespace clprim
CLPRIM_API_END
