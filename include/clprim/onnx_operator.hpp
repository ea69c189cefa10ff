// ONNX operators of a program's own: a name in a domain, and an OpenCL expression or a function.
//
//     register_onnx_operator({.domain = "my.ops", .name = "Swish", .code = "y0 = x0 / (1 + exp(-w0 * x0));",
//                             .numbers = {{"beta", 1.0}}});
//     register_onnx_operator({.domain = "my.ops", .name = "Normalize", .run = [](const OnnxCall& call) {
//         const Tensor x = call.inputs[0].device(call.queue);
//         ...                                              // anything that takes a queue
//         return std::vector<Value>{y};
//     }});
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <clprim/value.hpp>

CLPRIM_API_BEGIN
namespace clprim {

using OnnxAttribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
                                   std::vector<std::string>, Value>;

// One execution of a node.
struct OnnxCall {
    Queue& queue;
    std::string name;                                    // the node's
    std::vector<Value> inputs;                           // none where one is left out
    std::size_t outputs = 1;
    std::map<std::string, OnnxAttribute> attributes;     // but subgraphs
};

// Either `code` or `run`. Code is that of pointwise (clprim/pointwise.hpp): the inputs are x0.., broadcast, the outputs
// y0.. have their common shape and the element type of x0 or `type`; w0.. are the attributes that `numbers` names with
// their defaults. `run` returns the outputs, and may be called from several threads.
struct OnnxOperator {
    std::string domain, name;
    int since = 1;                                       // of the domain's operator set
    std::string code;
    std::vector<std::pair<std::string, double>> numbers;
    ElementType type = ElementType::undefined;
    std::function<std::vector<Value>(const OnnxCall&)> run;
    // The same inputs always give the same outputs by the same kernels: `run` may be called ahead with constants, and
    // its kernels may be recorded and replayed without calling it again. Code always is pure.
    bool pure = false;
};

// For models that are made into sessions from now on; a second registration takes the first one's place. Thread-safe.
// Throws InvalidArgument for an operator that clprim has itself, and unless there is a name and either code or run.
void register_onnx_operator(OnnxOperator definition);

}  // namespace clprim
CLPRIM_API_END
