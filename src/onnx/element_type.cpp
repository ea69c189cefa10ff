// The element types of ONNX: their names, and what stores them.
#include <array>

#include <clprim/error.hpp>
#include <clprim/value.hpp>

namespace clprim {
namespace {

struct TypeRow {
    std::string_view name;
    DataType storage;
    bool narrow;
};

// By ONNX's number.
constexpr std::array<TypeRow, 27> types{{
    {"undefined", DataType::uint8, false},
    {"float32", DataType::float32, false},
    {"uint8", DataType::uint8, false},
    {"int8", DataType::int8, false},
    {"uint16", DataType::uint16, false},
    {"int16", DataType::int16, false},
    {"int32", DataType::int32, false},
    {"int64", DataType::int64, false},
    {"string", DataType::uint8, false},
    {"bool", DataType::boolean, false},
    {"float16", DataType::float16, false},
    {"float64", DataType::float64, false},
    {"uint32", DataType::uint32, false},
    {"uint64", DataType::uint64, false},
    {"complex64", DataType::complex64, false},
    {"complex128", DataType::complex128, false},
    {"bfloat16", DataType::bfloat16, false},
    {"float8e4m3fn", DataType::uint8, true},
    {"float8e4m3fnuz", DataType::uint8, true},
    {"float8e5m2", DataType::uint8, true},
    {"float8e5m2fnuz", DataType::uint8, true},
    {"uint4", DataType::uint8, true},
    {"int4", DataType::int8, true},
    {"float4e2m1", DataType::uint8, true},
    {"float8e8m0", DataType::uint8, true},
    {"uint2", DataType::uint8, true},
    {"int2", DataType::int8, true},
}};

const TypeRow& row(ElementType type)
{
    const auto index = static_cast<std::size_t>(type);
    return index < types.size() ? types[index] : types[0];
}

// By DataType's number.
constexpr std::array<ElementType, data_type_count> element_types{
    ElementType::float32, ElementType::float64, ElementType::float16, ElementType::bfloat16,
    ElementType::int8, ElementType::int16, ElementType::int32, ElementType::int64,
    ElementType::uint8, ElementType::uint16, ElementType::uint32, ElementType::uint64,
    ElementType::boolean,
    ElementType::undefined, ElementType::complex64, ElementType::complex128,
    ElementType::undefined,
};

}  // namespace

std::string_view name_of(ElementType type) noexcept { return row(type).name; }
bool is_narrow(ElementType type) noexcept { return row(type).narrow; }

ElementType element_type(DataType type)
{
    const ElementType result = element_types[static_cast<std::size_t>(type)];
    require<NotSupported>(result != ElementType::undefined, "ONNX has no element type ", name_of(type));
    return result;
}

DataType storage_type(ElementType type)
{
    require<NotSupported>(type != ElementType::string, "strings live on the host only");
    require(type != ElementType::undefined, "the tensor has no element type");
    return row(type).storage;
}

}  // namespace clprim
