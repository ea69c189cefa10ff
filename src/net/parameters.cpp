// Parameters: first values, loading, saving.
#include <clprim/copy.hpp>

#include "net/graph.hpp"

namespace clprim {

void Net::initialize_parameters(std::uint64_t seed)
{
    State& s = alive(state_);
    s.allocate_parameters();
    s.seed = seed;
    PhiloxState random{seed, 0};
    std::vector<bool> done(s.parameters.size());
    for (const NetNode& node : s.nodes) {
        std::vector<Tensor> tensors;
        bool fresh = node.parameters.empty();
        for (const int p : node.parameters) {
            tensors.push_back(s.parameters[p].data);
            fresh = fresh || !done[p];
        }
        if (tensors.empty() || !fresh)
            continue;
        // What another operator shares and has initialised stays: the values go to a tensor that is dropped.
        for (std::size_t k = 0; k < tensors.size(); ++k)
            if (done[node.parameters[k]])
                tensors[k] = s.queue->context().empty(tensors[k].shape, tensors[k].dtype, *s.queue);
        with_label([&] { return detail::concat("operator \"", node.name, "\" (", node.op->type(), ")"); },
                   [&] { node.op->initialize(*s.queue, tensors, random); });
        for (const int p : node.parameters)
            done[p] = true;
    }
    s.parameters_changed = true;
}

void Net::load_parameters(const std::string& path, bool allow_missing)
{
    const WeightMap weights = load_weights(path);
    try {
        load_parameters(weights, allow_missing);
    } catch (const InvalidArgument& error) {
        throw InvalidArgument(path + ": " + error.what());
    }
}

void Net::load_parameters(const WeightMap& weights, bool allow_missing)
{
    State& s = alive(state_);
    for (const NetParameter& parameter : s.parameters) {   // all checks before the first change
        const auto found = weights.find(parameter.name);
        require(found != weights.end() || allow_missing, "parameter \"", parameter.name, "\" is missing");
        require(found == weights.end() || found->second.shape == parameter.spec.shape, "parameter \"", parameter.name,
                "\" has shape ", found == weights.end() ? "" : to_string(found->second.shape), ", the net needs ",
                to_string(parameter.spec.shape));
    }
    s.allocate_parameters();
    for (NetParameter& parameter : s.parameters)
        if (const auto found = weights.find(parameter.name); found != weights.end())
            to_device(*s.queue, found->second, parameter.data);
    s.parameters_changed = true;
}

WeightMap Net::parameters_to_host() const
{
    State& s = alive(state_);
    s.allocate_parameters();
    WeightMap weights;
    for (const NetParameter& parameter : s.parameters)
        weights[parameter.name] = to_host(*s.queue, parameter.data);
    return weights;
}

void Net::save_parameters(const std::string& path) const { save_weights(path, parameters_to_host()); }

}  // namespace clprim
