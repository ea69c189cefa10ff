#include <clprim/solver.hpp>

#include <algorithm>

#include <clprim/copy.hpp>
#include <clprim/optim.hpp>

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
    // The fused steps take lists of one dtype.
    std::map<DataType, std::vector<std::string>> groups;
    for (const std::string& name : net.parameter_names())
        if (net.parameter_gradient(name).defined())
            groups[net.parameter(name).dtype].push_back(name);
    for (const auto& [dtype, names] : groups) {
        std::vector<Tensor> parameters, gradients;
        for (const std::string& name : names) {
            parameters.push_back(net.parameter(name));
            gradients.push_back(net.parameter_gradient(name));
        }
        update(queue, names, parameters, gradients);
    }
    net.parameters_changed();
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
