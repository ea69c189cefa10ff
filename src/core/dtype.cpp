#include <clprim/dtype.hpp>

#include <clprim/error.hpp>

namespace clprim {
namespace {

struct Traits {
    std::string_view name, storage, compute;
    std::uint8_t size;
    bool floating, integral, is_signed, complex;
};

// In the order of DataType.
constexpr Traits traits[data_type_count] = {
    {"float32", "float", "float", 4, true, false, true, false},
    {"float64", "double", "double", 8, true, false, true, false},
    {"float16", "ushort", "float", 2, true, false, true, false},
    {"bfloat16", "ushort", "float", 2, true, false, true, false},
    {"int8", "char", "char", 1, false, true, true, false},
    {"int16", "short", "short", 2, false, true, true, false},
    {"int32", "int", "int", 4, false, true, true, false},
    {"int64", "long", "long", 8, false, true, true, false},
    {"uint8", "uchar", "uchar", 1, false, true, false, false},
    {"uint16", "ushort", "ushort", 2, false, true, false, false},
    {"uint32", "uint", "uint", 4, false, true, false, false},
    {"uint64", "ulong", "ulong", 8, false, true, false, false},
    {"boolean", "uchar", "uchar", 1, false, false, false, false},
    {"complex32", "ushort2", "float2", 4, false, false, true, true},
    {"complex64", "float2", "float2", 8, false, false, true, true},
    {"complex128", "double2", "double2", 16, false, false, true, true},
    {"bcomplex32", "ushort2", "float2", 4, false, false, true, true},
};

// Of no type: no size is 0, since offsets are divided by it.
constexpr Traits none{"no dtype", "uchar", "uchar", 1, false, false, false, false};

const Traits& of(DataType type) noexcept { return is_data_type(type) ? traits[static_cast<int>(type)] : none; }

}  // namespace

bool is_data_type(DataType type) noexcept
{
    return static_cast<unsigned>(type) < static_cast<unsigned>(data_type_count);
}

std::size_t size_of(DataType type) noexcept { return of(type).size; }
std::string_view name_of(DataType type) noexcept { return of(type).name; }
bool is_floating_point(DataType type) noexcept { return of(type).floating; }
bool is_complex(DataType type) noexcept { return of(type).complex; }
bool is_integral(DataType type) noexcept { return of(type).integral; }
bool is_signed(DataType type) noexcept { return of(type).is_signed; }
std::string_view opencl_storage_type(DataType type) noexcept { return of(type).storage; }
std::string_view opencl_compute_type(DataType type) noexcept { return of(type).compute; }

DataType data_type_from_name(std::string_view name)
{
    for (int i = 0; i < data_type_count; ++i)
        if (traits[i].name == name)
            return static_cast<DataType>(i);
    throw InvalidArgument(detail::concat("unknown data type '", name, "'"));
}

}  // namespace clprim
