#include "model.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <clprim/copy.hpp>

namespace clprim::command {

namespace {

// "name=1,3,224,224"
std::pair<std::string, Dims> parse_shape(const std::string& text)
{
    const std::size_t equals = text.rfind('=');
    require(equals != std::string::npos && equals > 0, "a shape is given as NAME=1,3,224,224, not '", text, "'");
    Dims shape;
    const char *at = text.data() + equals + 1, *end = text.data() + text.size();
    while (at < end) {
        std::int64_t size = 0;
        const auto [next, error] = std::from_chars(at, end, size);
        require(error == std::errc() && size >= 0 && (next == end || *next == ','), "bad shape '", text, "'");
        shape.push_back(size);
        at = next + 1;
    }
    return {text.substr(0, equals), shape};
}

}  // namespace

Model::Model(const ModelSource& source, Context& context, bool profile) : source_(source)
{
    if (std::filesystem::path(source.model).extension() != ".json") {
        require(source.weights.empty(), "--weights are for JSON nets; an ONNX model holds its own");
        SessionOptions options{.profile = profile, .sizes = {}, .programs = {}};
        if (!source.optimization.empty())
            options.optimization = optimization_level_from_name(source.optimization);
        session_ = std::make_unique<Session>(OnnxModel(source.model), context, options);
        inputs_ = session_->inputs();
        check_options();
        return;
    }
    require(source.optimization.empty(), "--optimization is for ONNX models: a net runs as its file says");
    net_ = std::make_unique<Net>(context);
    net_->load_json_file(source.model);
    net_->setup();
    source.weights.empty() ? net_->initialize_parameters() : net_->load_parameters(source.weights);
    for (const std::string& name : net_->input_names()) {
        const TensorSpec spec = net_->spec(name);
        inputs_.push_back({name, true, element_type(spec.dtype), true, {spec.shape.begin(), spec.shape.end()}});
        if (source.batch && !inputs_.back().shape.empty())
            inputs_.back().shape[0] = source.batch;
    }
    check_options();
}

// Options that would change nothing are mistakes.
void Model::check_options() const
{
    for (const std::string& text : source_.shapes)
        port(parse_shape(text).first);
    if (!source_.batch || net_)
        return;
    for (const ModelPort& port : inputs_) {
        const auto* first = port.shape.empty() ? nullptr : std::get_if<std::int64_t>(&port.shape[0]);
        require(!first || *first <= 0 || *first == source_.batch, "input '", port.name, "' has ", first ? *first : 0,
                " as its first size: --batch ", source_.batch, " does not change it");
    }
}

Queue& Model::queue() const { return session_ ? session_->queue() : net_->queue(); }

const ModelPort& Model::port(const std::string& name) const
{
    const auto found = std::ranges::find(inputs_, name, &ModelPort::name);
    std::string names;
    for (const ModelPort& input : inputs_)
        names += (names.empty() ? "'" : ", '") + input.name + "'";
    require(found != inputs_.end(), "the model has no input '", name, "'; its inputs are ", names);
    return *found;
}

std::vector<std::string> Model::input_names() const
{
    std::vector<std::string> names;
    for (const ModelPort& port : inputs_)
        names.push_back(port.name);
    return names;
}

std::vector<std::string> Model::output_names() const
{
    if (net_)
        return net_->output_names();
    std::vector<std::string> names;
    for (const ModelPort& port : session_->outputs())
        names.push_back(port.name);
    return names;
}

Dims Model::input_shape(const std::string& name) const
{
    for (const std::string& text : source_.shapes)
        if (auto [given, shape] = parse_shape(text); given == name)
            return shape;
    const ModelPort& port = this->port(name);
    Dims shape;
    for (const auto& size : port.shape) {
        const auto* number = std::get_if<std::int64_t>(&size);
        // A batch in front; 224 pixels for images whose size is open.
        shape.push_back(number && *number > 0 ? *number : shape.empty() ? std::max<std::int64_t>(source_.batch, 1)
                        : port.shape.size() == 4 ? 224 : 1);
    }
    return shape;
}

ElementType Model::input_type(const std::string& name) const { return port(name).type; }

std::vector<Value> Model::run(const std::map<std::string, Value>& inputs)
{
    std::vector<Value> outputs;
    if (session_) {
        auto results = session_->run(inputs);
        for (const std::string& name : output_names())
            outputs.push_back(results.at(name));
        return outputs;
    }
    std::map<std::string, Dims> shapes;
    bool changed = false;
    for (const auto& [name, value] : inputs) {
        shapes[name] = value.shape();
        changed |= net_->spec(name).shape != value.shape();
    }
    if (changed)
        net_->reshape(shapes);
    for (const auto& [name, value] : inputs)
        copy(queue(), value.device(queue()), net_->tensor(name));
    net_->forward();
    for (const std::string& name : net_->output_names()) {
        // The net's own tensor is overwritten by the next run.
        const Tensor tensor = net_->tensor(name), kept = queue().context().empty(tensor.shape, tensor.dtype, queue());
        copy(queue(), tensor, kept);
        outputs.emplace_back(kept);
    }
    return outputs;
}

Value Model::random_input(const std::string& name, std::mt19937& random) const
{
    const Dims shape = input_shape(name);
    const ElementType type = input_type(name);
    require(port(name).is_tensor && type != ElementType::string && !is_narrow(type), "input '", name,
            "': no values can be made up for ", name_of(type));
    Value floats = Value::zeros(ElementType::float32, shape);
    std::normal_distribution<float> normal;
    const DataType dtype = storage_type(type);
    for (float& x : floats.mutable_host<float>())
        x = is_floating_point(dtype) ? normal(random) : 1.0f;
    if (type == ElementType::float32)
        return floats;
    const Tensor target = queue().context().empty(shape, dtype, queue());
    copy(queue(), floats.device(queue()), target);
    return Value(target);
}

double Model::milliseconds(int runs)
{
    std::mt19937 random(0);
    std::map<std::string, Value> inputs;
    for (const std::string& name : input_names())
        inputs[name] = random_input(name, random);
    run(inputs);
    queue().finish();
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        run(inputs);
        queue().finish();
        times.push_back(seconds_since(begin) * 1e3);
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
}

std::vector<ModelTime> Model::profile(int runs)
{
    std::mt19937 random(0);
    std::map<std::string, Value> inputs;
    for (const std::string& name : input_names())
        inputs[name] = random_input(name, random);
    run(inputs);         // builds the programs
    std::vector<ModelTime> times;
    if (net_) {
        for (int i = 0; i < runs; ++i) {
            const auto once = net_->profile();
            times.resize(once.size());
            for (std::size_t k = 0; k < once.size(); ++k)
                times[k] = {once[k].name, once[k].type, times[k].milliseconds + once[k].forward_ms / runs};
        }
        return times;
    }
    const auto before = session_->profile();
    for (int i = 0; i < runs; ++i)
        run(inputs);
    // A node that only later runs came to is not in `before`; the others stand there in the same order.
    auto earlier = before.begin();
    for (const NodeTime& node : session_->profile()) {
        // What is computed on the host has no time on the device.
        const auto taken = [](const NodeTime& time) {
            return time.milliseconds > 0 ? time.milliseconds : time.host_milliseconds;
        };
        double milliseconds = taken(node);
        if (earlier != before.end() && earlier->name == node.name && earlier->op_type == node.op_type)
            milliseconds -= taken(*earlier++);
        times.push_back({node.name, node.op_type, milliseconds / runs});
    }
    return times;
}

std::string Model::trace() const
{
    require<NotSupported>(session_ != nullptr, "traces are of ONNX models, not of nets");
    return session_->trace();
}

std::vector<float> to_floats(const Value& value, Queue& queue)
{
    const std::vector<double> numbers = value.to_doubles(queue);
    return {numbers.begin(), numbers.end()};
}

}  // namespace clprim::command
