#include "onnx/ops/cache_formats.hpp"

#include <array>

#include <clprim/pointwise.hpp>

namespace clprim::onnx {

namespace {

// Every second number of the last axis, from the first or the second on: halves of bytes, the low ones first.
Tensor every_second(const Tensor& numbers, std::int64_t first)
{
    Tensor result = numbers;
    result.offset += first * numbers.stride(3);
    result.shape[3] = numbers.size(3) / 2;
    result.strides[3] = 2 * numbers.stride(3);
    return result;
}

Tensor scale_of_half(const CacheFormat& format, std::int64_t first)
{
    return format.scale.size(3) == 1 ? format.scale : every_second(format.scale, first);
}

}  // namespace

CacheFormat cache_format(const Call& call, const std::string& what, std::size_t i, std::int64_t heads,
                         std::int64_t size)
{
    const std::string kind = call.string_attribute(what + "_quant_type", "NONE"), input = what + "_scale";
    call.check(kind == "NONE" || kind == "PER_TENSOR" || kind == "PER_CHANNEL", what, "_quant_type is ", kind,
               ", expected NONE, PER_TENSOR or PER_CHANNEL");
    call.check((kind == "NONE") != call.has(i), what, "_quant_type is ", kind, call.has(i) ? ", with " : ", without ",
               "the input ", input);
    if (kind == "NONE")
        return {};
    const auto bits = call.integer_attribute("kv_cache_bit_width", 0);
    call.check(bits == 8 || bits == 4, "kv_cache_bit_width is ", bits, ", expected 8 or 4");
    call.check(bits == 8 || size % 2 == 0, "heads of ", size, " numbers do not fill bytes of two");
    const Tensor scale = call.contiguous(i);
    const std::int64_t count = kind == "PER_TENSOR" ? 1 : heads * size;
    call.check(scale.dtype == DataType::float32 && scale.numel() == count, input, " is ", name_of(call.type(i)), " ",
               to_string(scale.shape), ", expected ", count, " of float32");
    return {static_cast<int>(bits), scale.reshape(count == 1 ? Dims{1, 1, 1, 1} : Dims{1, heads, 1, size})};
}

Tensor cache_form(const Call& call, const CacheFormat& format, const Tensor& numbers)
{
    if (format.bits == 0)
        return numbers;
    if (format.bits == 8) {
        const Tensor bytes = call.allocate(numbers.shape, DataType::int8);
        pointwise(call.queue(), std::array{numbers, format.scale}, {&bytes, 1}, {},
                  "y0 = clamp(rint((float)x0 / x1), -128.0f, 127.0f);");
        return bytes;
    }
    Dims shape = numbers.shape;
    shape[3] /= 2;
    const Tensor bytes = call.allocate(shape, DataType::uint8);
    const Tensor inputs[] = {every_second(numbers, 0), every_second(numbers, 1), scale_of_half(format, 0),
                             scale_of_half(format, 1)};
    pointwise(call.queue(), inputs, {&bytes, 1}, {},
              "int low = (int)clamp(rint((float)x0 / x2), -8.0f, 7.0f) + 8;"
              "int high = (int)clamp(rint((float)x1 / x3), -8.0f, 7.0f) + 8; y0 = low | high << 4;");
    return bytes;
}

Tensor from_cache(const Call& call, const CacheFormat& format, const Tensor& cache, DataType type)
{
    if (format.bits == 0)
        return cache;
    Dims shape = cache.shape;
    shape[3] *= 8 / format.bits;
    const Tensor numbers = call.allocate(shape, type);
    if (format.bits == 8) {
        pointwise(call.queue(), std::array{cache, format.scale}, {&numbers, 1}, {}, "y0 = (float)x0 * x1;");
        return numbers;
    }
    for (const std::int64_t half : {0, 1}) {
        const Tensor target = every_second(numbers, half);
        const Scalar shift(4 * half);
        pointwise(call.queue(), std::array{cache, scale_of_half(format, half)}, {&target, 1}, {&shift, 1},
                  "y0 = (float)(((int)x0 >> (int)w0 & 15) - 8) * x1;");
    }
    return numbers;
}

}  // namespace clprim::onnx
