#include <ops/number.hpp>

#include <cstring>

#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <torch/headeronly/version.h>

#if TORCH_VERSION_MINOR >= 14
#define NARROW_COMPLEX at::kComplexHalf, at::kBComplex32
#else
#define NARROW_COMPLEX at::kComplexHalf
#endif

namespace torch_ocl {

at::Scalar converted(const at::Scalar& number, at::ScalarType type)
{
    at::Scalar result;
    AT_DISPATCH_V2(type, "number", AT_WRAP([&] { result = number.to<scalar_t>(); }),
                   AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kBool, at::kHalf,
                   at::kBFloat16, at::kComplexHalf);
    return result;
}

ElementBytes element_bytes(const at::Scalar& number, at::ScalarType type)
{
    ElementBytes bytes;
    AT_DISPATCH_V2(type, "fill_", AT_WRAP([&] {
        const auto element = number.to<scalar_t>();
        std::memcpy(bytes.data(), &element, sizeof element);
    }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kBool, at::kHalf,
       at::kBFloat16, NARROW_COMPLEX, AT_EXPAND(AT_FLOAT8_TYPES));
    return bytes;
}

void check_fits(const at::Scalar& number, at::ScalarType type)
{
    if (c10::isFloat8Type(type))
        return;
    const at::ScalarType wide = at::toOpMathType(type);
    if (c10::isComplexType(wide) && !number.isComplex())
        converted(number, c10::toRealValueType(wide));
    else
        converted(number, wide);
}

}  // namespace torch_ocl
