// What classifiers and regressors of ai.onnx.ml share.
#pragma once

#include "onnx/ops/elementwise.hpp"

namespace clprim::onnx {

inline constexpr const char* ml = "ai.onnx.ml";

// Input 0 [N, F] (or [F]) as contiguous float32, or float64 for float64 where `keep_double`.
Tensor feature_rows(const Call& call, bool keep_double);

// Numbers of an attribute as a tensor of `type`.
Tensor number_table(const Call& call, const std::vector<double>& numbers, DataType type);
Tensor index_table(const Call& call, const std::vector<std::int64_t>& numbers);   // int32; throws beyond its range

// A list of floats, or the tensor that replaces it in `name`_as_tensor.
std::vector<double> numbers_attribute(const Call& call, const std::string& name);

// scores -> NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT of them, rows being samples.
Tensor post_transform(const Call& call, const Tensor& scores, const std::string& name);

// Labels of a classifier: integers or strings.
struct ClassLabels {
    std::vector<std::int64_t> ints;
    std::vector<std::string> strings;
    std::size_t size() const { return std::max(ints.size(), strings.size()); }
};
ClassLabels class_labels(const Call& call, std::string_view ints);

// Output 0: the label of the largest score in every row of [N, classes].
void emit_labels(Call& call, const Tensor& scores, const ClassLabels& labels);

}  // namespace clprim::onnx
