// The pieces of batch normalisation over several processes (torch.nn.SyncBatchNorm): statistics of one process, those
// of all, and what is done with them. Sums over everything but axis 1, in the type of the statistics.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <ops/normalization_parameters.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

std::vector<std::int64_t> all_but_channels(const Tensor& x)
{
    std::vector<std::int64_t> axes{0};
    for (std::int64_t axis = 2; axis < x.dim(); ++axis)
        axes.push_back(axis);
    return axes;
}

// One number for each channel, beside a tensor.
Tensor spread(const Tensor& values, const Tensor& x)
{
    std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
    shape[1] = -1;
    return values.to(statistics_type(x)).view(shape);
}

std::tuple<Tensor, Tensor> statistics(const Tensor& input, double eps)
{
    TORCH_CHECK(input.dim() >= 2, "batch_norm_stats: input has ", input.dim(), " axes, expected at least 2");
    const auto axes = all_but_channels(input);
    const auto [variance, mean] = at::var_mean(input.to(statistics_type(input)), at::IntArrayRef(axes),
                                               std::optional<at::Scalar>(0), false);
    return {mean, (variance + eps).rsqrt_()};
}

// From means and deviations [process][channel] and how many elements a channel has in each process.
std::tuple<Tensor, Tensor> gather_with_counts(const Tensor& input, const Tensor& means, const Tensor& deviations,
                                              const std::optional<Tensor>& running_mean,
                                              const std::optional<Tensor>& running_var, double momentum, double eps,
                                              const Tensor& counts)
{
    const auto type = statistics_type(input);
    const Tensor each = counts.to(type).view({-1, 1}), mean_of = means.to(type), count = each.sum();
    const Tensor mean = (each * mean_of).sum(0) / count;
    const Tensor variance_of = deviations.to(type).pow(-2) - eps;
    const Tensor squares = (each * (variance_of + (mean_of - mean).square())).sum(0);
    if (running_mean && running_mean->defined())
        at::Tensor(*running_mean).mul_(1 - momentum).add_(mean.to(running_mean->scalar_type()), momentum);
    if (running_var && running_var->defined())
        at::Tensor(*running_var).mul_(1 - momentum)
            .add_((squares / (count - 1)).to(running_var->scalar_type()), momentum);
    return {mean, (squares / count + eps).rsqrt_()};
}

std::tuple<Tensor, Tensor> gather(const Tensor& input, const Tensor& means, const Tensor& deviations,
                                  const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
                                  double momentum, double eps, std::int64_t count)
{
    const Tensor counts = at::full({means.size(0)}, count, means.options().dtype(statistics_type(input)));
    return gather_with_counts(input, means, deviations, running_mean, running_var, momentum, eps, counts);
}

Tensor normalize(const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                 const Tensor& mean, const Tensor& deviation, double)
{
    Tensor result = (input.to(statistics_type(input)) - spread(mean, input)).mul_(spread(deviation, input));
    if (weight && weight->defined())
        result.mul_(spread(*weight, input));
    if (bias && bias->defined())
        result.add_(spread(*bias, input));
    return result.to(input.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_sums(const Tensor& gradient, const Tensor& input,
                                                         const Tensor& mean, const Tensor& deviation,
                                                         const std::optional<Tensor>& weight, bool input_wanted,
                                                         bool weight_wanted, bool bias_wanted)
{
    const auto axes = all_but_channels(input);
    const Tensor dy = gradient.to(statistics_type(input));
    const Tensor sum = dy.sum(axes);
    const Tensor products = (dy * (input.to(dy.scalar_type()) - spread(mean, input))).sum(axes);
    const auto type = weight && weight->defined() ? weight->scalar_type() : dy.scalar_type();
    return {input_wanted ? sum : Tensor(), input_wanted ? products : Tensor(),
            weight_wanted ? (products * deviation).to(type) : Tensor(),
            bias_wanted ? sum.to(type, false, true) : Tensor()};
}

Tensor elementwise_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& deviation,
                            const std::optional<Tensor>& weight, const Tensor& sum, const Tensor& products,
                            const Tensor& counts)
{
    const auto type = statistics_type(input);
    const Tensor count = counts.to(type).sum(), scale = deviation.to(type);
    const Tensor slope = spread(scale.square() * products.to(type) / count, input);
    Tensor result = gradient.to(type) - spread(sum.to(type) / count, input);
    result.sub_((input.to(type) - spread(mean, input)).mul_(slope)).mul_(spread(scale, input));
    if (weight && weight->defined())
        result.mul_(spread(*weight, input));
    return result.to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("batch_norm_stats", statistics);
    m.impl("batch_norm_gather_stats", gather);
    m.impl("batch_norm_gather_stats_with_counts", gather_with_counts);
    m.impl("batch_norm_elemt", normalize);
    m.impl("batch_norm_backward_reduce", backward_sums);
    m.impl("batch_norm_backward_elemt", elementwise_backward);
}

}  // namespace
}  // namespace torch_ocl
