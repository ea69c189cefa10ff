#include <clprim/narrow.hpp>

#include <algorithm>
#include <vector>

#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

constexpr DataType u8 = DataType::uint8, i8 = DataType::int8;

const NarrowFormat formats[] = {
    // name, storage, mantissa, bias, sign, largest, nan, infinity, unsigned zero
    {"float8e4m3fn", u8, 3, 7, 0x80, 0x7e, 0x7f},
    {"float8e4m3fnuz", u8, 3, 8, 0x80, 0x7f, 0x80, false, true},
    {"float8e5m2", u8, 2, 15, 0x80, 0x7b, 0x7e, true},
    {"float8e5m2fnuz", u8, 2, 16, 0x80, 0x7f, 0x80, false, true},
    {"float8e8m0", u8, 0, 127, 0, 0xfe, 0xff},
    {"float6e2m3", u8, 3, 1, 0x20, 0x1f},
    {"float6e3m2", u8, 2, 3, 0x20, 0x1f},
    {"float4e2m1", u8, 1, 1, 0x08, 0x07},
    {.name = "int4", .storage = i8, .bits = 4},
    {.name = "uint4", .storage = u8, .bits = 4},
    {.name = "int2", .storage = i8, .bits = 2},
    {.name = "uint2", .storage = u8, .bits = 2},
};

constexpr const char* library = "kernels/narrow/narrow.cl";

const PointwiseRow encode{"narrow_encode",
                          "y0 = narrow_encode(narrow_input(x0), (int)w0, (int)w1, (int)w2, (int)w3, (int)w4, (int)w5);",
                          nullptr,
                          floating,
                          Result::predicate,
                          0,
                          nullptr,
                          "code of a narrow float",
                          library};
const PointwiseRow decode{"narrow_decode", "y0 = narrow_decode(x0, (int)w0, (int)w1, (int)w2, (int)w3, (int)w4);",
                          nullptr,         floating,
                          Result::common,  1,
                          nullptr,         "number of a narrow float",
                          library};
const PointwiseRow encode_scale{"narrow_encode_scale",
                                "y0 = narrow_encode_scale(narrow_input(x0), (int)w0, (int)w1);",
                                nullptr,
                                floating,
                                Result::predicate,
                                0,
                                nullptr,
                                "exponent alone",
                                library};
const PointwiseRow decode_scale{"narrow_decode_scale",
                                "y0 = narrow_decode_scale(x0);",
                                nullptr,
                                floating,
                                Result::common,
                                1,
                                nullptr,
                                "power of two",
                                library};
const PointwiseRow to_integer{"narrow_integer", "y0 = narrow_integer((long)x0, (int)w0, (int)w1);", nullptr, any_real,
                              Result::predicate, 0, nullptr, "low bits", library};

bool is_integer(const NarrowFormat& format) { return format.mantissa < 0; }
bool is_scale(const NarrowFormat& format) { return format.sign_bit == 0; }

int flags_of(const NarrowFormat& format, bool saturate)
{
    return saturate | format.has_infinity << 1 | format.unsigned_zero << 2;
}

void check(const NarrowFormat& format, const Tensor& codes, const Tensor& numbers)
{
    require(codes.dtype == format.storage, "elements of ", format.name, " are held as ", name_of(format.storage),
            ", got ", name_of(codes.dtype));
    require(!is_complex(numbers.dtype), "complex numbers do not convert to or from ", format.name);
    require(codes.shape == numbers.shape, "shapes of source and target differ");
}

}  // namespace

const NarrowFormat& narrow_format(std::string_view name)
{
    const auto found = std::ranges::find_if(formats, [&](const NarrowFormat& format) { return format.name == name; });
    require(found != std::end(formats), "there is no narrow format ", name);
    return *found;
}

void narrow(Queue& queue, const Tensor& source, const NarrowFormat& format, const NarrowOptions& options,
            const Tensor& target)
{
    detail::check_operands("narrow", {{"source", source}, {"target", target}});
    check(format, target, source);
    const Input input(source);
    const auto run = [&](const PointwiseRow& row, std::initializer_list<Scalar> scalars, DataType common) {
        pointwise(queue, row, {{&input, 1}, {&target, 1}, std::span(scalars.begin(), scalars.size()), common});
    };
    const DataType real = source.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    const int flags = flags_of(format, options.saturate);
    if (is_integer(format))
        run(to_integer, {format.bits, is_signed(format.storage)},
            is_floating_point(source.dtype) ? real : DataType::int64);
    else if (is_scale(format))
        run(encode_scale, {static_cast<int>(options.rounding), flags}, real);
    else
        run(encode, {format.mantissa, format.bias, format.sign_bit, format.largest, format.nan, flags}, real);
}

void widen(Queue& queue, const Tensor& source, const NarrowFormat& format, const Tensor& target)
{
    detail::check_operands("widen", {{"source", source}, {"target", target}});
    check(format, source, target);
    if (is_integer(format))
        return copy(queue, source, target);
    const Input input(source);
    const Scalar scalars[] = {format.mantissa, format.bias, format.sign_bit, format.largest, flags_of(format, false)};
    const PointwiseRow& row = is_scale(format) ? decode_scale : decode;
    const std::span<const Scalar> numbers = is_scale(format) ? std::span<const Scalar>() : scalars;
    pointwise(queue, row, {{&input, 1}, {&target, 1}, numbers, DataType::float32});
}

}  // namespace clprim
