// Deformable convolution, forward and backward, against the definition in double, through every implementation.
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include <clprim/deform_conv.hpp>
#include <gtest/gtest.h>

#include "kernels/deform_conv/problem.hpp"
#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;
using test::download;
using test::upload;
using Values = std::vector<double>;

struct Case {
    std::int64_t n, c, o, h, w, kh, kw;
    DeformConv2D p;
    bool mask = true;
    double spread = 2;
};

struct Sizes {
    std::int64_t oh, ow, taps;
    explicit Sizes(const Case& k)
        : oh((k.h + 2 * k.p.padding[0] - k.p.dilation[0] * (k.kh - 1) - 1) / k.p.stride[0] + 1),
          ow((k.w + 2 * k.p.padding[1] - k.p.dilation[1] * (k.kw - 1) - 1) / k.p.stride[1] + 1), taps(k.kh * k.kw) {}
};

struct Reference {
    Values y, gx, goffset, gmask, gweight, gbias;
};

// The definition, straight: for every output, tap and channel, the four corners of one sample.
Reference reference(const Case& k, const Values& x, const Values& offset, const Values& mask, const Values& weight,
                    const Values& bias, const Values& gy)
{
    const Sizes s(k);
    const std::int64_t pixels = s.oh * s.ow, per_group = k.c / k.p.groups, outputs = k.o / k.p.groups;
    Reference r{Values(gy.size()), Values(x.size()), Values(offset.size()), Values(mask.size()), Values(weight.size()),
                Values(bias.size())};
    for (std::int64_t n = 0; n < k.n; ++n)
        for (std::int64_t o = 0; o < k.o; ++o)
            for (std::int64_t p = 0; p < pixels; ++p) {
                const std::int64_t at_y = (n * k.o + o) * pixels + p;
                r.y[at_y] += bias[o];
                r.gbias[o] += gy[at_y];
                for (std::int64_t t = 0; t < s.taps; ++t)
                    for (std::int64_t ci = 0; ci < per_group; ++ci) {
                        const std::int64_t c = o / outputs * per_group + ci;
                        const std::int64_t tap = c / (k.c / k.p.offset_groups) * s.taps + t;
                        const std::int64_t oy = (n * 2 * k.p.offset_groups * s.taps + 2 * tap) * pixels + p,
                                           ox = oy + pixels;
                        const std::int64_t at_mask = (n * k.p.offset_groups * s.taps + tap) * pixels + p;
                        const double m = k.mask ? mask[at_mask] : 1;
                        const double py =
                            p / s.ow * k.p.stride[0] - k.p.padding[0] + t / k.kw * k.p.dilation[0] + offset[oy];
                        const double px =
                            p % s.ow * k.p.stride[1] - k.p.padding[1] + t % k.kw * k.p.dilation[1] + offset[ox];
                        if (!(py > -1 && py < k.h && px > -1 && px < k.w))
                            continue;
                        const std::int64_t at_w = (o * per_group + ci) * s.taps + t;
                        const double y0 = std::floor(py), x0 = std::floor(px), w = weight[at_w], g = gy[at_y] * w;
                        double value = 0;
                        for (int q = 0; q < 4; ++q) {
                            const std::int64_t cy = y0 + q / 2, cx = x0 + q % 2;
                            if (cy < 0 || cy >= k.h || cx < 0 || cx >= k.w)
                                continue;
                            const double wy = q / 2 ? py - y0 : 1 - (py - y0), wx = q % 2 ? px - x0 : 1 - (px - x0);
                            const std::int64_t at_x = ((n * k.c + c) * k.h + cy) * k.w + cx;
                            value += wy * wx * x[at_x];
                            r.gx[at_x] += g * m * wy * wx;
                            r.goffset[oy] += g * m * x[at_x] * wx * (q / 2 ? 1 : -1);
                            r.goffset[ox] += g * m * x[at_x] * wy * (q % 2 ? 1 : -1);
                        }
                        r.y[at_y] += w * m * value;
                        r.gweight[at_w] += gy[at_y] * m * value;
                        if (k.mask)
                            r.gmask[at_mask] += g * value;
                    }
            }
    return r;
}

void expect_near(const char* what, const Values& got, const Values& expected)
{
    double scale = 1;
    for (const double v : expected)
        scale = std::max(scale, std::abs(v));
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 3e-6 * scale + 1e-5) << what << "[" << i << "]";
}

class DeformConvTest : public testing::TestWithParam<std::tuple<Case, const char*>> {
protected:
    void TearDown() override { prefer_implementation("deform_conv", ""); }
};

