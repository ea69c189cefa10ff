#include <clprim/float8.hpp>

#include <array>

#include <clprim/context.hpp>
#include <core/operands.hpp>

namespace clprim {
namespace {

constexpr std::array<const char*, 5> names = {"e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"};

void launch(Queue& queue, const char* name, Float8 format, const Tensor& from, const Tensor& to,
            bool saturate = false)
{
    const Tensor& codes = from.dtype == DataType::uint8 ? from : to;
    const Tensor& numbers = from.dtype == DataType::uint8 ? to : from;
    require(codes.dtype == DataType::uint8 && numbers.dtype == DataType::float32 && from.shape == to.shape &&
                from.is_contiguous() && to.is_contiguous(),
            name, ": contiguous uint8 codes and float32 numbers of one shape expected, got ", to_string(from.shape),
            " and ", to_string(to.shape));
    if (from.numel() == 0)
        return;
    const std::string flags = detail::concat("-DFORMAT_", name_of(format),
                                             saturate && format == Float8::e4m3fn ? " -DSATURATE" : "");
    const auto items = static_cast<std::size_t>(from.numel());
    queue.launch(queue.context().program("kernels/float8/float8.cl", flags).kernel(name),
                 Range::linear(queue.device().kind == DeviceKind::cpu ? items : (items + 3) / 4, 64), from, to,
                 static_cast<cl_ulong>(from.numel()));
}

}  // namespace

const char* name_of(Float8 format) { return names[static_cast<std::size_t>(format)]; }

void float8_to_float32(Queue& queue, Float8 format, const Tensor& codes, const Tensor& numbers)
{
    detail::check_operands("float8_to_float32", {{"codes", codes}, {"numbers", numbers}});
    launch(queue, "float8_to_float32", format, codes, numbers);
}

void float32_to_float8(Queue& queue, Float8 format, const Tensor& numbers, const Tensor& codes, bool saturate)
{
    detail::check_operands("float32_to_float8", {{"numbers", numbers}, {"codes", codes}});
    launch(queue, "float32_to_float8", format, numbers, codes, saturate);
}

}  // namespace clprim
