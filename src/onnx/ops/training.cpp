// Optimiser steps of ai.onnx.preview.training: Adam, Adagrad, Momentum. Each tensor in one kernel, nothing is waited
// for.
#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

// Inputs are R, T and then, list by list, `lists` tensors for every parameter.
std::size_t parameters_of(const Call& call, std::size_t lists)
{
    call.check(call.inputs() > 2 && (call.inputs() - 2) % lists == 0, "got ", call.inputs(),
               " inputs, expected R, T and ", lists, " for every parameter");
    check_type(call, 0, floating);
    check_type(call, 1, integral);
    return (call.inputs() - 2) / lists;
}

// rate = f(R, T), of one element and the type of the parameters; R is x0 and T is x1.
Tensor rate(const Call& call, std::string_view code, std::initializer_list<Scalar> scalars)
{
    const Tensor inputs[] = {call.contiguous(0).reshape({}), call.contiguous(1).reshape({})};
    const Tensor result = call.allocate({}, inputs[0].dtype);
    pointwise(call.queue(), inputs, {&result, 1}, std::span(scalars.begin(), scalars.size()), code);
    return result;
}

// Computes the new tensors of every parameter from its old ones. Of the lists, all but the gradient (the second) have
// an output. x0.. are a parameter's tensors, then the rates.
void step(Call& call, std::size_t lists, std::initializer_list<Tensor> rates, std::initializer_list<Scalar> scalars,
          std::string_view code)
{
    const std::size_t count = parameters_of(call, lists);
    for (std::size_t p = 0; p < count; ++p) {
        std::vector<Tensor> inputs, outputs;
        for (std::size_t k = 0; k < lists; ++k) {
            const std::size_t i = 2 + k * count + p;
            check_type(call, i, floating);
            call.check(call.shape(i) == call.shape(2 + p) && call.type(i) == call.type(2 + p), "input ", i, " is ",
                       name_of(call.type(i)), " ", to_string(call.shape(i)), ", expected ", name_of(call.type(2 + p)),
                       " ", to_string(call.shape(2 + p)));
            inputs.push_back(call.tensor(i));
            if (k != 1)
                outputs.push_back(call.output_tensor((k ? k - 1 : 0) * count + p, call.shape(i), call.type(i)));
        }
        inputs.insert(inputs.end(), rates);
        pointwise(call.queue(), inputs, outputs, std::span(scalars.begin(), scalars.size()), code);
    }
}

void adam(Call& call)
{
    const Scalar alpha(call.float_attribute("alpha", 0.9f)), beta(call.float_attribute("beta", 0.999f));
    const Scalar epsilon(call.float_attribute("epsilon", 1e-6f)), decay(call.float_attribute("norm_coefficient", 0));
    const Scalar after(call.float_attribute("norm_coefficient_post", 0));
    parameters_of(call, 4);
    const Tensor adjusted =
        rate(call, "T t = (T)x1; y0 = x1 > 0 ? x0 * sqrt(1 - pow(w1, t)) / (1 - pow(w0, t)) : x0;", {alpha, beta});
    step(call, 4, {adjusted}, {alpha, beta, epsilon, decay, after},
         "T g = w3 * x0 + x1; y1 = w0 * x2 + (1 - w0) * g; y2 = w1 * x3 + (1 - w1) * g * g;"
         "y0 = (1 - w4) * (x0 - (T)x4 * y1 / (sqrt(y2) + w2));");
}

void adagrad(Call& call)
{
    const Scalar epsilon(call.float_attribute("epsilon", 1e-6f)), decay(call.float_attribute("norm_coefficient", 0));
    parameters_of(call, 3);
    const Tensor adjusted = rate(call, "y0 = x0 / (1 + (T)x1 * w0);", {call.float_attribute("decay_factor", 0)});
    step(call, 3, {adjusted}, {epsilon, decay},
         "T g = w1 * x0 + x1; y1 = x2 + g * g; y0 = x0 - (T)x3 * g / (sqrt(y1) + w0);");
}

void momentum(Call& call)
{
    const std::string mode = call.attribute<std::string>("mode");
    call.check(mode == "standard" || mode == "nesterov", "mode is ", mode, ", expected standard or nesterov");
    const Scalar alpha(call.attribute<float>("alpha")), decay(call.attribute<float>("norm_coefficient"));
    parameters_of(call, 3);
    // The factor of the gradient is 1 in the first step.
    const Tensor beta = rate(call, "y0 = x1 > 0 ? w0 : 1;", {call.attribute<float>("beta")});
    const std::string code = "T g = w1 * x0 + x1; y1 = w0 * x2 + (T)x3 * g; y0 = x0 - (T)x4 * ";
    step(call, 3, {beta, call.contiguous(0).reshape({})}, {alpha, decay},
         code + (mode == "nesterov" ? "(g + w0 * y1);" : "y1;"));
}

const OperatorRow training_rows[] = {
    {"Adam", 1, adam, nullptr, "ai.onnx.preview.training"},
    {"Adagrad", 1, adagrad, nullptr, "ai.onnx.preview.training"},
    {"Momentum", 1, momentum, nullptr, "ai.onnx.preview.training"},
};

}  // namespace

std::span<const OperatorRow> training_operators() { return training_rows; }

}  // namespace clprim::onnx
