// Numbers among operands, as kernels take them.
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>

#include <clprim/error.hpp>
#include <clprim/pointwise.hpp>

namespace clprim {

using detail::concat;

void Scalar::throw_not_real() const
{
    throw InvalidArgument(concat("value cannot be converted to a real type without overflow: it is complex, ", real_,
                                 imaginary_ < 0 ? " - " : " + ", std::abs(imaginary_), "j"));
}

std::int64_t Scalar::to_int64() const
{
    if (kind_ == Kind::integer)
        return integer_;
    if (imaginary_ != 0) [[unlikely]]
        throw_not_real();
    if (std::isnan(real_))
        return 0;
    return real_ >= 0x1p63 ? INT64_MAX : real_ < -0x1p63 ? INT64_MIN : static_cast<std::int64_t>(real_);
}

std::size_t Scalar::write(DataType type, void* target) const
{
    auto put = [&](auto value) {
        std::memcpy(target, &value, sizeof value);
        return sizeof value;
    };
    switch (type) {
    case DataType::float32:
    case DataType::float16:
    case DataType::bfloat16:
        return put(static_cast<float>(to_double()));
    case DataType::float64: return put(to_double());
    case DataType::complex32: case DataType::bcomplex32: case DataType::complex64:
        return put(std::complex<float>(static_cast<float>(real_part()), static_cast<float>(imaginary_)));
    case DataType::complex128: return put(std::complex<double>(real_part(), imaginary_));
    case DataType::boolean:
        return put(static_cast<std::uint8_t>(kind_ == Kind::integer ? integer_ != 0 : real_ != 0 || imaginary_ != 0));
    case DataType::int8: case DataType::uint8: return put(static_cast<std::int8_t>(to_int64()));
    case DataType::int16: case DataType::uint16: return put(static_cast<std::int16_t>(to_int64()));
    case DataType::int32: case DataType::uint32: return put(static_cast<std::int32_t>(to_int64()));
    case DataType::int64: case DataType::uint64: return put(to_int64());
    }
    return 0;
}

}  // namespace clprim
