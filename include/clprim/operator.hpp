// Operators of a net: what one does, and the factory that makes them by name.
//
// An operator is shape rules and two launchers. It owns no tensors: the net gives it inputs, outputs, parameters and
// gradients with every call, so that it can plan their memory. Everything is asynchronous.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <clprim/context.hpp>
#include <clprim/random.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class NetMode : std::uint8_t { train, predict };

// Shape and dtype of a tensor of a net. `trainable` matters for parameters: running statistics are not.
struct TensorSpec {
    Dims shape{};
    DataType dtype = DataType::float32;
    bool trainable = true;
    friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// dtype names of nets and weight files: those of name_of(), and "float", "double", "half", "int", "bool".
DataType net_data_type(std::string_view name);   // throws InvalidArgument

// A JSON object: the options of an operator. A value that has another type than the one asked for, or that is absent
// where no default is given, throws InvalidArgument naming it.
class Options {
public:
    Options();
    explicit Options(std::string_view json);   // throws InvalidArgument unless it is a JSON object; "" is an empty one
    Options(const Options&);
    Options(Options&&) noexcept;
    Options& operator=(Options) noexcept;
    ~Options();

    bool has(std::string_view name) const;
    std::vector<std::string> names() const;
    std::int64_t integer(std::string_view name) const;
    double number(std::string_view name) const;
    bool boolean(std::string_view name) const;
    std::string text(std::string_view name) const;
    Dims dims(std::string_view name) const;    // an array of integers, or one integer: one entry
    std::vector<double> numbers(std::string_view name) const;

    Options& set(std::string_view name, std::int64_t value);
    Options& set(std::string_view name, double value);
    Options& set(std::string_view name, bool value);
    Options& set(std::string_view name, std::string_view value);
    Options& set(std::string_view name, const Dims& value);
    Options& set(std::string_view name, std::span<const double> value);

    std::string json() const;

    // What a reader does with a name that it does not know: throw InvalidArgument, or append it to the list given here.
    void collect_unknown(std::vector<std::string>* names);
    void report_unknown(const std::string& name) const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// The tensors of one call. Gradients are there in backward only; an undefined one is not wanted (of inputs and
// parameters) or is zero (of outputs). Gradients of inputs and parameters are overwritten, not added to: the net adds.
// All tensors are contiguous.
struct OperatorCall {
    Queue& queue;
    NetMode mode;
    std::span<const Tensor> inputs, outputs, parameters;
    std::span<const Tensor> saved;               // train mode: what forward keeps for backward; else empty
    std::span<const Tensor> output_gradients, input_gradients, parameter_gradients;
    std::uint64_t seed = 0;                      // changes with every forward pass; backward sees that of its forward
};

// What the memory planner may assume.
struct OperatorTraits {
    bool alias = false;                  // the output is the input with another shape; forward and backward are the
                                         // net's
    bool in_place = false;               // output 0 may lie in the memory of input 0, and so may their gradients
    bool backward_reads_inputs = true;
    bool backward_reads_outputs = false;
    bool differentiable = true;          // otherwise gradients end here
    int in_place_of = 0;                 // in_place: the input whose memory output 0 may have instead of input 0's
};

class Operator {
public:
    virtual ~Operator() = default;

    virtual std::string_view type() const = 0;     // name in the factory
    virtual Options options() const { return {}; } // make_operator(type(), options()) makes an equal one
    virtual OperatorTraits traits() const { return {}; }

    // Specs of the outputs and parameters, and of what forward saves for backward (in train mode), for those of the
    // inputs. Called at setup and whenever input shapes change; only the first call of `parameters` counts, later ones
    // must agree. Throw InvalidArgument where the inputs do not fit.
    virtual std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) = 0;
    virtual std::vector<TensorSpec> parameters(std::span<const TensorSpec>) { return {}; }
    virtual std::vector<TensorSpec> saved(std::span<const TensorSpec>) { return {}; }

    // Fills the parameters as PyTorch does for the same layer. `random` is moved on by what was drawn.
    virtual void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState& random);

    virtual void forward(const OperatorCall& call) = 0;
    virtual void backward(const OperatorCall& call);   // throws NotSupported unless overridden
};

// An operator by its name in JSON nets. Throws InvalidArgument for an unknown type or option.
std::unique_ptr<Operator> make_operator(std::string_view type, const Options& options = {});
std::vector<std::string> operator_types();

// Adds a type of operator to the factory (or replaces one), so that JSON nets can name it.
using OperatorFactory = std::function<std::unique_ptr<Operator>(const Options&)>;
void register_operator(std::string type, OperatorFactory factory);

}  // namespace clprim
CLPRIM_API_END
