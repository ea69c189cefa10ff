#include <clprim/solver.hpp>

#include <algorithm>

#include <clprim/copy.hpp>
#include <clprim/optim.hpp>
#include <clprim/pointwise.hpp>
#include <clprim/reduce.hpp>
#include <clprim/weights.hpp>

namespace clprim {

// Tensors by "<parameter>/<name>", made as zeros when a parameter is first updated.
struct Solver::State {
    const Queue* queue = nullptr;
    std::map<std::string, Tensor> tensors;

    bool has(const std::string& parameter, const char* name) const { return tensors.contains(parameter + "/" + name); }
    const Tensor& get(Queue& on, const std::string& parameter, const char* name, const Dims& shape, DataType dtype)
    {
        Tensor& tensor = tensors[parameter + "/" + name];
        if (!tensor.defined()) {
            tensor = on.context().empty(shape, dtype, on);
            fill(on, tensor, 0);
        }
        require(tensor.shape == shape, "solver: its state of \"", parameter, "\" has shape ", to_string(tensor.shape),
                ", the parameter needs ", to_string(shape));
        return tensor;
    }
};

Solver::Solver() : state_(std::make_unique<State>()) {}
Solver::~Solver() = default;

void Solver::apply(Net& net)
{
    Queue& queue = net.queue();
    require(!state_->queue || state_->queue == &queue, "solver: its state lies on another queue");
    state_->queue = &queue;
    require(gradient_scale > 0 && max_gradient_norm >= 0, "solver: gradient_scale must be positive and "
            "max_gradient_norm not negative, got ", gradient_scale, " and ", max_gradient_norm);
    // The fused steps take lists of one dtype.
    struct Group {
        std::vector<std::string> names;
        std::vector<Tensor> parameters, gradients;
    };
    std::map<DataType, Group> groups;
    std::vector<Tensor> gradients;
    std::vector<std::pair<Tensor, Tensor>> copies;    // float32 parameters and those of the net
    for (const std::string& name : net.parameter_names()) {
        Tensor parameter = net.parameter(name), gradient = net.parameter_gradient(name);
        if (!gradient.defined())
            continue;
        const bool narrow = size_of(parameter.dtype) < 4;
        if (narrow) {
            const bool fresh = !state_->has(name, "float32");
            const Tensor& kept = state_->get(queue, name, "float32", parameter.shape, DataType::float32);
            if (fresh)
                copy(queue, parameter, kept);
            copies.emplace_back(kept, parameter);
            parameter = kept;
        }
        if (narrow || gradient_scale != 1) {
            const Tensor scaled = queue.context().empty(gradient.shape, parameter.dtype, queue);
            const Scalar factor(1 / gradient_scale);
            pointwise(queue, std::span(&gradient, 1), std::span(&scaled, 1), std::span(&factor, 1), "y0 = x0 * w0;");
            gradient = scaled;
        }
        Group& group = groups[parameter.dtype];
        group.names.push_back(name);
        group.parameters.push_back(parameter);
        group.gradients.push_back(gradient);
        gradients.push_back(gradient);
    }
    if (max_gradient_norm > 0)
        clip(queue, gradients);
    for (const auto& [dtype, group] : groups)
        update(queue, group.names, group.parameters, group.gradients);
    for (const auto& [from, to] : copies)
        copy(queue, from, to);
    net.parameters_changed();
}

// g *= min(1, most / (|all g| + 1e-6)), by sums on the device.
void Solver::clip(Queue& queue, const std::vector<Tensor>& gradients) const
{
    if (gradients.empty())
        return;
    const auto count = static_cast<std::int64_t>(gradients.size());
    const DataType type = gradients[0].dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    const Tensor sums = queue.context().empty({count}, type, queue), total = queue.context().empty({1}, type, queue);
    for (std::int64_t i = 0; i < count; ++i) {
        const Tensor& gradient = gradients[static_cast<std::size_t>(i)];
        const Tensor squares = queue.context().empty({gradient.numel()}, type, queue);
        const Tensor flat = gradient.reshape({gradient.numel()}), sum = sums.slice(0, i, i + 1);
        pointwise(queue, std::span(&flat, 1), std::span(&squares, 1), {}, "y0 = (T)x0 * (T)x0;");
        const Input inputs[] = {squares};
        reduce(queue, reduce_row("sum"), {inputs, std::span(&sum, 1), {}, type});
    }
    const Input inputs[] = {sums};
    reduce(queue, reduce_row("sum"), {inputs, std::span(&total, 1), {}, type});
    const Scalar most(max_gradient_norm);
    for (const Tensor& gradient : gradients) {
        const Tensor flat = gradient.reshape({gradient.numel()}), operands[] = {flat, total};
        pointwise(queue, operands, std::span(&flat, 1), std::span(&most, 1),
                  "y0 = x0 * fmin((typeof_x1)1, (typeof_x1)w0 / (sqrt(x1) + (typeof_x1)1e-6f));");
    }
}

void Solver::save_checkpoint(const Net& net, const std::string& path) const
{
    WeightMap all;
    for (auto& [name, tensor] : net.parameters_to_host())
        all["net/" + name] = tensor;
    for (auto& [name, tensor] : state_to_host())
        all["solver/" + name] = tensor;
    save_weights(path, all);
}

void Solver::load_checkpoint(Net& net, const std::string& path)
{
    WeightMap parameters, state;
    for (auto& [name, tensor] : load_weights(path)) {
        const bool of_net = name.starts_with("net/");
        require(of_net || name.starts_with("solver/"), path, " is no checkpoint: it holds \"", name, "\"");
        (of_net ? parameters : state)[name.substr(name.find('/') + 1)] = tensor;
    }
    net.load_parameters(parameters);
    load_state(net, state);
}

void Solver::step(Net& net)
{
    net.zero_grad();
    net.forward();
    net.backward();
    apply(net);
}

WeightMap Solver::state_to_host() const
{
    WeightMap weights;
    for (const auto& [name, tensor] : state_->tensors)
        weights[name] = to_host(tensor.memory->context->queue(state_->queue->id()), tensor);
    return weights;
}

void Solver::load_state(Net& net, const WeightMap& weights)
{
    state_->queue = &net.queue();
    state_->tensors.clear();
    for (const auto& [name, tensor] : weights) {
        const std::string parameter = name.substr(0, name.rfind('/'));
        const Tensor& of = net.parameter(parameter);
        require(tensor.shape == of.shape || tensor.shape == Dims{1}, "solver: state \"", name, "\" has shape ",
                to_string(tensor.shape), ", its parameter ", to_string(of.shape));
        state_->tensors[name] = to_device(net.queue(), tensor);
    }
}

void SGD::update(Queue& queue, const std::vector<std::string>& names, const std::vector<Tensor>& parameters,
                 const std::vector<Tensor>& gradients)
{
    Sgd sgd;
    sgd.common = {.lr = config.lr, .weight_decay = config.weight_decay, .maximize = config.maximize};
    sgd.momentum = config.momentum;
    sgd.dampening = config.dampening;
    sgd.nesterov = config.nesterov;
    if (config.momentum == 0)
        return sgd_step(queue, sgd, parameters, gradients, {});
    // PyTorch starts a momentum as the gradient itself, without dampening.
    TensorList lists[2][3];   // of those that have a momentum already, and of the others
    for (std::size_t i = 0; i < names.size(); ++i) {
        auto& list = lists[state_->has(names[i], "momentum") ? 0 : 1];
        list[0].push_back(parameters[i]);
        list[1].push_back(gradients[i]);
        list[2].push_back(state_->get(queue, names[i], "momentum", parameters[i].shape, parameters[i].dtype));
    }
    for (const bool first : {false, true}) {
        sgd.first_step = first;
        sgd_step(queue, sgd, lists[first][0], lists[first][1], lists[first][2]);
    }
}

void AdamSolver::update(Queue& queue, const std::vector<std::string>& names, const std::vector<Tensor>& parameters,
                        const std::vector<Tensor>& gradients)
{
    Adam adam;
    adam.common = {
        .lr = config.lr, .weight_decay = config.weight_decay, .eps = config.eps, .maximize = config.maximize};
    adam.beta1 = config.beta1;
    adam.beta2 = config.beta2;
    adam.decoupled = config.decoupled;
    AdamLists lists;
    lists.parameters = parameters;
    lists.gradients = gradients;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const Dims& shape = parameters[i].shape;
        const DataType dtype = parameters[i].dtype;
        lists.averages.push_back(state_->get(queue, names[i], "average", shape, dtype));
        lists.squares.push_back(state_->get(queue, names[i], "square", shape, dtype));
        if (config.amsgrad)
            lists.max_squares.push_back(state_->get(queue, names[i], "max_square", shape, dtype));
        lists.steps.push_back(state_->get(queue, names[i], "step", {1}, DataType::float32));
    }
    const TensorList steps[] = {lists.steps, lists.steps};
    const double one[] = {1};
    foreach(queue, "add_scalar", steps, one);   // the kernel takes the count of this step
    adam_step(queue, adam, lists);
}

}  // namespace clprim
