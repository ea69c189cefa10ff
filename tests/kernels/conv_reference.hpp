// Convolution by its definition, on tensors of double on the host.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include <clprim/conv.hpp>

namespace clprim::test {

enum class Layout { contiguous, channels_last };

struct Host {
    std::vector<double> values;
    Dims shape, strides;

    Host(const Dims& shape_, Layout layout, std::mt19937* random) : values(shape_.product()), shape(shape_)
    {
        strides = contiguous_strides(shape);
        if (layout == Layout::channels_last) {
            Dims order{shape[0]};
            for (std::size_t i = 2; i < shape.size(); ++i)
                order.push_back(shape[i]);
            order.push_back(shape[1]);
            const Dims s = contiguous_strides(order);
            strides[0] = s[0];
            strides[1] = 1;
            for (std::size_t i = 2; i < shape.size(); ++i)
                strides[i] = s[i - 1];
        }
        if (random)
            for (double& v : values)
                v = std::round(std::uniform_real_distribution<double>(-8, 8)(*random)) / 8;
    }
};

struct Sides {
    Host *x, *w, *y;
};

// Calls visit(x index, w index, y index) for every product of the ordinary convolution.
template <class Visit>
void products(const Sides& s, const ConvOptions& options, const Visit& visit)
{
    const std::size_t spatial = s.x->shape.size() - 2;
    const std::int64_t per_group_in = s.w->shape[1], per_group_out = s.w->shape[0] / options.groups;
    const auto entry = [](const Dims& list, std::size_t i, std::int64_t other) {
        return list.empty() ? other : list[i];
    };
    const auto space = [&](const Dims& shape) {
        std::int64_t n = 1;
        for (std::size_t i = 2; i < shape.size(); ++i)
            n *= shape[i];
        return n;
    };
    const std::int64_t pixels = space(s.y->shape), taps = space(s.w->shape);
    for (std::int64_t p = 0; p < pixels; ++p)
        for (std::int64_t t = 0; t < taps; ++t) {
            std::int64_t xi = 0, wi = 0, yi = 0, p_rest = p, t_rest = t;
            bool inside = true;
            for (std::size_t i = spatial; i-- > 0;) {
                const std::int64_t at = p_rest % s.y->shape[2 + i], tap = t_rest % s.w->shape[2 + i];
                p_rest /= s.y->shape[2 + i];
                t_rest /= s.w->shape[2 + i];
                const std::int64_t q = at * entry(options.stride, i, 1) - entry(options.pad_begin, i, 0) +
                                       tap * entry(options.dilation, i, 1);
                inside &= q >= 0 && q < s.x->shape[2 + i];
                xi += q * s.x->strides[2 + i];
                wi += tap * s.w->strides[2 + i];
                yi += at * s.y->strides[2 + i];
            }
            if (!inside)
                continue;
            for (std::int64_t n = 0; n < s.x->shape[0]; ++n)
                for (std::int64_t o = 0; o < s.y->shape[1]; ++o)
                    for (std::int64_t c = 0; c < per_group_in; ++c)
                        visit(xi + n * s.x->strides[0] + (o / per_group_out * per_group_in + c) * s.x->strides[1],
                              wi + o * s.w->strides[0] + c * s.w->strides[1],
                              yi + n * s.y->strides[0] + o * s.y->strides[1]);
        }
}

}  // namespace clprim::test
