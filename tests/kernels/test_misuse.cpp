// What a program can do wrong with tensors: undefined, forged, of the wrong type, out of range. Each throws
// InvalidArgument that names the operator; nothing is launched, nothing is read beyond its memory.
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include <clprim/attention.hpp>
#include <clprim/clprim.hpp>
#include <clprim/concat.hpp>
#include <clprim/conv.hpp>
#include <clprim/copy.hpp>
#include <clprim/ctc.hpp>
#include <clprim/deform_conv.hpp>
#include <clprim/distance.hpp>
#include <clprim/fft.hpp>
#include <clprim/gemm.hpp>
#include <clprim/grid_sample.hpp>
#include <clprim/index.hpp>
#include <clprim/integer_matmul.hpp>
#include <clprim/linalg.hpp>
#include <clprim/loss.hpp>
#include <clprim/narrow.hpp>
#include <clprim/nms.hpp>
#include <clprim/norm.hpp>
#include <clprim/operators.hpp>
#include <clprim/optim.hpp>
#include <clprim/pad.hpp>
#include <clprim/pool.hpp>
#include <clprim/random.hpp>
#include <clprim/recurrent.hpp>
#include <clprim/reduce.hpp>
#include <clprim/resample.hpp>
#include <clprim/roi.hpp>
#include <clprim/scan.hpp>
#include <clprim/sequence.hpp>
#include <clprim/softmax.hpp>
#include <clprim/sort.hpp>
#include <clprim/transfer.hpp>
#include <clprim/unfold.hpp>
#include <clprim/value.hpp>
#include <clprim/weights.hpp>

namespace clprim {
namespace {

struct Misuse {
    const char* name;
    std::function<void()> act;
    const char* expected;                    // part of the error
};

// A problem of which one member is given.
template <class Problem, class Member>
Problem with(Member Problem::*member, const Member& value)
{
    Problem problem{};
    problem.*member = value;
    return problem;
}

class MisuseTest : public testing::Test {
protected:
    Context& context = Context::get();
    Queue& queue = context.queue();
    const Tensor none;

    Tensor make(const Dims& shape, DataType type = DataType::float32) { return context.empty(shape, type, queue); }

    // A tensor whose fields say other than its memory holds.
    Tensor forged(const Dims& held, const Dims& shape, const Dims& strides, std::int64_t offset = 0)
    {
        Tensor t = make(held);
        t.shape = shape;
        t.strides = strides;
        t.offset = offset;
        return t;
    }

