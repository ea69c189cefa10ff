// Building a net and looking at it.
#include <algorithm>

#include "net/graph.hpp"

namespace clprim {

Net::Net(Context& context) : Net(context.queue()) {}
Net::Net(Queue& queue) : state_(std::make_unique<State>(queue)) {}
Net::Net(Net&&) noexcept = default;
Net& Net::operator=(Net&&) noexcept = default;
Net::~Net() = default;

Queue& Net::queue() const { return *alive(state_).queue; }

int Net::State::value(const std::string& name) const
{
    const auto found = value_of.find(name);
    require(found != value_of.end(), "the net has no tensor \"", name, "\"");
    return found->second;
}

int Net::State::parameter(const std::string& name) const
{
    const auto found = parameter_of.find(name);
    require(found != parameter_of.end(), "the net has no parameter \"", name, "\"");
    return found->second;
}

bool Net::State::is_output(int value) const
{
    const std::string& name = values[value].name;
    return value_of.at(name) == value &&
           (std::ranges::find(output_names, name) != output_names.end() || loss_weights.contains(name));
}

std::string Net::State::label(const NetStep& step) const
{
    return detail::concat("operator \"", nodes[step.node].name, "\" (", step.op->type(), ")");
}

TensorSpec Net::State::checked(const TensorSpec& spec, const std::string& what) const
{
    require(is_data_type(spec.dtype), what, " has no dtype: ", static_cast<int>(spec.dtype));
    std::int64_t bytes = static_cast<std::int64_t>(size_of(spec.dtype));
    for (const std::int64_t size : spec.shape) {
        require(size >= 0, what, " has a negative size: ", to_string(spec.shape));
        require(!__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes) &&
                    bytes < (std::int64_t(1) << 48),
                what, " is too large: ", to_string(spec.shape));
    }
    require<NotSupported>(spec.dtype != DataType::float64 || queue->device().fp64, what, " is float64, which ",
                          queue->device().name, " lacks");
    return spec;
}

void Net::add_input(const std::string& name, const TensorSpec& spec, bool requires_gradient)
{
    State& s = alive(state_);
    require(!s.value_of.contains(name), "there is a tensor \"", name, "\" already");
    NetValue value{name, s.checked(spec, "input \"" + name + "\"")};
    require(!requires_gradient || is_floating_point(spec.dtype), "input \"", name, "\" cannot have a gradient: it is ",
            name_of(spec.dtype));
    value.requires_gradient = requires_gradient;
    s.value_of[name] = static_cast<int>(s.values.size());
    s.values.push_back(std::move(value));
    s.input_names.push_back(name);
    s.planned = false;
}

void Net::add_operator(std::unique_ptr<Operator> op, const std::string& name, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const std::vector<std::string>& parameters, bool frozen)
{
    State& s = alive(state_);
    require(op != nullptr, "operator \"", name, "\" is null");
    const auto label = [&] { return detail::concat("operator \"", name, "\" (", op->type(), ")"); };
    with_label(label, [&] {
        require(!s.node_of.contains(name), "there is an operator of that name already");
        NetNode node{nullptr, name, {}, {}, {}, frozen};
        std::vector<TensorSpec> specs;
        for (const std::string& input : inputs) {
            require(s.value_of.contains(input), "its input \"", input,
                    "\" is neither an input of the net nor an output of an operator before it");
            node.inputs.push_back(s.value_of.at(input));
            specs.push_back(s.values[node.inputs.back()].spec);
        }
        const std::vector<TensorSpec> results = op->outputs(specs);
        require(results.size() == outputs.size(), "has ", results.size(), " outputs, but ", outputs.size(),
                " are named");
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            require(!s.value_of.contains(outputs[i]) || std::ranges::find(inputs, outputs[i]) != inputs.end(),
                    "its output \"", outputs[i], "\" exists already and is not its input");
            require(std::ranges::count(outputs, outputs[i]) == 1, "two outputs are called \"", outputs[i], "\"");
            s.checked(results[i], "output \"" + outputs[i] + "\"");
        }

        const std::vector<TensorSpec> wanted = op->parameters(specs);
        require(parameters.size() <= wanted.size(), "has ", wanted.size(), " parameters, but ", parameters.size(),
                " are named");
        std::vector<NetParameter> added;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            std::string known = i < parameters.size() ? parameters[i] : "";
            if (known.empty() || known == "auto")
                known = name + "." + std::to_string(i);
            const bool trained = wanted[i].trainable && is_floating_point(wanted[i].dtype) && !frozen;
            if (const auto found = s.parameter_of.find(known); found != s.parameter_of.end()) {
                NetParameter& shared = s.parameters[found->second];
                require(shared.spec == wanted[i], "parameter \"", known, "\" is shared, but has shape ",
                        to_string(shared.spec.shape), " (", name_of(shared.spec.dtype), ") elsewhere and ",
                        to_string(wanted[i].shape), " (", name_of(wanted[i].dtype), ") here");
                shared.trained = shared.trained || trained;
                node.parameters.push_back(found->second);
                continue;
            }
            const auto twin = std::ranges::find(added, known, &NetParameter::name);
            require(twin == added.end(), "two of its parameters are called \"", known, "\"");
            node.parameters.push_back(static_cast<int>(s.parameters.size() + added.size()));
            added.push_back({known, s.checked(wanted[i], "parameter \"" + known + "\""), trained, true, {}, {}});
        }
        for (NetParameter& parameter : added) {
            s.parameter_of[parameter.name] = static_cast<int>(s.parameters.size());
            s.parameters.push_back(std::move(parameter));
        }
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            node.outputs.push_back(static_cast<int>(s.values.size()));
            s.value_of[outputs[i]] = node.outputs.back();
            s.values.push_back({outputs[i], results[i], static_cast<int>(s.nodes.size())});
        }
        node.op = std::move(op);
        s.node_of[name] = static_cast<int>(s.nodes.size());
        s.nodes.push_back(std::move(node));
        s.planned = false;
    });
}

