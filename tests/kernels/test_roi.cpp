// Region pooling: cases whose results follow from the definition, and forward and backward as transposes of each other.
#include <random>
#include <vector>

#include <clprim/roi.hpp>
#include <gtest/gtest.h>

#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;
using test::download;
using test::upload;
using Values = std::vector<double>;

struct Pooled {
    Tensor y, indices;
};

Pooled pool(Queue& queue, const RoiPooling& p, const Tensor& x, const Tensor& rois)
{
    const Dims shape = roi_pooling_shape(p, x, rois);
    const Pooled r{queue.context().empty(shape, DataType::float32, queue),
                   queue.context().empty(shape, DataType::int32, queue)};
    roi_pooling(queue, p, x, rois, r.y, r.indices);
    return r;
}

Values ramp(std::int64_t c, std::int64_t h, std::int64_t w)   // value 100 c + 10 y + x
{
    Values v;
    for (std::int64_t i = 0; i < c * h * w; ++i)
        v.push_back(100 * (i / (h * w)) + 10 * (i / w % h) + i % w);
    return v;
}

TEST(Roi, AlignOfARampIsTheRampAtTheBinCentres)
{
    Queue& queue = Context::get().queue();
    const Tensor x = upload(queue, ramp(2, 8, 8), {1, 2, 8, 8}), rois = upload(queue, {0, 1, 2, 5, 6}, {1, 5});
    const Values y = download(queue, pool(queue, {RoiMethod::align, 1, 2, 2, 2, false}, x, rois).y);
    // Bins of 2 x 2 from (x 1, y 2): centres at x 2, 4 and y 3, 5.
    EXPECT_EQ(y, (Values{32, 34, 52, 54, 132, 134, 152, 154}));
}

TEST(Roi, PoolTakesTheLargestAndSaysWhere)
{
    Queue& queue = Context::get().queue();
    const Tensor x = upload(queue, ramp(1, 8, 8), {1, 1, 8, 8}), rois = upload(queue, {0, 2, 2, 9, 9}, {1, 5});
    const Pooled r = pool(queue, {RoiMethod::pool, 0.5, 2, 2}, x, rois);   // pixels 1 to 5 (4.5 rounds away from zero)
    EXPECT_EQ(download(queue, r.y), (Values{33, 35, 53, 55}));
    std::vector<cl_int> at(4);
    queue.read(*r.indices.memory, 0, at.data(), 16);
    EXPECT_EQ(at, (std::vector<cl_int>{27, 29, 43, 45}));
}

TEST(Roi, PositionSensitivePoolAveragesAChannelPerBin)
{
    Queue& queue = Context::get().queue();
    const Tensor x = upload(queue, ramp(4, 8, 8), {1, 4, 8, 8}), rois = upload(queue, {0, 0, 0, 4, 4}, {1, 5});
    EXPECT_EQ(download(queue, pool(queue, {RoiMethod::ps_pool, 1, 2, 2}, x, rois).y),
              (Values{5.5, 107.5, 225.5, 327.5}));
}

class RoiTranspose : public testing::TestWithParam<RoiMethod> {};

TEST_P(RoiTranspose, BackwardIsTheTransposeOfForward)
{
    Queue& queue = Context::get().queue();
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    Values x(2 * 8 * 9 * 7), rois;
    for (double& v : x)
        v = float(normal(random));
    for (int k = 0; k < 5; ++k)   // inside, so that PS-RoI pool never meets the last row and column
        rois.insert(rois.end(), {double(k % 2), 0.3 * k, 0.2 * k, 3.5 + 0.3 * k, 4.1 + 0.5 * k});
    const RoiPooling p{GetParam(), 1, 2, 2, GetParam() == RoiMethod::align ? 2 : -1, false};
    const Tensor xt = upload(queue, x, {2, 8, 9, 7}), rt = upload(queue, rois, {5, 5});
    const Pooled r = pool(queue, p, xt, rt);
    Values gy(r.y.numel());
    for (double& v : gy)
        v = float(normal(random));
    const Tensor gx = queue.context().empty({2, 8, 9, 7}, DataType::float32, queue);
    roi_pooling_backward(queue, p, upload(queue, gy, r.y.shape), rt, r.indices, gx);
    // The pools are linear in x (where the maxima stay): <y, gy> = <x, gx>.
    const Values y = download(queue, r.y), g = download(queue, gx);
    double left = 0, right = 0;
    for (std::size_t i = 0; i < y.size(); ++i)
        left += y[i] * gy[i];
    for (std::size_t i = 0; i < x.size(); ++i)
        right += x[i] * g[i];
    EXPECT_NEAR(left, right, 1e-4);
    EXPECT_GT(std::abs(left), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Methods, RoiTranspose, testing::Values(RoiMethod::align, RoiMethod::pool, RoiMethod::ps_align,
                                                                RoiMethod::ps_pool));

TEST(Roi, ABadImageIndexIsReported)
{
    Queue& queue = Context::get().queue();
    const Tensor x = upload(queue, ramp(1, 4, 4), {1, 1, 4, 4}), rois = upload(queue, {3, 0, 0, 2, 2}, {1, 5});
    pool(queue, {RoiMethod::align, 1, 1, 1, 1, false}, x, rois);
    EXPECT_THROW(queue.finish(), IndexError);
}

}  // namespace