    void refuse(const std::vector<Misuse>& misuses)
    {
        for (const Misuse& misuse : misuses) {
            try {
                misuse.act();
                queue.finish();
                ADD_FAILURE() << misuse.name << " was accepted";
            } catch (const InvalidArgument& error) {
                EXPECT_NE(std::string(error.what()).find(misuse.expected), std::string::npos)
                    << misuse.name << ": " << error.what();
            } catch (const std::exception& error) {
                ADD_FAILURE() << misuse.name << ": another exception: " << error.what();
            }
        }
    }
};

TEST_F(MisuseTest, UndefinedTensors)
{
    const Tensor x = make({4, 8}), image = make({1, 4, 8, 8}), index = make({4, 8}, DataType::int64);
    const Tensor list[] = {x, none}, empty_list[] = {none};
    refuse({
        {"pointwise input", [&] { pointwise(queue, {none}, {x}, {}, "y0 = x0;"); }, "undefined"},
        {"pointwise output", [&] { pointwise(queue, {x}, {none}, {}, "y0 = x0;"); }, "undefined"},
        {"pointwise row",
         [&] {
             const Input inputs[] = {none};
             pointwise(queue, pointwise_row("exp"), {inputs, std::span(&x, 1), {}, DataType::float32});
         },
         "exp: an input is undefined"},
        {"reduce",
         [&] {
             const Input input(none);
             reduce(queue, reduce_row("sum"), {std::span(&input, 1), std::span(&x, 1), {}, DataType::float32});
         },
         "sum: an input is undefined"},
        {"reduce output",
         [&] {
             const Input input(x);
             reduce(queue, reduce_row("sum"), {std::span(&input, 1), empty_list, {}, DataType::float32});
         },
         "undefined"},
        {"pointwise_reduce",
         [&] {
             pointwise_reduce(queue, {none}, {x}, {},
                              {"float s;", "s.s = 0;", "s.s += x0;", "s.s += other.s;", "y0 = s.s;"});
         },
         "undefined"},
        {"copy", [&] { copy(queue, none, x); }, "copy: source is undefined"},
        {"copy target", [&] { copy(queue, x, none); }, "copy: target"},
        {"fill", [&] { fill(queue, none, 1.0); }, "fill: target"},
        {"softmax", [&] { softmax(queue, none, none, 0); }, "softmax: x"},
        {"softmax y", [&] { softmax(queue, x, none, 0); }, "softmax: y"},
        {"softmax_backward", [&] { softmax_backward(queue, {none, x, x, 1}); }, "softmax_backward: grad_output"},
        {"gemm_problem", [&] { gemm_problem(none, x, x); }, "gemm: a"},
        {"gemm", [&] { gemm(queue, gemm_problem(make({4, 4}), x, x), none, x, x); }, "gemm: a"},
        {"gemm c", [&] { gemm(queue, gemm_problem(make({4, 4}), x, x), make({4, 4}), x, none); }, "gemm: c"},
        {"layer_norm", [&] { layer_norm(queue, {none, none, none, none, none, none, 8}); }, "layer_norm: x"},
        {"layer_norm rstd", [&] { layer_norm(queue, {x, x, none, none, make({4}), none, 8}); }, "layer_norm: rstd"},
        {"group_norm", [&] { group_norm(queue, {image, image, none, none, none, none, 2}); }, "group_norm: mean"},
        {"batch_norm", [&] { batch_norm(queue, with(&BatchNorm::y, image)); }, "batch_norm: x"},
        {"conv_forward", [&] { conv_forward(queue, none, image, none, image, {}); }, "conv_forward: x"},
        {"conv_forward w", [&] { conv_forward(queue, image, none, none, image, {}); }, "conv_forward: w"},
        {"conv_backward_bias", [&] { conv_backward_bias(queue, image, none); }, "dbias"},
        {"max_pool", [&] { max_pool(queue, none, image, none, {}); }, "max_pool: x"},
        {"average_pool", [&] { average_pool(queue, image, none, {}); }, "average_pool: y"},
        {"max_unpool", [&] { max_unpool(queue, image, none, image); }, "indices"},
        {"random_fill", [&] { random_fill(queue, none, Distribution::normal, 0, 1, {}); }, "random_fill: out"},
        {"random_integers", [&] { random_integers(queue, none, 0, 10, {}); }, "random_integers: out"},
        {"dropout", [&] { dropout(queue, x, 0.5, {}, x, none); }, "dropout: mask"},
        {"attention", [&] { attention(queue, {none, image, image, none}, image); }, "attention: query"},
        {"concat", [&] { concat(queue, list, 0, make({8, 8})); }, "concat: an input"},
        {"concat out", [&] { concat(queue, {x}, 0, none); }, "concat: out"},
        {"gather", [&] { gather(queue, x, 0, none, x); }, "gather: index"},
        {"scatter", [&] { scatter(queue, none, 0, index, x); }, "scatter: self"},
        {"index_select", [&] { index_select(queue, x, 0, none, x); }, "index"},
        {"masked_fill", [&] { masked_fill(queue, x, none, x); }, "mask"},
        {"sort", [&] { sort(queue, x, 1, false, none, index); }, "sort: values"},
        {"topk", [&] { topk(queue, none, 1, true, x, index); }, "topk: input"},
        {"cumulative", [&] { cumulative(queue, none, 0, Scan::sum, x); }, "cumulative: input"},
        {"nonzero_count", [&] { nonzero_count(queue, none); }, "nonzero_count: input"},
        {"arange", [&] { arange(queue, none, 0.0, 1.0); }, "arange: out"},
        {"flip", [&] { flip(queue, none, {}, x); }, "flip: input"},
        {"fft", [&] { fft(queue, none, false, none); }, "fft: input"},
        {"pad", [&] { pad(queue, none, image, {}); }, "pad: x"},
        {"resample", [&] { resample(queue, image, none, {}); }, "resample: y"},
        {"grid_sample", [&] { grid_sample(queue, image, none, image, {}); }, "grid"},
        {"im2col", [&] { im2col(queue, none, x, {}); }, "im2col: x"},
        {"nll_loss", [&] { nll_loss(queue, with(&NllLoss::x, x), x, x); }, "nll_loss: target"},
        {"ctc_loss", [&] { ctc_loss(queue, {}, x, x); }, "ctc_loss: log_probs"},
        {"nms", [&] { nms(queue, none, index, 0.5, index, index); }, "nms: boxes"},
        {"roi_pooling", [&] { roi_pooling(queue, {}, image, none, image, none); }, "rois"},
        {"narrow", [&] { narrow(queue, none, narrow_format("int4"), {}, x); }, "narrow: source"},
        {"lu_factor", [&] { lu_factor(queue, none, none, none); }, "lu_factor: a"},
        {"cholesky", [&] { cholesky(queue, make({1, 4, 4}), none); }, "cholesky: info"},
        {"pairwise_distances", [&] { pairwise_distances(queue, make({1, 4, 8}), none, 2, x); },
         "pairwise_distances: b"},
        {"deform_conv2d", [&] { deform_conv2d(queue, {}, {none, none, none, none, none}, image); }, "deform_conv2d: x"},
        {"sgd_step", [&] { sgd_step(queue, {}, {none}, {none}, {}); }, "undefined"},
        {"to_host", [&] { to_host(queue, none); }, "to_host: source"},
        {"Value", [&] { Value value(none); }, "undefined"},
        {"read", [&] { queue.read<float>(none); }, "undefined"},
    });
}

TEST_F(MisuseTest, ForgedTensors)
{
    const Tensor x = make({4, 8});
    constexpr std::int64_t huge = std::int64_t{1} << 62;
    refuse({
        {"shape beyond memory", [&] { fill(queue, forged({8}, {1 << 20}, {1}), 0.0); }, "reaches beyond its memory"},
        {"strides beyond memory", [&] { copy(queue, forged({32}, {4, 8}, {1 << 20, 1}), x); }, "reaches beyond"},
        {"offset beyond memory", [&] { copy(queue, forged({32}, {4, 8}, {8, 1}, 1 << 20), x); }, "reaches beyond"},
        {"negative offset", [&] { copy(queue, forged({32}, {4, 8}, {8, 1}, -1), x); }, "reaches beyond"},
        {"negative stride", [&] { copy(queue, forged({32}, {4, 8}, {8, -1}), x); }, "reaches beyond"},
        {"negative size", [&] { fill(queue, forged({32}, {-4, 8}, {8, 1}), 0.0); }, "negative size"},
        {"sizes that wrap", [&] { fill(queue, forged({32}, {huge, 4}, {4, 1}), 0.0); }, "reaches beyond"},
        {"strides that wrap", [&] { copy(queue, forged({32}, {4, 8}, {huge, 1}), x); }, "reaches beyond"},
        {"more sizes than strides", [&] { softmax(queue, forged({32}, {4, 8}, {1}), x, 1); }, "2 sizes but 1 strides"},
        {"more strides than sizes", [&] { softmax(queue, forged({32}, {32}, {8, 1}), x, 0); }, "1 sizes but 2 strides"},
        {"wider dtype", [&] {
             Tensor t = x;
             t.dtype = DataType::int64;
             fill(queue, t, 0.0);
         }, "reaches beyond"},
        {"no dtype", [&] {
             Tensor t = x;
             t.dtype = static_cast<DataType>(99);
             softmax(queue, t, x, 0);
         }, "dtype"},
        {"matrix beyond memory", [&] {
             GemmProblem p = gemm_problem(make({4, 8}), make({8, 4}), make({4, 4}));
             p.k = 1 << 16;
             gemm(queue, p, make({4, 8}), make({8, 4}), make({4, 4}));
         }, "gemm: a"},
        {"matrix strides", [&] {
             GemmProblem p = gemm_problem(make({4, 8}), make({8, 4}), make({4, 4}));
             p.c.row = 1 << 16;
             gemm(queue, p, make({4, 8}), make({8, 4}), make({4, 4}));
         }, "gemm: c"},
        {"forged Value", [&] { Value value(forged({8}, {1 << 20}, {1})); }, "reaches beyond"},
    });
}

TEST_F(MisuseTest, OutOfRange)
{
    const Tensor x = make({4, 8}), image = make({1, 4, 8, 8});
    std::vector<float> host(64);
    refuse({
        {"Tensor::size", [&] { static_cast<void>(x.size(11)); }, "axis 11"},
        {"Tensor::stride", [&] { static_cast<void>(x.stride(2)); }, "axis 2"},
        {"Dims::back", [&] { static_cast<void>(Dims().back()); }, "axis"},
        {"slice", [&] { x.slice(0, 2, 9); }, "slice"},
        {"softmax axis", [&] { softmax(queue, x, make({4, 8}), 7); }, "axis 7"},
        {"negative shape", [&] { make({-4}); }, "negative size"},
        {"read across the end", [&] { queue.read(*x.memory, 0, host.data(), std::size_t{1} << 30); }, "Queue::read"},
        {"read from beyond", [&] { queue.read(*x.memory, std::size_t{1} << 30, host.data(), 4); }, "Queue::read"},
        {"read that wraps", [&] { queue.read(*x.memory, std::numeric_limits<std::size_t>::max() - 3, host.data(), 8); },
         "Queue::read"},
        {"read to null", [&] { queue.read(*x.memory, 0, nullptr, 4); }, "null"},
        {"write across the end", [&] { queue.write(*x.memory, 0, host.data(), std::size_t{1} << 30); }, "Queue::write"},
        {"write from null", [&] { queue.write(*x.memory, 0, nullptr, 4); }, "null"},
        {"copy across the end", [&] { queue.copy(*x.memory, 0, *image.memory, 0, std::size_t{1} << 30); },
         "Queue::copy"},
        {"fill across the end", [&] { queue.fill(*x.memory, 0, std::size_t{1} << 30, host.data(), 4); }, "Queue::fill"},
        {"copy_between", [&] { copy_between({queue, *x.memory, 0}, {queue, *image.memory, 0}, std::size_t{1} << 30); },
         "copy_between"},
        {"max_pool into any size",
         [&] {
             PoolWindow window;
             window.kernel = {2, 2, 1};
             window.stride = {2, 2, 1};
             max_pool(queue, image, make({1, 4, 100, 100}), none, window);
         },
         "too large"},
        {"average_pool into any size",
         [&] {
             PoolWindow window;
             window.kernel = window.stride = {2, 2, 1};
             average_pool(queue, image, make({1, 4, 5, 4}), window);
         },
         "too large"},
        {"pool with a negative padding",
         [&] {
             PoolWindow window;
             window.padding = {-3, 0, 0};
             max_pool(queue, image, image, none, window);
         },
         "padding"},
        {"distribution", [&] { random_fill(queue, x, static_cast<Distribution>(77), 0, 1, {}); }, "distribution"},
        {"layer_norm statistics", [&] { layer_norm(queue, {x, make({4, 8}), none, none, make({4}), make({1}), 8}); },
         "rstd"},
        {"group_norm statistics",
         [&] { group_norm(queue, {image, make({1, 4, 8, 8}), none, none, make({1}), make({2}), 2}); }, "mean"},
        {"dropout's mask", [&] { dropout(queue, x, 0.5, {}, make({4, 8}), make({4, 8})); }, "mask"},
        {"reduce axes",
         [&] {
             const Input input(x);
             const Tensor y = make({3, 1});
             reduce(queue, reduce_row("sum"), {std::span(&input, 1), std::span(&y, 1), {}, DataType::float32});
         },
         ""},
    });
    EXPECT_THROW(gemm(queue, [&] {
                     GemmProblem p = gemm_problem(make({4, 8}), make({8, 4}), make({4, 4}));
                     p.activation = Activation::sigmoid;
                     return p;
                 }(), make({4, 8}), make({8, 4}), make({4, 4})), NotSupported);
    EXPECT_THROW(conv_forward(queue, image, make({4, 4, 1, 1}), none, make({1, 4, 8, 8}),
                              with(&ConvOptions::activation, Activation::tanh)),
                 NotSupported);
}

TEST_F(MisuseTest, Values)
{
    constexpr std::int64_t huge = std::int64_t{1} << 62;
    const Value floats = Value::zeros(ElementType::float32, {4});
    const float number = 0;
    refuse({
        {"zeros of a negative size", [&] { Value::zeros(ElementType::float32, {-4}); }, "negative size"},
        {"zeros of two negative sizes", [&] { Value::zeros(ElementType::float32, {-4, -4}); }, "negative size"},
        {"zeros of sizes that wrap", [&] { Value::zeros(ElementType::float32, {huge, 4}); }, "64 bits"},
        {"zeros of bytes that wrap", [&] { Value::zeros(ElementType::float64, {huge}); }, "more than memory"},
        {"zeros of strings that wrap", [&] { Value::zeros(ElementType::string, {huge}); }, "more than memory"},
        {"zeros of no type", [&] { Value::zeros(ElementType::undefined, {4}); }, "element type"},
        {"copy of null", [&] { Value::copy_of(ElementType::float32, {4}, nullptr); }, "null"},
        {"copy of a negative size", [&] { Value::copy_of(ElementType::float32, {-1}, &number); }, "negative size"},
        {"copy of strings", [&] { Value::copy_of(ElementType::string, {1}, &number); }, "strings"},
        {"strings that do not fill", [&] { Value::strings({3}, {"a", "b"}); }, "strings"},
        {"strings of negative sizes", [&] { Value::strings({-1, -2}, {"a", "b"}); }, "negative size"},
        {"host of a wider type", [&] { floats.host<double>(queue); }, "float32"},
        {"host of another type", [&] { floats.host<std::int32_t>(queue); }, "float32"},
        {"mutable host of another type", [&] { Value::zeros(ElementType::int64, {4}).mutable_host<float>(); }, "int64"},
        {"reshaped to more", [&] { floats.reshaped({5}, queue); }, "reshape"},
        {"reshaped to sizes that wrap", [&] { floats.reshaped({huge, 8}, queue); }, "reshape"},
        {"shape of nothing", [&] { Value().shape(); }, "absent"},
        {"items of a tensor", [&] { floats.items(); }, "sequence"},
        {"bytes of strings", [&] { Value::strings({1}, {"a"}).bytes(queue); }, "strings"},
    });
    EXPECT_EQ(Value::zeros(ElementType::float16, {2}).host<std::uint16_t>(queue).size(), 2u);
    EXPECT_EQ(Value::scalar(true).host<bool>(queue)[0], true);
}

TEST_F(MisuseTest, TypedTransfers)
{
    const Tensor x = make({2, 3});
    queue.write(x, std::vector<float>{1, 2, 3, 4, 5, 6});
    EXPECT_EQ(queue.read<float>(x), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(queue.read<float>(x.slice(0, 1, 2)), (std::vector<float>{4, 5, 6}));
    const std::array<std::int64_t, 2> numbers{7, 8};
    const Tensor n = make({2}, DataType::int64);
    queue.write(n, std::span(numbers));
    EXPECT_EQ(queue.read<std::int64_t>(n), (std::vector<std::int64_t>{7, 8}));
    EXPECT_TRUE(queue.read<float>(make({0, 3})).empty());
    refuse({
        {"write of another type", [&] { queue.write(x, std::vector<double>(6)); }, "C++ type"},
        {"write of too few", [&] { queue.write(x, std::vector<float>(5)); }, "5 elements for a tensor of 6"},
        {"write of too many", [&] { queue.write(x, std::vector<float>(7)); }, "7 elements"},
        {"write to gaps", [&] { queue.write(x.transpose(0, 1), std::vector<float>(6)); }, "not contiguous"},
        {"read as another type", [&] { queue.read<std::int32_t>(x); }, "C++ type"},
        {"read of gaps", [&] { queue.read<float>(x.transpose(0, 1)); }, "not contiguous"},
    });
}

// What a table, an axis or a factor can say that no memory holds, and results whose elements are one.
TEST_F(MisuseTest, TablesAndOverlaps)
{
    constexpr std::int64_t huge = std::int64_t{1} << 62;
    const Tensor bytes = make({4, 4}, DataType::int8);
    const std::array<std::int64_t, 2> twice{0, 0};
    ConvOptions far, wide;
    far.pad_begin = far.pad_end = {huge, huge};
    wide.dilation = {huge, huge};
    refuse({
        {"a later tap below the axis", [&] {
             resample_axis(queue, make({2, 4}), make({2, 2}), 1,
                           {.taps = 2, .indices = {0, -5, 1, 2}, .weights = {1, 1, 1, 1}});
         }, "later tap"},
        {"factors that wrap", [&] { resample_repeat(queue, make({4, 4}), make({0, 0}), huge, huge); }, "too large"},
        {"an axis flipped twice", [&] { flip(queue, make({4, 4}), twice, make({4, 4})); }, "more than once"},
        {"padding that wraps", [&] {
             conv_forward(queue, make({1, 8, 8, 8}), make({8, 8, 3, 3}), none, make({1, 8, 6, 6}), far);
         }, "2^31"},
        {"dilation that wraps", [&] {
             conv_forward(queue, make({1, 8, 8, 8}), make({8, 8, 3, 3}), none, make({1, 8, 0, 0}), wide);
         }, "2^31"},
        {"one row for all rows of a product", [&] {
             integer_matmul(queue, bytes, bytes, make({1, 4}, DataType::int32).expand({4, 4}));
         }, "overlap"},
    });
}

TEST_F(MisuseTest, RecurrentCells)
{
    const Tensor state = make({2, 4}), gates = make({2, 16}), saved = make({2, 20}), parts = make({2, 12});
    refuse({
        {"an LSTM cell of nothing", [&] { lstm_cell(queue, {}, {}); }, "lstm_cell: cx is undefined"},
        {"an LSTM cell without gates", [&] { lstm_cell(queue, {}, {state, state, state, gates}); }, "expected gates"},
        {"an LSTM cell without a result", [&] {
             lstm_cell(queue, {gates, gates, none, none}, {state, none, state, gates});
         }, "hy is undefined"},
        {"gradients for nobody", [&] {
             lstm_cell_backward(queue, {state, state, state, gates}, {state, state, none, none});
         }, "gradient of the gates is undefined"},
        {"a GRU cell of nothing", [&] { gru_cell(queue, {}, {}); }, "gru_cell: input is undefined"},
        {"a GRU cell of scalars", [&] {
             gru_cell(queue, {parts, parts, none, none}, {make({}), make({}), saved});
         }, "states are [n, h]"},
        {"a GRU cell's gradients of nothing", [&] { gru_cell_backward(queue, saved, {}); }, "is undefined"},
    });
}

}  // namespace
}  // namespace clprim
