// Learning rates over the steps of a training, after torch.optim.lr_scheduler: what `lr` of a solver's configuration is
// set to before step number `step` (from 0 on).
//
//     solver.config.lr = schedule::warm_up(step, 100) * schedule::cosine(3e-4, step, 10000);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace clprim::schedule {

// How much of the steps is done, at most 1.
inline double part_of(std::int64_t step, std::int64_t steps)
{
    return std::min(1.0, static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(steps, 1)));
}

// StepLR: times gamma after every `every` steps.
inline double step_decay(double lr, std::int64_t step, std::int64_t every, double gamma = 0.1)
{
    return lr * std::pow(gamma, static_cast<double>(step / std::max<std::int64_t>(every, 1)));
}

// ExponentialLR.
inline double exponential(double lr, std::int64_t step, double gamma)
{
    return lr * std::pow(gamma, static_cast<double>(step));
}

// CosineAnnealingLR over `steps`; the minimum from then on.
inline double cosine(double lr, std::int64_t step, std::int64_t steps, double minimum = 0)
{
    const double part = part_of(step, steps);
    return minimum + (lr - minimum) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

// PolynomialLR over `steps`: down to 0, in a straight line with power 1.
inline double polynomial(double lr, std::int64_t step, std::int64_t steps, double power = 1)
{
    const double part = part_of(step, steps);
    return lr * std::pow(1 - part, power);
}

// A factor that grows in a straight line from 1 / steps at step 0 to 1.
inline double warm_up(std::int64_t step, std::int64_t steps)
{
    return std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(std::max<std::int64_t>(steps, 1)));
}

}  // namespace clprim::schedule
