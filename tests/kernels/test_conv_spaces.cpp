// The parameters of convolutions that tuning searches, and where which implementation is chosen.
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <core/choose.hpp>
#include <kernels/conv/problem.hpp>

#include "kernels/conv_reference.hpp"
#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;
using test::Host;
using test::Layout;
using test::products;
using test::Sides;

Tensor upload(const Host& host)
{
    return test::upload(Context::get().queue(), host.values, host.shape, host.strides);
}

// Operands of one convolution, padded by one, and what each pass makes of them.
struct Passes {
    Passes(const Dims& x_shape, const Dims& w_shape, Layout layout, std::mt19937& random)
        : options(padded()), y_shape(conv_output_shape(x_shape, w_shape, options)), x(x_shape, layout, &random),
          w(w_shape, layout, &random), y(y_shape, layout, &random), forward(y_shape, layout, nullptr),
          dx(x_shape, layout, nullptr), dw(w_shape, layout, nullptr)
    {
        products(Sides{&x, &w, &y}, options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
            forward.values[yi] += x.values[xi] * w.values[wi];
            dx.values[xi] += y.values[yi] * w.values[wi];
            dw.values[wi] += x.values[xi] * y.values[yi];
        });
    }
    static ConvOptions padded()
    {
        ConvOptions options;
        options.pad_begin = options.pad_end = Dims{1, 1};
        return options;
    }

    ConvOptions options;
    Dims y_shape;
    Host x, w, y, forward, dx, dw;
};

// Every point of the spaces that tuning searches.
TEST(ConvSpaces, EveryPointGivesTheSame)
{
    Queue& queue = Context::get().queue();
    if (queue.device().kind != DeviceKind::gpu)
        GTEST_SKIP() << "only kernels for GPUs have parameters";
    std::mt19937 random{5};
    int ran = 0;
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        const Passes p({2, 8, 9, 11}, {70, 8, 3, 3}, layout, random);
        const Tensor tx = upload(p.x), tw = upload(p.w), ty = upload(p.y);
        const auto at = [&](const std::string& point, const Host& expected, const auto& run) {
            prefer_implementation("conv", "gpu_implicit:" + point);
            const Tensor result = upload(Host(expected.shape, layout, &random));
            try {
                run(result);
                EXPECT_EQ(test::download(queue, result), expected.values) << point;
                ++ran;
            } catch (const NotSupported& error) {
                EXPECT_NE(std::string(error.what()).find("tiles of"), std::string::npos) << error.what();
            }
            prefer_implementation("conv", "");
        };
        for (const std::string tile : {"32", "64", "128"})
            for (const std::string slab : {"8", "16", "32"}) {
                if (tile == "32" && slab != "16")
                    continue;   // one is enough: it differs from the others by its group
                const std::string point = "tile=" + tile + ":slab=" + slab;
                at(point, p.forward, [&](const Tensor& to) { conv_forward(queue, tx, tw, {}, to, p.options); });
                at(point, p.dx, [&](const Tensor& to) { conv_backward_data(queue, ty, tw, to, p.options); });
                for (const std::string parts : {"1", "4", "32"})
                    at(point + ":parts=" + parts, p.dw,
                       [&](const Tensor& to) { conv_backward_weight(queue, tx, ty, to, p.options); });
            }
    }
    EXPECT_EQ(ran, 2 * 6 * 5);   // slabs of 8 are too small for groups of tiles of 64
}

// Tiles that go through Winograd's transforms in several cuts, of which the last one is smaller.
TEST(ConvSpaces, WinogradInCuts)
{
    Queue& queue = Context::get().queue();
    if (queue.device().kind != DeviceKind::gpu)
        GTEST_SKIP() << "only kernels for GPUs have parameters";
    std::mt19937 random{8};
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        const Passes p({3, 7, 9, 12}, {18, 7, 3, 3}, layout, random);
        const Tensor tx = upload(p.x), tw = upload(p.w), ty = upload(p.y);
        for (const std::string cuts : {"1", "2", "4", "8"}) {
            prefer_implementation("conv", "gpu_winograd:cuts=" + cuts);
            const Tensor to_y = upload(p.y), to_x = upload(p.x), to_w = upload(p.w);
            conv_forward(queue, tx, tw, {}, to_y, p.options);
            conv_backward_data(queue, ty, tw, to_x, p.options);
            conv_backward_weight(queue, tx, ty, to_w, p.options);
            prefer_implementation("conv", "");
            EXPECT_EQ(test::download(queue, to_y), p.forward.values) << cuts;
            EXPECT_EQ(test::download(queue, to_x), p.dx.values) << cuts;
            EXPECT_EQ(test::download(queue, to_w), p.dw.values) << cuts;
        }
    }
}

// By what their transforms move beside the products that they save.
TEST(ConvChoice, WinogradWhereItsTransformsPay)
{
    Device device = Context::get().queue().device();
    device.kind = DeviceKind::gpu;
    device.vendor = "NVIDIA Corporation";
    device.compute_units = 132;
    device.max_work_group_size = 1024;
    device.local_memory = 49152;
    device.extensions.clear();
    device.sub_group_sizes.clear();
    const auto advised_against = [&](cl_long channels, cl_long side) {
        conv::Call call;
        conv::Problem& q = call.problem;
        q.batch = 32;
        q.in_channels = q.out_channels = channels;
        q.in[1] = q.in[2] = q.out[1] = q.out[2] = side;
        q.kernel[1] = q.kernel[2] = 3;
        q.pad[1] = q.pad[2] = 1;
        bool against = false;
        for (const ConvPass pass : {ConvPass::forward, ConvPass::backward_data}) {
            call.pass = pass;
            against |= conv::gpu_winograd_advises_against(call, device).has_value();
        }
        call.pass = ConvPass::backward_weight;
        EXPECT_EQ(conv::gpu_winograd_weight_advises_against(call, device).has_value(), against) << channels;
        return against;
    };
    EXPECT_FALSE(advised_against(512, 14));
    EXPECT_FALSE(advised_against(512, 7));
    EXPECT_FALSE(advised_against(256, 14));
    EXPECT_TRUE(advised_against(16, 112));
    EXPECT_TRUE(advised_against(3, 224));
}

// The parts into which the weight gradient of narrow convolutions is cut.
TEST(ConvSpaces, NarrowWeightGradients)
{
    Queue& queue = Context::get().queue();
    if (queue.device().kind != DeviceKind::gpu)
        GTEST_SKIP() << "only kernels for GPUs have parameters";
    std::mt19937 random{6};
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        ConvOptions options;
        options.groups = 6;
        options.pad_begin = options.pad_end = Dims{1, 1};
        const Dims x_shape{3, 6, 61, 47}, w_shape{6, 1, 3, 3}, y_shape = conv_output_shape(x_shape, w_shape, options);
        Host x(x_shape, layout, &random), w(w_shape, Layout::contiguous, &random), y(y_shape, layout, &random);
        Host dw(w_shape, Layout::contiguous, nullptr);
        products(Sides{&x, &w, &y}, options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
            dw.values[wi] += x.values[xi] * y.values[yi];
        });
        for (const std::string parts : {"1", "4", "16", "256"}) {
            prefer_implementation("conv", "gpu_direct:parts=" + parts);
            const Tensor result = upload(w);
            conv_backward_weight(queue, upload(x), upload(y), result, options);
            prefer_implementation("conv", "");
            EXPECT_EQ(test::download(queue, result), dw.values) << parts;
        }
    }
}

}  // namespace