void Net::mark_output(const std::string& name)
{
    State& s = alive(state_);
    s.value(name);
    require(std::ranges::find(s.output_names, name) == s.output_names.end(), "\"", name, "\" is an output already");
    s.output_names.push_back(name);
    if (name.starts_with("loss") && !s.loss_weights.contains(name))
        set_loss_weight(name, 1);
    s.planned = false;
}

void Net::set_loss_weight(const std::string& name, double weight)
{
    State& s = alive(state_);
    const TensorSpec& spec = s.values[s.value(name)].spec;
    require(is_floating_point(spec.dtype), "\"", name, "\" cannot be a loss: it is ", name_of(spec.dtype));
    require(weight != 0, "the loss weight of \"", name, "\" is 0");
    s.loss_weights[name] = weight;
    s.planned = false;
}

void Net::use_output_gradient(const std::string& name)
{
    set_loss_weight(name, 1);
    alive(state_).loss_weights[name] = 0;
}

NetMode Net::mode() const { return alive(state_).mode; }
void Net::mode(NetMode mode)
{
    State& s = alive(state_);
    s.planned = s.planned && s.mode == mode;
    s.mode = mode;
}
void Net::keep_intermediate_tensors(bool keep)
{
    alive(state_).keep_intermediates = keep;
    alive(state_).planned = false;
}
bool Net::keep_intermediate_tensors() const { return alive(state_).keep_intermediates; }
void Net::fusion(bool enabled)
{
    alive(state_).fusion = enabled;
    alive(state_).planned = false;
}
void Net::queue_count(int count)
{
    require(count >= 1 && count <= 8, "queue_count: expected 1 to 8, got ", count);
    alive(state_).lanes = count;
    alive(state_).planned = false;
}

void Net::setup() { alive(state_).plan(); }
bool Net::is_set_up() const { return alive(state_).planned; }

void Net::reshape(const std::map<std::string, Dims>& input_shapes)
{
    State& s = alive(state_);
    const std::vector<NetValue> before = s.values;
    try {
        for (const auto& [name, shape] : input_shapes) {
            require(std::ranges::find(s.input_names, name) != s.input_names.end(), "reshape: the net has no input \"",
                    name, "\"");
            NetValue* input = nullptr;
            for (NetValue& value : s.values)
                if (value.producer < 0 && value.name == name)
                    input = &value;
            input->spec.shape = shape;
            s.checked(input->spec, "input \"" + name + "\"");
        }
        s.infer_shapes();
    } catch (...) {   // the net stays as it was
        s.values = before;
        s.infer_shapes();
        throw;
    }
    s.plan();
}

const std::vector<std::string>& Net::input_names() const { return alive(state_).input_names; }
const std::vector<std::string>& Net::output_names() const { return alive(state_).output_names; }
std::vector<std::string> Net::operator_names() const
{
    std::vector<std::string> names;
    for (const NetNode& node : alive(state_).nodes)
        names.push_back(node.name);
    return names;
}
std::vector<std::string> Net::parameter_names() const
{
    std::vector<std::string> names;
    for (const NetParameter& parameter : alive(state_).parameters)
        names.push_back(parameter.name);
    return names;
}

TensorSpec Net::spec(const std::string& name) const
{
    const State& s = alive(state_);
    return s.values[s.value(name)].spec;
}


namespace {

const std::string& name_at(const std::vector<std::string>& names, std::size_t i, const char* what)
{
    require(i < names.size(), what, " ", i, " is asked for, the net has ", names.size());
    return names[i];
}

}  // namespace

Tensor Net::input(std::size_t i) const { return tensor(name_at(input_names(), i, "input")); }
Tensor Net::output(std::size_t i) const { return tensor(name_at(output_names(), i, "output")); }

Tensor Net::tensor(const std::string& name) const
{
    const State& s = alive(state_);
    const NetValue* value = &s.values[s.value(name)];
    if (value->producer >= 0 && !s.is_output(s.value(name)) &&
        std::ranges::find(s.input_names, name) != s.input_names.end())
        for (const NetValue& input : s.values)   // an in-place operator took the input's name
            if (input.producer < 0 && input.name == name)
                value = &input;
    require(s.planned, "tensor \"", name, "\": the net is not set up");
    require(value->keeps, "tensor \"", name, "\" does not keep its memory; see keep_intermediate_tensors");
    return value->data;
}

Tensor Net::gradient(const std::string& name) const
{
    const State& s = alive(state_);
    const NetValue& value = s.values[s.value(name)];
    require(s.planned, "gradient \"", name, "\": the net is not set up");
    require(value.has_gradient, "tensor \"", name, "\" has no gradient");
    require(value.keeps_gradient, "the gradient of \"", name,
            "\" does not keep its memory; see keep_intermediate_tensors");
    return value.gradient;
}

const Tensor& Net::parameter(const std::string& name) const
{
    State& s = alive(state_);
    s.allocate_parameters();
    return s.parameters[s.parameter(name)].data;
}

Tensor Net::parameter_gradient(const std::string& name) const
{
    const State& s = alive(state_);
    const NetParameter& parameter = s.parameters[s.parameter(name)];
    return parameter.fresh ? Tensor() : parameter.gradient;
}

void Net::parameters_changed() { alive(state_).parameters_changed = true; }
NetMemory Net::memory() const { return alive(state_).memory; }

}  // namespace clprim
