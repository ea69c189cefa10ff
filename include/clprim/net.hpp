// Net: operators connected by named tensors, run forward and backward on a device.
//
//     Net net(Context::get());
//     net.add_input("data", {{64, 1, 28, 28}});
//     net.add(ConvolutionConfig{.channels_out = 32, .kernel = {3}}, "conv1", {"data"}, {"conv1"});
//     ...
//     net.mode(NetMode::train);
//     net.setup();
//     net.initialize_parameters(seed);
//     loop: write to net.tensor("data"), then net.forward(); net.backward();
//
// Operators run in the order in which they were added. A name may be an input and an output of one operator ("in
// place"): from then on it means the result. An output whose name begins with "loss" is a loss of weight 1.
//
// forward and backward only enqueue. Errors are InvalidArgument and NotSupported, found before a launch, in words that
// begin with the operator's name. A Net is not thread-safe.
#pragma once

#include <map>

#include <clprim/operators.hpp>
#include <clprim/weights.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct OperatorTime {
    std::string name, type;
    double forward_ms = 0, backward_ms = 0;
};

struct NetMemory {
    std::size_t parameters = 0;      // parameters and their gradients
    std::size_t intermediates = 0;   // the arenas in which tensors take turns
    std::size_t own = 0;             // tensors that keep their memory: inputs, outputs
    std::size_t without_reuse = 0;   // what intermediates would take without taking turns
};

class Net {
public:
    explicit Net(Context& context);                    // on its default queue
    explicit Net(Queue& queue);
    Net(Net&&) noexcept;
    Net& operator=(Net&&) noexcept;
    ~Net();

    Queue& queue() const;

    // Building. Names are unique; an operator's inputs must exist. Parameters are named "<operator>.<i>", or as
    // `parameters` says ("" or "auto": the default); an existing name shares that parameter. Frozen operators leave
    // their parameters as they are.
    void add_input(const std::string& name, const TensorSpec& spec, bool requires_gradient = false);
    void add_operator(std::unique_ptr<Operator> op, const std::string& name, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs, const std::vector<std::string>& parameters = {},
                      bool frozen = false);
    template <class Config>
    void add(const Config& config, const std::string& name, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs)
    {
        add_operator(make_operator(config), name, inputs, outputs);
    }
    void mark_output(const std::string& name);
    void set_loss_weight(const std::string& name, double weight = 1);
    // Backward starts from gradient(name), which the caller writes.
    void use_output_gradient(const std::string& name);

    // The JSON format of docs/net.md, a superset of dlprimitives'. Throws InvalidArgument naming operator and option.
    // Fields and options that nobody knows are not errors, since existing nets have some; json_warnings lists them.
    void load_json(std::string_view text);
    void load_json_file(const std::string& path);
    const std::vector<std::string>& json_warnings() const;
    std::string to_json() const;

    // predict: nothing is kept for backward; train: batch statistics, dropout, gradients. Default: predict.
    NetMode mode() const;
    void mode(NetMode mode);
    // Every tensor keeps memory of its own, and nothing is fused: each can be looked at after a pass. Default: off.
    void keep_intermediate_tensors(bool keep);
    bool keep_intermediate_tensors() const;
    // predict mode: batch norms are folded into convolutions and inner products, activations into what precedes them.
    // Default: on.
    void fusion(bool enabled);
    // Independent branches of the forward pass run on up to that many queues. Default: 1.
    void queue_count(int count);

    // Infers shapes, plans memory, allocates. reshape gives inputs new shapes (those not named keep theirs): no program
    // is built anew, memory grows where it must. Tensors asked for before setup or reshape are stale afterwards; inputs
    // and outputs keep their memory where it is large enough.
    void setup();
    void reshape(const std::map<std::string, Dims>& input_shapes);
    bool is_set_up() const;

    // As PyTorch initialises the same layers, from a Philox stream.
    void initialize_parameters(std::uint64_t seed = 0);
    void forward();
    // Gradients of parameters are added up until zero_grad. Throws InvalidArgument outside of train mode or before
    // forward.
    void backward();
    void zero_grad();

    // Names, in the order of declaration.
    const std::vector<std::string>& input_names() const;
    const std::vector<std::string>& output_names() const;
    std::vector<std::string> operator_names() const;
    std::vector<std::string> parameter_names() const;

    TensorSpec spec(const std::string& name) const;    // of a tensor, once its operator was added
    // The tensor of that name. Without keep_intermediate_tensors only inputs, outputs and losses hold their values
    // after a pass; others throw. Contiguous. Write to an input through Queue::write, to_device or copy.
    Tensor tensor(const std::string& name) const;
    Tensor gradient(const std::string& name) const;    // same rule: inputs that require it, and outputs
    Tensor input(std::size_t i) const;                 // in the order of declaration; throws if there are fewer
    Tensor output(std::size_t i) const;
    const Tensor& parameter(const std::string& name) const;
    // Undefined for what is not trained, and since zero_grad until a backward wrote it.
    Tensor parameter_gradient(const std::string& name) const;

    // Whoever writes to a parameter's tensor says so, since fused operators keep folded copies.
    void parameters_changed();

    // Files as load_weights reads them; converted to the parameters' dtypes. Throws InvalidArgument for wrong shapes,
    // and for absent ones unless allow_missing. Names that the net lacks are ignored.
    void load_parameters(const std::string& path, bool allow_missing = false);
    void load_parameters(const WeightMap& weights, bool allow_missing = false);
    void save_parameters(const std::string& path) const;   // format by the extension; waits
    WeightMap parameters_to_host() const;                  // waits

    // One forward (and backward) pass, operator by operator. Waits for each: for measuring only.
    std::vector<OperatorTime> profile();
    NetMemory memory() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace clprim
CLPRIM_API_END
