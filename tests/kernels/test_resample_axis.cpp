// Resampling along an axis by given taps, against sums in double.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include <clprim/resample.hpp>

#include "kernels/host_tensor.hpp"

namespace clprim {
namespace {

TEST(ResampleAxis, WeightedSums)
{
    Queue& queue = Context::get(0).queue();
    const Dims shape{2, 5, 3};
    std::vector<double> values(30);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>(i * i % 17);
    const AxisTaps taps{2, {0, 1, 4, 2, -1, -1}, {0.25, 0.75, 2, -1, 0, 0}, 7};
    const Tensor y = queue.context().empty({2, 3, 3}, DataType::float32, queue);
    resample_axis(queue, test::upload(queue, values, shape), y, 1, taps);
    const std::vector<double> result = test::download(queue, y);
    for (std::size_t outer = 0; outer < 2; ++outer)
        for (std::size_t inner = 0; inner < 3; ++inner) {
            const auto x = [&](std::size_t i) { return values[(outer * 5 + i) * 3 + inner]; };
            const auto at = [&](std::size_t o) { return result[(outer * 3 + o) * 3 + inner]; };
            EXPECT_FLOAT_EQ(at(0), 0.25 * x(0) + 0.75 * x(1));
            EXPECT_FLOAT_EQ(at(1), 2 * x(4) - x(2));
            EXPECT_FLOAT_EQ(at(2), 7);
        }
}

TEST(ResampleAxis, IntegersRoundAndSaturate)
{
    Queue& queue = Context::get(0).queue();
    const unsigned char bytes[4] = {0, 100, 201, 255};
    Tensor x = queue.context().empty({4}, DataType::uint8, queue),
           y = queue.context().empty({3}, DataType::uint8, queue);
    queue.write(*x.memory, 0, bytes, 4);
    resample_axis(queue, x, y, 0, {2, {1, 2, 3, 3, 0, 1}, {0.5, 0.5, 1, 1, 0, -1}, 0});
    unsigned char result[3];
    queue.read(*y.memory, 0, result, 3);
    EXPECT_EQ(result[0], 150);   // 150.5 to the even neighbour
    EXPECT_EQ(result[1], 255);
    EXPECT_EQ(result[2], 0);
}

// Bytes of elements are moved, so each size of element stands for its dtypes.
TEST(ResampleRepeat, RepeatsElementsOfEverySize)
{
    Queue& queue = Context::get(0).queue();
    const std::int64_t count = 3, height = 2;
    for (const DataType type :
         {DataType::uint8, DataType::float16, DataType::float32, DataType::float64, DataType::complex128})
        for (const auto& [width, fy, fx] : {std::array<std::int64_t, 3>{37, 2, 2}, {16, 3, 1}, {5, 1, 4}, {33, 1, 2}}) {
            const std::size_t bytes = size_of(type);
            const Tensor x = queue.context().empty({count, height, width}, type, queue);
            const Tensor y = queue.context().empty({count, height * fy, width * fx}, type, queue);
            std::vector<unsigned char> from(x.nbytes()), to(y.nbytes());
            for (std::size_t i = 0; i < from.size(); ++i)
                from[i] = static_cast<unsigned char>(i * 167 >> 3);
            queue.write(*x.memory, 0, from.data(), from.size());
            resample_repeat(queue, x, y, fy, fx);
            queue.read(*y.memory, 0, to.data(), to.size());
            for (std::int64_t i = 0; i < y.numel(); ++i) {
                const std::int64_t column = i % (width * fx) / fx, row = i / (width * fx) % (height * fy) / fy;
                const std::int64_t image = i / (width * fx) / (height * fy);
                const std::size_t source = static_cast<std::size_t>((image * height + row) * width + column) * bytes;
                ASSERT_TRUE(std::equal(&from[source], &from[source] + bytes, &to[static_cast<std::size_t>(i) * bytes]))
                    << name_of(type) << " element " << i << " of " << width << " x " << fx << ", " << fy;
            }
        }
}

TEST(ResampleRepeat, RefusesOtherShapes)
{
    Queue& queue = Context::get(0).queue();
    const Tensor x = queue.context().empty({2, 3}, DataType::float32, queue),
                 y = queue.context().empty({4, 6}, DataType::float32, queue);
    EXPECT_THROW(resample_repeat(queue, x, y, 2, 3), InvalidArgument);
    EXPECT_THROW(resample_repeat(queue, x, y, 0, 2), InvalidArgument);
}

TEST(ResampleAxis, RefusesWhatDoesNotFit)
{
    Queue& queue = Context::get(0).queue();
    const Tensor x = queue.context().empty({4}, DataType::float32, queue),
                 y = queue.context().empty({2}, DataType::float32, queue);
    EXPECT_THROW(resample_axis(queue, x, y, 0, {1, {0, 4}, {1, 1}, 0}), InvalidArgument);
    EXPECT_THROW(resample_axis(queue, x, y, 0, {1, {0}, {1}, 0}), InvalidArgument);
    EXPECT_THROW(resample_axis(queue, x, y, 1, {1, {0, 1}, {1, 1}, 0}), InvalidArgument);
}

}  // namespace
}  // namespace clprim