TEST_P(DeformConvTest, MatchesTheDefinition)
{
    const auto& [k, implementation] = GetParam();
    prefer_implementation("deform_conv", implementation);
    const Sizes s(k);
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    const auto make = [&](std::int64_t count, double factor) {
        Values v(count);
        for (double& e : v)
            e = float(normal(random) * factor);
        return v;
    };
    const Dims x_shape{k.n, k.c, k.h, k.w}, offset_shape{k.n, 2 * k.p.offset_groups * s.taps, s.oh, s.ow},
        mask_shape{k.n, k.p.offset_groups * s.taps, s.oh, s.ow}, weight_shape{k.o, k.c / k.p.groups, k.kh, k.kw},
        y_shape{k.n, k.o, s.oh, s.ow};
    const Values x = make(x_shape.product(), 1), offset = make(offset_shape.product(), k.spread),
                 mask = make(mask_shape.product(), 1), weight = make(weight_shape.product(), 0.3), bias = make(k.o, 1),
                 gy = make(y_shape.product(), 1);
    Queue& queue = Context::get().queue();
    const DeformConv2DInputs in{upload(queue, x, x_shape), upload(queue, offset, offset_shape),
                                k.mask ? upload(queue, mask, mask_shape) : Tensor(),
                                upload(queue, weight, weight_shape), upload(queue, bias, {k.o})};
    const auto empty = [&](const Dims& shape) { return queue.context().empty(shape, DataType::float32, queue); };
    const Tensor y = empty(y_shape);
    const DeformConv2DGradients g{empty(x_shape), empty(offset_shape), k.mask ? empty(mask_shape) : Tensor(),
                                  empty(weight_shape), empty({k.o})};
    ASSERT_EQ(deform_conv2d_shape(k.p, in), y_shape);
    deform_conv2d(queue, k.p, in, y);
    deform_conv2d_backward(queue, k.p, in, upload(queue, gy, y_shape), g);
    const Reference expected = reference(k, x, offset, mask, weight, bias, gy);
    expect_near("y", download(queue, y), expected.y);
    expect_near("gx", download(queue, g.x), expected.gx);
    expect_near("goffset", download(queue, g.offset), expected.goffset);
    expect_near("gweight", download(queue, g.weight), expected.gweight);
    expect_near("gbias", download(queue, g.bias), expected.gbias);
    if (k.mask)
        expect_near("gmask", download(queue, g.mask), expected.gmask);
}

const Case cases[] = {
    {2, 4, 6, 7, 6, 3, 3, {{1, 1}, {1, 1}, {1, 1}, 1, 1}},
    {1, 6, 4, 9, 8, 3, 2, {{2, 1}, {2, 0}, {1, 2}, 2, 3}},
    {2, 32, 20, 6, 5, 3, 3, {{1, 1}, {1, 1}, {1, 1}, 1, 1}, false},
    {1, 64, 24, 5, 13, 3, 3, {{1, 2}, {1, 1}, {1, 1}, 2, 2}},
    {1, 40, 33, 4, 4, 1, 1, {{1, 1}, {0, 0}, {1, 1}, 1, 1}, true, 20},
};

INSTANTIATE_TEST_SUITE_P(Problems, DeformConvTest,
                         testing::Combine(testing::ValuesIn(cases), testing::Values("tiled", "cpu_fused", "cpu_amx")));

class DeformConvNowhereTest : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override { prefer_implementation("deform_conv", GetParam()); }
    void TearDown() override { prefer_implementation("deform_conv", ""); }
};

// Many samples fall on one place, so that the order in which they are added up shows in the bits.
TEST_P(DeformConvNowhereTest, SameBitsForAnyWorkGroupSizeAndQueue)
{
    const Dims x_shape{2, 32, 5, 6}, offset_shape{2, 36, 5, 6}, mask_shape{2, 18, 5, 6}, weight_shape{16, 32, 3, 3},
        y_shape{2, 16, 5, 6};
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    const auto make = [&](const Dims& shape) {
        Values v(shape.product());
        for (double& e : v)
            e = float(normal(random));
        return v;
    };
    const Values x = make(x_shape), offset = make(offset_shape), mask = make(mask_shape), weight = make(weight_shape),
                 gy = make(y_shape);
    const DeformConv2D parameters{{1, 1}, {1, 1}, {1, 1}, 1, 2};
    const auto run = [&](Queue& queue, std::size_t group) {
        deform_conv::free_group = group;
        const DeformConv2DInputs in{upload(queue, x, x_shape), upload(queue, offset, offset_shape),
                                    upload(queue, mask, mask_shape), upload(queue, weight, weight_shape), {}};
        const auto empty = [&](const Dims& shape) { return queue.context().empty(shape, DataType::float32, queue); };
        const Tensor y = empty(y_shape);
        const DeformConv2DGradients g{empty(x_shape), empty(offset_shape), empty(mask_shape), empty(weight_shape), {}};
        deform_conv2d(queue, parameters, in, y);
        deform_conv2d_backward(queue, parameters, in, upload(queue, gy, y_shape), g);
        std::vector<Values> results;
        for (const Tensor& t : {y, g.x, g.offset, g.mask, g.weight})
            results.push_back(download(queue, t));
        return results;
    };
    Context& context = Context::get();
    const auto first = run(context.queue(), 64);
    for (const std::size_t group : {1, 8, 32, 128, 256})
        EXPECT_EQ(run(context.queue(), group), first) << group << " work-items per group";
    Queue& other = context.new_queue();
    EXPECT_EQ(run(other, 64), first) << "another queue";
    deform_conv::free_group = 64;
}

