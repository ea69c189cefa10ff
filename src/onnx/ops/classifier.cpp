#include "onnx/ops/classifier.hpp"

#include <limits>

#include <clprim/copy.hpp>
#include <clprim/index.hpp>
#include <clprim/reduce.hpp>
#include <clprim/softmax.hpp>

#include "onnx/ops/host_pick.hpp"

namespace clprim::onnx {

Tensor feature_rows(const Call& call, bool keep_double)
{
    check_type(call, 0, numbers);
    const Tensor x = call.contiguous(0);
    call.check(x.dim() == 1 || x.dim() == 2, "X has shape ", to_string(x.shape), ", expected [N, F] or [F]");
    const Dims shape = x.dim() == 2 ? x.shape : Dims{1, x.size(0)};
    const DataType type = keep_double && x.dtype == DataType::float64 ? x.dtype : DataType::float32;
    if (x.dtype == type)
        return x.reshape(shape);
    const Tensor result = call.allocate(shape, type);
    copy(call.queue(), x.reshape(shape), result);
    return result;
}

Tensor number_table(const Call& call, const std::vector<double>& numbers, DataType type)
{
    const Dims shape{static_cast<std::int64_t>(numbers.size())};
    if (type == DataType::float64)
        return Value::copy_of(ElementType::float64, shape, numbers.data()).device(call.queue());
    Value table = Value::zeros(ElementType::float32, shape);
    std::copy(numbers.begin(), numbers.end(), table.mutable_host<float>().begin());
    return table.device(call.queue());
}

Tensor index_table(const Call& call, const std::vector<std::int64_t>& numbers)
{
    Value table = Value::zeros(ElementType::int32, {static_cast<std::int64_t>(numbers.size())});
    const auto out = table.mutable_host<std::int32_t>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        call.check(std::abs(numbers[i]) <= std::numeric_limits<std::int32_t>::max(), "an index of ", numbers[i],
                   " is too large");
        out[i] = static_cast<std::int32_t>(numbers[i]);
    }
    return table.device(call.queue());
}

std::vector<double> numbers_attribute(const Call& call, const std::string& name)
{
    if (call.has_attribute(name + "_as_tensor"))
        return call.attribute<Value>(name + "_as_tensor").to_doubles(call.queue());
    const auto numbers = call.attribute<std::vector<float>>(name, {});
    return {numbers.begin(), numbers.end()};
}

Tensor post_transform(const Call& call, const Tensor& scores, const std::string& name)
{
    if (name == "NONE" || scores.numel() == 0)
        return scores;
    Queue& queue = call.queue();
    const Tensor result = call.allocate(scores.shape, scores.dtype);
    const Input input(scores);
    if (name == "LOGISTIC" || name == "PROBIT") {
        const PointwiseRow& row = pointwise_row(name == "LOGISTIC" ? "sigmoid" : "special_ndtri");
        pointwise(queue, row, {{&input, 1}, {&result, 1}, {}, scores.dtype});
    } else if (name == "SOFTMAX") {
        softmax(queue, scores, result, 1);
    } else {
        call.check(name == "SOFTMAX_ZERO", "post_transform is ", name,
                   ", expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT");
        // Scores of zero stay out of the sum, and zero.
        const Tensor masked = call.allocate(scores.shape, scores.dtype), inputs[] = {scores, result};
        pointwise(queue, {&scores, 1}, {&masked, 1}, {}, "y0 = fabs(x0) > 1e-7f ? x0 : -INFINITY;");
        softmax(queue, masked, result, 1);
        pointwise(queue, inputs, {&result, 1}, {}, "y0 = fabs(x0) > 1e-7f ? x1 : 0;");
    }
    return result;
}

ClassLabels class_labels(const Call& call, std::string_view ints)
{
    ClassLabels labels{call.ints_attribute(ints), call.attribute<std::vector<std::string>>("classlabels_strings", {})};
    call.check(labels.ints.empty() != labels.strings.empty(), "expected either ", ints, " or classlabels_strings");
    return labels;
}

void emit_labels(Call& call, const Tensor& scores, const ClassLabels& labels)
{
    const std::int64_t rows = scores.size(0);
    call.check(scores.size(1) > 0 && scores.size(1) <= static_cast<std::int64_t>(labels.size()), "there are ",
               scores.size(1), " scores for ", labels.size(), " labels");
    const Tensor best = call.allocate({rows, 1}, DataType::int64);
    const Input input(scores);
    reduce(call.queue(), reduce_row("argmax"), {{&input, 1}, {&best, 1}, {}, scores.dtype});
    const Value positions(best.reshape({rows}));
    if (!labels.strings.empty()) {
        const auto at = positions.host<std::int64_t>(call.queue());
        const Value all = Value::strings({static_cast<std::int64_t>(labels.size())}, labels.strings);
        return call.output(0, pick(all, {rows}, [&](std::int64_t i) { return at[static_cast<std::size_t>(i)]; }));
    }
    const Tensor y = call.output_tensor(0, {rows}, ElementType::int64);
    if (rows)
        index_select(call.queue(), Value::ints(labels.ints).device(call.queue()), 0, positions.device(call.queue()), y);
}

}  // namespace clprim::onnx
