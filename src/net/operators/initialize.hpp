// What layers with a weight and a bias share.
#pragma once

#include <cmath>

#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>

#include "net/fields.hpp"

namespace clprim {

// Weight and bias uniform in +-1 / sqrt(fan_in): torch.nn.Linear's and torch.nn.Conv2d's reset_parameters.
inline void uniform_by_fan_in(Queue& queue, std::span<const Tensor> parameters, std::int64_t fan_in,
                              PhiloxState& random)
{
    const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(fan_in, 1)));
    for (const Tensor& parameter : parameters) {
        random_fill(queue, parameter, Distribution::uniform, -bound, bound, random);
        ++random.offset;
    }
}

// folded = bias * scale + shift, or shift where there is no bias.
inline void fold_bias(Queue& queue, std::span<const Tensor> parameters, const Tensor& scale, const Tensor& shift,
                      const Tensor& folded)
{
    if (parameters.size() < 2)
        return copy(queue, shift, folded);
    const Tensor inputs[] = {parameters[1], scale, shift}, outputs[] = {folded};
    pointwise(queue, inputs, outputs, {}, "y0 = x0 * x1 + x2;");
}

}  // namespace clprim
