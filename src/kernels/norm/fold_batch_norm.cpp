#include <clprim/norm.hpp>

#include <clprim/error.hpp>
#include <clprim/pointwise.hpp>

namespace clprim {
namespace {

// A number for every channel, as it is broadcast against weights.
Tensor beside_weights(const Tensor& channels, std::size_t dims)
{
    Tensor result = channels;
    result.shape.resize(dims);
    result.strides.resize(dims);
    for (std::size_t axis = 1; axis < dims; ++axis)
        result.shape[axis] = 1;
    return result;
}

}  // namespace

void fold_batch_norm(Queue& queue, const BatchNormFold& p)
{
    p.weight.check("fold_batch_norm", "weight");
    p.scaled.check("fold_batch_norm", "scaled");
    require(p.weight.dim() > 0, "fold_batch_norm: weight has no dimension of channels");
    require(p.scaled.shape == p.weight.shape, "fold_batch_norm: scaled has shape ", to_string(p.scaled.shape),
            ", weight ", to_string(p.weight.shape));
    const Dims channels{p.weight.shape[0]};
    for (const auto& [tensor, name] : {std::pair(&p.bias, "bias"), std::pair(&p.gamma, "gamma"),
                                       std::pair(&p.beta, "beta"), std::pair(&p.mean, "mean"),
                                       std::pair(&p.variance, "variance"), std::pair(&p.shifted, "shifted")}) {
        if (tensor == &p.bias && !tensor->defined())
            continue;
        tensor->check("fold_batch_norm", name);
        require(tensor->shape == channels, "fold_batch_norm: ", name, " must have ", p.weight.shape[0],
                " elements, got shape ", to_string(tensor->shape));
        require(tensor->dtype == p.weight.dtype, "fold_batch_norm: ", name, " is ", name_of(tensor->dtype),
                ", weight ", name_of(p.weight.dtype));
    }
    require(p.scaled.dtype == p.weight.dtype, "fold_batch_norm: scaled is ", name_of(p.scaled.dtype), ", weight ",
            name_of(p.weight.dtype));
    const std::size_t dims = p.weight.dim();
    pointwise(queue, {p.weight, beside_weights(p.gamma, dims), beside_weights(p.variance, dims)}, {p.scaled}, {p.eps},
              "y0 = x0 * (x1 / sqrt(x2 + w0));");
    if (p.bias.defined())
        pointwise(queue, {p.mean, p.variance, p.gamma, p.beta, p.bias}, {p.shifted}, {p.eps},
                  "y0 = (x4 - x0) * (x2 / sqrt(x1 + w0)) + x3;");
    else
        pointwise(queue, {p.mean, p.variance, p.gamma, p.beta}, {p.shifted}, {p.eps},
                  "y0 = x3 - x0 * (x2 / sqrt(x1 + w0));");
}

}  // namespace clprim
