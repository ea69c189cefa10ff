#include "onnx/ops/host_math.hpp"

#include <cmath>
#include <limits>

#include "onnx/ops/elementwise.hpp"

namespace clprim::onnx {

namespace {

using Whole = std::int64_t;

// An operator of one or two operands (the second is 0 where there is none) on whole numbers and on float32. Arithmetic
// that wraps is done unsigned.
struct HostOperator {
    Whole (*whole)(Whole, Whole);
    float (*real)(float, float);
    bool predicate = false;
};

Whole wrapped(std::uint64_t value) { return static_cast<Whole>(value); }
std::uint64_t bits(Whole value) { return static_cast<std::uint64_t>(value); }

Whole divided(Whole a, Whole b) { return b == 0 ? 0 : b == -1 ? wrapped(0 - bits(a)) : a / b; }
Whole truncated_remainder(Whole a, Whole b) { return b == 0 || b == -1 ? 0 : a % b; }
Whole floored_remainder(Whole a, Whole b)
{
    const Whole r = truncated_remainder(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define COMPARISON(name, sign)                                                                                         \
    {                                                                                                                  \
        name,                                                                                                          \
        {                                                                                                              \
            [](Whole a, Whole b) -> Whole { return a sign b; }, [](float a, float b) -> float { return a sign b; },    \
                true                                                                                                   \
        }                                                                                                              \
    }

const HostOperator* host_operator(std::string_view name)
{
    static const std::map<std::string_view, HostOperator> table{
        {"Add", {[](Whole a, Whole b) { return wrapped(bits(a) + bits(b)); }, [](float a, float b) { return a + b; }}},
        {"Sub", {[](Whole a, Whole b) { return wrapped(bits(a) - bits(b)); }, [](float a, float b) { return a - b; }}},
        {"Mul", {[](Whole a, Whole b) { return wrapped(bits(a) * bits(b)); }, [](float a, float b) { return a * b; }}},
        {"Div", {divided, [](float a, float b) { return a / b; }}},
        {"Mod", {floored_remainder, nullptr}},
        {"fmod", {truncated_remainder, [](float a, float b) { return std::fmod(a, b); }}},
        {"Max",
         {[](Whole a, Whole b) { return std::max(a, b); }, [](float a, float b) { return a > b || a != a ? a : b; }}},
        {"Min",
         {[](Whole a, Whole b) { return std::min(a, b); }, [](float a, float b) { return a < b || a != a ? a : b; }}},
        {"Neg", {[](Whole a, Whole) { return wrapped(0 - bits(a)); }, [](float a, float) { return -a; }}},
        {"Abs",
         {[](Whole a, Whole) { return a < 0 ? wrapped(0 - bits(a)) : a; },
          [](float a, float) { return std::fabs(a); }}},
        {"Sign",
         {[](Whole a, Whole) { return Whole{a > 0} - Whole{a < 0}; },
          [](float a, float) { return a != a ? a : static_cast<float>((a > 0) - (a < 0)); }}},
        {"Ceil", {nullptr, [](float a, float) { return std::ceil(a); }}},
        {"Floor", {nullptr, [](float a, float) { return std::floor(a); }}},
        {"Sqrt", {nullptr, [](float a, float) { return std::sqrt(a); }}},
        {"Reciprocal", {nullptr, [](float a, float) { return 1 / a; }}},
        COMPARISON("Equal", ==),
        COMPARISON("Less", <),
        COMPARISON("LessOrEqual", <=),
        COMPARISON("Greater", >),
        COMPARISON("GreaterOrEqual", >=),
        {"And", {[](Whole a, Whole b) -> Whole { return a && b; }, nullptr, true}},
        {"Or", {[](Whole a, Whole b) -> Whole { return a || b; }, nullptr, true}},
        {"Xor", {[](Whole a, Whole b) -> Whole { return (a != 0) != (b != 0); }, nullptr, true}},
        {"Not", {[](Whole a, Whole) -> Whole { return a == 0; }, nullptr, true}},
        {"ReduceSum",
         {[](Whole a, Whole b) { return wrapped(bits(a) + bits(b)); }, [](float a, float b) { return a + b; }}},
        {"ReduceProd",
         {[](Whole a, Whole b) { return wrapped(bits(a) * bits(b)); }, [](float a, float b) { return a * b; }}},
        {"ReduceMax",
         {[](Whole a, Whole b) { return std::max(a, b); }, [](float a, float b) { return a > b || a != a ? a : b; }}},
        {"ReduceMin",
         {[](Whole a, Whole b) { return std::min(a, b); }, [](float a, float b) { return a < b || a != a ? a : b; }}},
    };
    const auto found = table.find(name);
    return found == table.end() ? nullptr : &found->second;
}

bool is_whole(ElementType type)
{
    return type == ElementType::int64 || type == ElementType::int32 || type == ElementType::boolean;
}

bool serves(const Value& value)
{
    return is_whole(value.type()) || (value.type() == ElementType::float32 && value.numel() <= most_host_floats);
}

// Elements in the type of computation.
template <class T>
std::vector<T> read(const Value& value)
{
    const auto count = static_cast<std::size_t>(value.numel());
    const std::byte* bytes = value.host_bytes();
    std::vector<T> result(count);
    const auto from = [&]<class S>(const S* source) { std::copy_n(source, count, result.begin()); };
    switch (value.type()) {
    case ElementType::int64: from(reinterpret_cast<const std::int64_t*>(bytes)); break;
    case ElementType::int32: from(reinterpret_cast<const std::int32_t*>(bytes)); break;
    case ElementType::boolean: from(reinterpret_cast<const std::uint8_t*>(bytes)); break;
    default: from(reinterpret_cast<const float*>(bytes)); break;
    }
    return result;
}

template <class T>
Value written(ElementType type, const Dims& shape, const std::vector<T>& elements)
{
    Value result = Value::zeros(type, shape);
    const auto to = [&]<class S>(S) {
        const auto target = result.mutable_host<S>();
        for (std::size_t i = 0; i < elements.size(); ++i)
            target[i] = static_cast<S>(elements[i]);
    };
    switch (type) {
    case ElementType::int64: to(std::int64_t{}); break;
    case ElementType::int32: to(std::int32_t{}); break;
    case ElementType::boolean: to(std::uint8_t{}); break;
    default: to(float{}); break;
    }
    return result;
}

template <class T>
Value folded(const Call& call, T (*combine)(T, T), bool predicate)
{
    Value sum = call.input(0);
    const std::string& name = call.node().op_type;
    if (call.inputs() == 1 && (name == "Max" || name == "Min"))
        return sum;
    for (std::size_t i = 1; i < std::max<std::size_t>(call.inputs(), 2); ++i) {
        const bool unary = call.inputs() == 1;
        const Dims shape = unary ? sum.shape() : broadcast(sum.shape(), call.shape(i));
        const std::vector<T> a = read<T>(sum), b = unary ? std::vector<T>{T{}} : read<T>(call.input(i));
        std::vector<T> out(static_cast<std::size_t>(shape.product()));
        for_each_broadcast(shape, {sum.shape(), unary ? Dims{} : call.shape(i)},
                           [&](std::size_t k, const auto& at) { out[k] = combine(a[at[0]], b[at[1]]); });
        sum = written(predicate ? ElementType::boolean : sum.type(), shape, out);
    }
    return sum;
}

template <class T>
Value reduced(const Call& call, T (*combine)(T, T), const std::vector<bool>& over, T start)
{
    const Dims& shape = call.shape(0);
    Dims kept = shape, result_shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (over[d])
            kept[d] = 1;
        if (!over[d] || call.integer_attribute("keepdims", 1))
            result_shape.push_back(kept[d]);
    }
    std::vector<T> out(static_cast<std::size_t>(kept.product()), start);
    const std::vector<T> elements = read<T>(call.input(0));
    for_each_broadcast(shape, {kept},
                       [&](std::size_t i, const auto& at) { out[at[0]] = combine(out[at[0]], elements[i]); });
    return written(call.type(0), result_shape, out);
}

template <class T>
T start_of(std::string_view name)
{
    using Limits = std::numeric_limits<T>;
    if (name == "ReduceSum" || name == "ReduceProd")
        return name == "ReduceProd" ? T{1} : T{0};
    const bool largest = name == "ReduceMax";
    if constexpr (Limits::has_infinity)
        return largest ? -Limits::infinity() : Limits::infinity();
    return largest ? Limits::lowest() : Limits::max();
}

}  // namespace

bool try_host_math(Call& call)
{
    const bool truncated = call.node().op_type == "Mod" && call.integer_attribute("fmod", 0);
    const HostOperator* row = host_operator(truncated ? "fmod" : call.node().op_type);
    for (std::size_t i = 0; i < call.inputs(); ++i)
        if (!serves(call.input(i)) || call.type(i) != call.type(0))
            return false;
    if (call.inputs() == 0 || call.opset() < 7)      // which broadcast otherwise
        return false;
    const bool logical = row->predicate && !row->real;       // takes bool alone, as Equal does too
    const bool takes_it = call.type(0) == ElementType::boolean ? logical || call.node().op_type == "Equal" : !logical;
    if (is_whole(call.type(0)) && row->whole && takes_it)
        call.output(0, folded<Whole>(call, row->whole, row->predicate));
    else if (call.type(0) == ElementType::float32 && row->real)
        call.output(0, folded<float>(call, row->real, row->predicate));
    else
        return false;
    return true;
}

bool try_host_where(Call& call)
{
    if (call.type(0) != ElementType::boolean || call.type(1) != call.type(2) || !serves(call.input(1)) ||
        !serves(call.input(2)))
        return false;
    const Dims shape = broadcast_inputs(call);
    const auto chosen = [&]<class T>(T) {
        const auto condition = read<T>(call.input(0)), x = read<T>(call.input(1)), y = read<T>(call.input(2));
        std::vector<T> out(static_cast<std::size_t>(shape.product()));
        for_each_broadcast(shape, {call.shape(0), call.shape(1), call.shape(2)}, [&](std::size_t i, const auto& at) {
            out[i] = condition[at[0]] != 0 ? x[at[1]] : y[at[2]];
        });
        return written(call.type(1), shape, out);
    };
    call.output(0, is_whole(call.type(1)) ? chosen(Whole{}) : chosen(float{}));
    return true;
}

bool try_host_reduce(Call& call)
{
    const std::string& name = call.node().op_type;
    if (!serves(call.input(0)) || call.type(0) == ElementType::boolean || call.input(0).numel() == 0)
        return false;
    const std::vector<bool> over = reduced_axes(call);
    const HostOperator* row = host_operator(name);
    if (call.type(0) == ElementType::float32)
        call.output(0, reduced<float>(call, row->real, over, start_of<float>(name)));
    else
        call.output(0, reduced<Whole>(call, row->whole, over, start_of<Whole>(name)));
    return true;
}

bool try_host_cast(Call& call)
{
    const auto to = static_cast<ElementType>(call.attribute<std::int64_t>("to"));
    const ElementType from = call.type(0);
    if (!serves(call.input(0)) || (!is_whole(to) && to != ElementType::float32))
        return false;
    const Dims& shape = call.shape(0);
    if (from == to)
        call.output(0, call.input(0));
    else if (to == ElementType::boolean) {
        std::vector<Whole> out;
        for (const float element : read<float>(call.input(0)))
            out.push_back(element != 0);
        call.output(0, written(to, shape, out));
    } else if (from == ElementType::float32) {
        const std::vector<float> elements = read<float>(call.input(0));
        for (const float element : elements)
            if (!(std::fabs(element) < 0x1p31f))     // what does not fit is left to the device, for one answer
                return false;
        call.output(0, written(to, shape, elements));
    } else {
        call.output(0, written(to, shape, read<Whole>(call.input(0))));
    }
    return true;
}

}  // namespace clprim::onnx
