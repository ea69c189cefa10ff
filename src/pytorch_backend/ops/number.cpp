#include <ops/number.hpp>

#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>

namespace torch_ocl {

at::Scalar converted(const at::Scalar& number, at::ScalarType type)
{
    at::Scalar result;
    AT_DISPATCH_V2(type, "number", AT_WRAP([&] { result = number.to<scalar_t>(); }),
                   AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kBool, at::kHalf,
                   at::kBFloat16, at::kComplexHalf);
    return result;
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
