// A model of either kind: an ONNX file, or a JSON net with its weights.
#pragma once

#include <random>

#include <clprim/net.hpp>
#include <clprim/onnx.hpp>

#include "command.hpp"
#include "options.hpp"

namespace clprim::command {

// One operator's time.
struct ModelTime {
    std::string name, type;
    double milliseconds = 0;
};

class Model {
public:
    Model(const ModelSource& source, Context& context, bool profile = false);

    Queue& queue() const;
    std::vector<std::string> input_names() const;
    std::vector<std::string> output_names() const;
    Dims input_shape(const std::string& name) const;      // with dynamic sizes filled in
    ElementType input_type(const std::string& name) const;
    // Outputs in the order of output_names. A net is reshaped to the inputs first.
    std::vector<Value> run(const std::map<std::string, Value>& inputs);
    // Values that suit the input: normal floats, ones for integers.
    Value random_input(const std::string& name, std::mt19937& random) const;
    // Of a run on such values that is waited for at its end only, the median after one that is not counted.
    double milliseconds(int runs);
    // Milliseconds of one run by operator, the mean of `runs`.
    std::vector<ModelTime> profile(int runs);
    std::string trace() const;               // of all runs so far, Session::trace

private:
    void check_options() const;
    const ModelPort& port(const std::string& name) const;

    ModelSource source_;
    std::unique_ptr<Session> session_;
    std::unique_ptr<Net> net_;
    std::vector<ModelPort> inputs_;
};

// Of any floating-point type.
std::vector<float> to_floats(const Value& value, Queue& queue);

}  // namespace clprim::command
