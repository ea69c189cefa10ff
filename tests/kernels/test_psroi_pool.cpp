// Deformable position-sensitive RoI pooling: results that follow from the definition.
#include <vector>

#include <clprim/psroi_pool.hpp>
#include <gtest/gtest.h>

#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;
using test::download;
using test::upload;
using Values = std::vector<double>;

Values ramp(std::int64_t c, std::int64_t h, std::int64_t w)   // value 100 c + 10 y + x
{
    Values v;
    for (std::int64_t i = 0; i < c * h * w; ++i)
        v.push_back(100 * (i / (h * w)) + 10 * (i / w % h) + i % w);
    return v;
}

struct Result {
    Values y, count, gx, gtrans;
};

Result run(const DeformPSRoiPooling& p, const Dims& x_shape, const Values& rois, const Values& trans,
           const Dims& trans_shape)
{
    Queue& queue = Context::get().queue();
    const Tensor x = upload(queue, ramp(x_shape[1], x_shape[2], x_shape[3]), x_shape), r = upload(queue, rois, {1, 5});
    const Tensor t = p.no_trans ? Tensor() : upload(queue, trans, trans_shape);
    const Dims shape = deform_psroi_pooling_shape(p, x, r, t);
    const auto empty = [&](const Dims& s) { return queue.context().empty(s, DataType::float32, queue); };
    const Tensor y = empty(shape), count = empty(shape), gx = empty(x_shape),
                 gt = p.no_trans ? Tensor() : empty(trans_shape);
    deform_psroi_pooling(queue, p, x, r, t, y, count);
    deform_psroi_pooling_backward(queue, p, upload(queue, Values(shape.product(), 1.), shape), x, r, t, count, gx, gt);
    return {download(queue, y), download(queue, count), download(queue, gx),
            p.no_trans ? Values{} : download(queue, gt)};
}

TEST(DeformPSRoiPool, AveragesItsSamples)
{
    // The box 2 .. 5 covers 1.5 .. 5.5; bins of 2 with samples at their first half: x 1.5, 2.5 and 3.5, 4.5.
    const DeformPSRoiPooling p{true, 1, 1, 1, 2, 2, 2, 0};
    const Result r = run(p, {1, 1, 8, 8}, {0, 2, 2, 5, 5}, {}, {});
    EXPECT_EQ(r.y, (Values{22, 24, 42, 44}));
    EXPECT_EQ(r.count, Values(4, 4.));
    double sum = 0;
    for (const double v : r.gx)
        sum += v;
    EXPECT_NEAR(sum, 4, 1e-6);   // every bin hands out a gradient of one
}

TEST(DeformPSRoiPool, ShiftsByTransAndGivesItsGradient)
{
    // The shift of a quarter of the box (4 pixels) to the right adds 1 to a ramp in x; d y / d trans = 4 (x), 40 (y).
    const DeformPSRoiPooling p{false, 1, 1, 1, 2, 1, 2, 1};
    const Result r = run(p, {1, 1, 12, 12}, {0, 2, 2, 5, 5}, {0.25, 0}, {1, 2, 1, 1});
    EXPECT_EQ(r.y, (Values{23, 25, 43, 45}));
    EXPECT_NEAR(r.gtrans[0], 4 * 4, 1e-3);    // four bins
    EXPECT_NEAR(r.gtrans[1], 4 * 40, 1e-2);
}

TEST(DeformPSRoiPool, GroupsChooseChannels)
{
    const DeformPSRoiPooling p{true, 1, 1, 2, 2, 2, 2, 0};
    EXPECT_EQ(run(p, {1, 4, 8, 8}, {0, 2, 2, 5, 5}, {}, {}).y, (Values{22, 124, 242, 344}));
}

TEST(DeformPSRoiPool, SamplesOutsideDoNotCount)
{
    const DeformPSRoiPooling p{true, 1, 1, 1, 1, 1, 2, 0};
    const Result r = run(p, {1, 1, 4, 4}, {0, -20, -20, -10, -10}, {}, {});
    EXPECT_EQ(r.y, Values{0});
    EXPECT_EQ(r.count, Values{0});
}

TEST(DeformPSRoiPool, WrongChannelsAreNamed)
{
    EXPECT_THROW(run({true, 1, 3, 1, 1, 1, 2, 0}, {1, 2, 4, 4}, {0, 0, 0, 1, 1}, {}, {}), InvalidArgument);
}

}  // namespace
