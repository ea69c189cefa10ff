// Changes of element type: Cast, CastLike, BitCast.
#include <charconv>
#include <cmath>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/host_math.hpp"
#include "onnx/ops/narrow_type.hpp"

namespace clprim::onnx {

void convert(Queue& queue, const Tensor& source, ElementType from, const Tensor& target, ElementType to,
             const NarrowOptions& options)
{
    const NarrowFormat *source_format = narrow_format(from), *target_format = narrow_format(to);
    if (source_format && target_format) {
        const Tensor between = queue.context().empty(source.shape, DataType::float32, queue);
        widen(queue, source, *source_format, between);
        return narrow(queue, between, *target_format, options, target);
    }
    if (source_format)
        widen(queue, source, *source_format, target);
    else if (target_format)
        narrow(queue, source, *target_format, options, target);
    else
        copy(queue, source, target);
}

Tensor widened(const Call& call, std::size_t input, DataType type)
{
    const Tensor source = call.tensor(input);
    if (source.dtype == type && !is_narrow(call.type(input)))
        return source;
    const Tensor result = call.allocate(source.shape, type);
    convert(call.queue(), source, call.type(input), result, element_type(type));
    return result;
}

namespace {

// The number that a text stands for; spaces around it and a sign in front are allowed, "INF" and "NaN" in any case.
double parsed(const Call& call, std::string_view text)
{
    std::string_view rest = text;
    const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    while (!rest.empty() && is_space(rest.front()))
        rest.remove_prefix(1);
    while (!rest.empty() && is_space(rest.back()))
        rest.remove_suffix(1);
    if (rest.size() > 1 && rest[0] == '+' && rest[1] != '-')
        rest.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error == std::errc::result_out_of_range &&
        end == rest.data() + rest.size()) // too large, or too small for a double
        return std::strtod(std::string(rest).c_str(), nullptr);
    call.check(error == std::errc() && end == rest.data() + rest.size(), "\"", text.substr(0, 64),
               "\" is not a number");
    return value;
}

bool parses_as_integer(std::string_view text, std::int64_t& value)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

Value from_strings(const Call& call, ElementType to)
{
    const std::vector<std::string>& texts = call.input(0).strings();
    const bool whole = !is_narrow(to) && (is_integral(storage_type(to)) || to == ElementType::boolean);
    const ElementType between = whole ? ElementType::int64 : to == ElementType::float64 ? to : ElementType::float32;
    Value result = Value::zeros(between, call.shape(0));
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (whole) {
            std::int64_t& value = result.mutable_host<std::int64_t>()[i];
            if (!parses_as_integer(texts[i], value)) {
                const double real = parsed(call, texts[i]);
                call.check(std::fabs(real) < 0x1p63, "\"", texts[i].substr(0, 64), "\" does not fit an integer");
                value = static_cast<std::int64_t>(real);
            }
        } else if (between == ElementType::float64) {
            result.mutable_host<double>()[i] = parsed(call, texts[i]);
        } else {
            result.mutable_host<float>()[i] = static_cast<float>(parsed(call, texts[i]));
        }
    }
    return result;
}

template <class T>
std::string printed(T value)
{
    if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(value))
            return "NaN";
        if (std::isinf(value))
            return value < 0 ? "-INF" : "INF";
    }
    char text[64];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

Value to_strings(const Call& call)
{
    const Value& input = call.input(0);
    const ElementType type = input.type();
    std::vector<std::string> texts;
    const auto print_all = [&]<class T>(const std::vector<T>& numbers) {
        for (const T number : numbers)
            texts.push_back(printed(number));
    };
    if (type == ElementType::boolean)
        for (const std::int64_t value : input.to_ints(call.queue()))
            texts.push_back(value ? "True" : "False");
    else if (type == ElementType::uint64)
        for (const std::int64_t value : input.to_ints(call.queue()))
            texts.push_back(printed(static_cast<std::uint64_t>(value)));
    else if (type == ElementType::float64)
        print_all(input.to_doubles(call.queue()));
    else if (is_integral(storage_type(type)) && !(is_narrow(type) && narrow_format(type)->mantissa >= 0))
        print_all(input.to_ints(call.queue()));
    else
        print_all([&] {
            const Value real(widened(call, 0, DataType::float32));
            const auto numbers = real.host<float>(call.queue());
            return std::vector<float>(numbers.begin(), numbers.end());
        }());
    return Value::strings(input.shape(), std::move(texts));
}

NarrowOptions options_of(const Call& call)
{
    const std::string rounding = call.string_attribute("round_mode", "up");
    call.check(rounding == "up" || rounding == "down" || rounding == "nearest", "round_mode is ", rounding,
               ", expected up, down or nearest");
    return {call.integer_attribute("saturate", 1) != 0, rounding == "up"     ? NarrowRounding::up
                                                        : rounding == "down" ? NarrowRounding::down
                                                                             : NarrowRounding::nearest};
}

void cast_to(Call& call, ElementType to)
{
    const ElementType from = call.type(0);
    if (from == to)
        return call.output(0, call.input(0));
    if (to == ElementType::string)
        return call.output(0, to_strings(call));
    const Value source = from == ElementType::string ? from_strings(call, to) : call.input(0);
    if (source.type() == to)
        return call.output(0, source);
    const Tensor tensor = source.device(call.queue());
    Tensor result = call.allocate(tensor.shape, storage_type(to));
    if (tensor.is_non_overlapping_and_dense())
        result.strides = tensor.strides;
    call.output(0, Value(result, to));
    convert(call.queue(), tensor, source.type(), result, to, options_of(call));
}

ElementType type_attribute(const Call& call)
{
    const std::int64_t to = call.attribute<std::int64_t>("to");
    call.check(to > 0 && to <= static_cast<std::int64_t>(ElementType::int2), "to is ", to,
               ", which is no element type");
    return static_cast<ElementType>(to);
}

void cast(Call& call) { cast_to(call, type_attribute(call)); }
void cast_like(Call& call) { cast_to(call, call.type(1)); }

int bits_of(ElementType type)
{
    const NarrowFormat* format = narrow_format(type);
    if (!format)
        return static_cast<int>(8 * size_of(storage_type(type)));
    return format->mantissa < 0 ? format->bits : type == ElementType::float4e2m1 ? 4 : 8;
}

void bit_cast(Call& call)
{
    const ElementType from = call.type(0), to = type_attribute(call);
    call.check(from != ElementType::string && to != ElementType::string, "strings have no bits to cast");
    call.check(bits_of(from) == bits_of(to), name_of(from), " and ", name_of(to), " differ in size");
    Tensor tensor = call.tensor(0);
    if (bits_of(from) < 8 &&
        tensor.dtype != storage_type(to)) { // held as values: the sign reaches further than the bits
        const Tensor result = call.output_tensor(0, tensor.shape, to);
        const NarrowFormat& format =
            clprim::narrow_format(bits_of(to) == 4                 ? (tensor.dtype == DataType::int8 ? "uint4" : "int4")
                                  : tensor.dtype == DataType::int8 ? "uint2"
                                                                   : "int2");
        return narrow(call.queue(), tensor, format, {}, result);
    }
    tensor.dtype = storage_type(to);
    call.output(0, Value(tensor, to));
}

const OperatorRow cast_rows[] = {
    {"Cast", 1, cast, host_or<try_host_cast, cast>},
    {"CastLike", 15, cast_like},
    {"BitCast", 26, bit_cast},
};

}  // namespace

std::span<const OperatorRow> cast_operators() { return cast_rows; }

}  // namespace clprim::onnx
