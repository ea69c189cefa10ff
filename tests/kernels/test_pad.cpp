// Padding against its definition, one axis after the other, and its gradient against the transposed copy.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include <clprim/copy.hpp>
#include <clprim/pad.hpp>

#include "kernels/host_tensor.hpp"

namespace clprim {
namespace {

std::int64_t source(std::int64_t i, std::int64_t size, PadMode mode)
{
    if (mode == PadMode::replicate)
        return std::clamp<std::int64_t>(i, 0, size - 1);
    return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

struct Case {
    std::int64_t before[2], behind[2];
};

TEST(Pad, MatchesDefinition)
{
    Queue& queue = Context::get(0).queue();
    const std::int64_t n = 2, c = 3, h = 4, w = 5;
    for (const PadMode mode : {PadMode::reflect, PadMode::replicate})
        for (const Case& pads : {Case{{1, 2}, {3, 4}}, Case{{0, 0}, {0, 0}}, Case{{-1, 3}, {2, -2}}}) {
            const std::int64_t oh = h + pads.before[0] + pads.behind[0], ow = w + pads.before[1] + pads.behind[1];
            std::vector<double> values(n * c * h * w), expected, gradient(values.size());
            std::iota(values.begin(), values.end(), 1);
            for (std::int64_t plane = 0; plane < n * c; ++plane)
                for (std::int64_t y = 0; y < oh; ++y)
                    for (std::int64_t x = 0; x < ow; ++x) {
                        const std::int64_t from = (plane * h + source(y - pads.before[0], h, mode)) * w +
                                                  source(x - pads.before[1], w, mode);
                        gradient[from] += static_cast<double>(expected.size() % 7);
                        expected.push_back(values[from]);
                    }
            const Padding padding{{pads.before[0], pads.before[1], 0}, 2, mode};
            const Tensor x = test::upload(queue, values, {n, c, h, w});
            const Tensor y = queue.context().empty({n, c, oh, ow}, DataType::float32, queue);
            pad(queue, x, y, padding);
            EXPECT_EQ(test::download(queue, y), expected);
            std::vector<double> dy(expected.size());
            for (std::size_t i = 0; i < dy.size(); ++i)
                dy[i] = static_cast<double>(i % 7);
            const Tensor dx = queue.context().empty(x.shape, DataType::float32, queue);
            pad_backward(queue, test::upload(queue, dy, y.shape), dx, padding);
            EXPECT_EQ(test::download(queue, dx), gradient);
        }
}

// Axes that merge and those that do not, rows in pieces, gaps in x or y, more axes than one launch takes.
TEST(Pad, ConstantMatchesDefinition)
{
    struct Constant {
        Dims in, out, before;
        std::size_t first, second;   // axes of y that are swapped in memory
    };
    Queue& queue = Context::get(0).queue();
    for (const Constant& one : {Constant{{2, 3, 4, 5}, {2, 3, 7, 9}, {0, 0, 1, 2}, 0, 0},
                                Constant{{2, 3, 4, 5}, {2, 3, 4, 9}, {0, 0, -1, 0}, 1, 3},
                                Constant{{3, 4, 5}, {5, 4, 5}, {1, 0, 0}, 0, 0},
                                Constant{{3, 1}, {3, 40000}, {0, 39000}, 0, 0},
                                Constant{{40000}, {39990}, {-20}, 0, 0},
                                Constant{{4, 5}, {3, 2}, {-1, -2}, 0, 0},
                                Constant{{4, 5}, {3, 4}, {9, 0}, 0, 1},
                                Constant{{1, 1}, {3, 4}, {2, 1}, 0, 0},
                                Constant{{2, 1, 2, 3, 2, 1, 3}, {3, 3, 3, 4, 3, 2, 4}, {1, 1, 0, 1, 1, 0, 1}, 0, 0}}) {
        std::vector<double> values(one.in.product());
        std::iota(values.begin(), values.end(), 1);
        const Tensor x = test::upload(queue, values, one.in);
        Tensor y = queue.context().empty(one.out, DataType::float32, queue);
        if (one.first != one.second) {
            std::swap(y.shape[one.first], y.shape[one.second]);
            y = queue.context().empty(y.shape, DataType::float32, queue);
            std::swap(y.shape[one.first], y.shape[one.second]);
            std::swap(y.strides[one.first], y.strides[one.second]);
        }
        std::vector<double> expected(y.numel());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            std::int64_t rest = static_cast<std::int64_t>(i), from = 0, step = 1;
            bool inside = true;
            for (std::size_t axis = one.out.size(); axis-- > 0; step *= one.in[axis]) {
                const std::int64_t at = rest % one.out[axis] - one.before[axis];
                rest /= one.out[axis];
                inside = inside && at >= 0 && at < one.in[axis];
                from += at * step;
            }
            expected[i] = inside ? values[static_cast<std::size_t>(from)] : -7;
        }
        pad_constant(queue, x, y, one.before, element_bytes(DataType::float32, -7));
        const Tensor dense = queue.context().empty(one.out, DataType::float32, queue);
        copy(queue, y, dense);
        EXPECT_EQ(test::download(queue, dense), expected) << to_string(one.in) << " in " << to_string(one.out);
    }
}

TEST(Pad, RefusesWhatDoesNotFit)
{
    Queue& queue = Context::get(0).queue();
    const Tensor x = queue.context().empty({1, 1, 4}, DataType::float32, queue);
    const Tensor y = queue.context().empty({1, 1, 12}, DataType::float32, queue);
    EXPECT_THROW(pad(queue, x, y, {{4, 0, 0}, 1, PadMode::reflect}), InvalidArgument);
    EXPECT_NO_THROW(pad(queue, x, y, {{4, 0, 0}, 1, PadMode::replicate}));
    EXPECT_THROW(pad(queue, x, y, {{4, 0, 0}, 2, PadMode::replicate}), InvalidArgument);
    EXPECT_THROW(pad_constant(queue, x, y, {0, 0}, element_bytes(DataType::float32, 0)), InvalidArgument);
    EXPECT_THROW(pad_constant(queue, x, y, {0, 0, 0}, element_bytes(DataType::float64, 0)), InvalidArgument);
    EXPECT_THROW(pad(queue, x, queue.context().empty({1, 1, 12}, DataType::float64, queue), {{4, 0, 0}, 1}),
                 InvalidArgument);
}

}  // namespace
}  // namespace clprim
