#include <clprim/integer_add.hpp>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/pointwise.hpp>
#include <core/lie_alike.hpp>
#include <core/operands.hpp>
#include <kernels/rounding.hpp>

namespace clprim {
namespace {

constexpr std::int64_t piece = 4096;   // PIECE of add.cl

void check(const char* name, const ScaledBytes& t)
{
    detail::check_operands("integer_add", {{name, t.values}, {"scale", t.scale}, {"zero", t.zero, detail::optional}});
    require(t.values.dtype == DataType::int8 || t.values.dtype == DataType::uint8, "integer_add: ", name,
            " must be int8 or uint8, got ", name_of(t.values.dtype));
    require(t.scale.dtype == DataType::float32 && t.scale.numel() == 1, "integer_add: the scale of ", name,
            " must be one float32");
    require(!t.zero.defined() || (t.zero.dtype == t.values.dtype && t.zero.numel() == 1),
            "integer_add: the zero point of ", name, " must be one ", name_of(t.values.dtype));
}

// Any device and any strides.
void by_generated_kernel(Queue& queue, const ScaledBytes& a, const ScaledBytes& b, const ScaledBytes& y,
                         std::span<const Scalar> bounds)
{
    std::vector<Tensor> inputs{a.values, b.values};
    const auto input = [&](const Tensor& one) {
        inputs.push_back(one);
        inputs.back().shape = inputs.back().strides = {};
        return fmt::format("x{}", inputs.size() - 1);
    };
    const auto zero = [&](const char* sign, const ScaledBytes& t) {
        return t.zero.defined() ? fmt::format("{}(int){}", sign, input(t.zero)) : std::string();
    };
    const std::string of_a = fmt::format("(float)((int)x0{}) * {}", zero(" - ", a), input(a.scale));
    const std::string of_b = fmt::format("(float)((int)x1{}) * {}", zero(" - ", b), input(b.scale));
    const std::string code =
        fmt::format("float a = {}; float b = {}; float q = rint((a + b) / {}); "
                    "y0 = clamp((int)fmin(fmax(q, -65536.0f), 65536.0f){}, w0, w1);",
                    of_a, of_b, input(y.scale), zero(" + ", y));
    const DataType types[] = {DataType::int32, DataType::int32};
    pointwise(queue, inputs, {&y.values, 1}, bounds, code, types);
}

}  // namespace

void integer_add(Queue& queue, const ScaledBytes& a, const ScaledBytes& b, const ScaledBytes& y, std::int32_t low,
                 std::int32_t high)
{
    check("a", a);
    check("b", b);
    check("y", y);
    require(a.values.dtype == b.values.dtype, "integer_add: a is ", name_of(a.values.dtype), ", b ",
            name_of(b.values.dtype));
    const Tensor& to = y.values;
    if (to.numel() == 0)
        return;
    const bool flat = detail::lie_alike(a.values, to) && detail::lie_alike(b.values, to) &&
                      to.is_non_overlapping_and_dense() && a.zero.defined() && b.zero.defined() && y.zero.defined();
    if (!flat || queue.device().kind != DeviceKind::cpu) {
        const Scalar bounds[] = {low, high};
        return by_generated_kernel(queue, a, b, y, bounds);
    }
    const Program& program = queue.context().program(
        "kernels/integer/add.cl", fmt::format("-DX={} -DY={}", name_of(a.values.dtype), name_of(to.dtype)));
    const cl_int2 bounds{{low, high}};
    const std::int64_t count = to.numel();
    queue.launch(program.kernel("add"),
                 Range::groups({static_cast<std::size_t>(detail::divide_up(count, piece)), 1, 1}, {1, 1, 1}), a.values,
                 a.scale, a.zero, b.values, b.scale, b.zero, y.scale, y.zero, to, count, bounds);
}

}  // namespace clprim