// Small, so that it also runs in a simulator that watches every access.
TEST_P(DeformConvNowhereTest, OffsetsThatAreNoPositionGiveZero)
{
    Queue& queue = Context::get().queue();
    const double nowhere[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 3e9, -3e9};
    Values offset(18 * 9);
    for (std::size_t i = 0; i < offset.size(); ++i)
        offset[i] = i % 18 < 9 ? nowhere[i % 7] : 0.5;   // sometimes one of the two coordinates is fine
    for (std::size_t tap = 0; tap < 9; ++tap)
        for (std::size_t p = 0; p < 9; ++p)
            if (!std::isnan(offset[2 * tap * 9 + p]) && std::abs(offset[2 * tap * 9 + p]) < 100)
                offset[(2 * tap + 1) * 9 + p] = NAN;
    const Dims x_shape{1, 32, 3, 3}, weight_shape{32, 32, 3, 3}, offset_shape{1, 18, 3, 3};
    const auto empty = [&](const Dims& shape) { return queue.context().empty(shape, DataType::float32, queue); };
    const DeformConv2DInputs in{upload(queue, Values(288, 1.), x_shape),
                                upload(queue, offset, offset_shape),
                                {},
                                upload(queue, Values(32 * 32 * 9, 1.), weight_shape),
                                upload(queue, Values(32, 0.25), {32})};
    const Tensor y = empty(x_shape);
    const DeformConv2DGradients g{empty(x_shape), empty(offset_shape), {}, empty(weight_shape), {}};
    const DeformConv2D parameters{{1, 1}, {1, 1}};
    deform_conv2d(queue, parameters, in, y);
    deform_conv2d_backward(queue, parameters, in, upload(queue, Values(288, 1.), x_shape), g);
    EXPECT_EQ(download(queue, y), Values(288, 0.25));
    EXPECT_EQ(download(queue, g.x), Values(288, 0.));
    EXPECT_EQ(download(queue, g.offset), Values(162, 0.));
    EXPECT_EQ(download(queue, g.weight), Values(32 * 32 * 9, 0.));
}

INSTANTIATE_TEST_SUITE_P(Implementations, DeformConvNowhereTest, testing::Values("tiled", "cpu_fused", "cpu_amx"));

std::vector<std::string> implementations_of(const Dims& x, std::int64_t groups, DataType dtype)
{
    Queue& queue = Context::get().queue();
    const auto empty = [&](const Dims& shape) { return queue.context().empty(shape, dtype, queue); };
    DeformConv2D p{{1, 1}, {1, 1}};
    p.groups = groups;
    return deform_conv2d_implementations(queue.device(), p,
                                         {empty(x), empty({x[0], 18, x[2], x[3]}), {},
                                          empty({x[1], x[1] / groups, 3, 3}), {}});
}

TEST(DeformConv, NamesWhyAnImplementationDoesNotApply)
{
    if (!Context::get().device().fp64)
        GTEST_SKIP() << "the case is of float64, which this device does not have";
    const auto lines = implementations_of({1, 3, 4, 4}, 1, DataType::float64);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0].find("cpu_amx: "), 0u);     // they compute in float32, or this is no CPU
    EXPECT_EQ(lines[1].find("cpu_fused: "), 0u);
    EXPECT_EQ(lines[2], "tiled");
}

TEST(DeformConv, ShortRunsOfChannelsArePaddedWhereTheyFit)
{
    if (Context::get().device().kind != DeviceKind::cpu)
        GTEST_SKIP() << "an implementation for CPU devices";
    EXPECT_EQ(implementations_of({1, 3, 4, 4}, 1, DataType::float32)[1], "cpu_fused");
    EXPECT_EQ(implementations_of({1, 8, 4, 4}, 8, DataType::float32)[1], "cpu_fused");
    const auto large = implementations_of({1, 100, 300, 300}, 100, DataType::float32);
    EXPECT_NE(large[1].find("too much memory"), std::string::npos) << large[1];
}

TEST(DeformConv, BadArgumentsAreNamed)
{
    Queue& queue = Context::get().queue();
    const auto empty = [&](const Dims& shape) { return queue.context().empty(shape, DataType::float32, queue); };
    const DeformConv2DInputs in{empty({1, 4, 5, 5}), empty({1, 18, 5, 5}), {}, empty({2, 4, 3, 3}), {}};
    DeformConv2DInputs wrong = in;
    wrong.offset = empty({1, 16, 5, 5});
    const auto message = [](auto&& call) -> std::string {
        try {
            call();
        } catch (const InvalidArgument& error) {
            return error.what();
        }
        return "no error";
    };
    EXPECT_EQ(message([&] { deform_conv2d_shape({{1, 1}, {1, 1}}, wrong); }),
              "offset.shape[1] is not valid: got: 16 expected: 18");
    EXPECT_NE(message([&] { deform_conv2d_shape({{0, 1}, {1, 1}}, in); }).find("stride_h: 0 must be greater than 0"),
              std::string::npos);
    EXPECT_EQ(message([&] { deform_conv2d_shape({{1, 1}, {0, 0}}, in); }),
              "offset output dims: (5, 5) - computed output dims: (3, 3)");
}

}  // namespace
