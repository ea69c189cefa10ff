#include "onnx/registered.hpp"

#include <deque>
#include <mutex>

#include <clprim/context.hpp>
#include <clprim/onnx_operator.hpp>
#include <clprim/pointwise.hpp>

#include "onnx/ops/support.hpp"

namespace clprim {

namespace onnx {

namespace {

struct Registered : OperatorRow {
    OnnxOperator definition;
};

std::mutex mutex;

// Never destroyed, nor are its entries: sessions point to them.
std::deque<Registered>& all()
{
    static auto* const operators = new std::deque<Registered>;
    return *operators;
}

const OnnxOperator& definition_of(const Call& call)
{
    return static_cast<const Registered&>(*call.node().row).definition;
}

double number_of(const Call& call, const std::string& name, double otherwise)
{
    const auto found = call.node().attributes.find(name);
    if (found == call.node().attributes.end())
        return otherwise;
    if (const auto* integer = std::get_if<std::int64_t>(&found->second))
        return static_cast<double>(*integer);
    const float* real = std::get_if<float>(&found->second);
    call.check(real != nullptr, "attribute ", name, " must be a number");
    return *real;
}

void run_code(Call& call)
{
    const OnnxOperator& definition = definition_of(call);
    call.check(call.inputs() > 0, "it is made of an expression and needs an input");
    std::vector<Tensor> inputs, outputs;
    Dims shape;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        call.check(!is_narrow(call.type(i)), "input ", i, " is ", name_of(call.type(i)),
                   ", which expressions do not compute with");
        inputs.push_back(call.tensor(i));
        shape = broadcast(shape, inputs.back().shape);
    }
    const ElementType type = definition.type == ElementType::undefined ? call.type(0) : definition.type;
    for (std::size_t i = 0; i < call.outputs(); ++i) {
        outputs.push_back(call.allocate(shape, storage_type(type)));
        call.output(i, Value(outputs.back(), type));
    }
    std::vector<Scalar> numbers;
    for (const auto& [name, otherwise] : definition.numbers)
        numbers.emplace_back(number_of(call, name, otherwise));
    if (shape.product())
        pointwise(call.queue(), inputs, outputs, numbers, definition.code);
}

void run_function(Call& call)
{
    OnnxCall given{call.queue(), call.node().name, {}, call.outputs(), {}};
    for (std::size_t i = 0; i < call.inputs(); ++i)
        given.inputs.push_back(call.has(i) ? call.input(i) : Value());
    for (const auto& [name, attribute] : call.node().attributes)
        std::visit(
            [&given, &name = name]<class T>(const T& value) {
                if constexpr (!std::is_same_v<T, GraphRef>)
                    given.attributes.emplace(name, value);
            },
            attribute);
    std::vector<Value> results = definition_of(call).run(given);
    call.check(results.size() >= call.outputs(), "its function returned ", results.size(), " outputs, expected ",
               call.outputs());
    for (std::size_t i = 0; i < call.outputs(); ++i) {
        if (results[i].is_tensor() && results[i].on_device() && !results[i].on_host())
            call.check(results[i].device(call.queue()).memory->context == &call.queue().context(), "output ", i,
                       " of its function lies on another device");
        call.output(i, std::move(results[i]));
    }
}

}  // namespace

const OperatorRow* find_registered(std::string_view domain, std::string_view name, int opset)
{
    const std::lock_guard lock(mutex);
    const Registered* best = nullptr;
    for (const Registered& row : all())          // the one registered last of the highest version
        if (row.definition.domain == domain && row.definition.name == name && row.since <= opset &&
            (!best || row.since >= best->since))
            best = &row;
    return best;
}

bool is_pure(const OperatorRow& row)
{
    return row.run != run_function || static_cast<const Registered&>(row).definition.pure;
}

}  // namespace onnx

void register_onnx_operator(OnnxOperator definition)
{
    using namespace onnx;
    const std::string title = definition.domain.empty() ? definition.name : definition.domain + "." + definition.name;
    require(!definition.name.empty(), "register_onnx_operator: the name is empty");
    require(definition.code.empty() != (definition.run == nullptr), "register_onnx_operator: ", title,
            " needs either code or a function");
    require(definition.since >= 1, "register_onnx_operator: ", title, " is since operator set ", definition.since,
            ", expected at least 1");
    for (const OperatorRow& row : all_operators())
        require(row.domain != definition.domain || row.name != definition.name, "register_onnx_operator: clprim has ",
                title, " itself");
    const std::lock_guard lock(mutex);
    Registered& kept = all().emplace_back();
    kept.definition = std::move(definition);
    kept.name = kept.definition.name.c_str();
    kept.domain = kept.definition.domain.c_str();
    kept.since = kept.definition.since;
    kept.run = kept.definition.run ? run_function : run_code;
}

}  // namespace clprim
