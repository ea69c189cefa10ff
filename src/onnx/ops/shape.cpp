// Shapes and views.
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

void identity(Call& call) { call.output(0, call.has(0) ? call.input(0) : Value()); }

void constant(Call& call)
{
    for (const auto& [name, attribute] : call.node().attributes) {
        if (const auto* value = std::get_if<Value>(&attribute))
            return call.output(0, *value);
        if (const auto* integer = std::get_if<std::int64_t>(&attribute))
            return call.output(0, Value::scalar(*integer));
        if (const auto* real = std::get_if<float>(&attribute))
            return call.output(0, Value::scalar(*real));
        if (const auto* text = std::get_if<std::string>(&attribute))
            return call.output(0, Value::strings({}, {*text}));
        if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute))
            return call.output(0, Value::ints(*integers));
        if (const auto* reals = std::get_if<std::vector<float>>(&attribute))
            return call.output(0, Value::copy_of(ElementType::float32, {static_cast<std::int64_t>(reals->size())},
                                                 reals->data()));
        if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute))
            return call.output(0, Value::strings({static_cast<std::int64_t>(texts->size())}, *texts));
    }
    call.fail("no value");
}

// The shape from `start` to `end`, both counted from the end where negative.
void shape(Call& call)
{
    const Dims& sizes = call.shape(0);
    const auto dims = static_cast<std::int64_t>(sizes.size());
    const auto bounded = [&](std::int64_t axis) { return std::clamp(axis < 0 ? axis + dims : axis, std::int64_t{0}, dims); };
    const std::int64_t begin = bounded(call.integer_attribute("start", 0));
    const std::int64_t end = std::max(begin, bounded(call.integer_attribute("end", dims)));
    call.output(0, Value::ints({sizes.begin() + begin, sizes.begin() + end}));
}

void size(Call& call) { call.output(0, Value::scalar(call.input(0).numel())); }

const OperatorRow rows[] = {
    {"Identity", 1, identity, identity},
    {"Constant", 1, constant},
    {"Shape", 1, shape, shape},
    {"Size", 1, size, size},
};

}  // namespace

std::span<const OperatorRow> shape_operators() { return rows; }

}  // namespace clprim::onnx
