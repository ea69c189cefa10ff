// What a Net is made of. Names lead to values; an in-place operator gives its name to a new value, so that every value
// is written once. The plan (plan.cpp) turns nodes into steps with tensors; run.cpp walks them.
#pragma once

#include <unordered_map>

#include <clprim/net.hpp>

#include "core/alive.hpp"
#include "net/fusion.hpp"

namespace clprim {

// The state of a net that was not moved from.
template <class State>
State& alive(const std::unique_ptr<State>& state)
{
    return detail::alive(state, "Net");
}

struct NetValue {
    std::string name;
    TensorSpec spec{};
    int producer = -1;                 // node; -1: an input of the net
    bool requires_gradient = false;    // an input whose gradient the caller wants
    // Of the plan:
    bool has_gradient = false, keeps = false, keeps_gradient = false;
    Tensor data{}, gradient{};
};

struct NetParameter {
    std::string name;
    TensorSpec spec;
    bool trained = false;              // trainable, and used by an operator that is not frozen
    bool fresh = true;                 // no gradient since zero_grad
    Tensor data, gradient;
};

struct NetNode {
    std::unique_ptr<Operator> op;
    std::string name;
    std::vector<int> inputs, outputs, parameters;
    bool frozen = false;
};

// A convolution (or the like) with a batch norm folded into it.
struct NetFold {
    const Fusible* base = nullptr;
    const Fusible* scale_shift = nullptr;
    std::vector<int> base_parameters, scale_shift_parameters;
};

struct NetStep {
    Operator* op = nullptr;
    std::unique_ptr<Operator> fused;   // what op is, if fusion made it
    int node = 0;                      // for names
    bool frozen = false, runs_backward = false, skips = false;   // skips: a view, nothing to launch
    std::vector<int> inputs, outputs, parameters;
    NetFold fold;
    std::vector<Tensor> in, out, params, saved, out_gradients, in_gradients;
    std::vector<bool> adds;            // to the input's gradient, which another step wrote first
    int lane = 0;                      // which queue
    std::vector<int> waits_for;        // earlier forward steps on other queues
    bool is_waited_for = false;
};

struct Net::State {
    explicit State(Queue& queue) : queue(&queue) {}

    Queue* queue;
    NetMode mode = NetMode::predict;
    bool keep_intermediates = false, fusion = true;
    int lanes = 1;
    std::vector<Queue*> queues;        // of the lanes; the first is `queue`

    std::vector<NetValue> values;
    std::vector<NetNode> nodes;
    std::vector<NetParameter> parameters;
    std::vector<std::string> input_names, output_names, json_warnings;
    std::unordered_map<std::string, int> value_of;        // the latest of that name
    std::unordered_map<std::string, int> parameter_of, node_of;
    std::map<std::string, double> loss_weights;           // 0: the caller writes the gradient

    std::vector<NetStep> steps;
    std::vector<Memory> arenas;
    std::unordered_map<std::string, Memory> own_memory;   // of values that keep theirs, by name
    NetMemory memory;
    bool planned = false, parameters_changed = true, forward_done = false;
    std::uint64_t seed = 0, passes = 0;

    int value(const std::string& name) const;             // throws InvalidArgument for an unknown name
    int parameter(const std::string& name) const;
    bool is_output(int value) const;
    std::string label(const NetStep& step) const;         // operator "conv1" (Convolution2D)
    TensorSpec checked(const TensorSpec& spec, const std::string& what) const;
    void allocate_parameters();

    void infer_shapes();
    void make_steps();
    void fuse();
    void add_residual(NetStep& step, NetStep& sum, Activation activation);
    void plan();
    void plan_gradients();
    void plan_lanes();
    void fold_parameters();
    void forward_step(NetStep& step, Queue& queue, std::uint64_t pass_seed);
    void forward_steps();
    void backward_step(NetStep& step, std::uint64_t pass_seed);
    std::uint64_t pass_seed() const { return (seed + passes) * 0x9E3779B97F4A7C15ull; }
};

// Runs f; errors get the label in front.
template <class Label, class F>
auto with_label(const Label& label, const F& f)
{
    try {
        return f();
    } catch (const InvalidArgument& error) {
        throw InvalidArgument(detail::concat(label(), ": ", error.what()));
    } catch (const NotSupported& error) {
        throw NotSupported(detail::concat(label(), ": ", error.what()));
    }
}

}  // namespace clprim
