// A small convolutional net of most kinds of operators, and values for its inputs.
#pragma once

#include "net/net_values.hpp"

namespace clprim::test {

inline const std::string small_cnn = R"({
  "inputs": [{"name": "data", "shape": [4, 2, 8, 8]}, {"name": "label", "shape": [4], "dtype": "int"}],
  "outputs": ["prob", {"name": "loss", "loss_weight": 0.5}],
  "operators": [
    {"name": "conv1", "type": "Convolution2D", "inputs": ["data"], "outputs": ["conv1"],
     "options": {"channels_out": 6, "kernel": 3, "pad": 1, "bias": false}},
    {"name": "bn1", "type": "BatchNorm", "inputs": ["conv1"], "outputs": ["bn1"]},
    {"name": "act1", "type": "Activation", "inputs": ["bn1"], "outputs": ["bn1"], "options": {"activation": "tanh"}},
    {"name": "conv2", "type": "Convolution2D", "inputs": ["bn1"], "outputs": ["conv2"],
     "options": {"channels_out": 6, "kernel": [3, 3], "pad": [1, 1], "groups": 2}},
    {"name": "sum", "type": "Elementwise", "inputs": ["conv2", "bn1"], "outputs": ["sum"],
     "options": {"operation": "sum", "activation": "sigmoid"}},
    {"name": "pool", "type": "Pooling2D", "inputs": ["sum"], "outputs": ["pool"],
     "options": {"mode": "avg", "kernel": 2, "stride": 2}},
    {"name": "fc1", "type": "InnerProduct", "inputs": ["pool"], "outputs": ["fc1"],
     "options": {"outputs": 10, "activation": "tanh"}},
    {"name": "fc2", "type": "InnerProduct", "inputs": ["fc1"], "outputs": ["fc2"], "options": {"outputs": 5}},
    {"name": "prob", "type": "Softmax", "inputs": ["fc2"], "outputs": ["prob"]},
    {"name": "loss", "type": "SoftmaxWithLoss", "inputs": ["fc2", "label"], "outputs": ["loss"]}
  ]
})";

inline void fill_inputs(Net& net, unsigned seed = 1)
{
    write(net.queue(), net.tensor("data"), random_values(net.spec("data").shape.product(), seed));
    Values labels(static_cast<std::size_t>(net.spec("label").shape[0]));
    for (std::size_t i = 0; i < labels.size(); ++i)
        labels[i] = static_cast<double>(i % 5);
    write(net.queue(), net.tensor("label"), labels);
}

}  // namespace clprim::test
