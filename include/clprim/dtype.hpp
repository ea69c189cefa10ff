// Element types of tensors and how OpenCL C names them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace clprim {

enum class DataType : std::uint8_t {
    float32, float64, float16, bfloat16,
    int8, int16, int32, int64,
    uint8, uint16, uint32, uint64,
    boolean,
    complex32, complex64, complex128,
};
inline constexpr int data_type_count = 16;

std::size_t size_of(DataType type) noexcept;             // bytes per element
std::string_view name_of(DataType type) noexcept;        // "float32", "bfloat16", "boolean", ...; as in core/dtype.cl
DataType data_type_from_name(std::string_view name);     // inverse of name_of; throws InvalidArgument

bool is_floating_point(DataType type) noexcept;          // float32, float64, float16, bfloat16
bool is_complex(DataType type) noexcept;
bool is_integral(DataType type) noexcept;                // signed and unsigned integers, without boolean
bool is_signed(DataType type) noexcept;

// OpenCL C type in which an element lies in memory: "float", "ushort" bits for float16 (see the helpers in
// core/dtype.cl), "uchar" for boolean, "float2" for complex64.
std::string_view opencl_storage_type(DataType type) noexcept;

// OpenCL C type in which clprim computes with an element: float for float16 and bfloat16, "double" for float64.
std::string_view opencl_compute_type(DataType type) noexcept;

}  // namespace clprim
