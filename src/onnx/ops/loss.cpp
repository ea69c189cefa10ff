// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include <limits>

#include <clprim/copy.hpp>
#include <clprim/loss.hpp>
#include <clprim/softmax.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

Reduction reduction_of(const Call& call)
{
    const std::string name = call.string_attribute("reduction", "mean");
    call.check(name == "none" || name == "mean" || name == "sum", "reduction is ", name,
               ", expected none, mean or sum");
    return name == "none" ? Reduction::none : name == "mean" ? Reduction::mean : Reduction::sum;
}

// The loss of log-probabilities `x` at the targets of input 1, as output 0.
void negative_log_likelihood(Call& call, const Tensor& x)
{
    const Dims& labels = call.shape(1);
    Dims expected;
    for (std::size_t d = 0; d < x.dim(); ++d)
        if (d != 1)
            expected.push_back(x.shape[d]);
    call.check(labels == expected, "the target has shape ", to_string(labels), ", expected ", to_string(expected));
    call.check(call.type(1) == ElementType::int32 || call.type(1) == ElementType::int64, "the target is ",
               name_of(call.type(1)), ", expected int32 or int64");
    Tensor target = call.contiguous(1);
    if (target.dtype != DataType::int64) {
        const Tensor wide = call.allocate(target.shape, DataType::int64);
        copy(call.queue(), target, wide);
        target = wide;
    }
    Tensor weight;
    if (call.has(2)) {
        weight = call.contiguous(2);
        call.check(weight.dtype == x.dtype && weight.dim() == 1 && weight.size(0) == x.size(1), "the weight is ",
                   name_of(weight.dtype), " ", to_string(weight.shape), ", expected ", name_of(x.dtype), " [",
                   x.size(1), "]");
    }
    NllLoss problem{x, target, weight, call.integer_attribute("ignore_index", std::numeric_limits<std::int64_t>::min()),
                    reduction_of(call)};
    const Tensor loss =
        call.output_tensor(0, problem.reduction == Reduction::none ? labels : Dims{}, element_type(x.dtype));
    nll_loss(call.queue(), problem, loss, call.allocate({}, x.dtype));
}

void check_scores(const Call& call)
{
    check_type(call, 0, floating);
    call.check(call.shape(0).size() >= 2, "input 0 has shape ", to_string(call.shape(0)), ", expected N, C and more");
}

void nll(Call& call)
{
    check_scores(call);
    negative_log_likelihood(call, call.contiguous(0));
}

void softmax_cross_entropy(Call& call)
{
    check_scores(call);
    const Tensor x = call.contiguous(0), log_probability = call.output_tensor(1, x.shape, call.type(0));
    if (x.numel())
        softmax(call.queue(), x, log_probability, 1, true);
    negative_log_likelihood(call, log_probability);
}

const OperatorRow loss_rows[] = {
    {"NegativeLogLikelihoodLoss", 12, nll},
    {"SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy},
};

}  // namespace

std::span<const OperatorRow> loss_operators() { return loss_rows; }

}  // namespace clprim::onnx
