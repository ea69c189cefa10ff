// Every function of kernels with every one of its tensors forged in turn: fields that say more than memory holds throw
// InvalidArgument before anything is launched. What is wrong otherwise (dtype, sizes, rank) throws or is computed; it
// writes nothing into neighbours, and the device goes on working.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <clprim/attention.hpp>
#include <clprim/clprim.hpp>
#include <clprim/concat.hpp>
#include <clprim/conv.hpp>
#include <clprim/copy.hpp>
#include <clprim/deform_conv.hpp>
#include <clprim/distance.hpp>
#include <clprim/fft.hpp>
#include <clprim/gemm.hpp>
#include <clprim/grid_sample.hpp>
#include <clprim/index.hpp>
#include <clprim/integer_conv.hpp>
#include <clprim/integer_matmul.hpp>
#include <clprim/linalg.hpp>
#include <clprim/linear_attention.hpp>
#include <clprim/loss.hpp>
#include <clprim/nms.hpp>
#include <clprim/norm.hpp>
#include <clprim/optim.hpp>
#include <clprim/pad.hpp>
#include <clprim/pool.hpp>
#include <clprim/psroi_pool.hpp>
#include <clprim/quantized.hpp>
#include <clprim/random.hpp>
#include <clprim/recurrent.hpp>
#include <clprim/reduce.hpp>
#include <clprim/resample.hpp>
#include <clprim/roi.hpp>
#include <clprim/scan.hpp>
#include <clprim/sequence.hpp>
#include <clprim/softmax.hpp>
#include <clprim/sort.hpp>
#include <clprim/sparse.hpp>
#include <clprim/transfer.hpp>
#include <clprim/unfold.hpp>

namespace clprim {
namespace {

using Tensors = std::vector<Tensor>;

// A call that is right as it stands.
struct Call {
    const char* name;
    Tensors tensors;
    std::function<void(Queue&, const Tensors&)> act;
};

Tensor make(const Dims& shape, DataType type = DataType::float32, double value = 1)
{
    Context& context = Context::get();
    const Tensor t = context.empty(shape, type, context.queue());
    fill(context.queue(), t, value);
    return t;
}

std::vector<Call> calls()
{
    const auto i64 = DataType::int64, i32 = DataType::int32, i8 = DataType::int8;
    using T = const Tensors&;
    using Q = Queue&;
    return {
        {"gemm", {make({4, 5}), make({5, 6}), make({4, 6}), make({4, 6})},
         [](Q q, T t) { gemm(q, gemm_problem(t[0], t[1], t[2], t[3]), t[0], t[1], t[2], t[3]); }},
        {"conv_forward", {make({1, 4, 6, 6}), make({8, 4, 3, 3}), make({8}), make({1, 8, 4, 4})},
         [](Q q, T t) { conv_forward(q, t[0], t[1], t[2], t[3], {}); }},
        {"conv_backward_data", {make({1, 8, 4, 4}), make({8, 4, 3, 3}), make({1, 4, 6, 6})},
         [](Q q, T t) { conv_backward_data(q, t[0], t[1], t[2], {}); }},
        {"conv_backward_weight", {make({1, 4, 6, 6}), make({1, 8, 4, 4}), make({8, 4, 3, 3})},
         [](Q q, T t) { conv_backward_weight(q, t[0], t[1], t[2], {}); }},
        {"conv_backward_bias", {make({1, 8, 4, 4}), make({8})},
         [](Q q, T t) { conv_backward_bias(q, t[0], t[1]); }},
        {"attention", {make({1, 2, 4, 8}), make({1, 2, 5, 8}), make({1, 2, 5, 8}), make({4, 5}), make({1, 2, 4, 8})},
         [](Q q, T t) { attention(q, {.query = t[0], .key = t[1], .value = t[2], .mask = t[3]}, t[4]); }},
        {"attention_backward",
         {make({1, 2, 4, 8}), make({1, 2, 5, 8}), make({1, 2, 5, 8}), make({1, 2, 4, 8}), make({1, 2, 4}),
          make({1, 2, 4, 8}), make({1, 2, 4, 8}), make({1, 2, 5, 8}), make({1, 2, 5, 8})},
         [](Q q, T t) {
             attention_backward(q, {.query = t[0], .key = t[1], .value = t[2], .mask = {}}, {t[3], t[4], t[5]},
                                {t[6], t[7], t[8]});
         }},
        {"max_pool", {make({1, 2, 6, 6}), make({1, 2, 3, 3}), make({1, 2, 3, 3}, i64)},
         [](Q q, T t) { max_pool(q, t[0], t[1], t[2], {.kernel = {1, 2, 2}, .stride = {1, 2, 2}}); }},
        {"max_pool_backward", {make({1, 2, 3, 3}), make({1, 2, 3, 3}, i64), make({1, 2, 6, 6})},
         [](Q q, T t) { max_pool_backward(q, t[0], t[1], t[2], {.kernel = {1, 2, 2}, .stride = {1, 2, 2}}); }},
        {"average_pool", {make({1, 2, 6, 6}), make({1, 2, 3, 3})},
         [](Q q, T t) { average_pool(q, t[0], t[1], {.kernel = {1, 2, 2}, .stride = {1, 2, 2}}); }},
        {"average_pool_backward", {make({1, 2, 3, 3}), make({1, 2, 6, 6})},
         [](Q q, T t) { average_pool_backward(q, t[0], t[1], {.kernel = {1, 2, 2}, .stride = {1, 2, 2}}); }},
        {"max_unpool", {make({1, 2, 3, 3}), make({1, 2, 3, 3}, i64), make({1, 2, 6, 6})},
         [](Q q, T t) { max_unpool(q, t[0], t[1], t[2]); }},
        {"batch_norm",
         {make({2, 3, 4}), make({2, 3, 4}), make({3}), make({3}), make({3}), make({3}), make({3}), make({3})},
         [](Q q, T t) { batch_norm(q, {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]}); }},
        {"batch_norm_backward",
         {make({2, 3, 4}), make({2, 3, 4}), make({3}), make({3}), make({3}), make({2, 3, 4}), make({3}), make({3})},
         [](Q q, T t) { batch_norm_backward(q, {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]}); }},
        {"layer_norm", {make({4, 6}), make({4, 6}), make({6}), make({6}), make({4}), make({4})},
         [](Q q, T t) { layer_norm(q, {t[0], t[1], t[2], t[3], t[4], t[5], 6}); }},
        {"layer_norm_backward",
         {make({4, 6}), make({4, 6}), make({6}), make({4}), make({4}), make({4, 6}), make({6}), make({6})},
         [](Q q, T t) { layer_norm_backward(q, {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], 6}); }},
        {"group_norm", {make({2, 4, 3}), make({2, 4, 3}), make({4}), make({4}), make({2, 2}), make({2, 2})},
         [](Q q, T t) { group_norm(q, {t[0], t[1], t[2], t[3], t[4], t[5], 2}); }},
        {"sort", {make({4, 6}), make({4, 6}), make({4, 6}, i64)},
         [](Q q, T t) { sort(q, t[0], 1, false, t[1], t[2]); }},
        {"topk", {make({4, 6}), make({4, 2}), make({4, 2}, i64)},
         [](Q q, T t) { topk(q, t[0], 1, true, t[1], t[2]); }},
        {"searchsorted", {make({6}), make({4}), make({4}, i64)},
         [](Q q, T t) { searchsorted(q, {.boundaries = t[0], .sorter = {}}, t[1], t[2]); }},
        {"random_bernoulli", {make({4}), make({4})}, [](Q q, T t) { random_bernoulli(q, t[0], t[1], {}); }},
        {"random_variates", {make({4}), make({4}), make({4})},
         [](Q q, T t) { random_variates(q, t[0], Variate::binomial, t[1], t[2], {}); }},
        {"dropout", {make({4}), make({4}), make({4}, DataType::boolean)},
         [](Q q, T t) { dropout(q, t[0], 0.5, {}, t[1], t[2]); }},
        {"quantized_matmul", {make({3, 64}), make({8, 64}, i8), make({1, 8}), make({3, 8})},
         [](Q q, T t) {
             quantized_matmul(q, t[0], {.values = t[1], .format = {}, .group = 64, .scales = t[2], .zeros = {}}, t[3]);
         }},
        {"dequantize", {make({8, 64}, i8), make({1, 8}), make({8, 64})},
         [](Q q, T t) {
             dequantize(q, {.values = t[0], .format = {}, .group = 64, .scales = t[1], .zeros = {}}, t[2]);
         }},
        {"integer_matmul", {make({3, 8}, i8), make({8, 5}, i8), make({3, 5}, i32)},
         [](Q q, T t) { integer_matmul(q, t[0], t[1], t[2]); }},
        {"integer_conv", {make({1, 4, 6, 6}, i8), make({8, 4, 3, 3}, i8), make({1, 8, 4, 4}, i32), make({8}, i32)},
         [](Q q, T t) {
             IntegerConv conv;
             conv.bias = t[3];
             integer_conv(q, t[0], t[1], t[2], conv);
         }},
        {"nll_loss", {make({3, 4}), make({3}, i64), make({4}), make({}), make({})},
         [](Q q, T t) { nll_loss(q, {.x = t[0], .target = t[1], .weight = t[2]}, t[3], t[4]); }},
        {"nll_loss_backward", {make({3}, i64), make({4}), make({}), make({}), make({3, 4})},
         [](Q q, T t) {   // of x the shape alone counts
             nll_loss_backward(q, {.x = make({3, 4}), .target = t[0], .weight = t[1]}, t[2], t[3], t[4]);
         }},
        {"multi_margin_loss", {make({3, 4}), make({3}, i64), make({4}), make({3})},
         [](Q q, T t) { multi_margin_loss(q, {.x = t[0], .target = t[1], .weight = t[2]}, t[3]); }},
        {"multi_margin_loss_backward", {make({3, 4}), make({3}, i64), make({4}), make({3}), make({3, 4})},
         [](Q q, T t) {
             multi_margin_loss_backward(q, {.forward = {.x = t[0], .target = t[1], .weight = t[2]},
                                            .grad_output = t[3], .grad_input = t[4], .is_target = {}});
         }},
        {"multilabel_margin_loss", {make({3, 4}), make({3, 4}, i64), make({3}), make({3, 4})},
         [](Q q, T t) { multilabel_margin_loss(q, {.x = t[0], .target = t[1], .weight = {}}, t[2], t[3]); }},
        {"multilabel_margin_loss_backward",
         {make({3, 4}), make({3, 4}, i64), make({3}), make({3, 4}), make({3, 4})},
         [](Q q, T t) {
             multilabel_margin_loss_backward(q, {.forward = {.x = t[0], .target = t[1], .weight = {}},
                                                 .grad_output = t[2], .grad_input = t[3], .is_target = t[4]});
         }},
        {"lu_factor", {make({2, 4, 4}), make({2, 4}, i32), make({2}, i32)},
         [](Q q, T t) { lu_factor(q, t[0], t[1], t[2]); }},
        {"lu_solve", {make({2, 4, 4}), make({2, 4}, i32), make({2, 4, 3})},
         [](Q q, T t) { lu_solve(q, t[0], t[1], t[2]); }},
        {"cholesky", {make({2, 4, 4}), make({2}, i32)}, [](Q q, T t) { cholesky(q, t[0], t[1]); }},
        {"triangular_solve", {make({2, 4, 4}), make({2, 4, 3})},
         [](Q q, T t) { triangular_solve(q, t[0], true, false, t[1]); }},
        {"qr_factor", {make({2, 5, 4}), make({2, 4})}, [](Q q, T t) { qr_factor(q, t[0], t[1]); }},
        {"jacobi_eigh", {make({2, 4, 4}), make({2, 4, 4}), make({2, 4})},
         [](Q q, T t) { jacobi_eigh(q, t[0], t[1], t[2]); }},
        {"linear_attention",
         {make({1, 4, 8}), make({1, 4, 8}), make({1, 4, 8}), make({1, 4, 1}), make({1, 4, 1}), make({1, 1, 8, 8}),
          make({1, 4, 8})},
         [](Q q, T t) { linear_attention(q, {t[0], t[1], t[2], t[3], t[4], t[5], t[6]}); }},
        {"softmax", {make({4, 6}), make({4, 6})}, [](Q q, T t) { softmax(q, t[0], t[1], 1); }},
        {"softmax_backward", {make({4, 6}), make({4, 6}), make({4, 6})},
         [](Q q, T t) { softmax_backward(q, {t[0], t[1], t[2], 1}); }},
        {"pad", {make({1, 2, 6}), make({1, 2, 9})},
         [](Q q, T t) { pad(q, t[0], t[1], {.before = {2, 0, 0}, .mode = PadMode::replicate}); }},
        {"resample", {make({1, 2, 4, 4}), make({1, 2, 8, 8})}, [](Q q, T t) { resample(q, t[0], t[1], {}); }},
        {"resample_backward", {make({1, 2, 8, 8}), make({1, 2, 4, 4})},
         [](Q q, T t) { resample_backward(q, t[0], t[1], {}); }},
        {"roi_pooling", {make({1, 2, 8, 8}), make({3, 5}, DataType::float32, 0), make({3, 2, 1, 1})},
         [](Q q, T t) { roi_pooling(q, {}, t[0], t[1], t[2], {}); }},
        {"roi_pooling_backward", {make({3, 2, 1, 1}), make({3, 5}, DataType::float32, 0), make({1, 2, 8, 8})},
         [](Q q, T t) { roi_pooling_backward(q, {}, t[0], t[1], {}, t[2]); }},
        {"deform_conv2d",
         {make({1, 4, 6, 6}), make({1, 18, 4, 4}), make({1, 9, 4, 4}), make({8, 4, 3, 3}), make({8}),
          make({1, 8, 4, 4})},
         [](Q q, T t) { deform_conv2d(q, {}, {t[0], t[1], t[2], t[3], t[4]}, t[5]); }},
        {"deform_conv2d_backward",
         {make({1, 4, 6, 6}), make({1, 18, 4, 4}), make({1, 9, 4, 4}), make({8, 4, 3, 3}), make({8}),
          make({1, 8, 4, 4}), make({1, 4, 6, 6}), make({1, 18, 4, 4}), make({1, 9, 4, 4}), make({8, 4, 3, 3}),
          make({8})},
         [](Q q, T t) {
             deform_conv2d_backward(q, {}, {t[0], t[1], t[2], t[3], t[4]}, t[5], {t[6], t[7], t[8], t[9], t[10]});
         }},
        {"im2col", {make({1, 2, 4, 4}), make({1, 8, 9})},
         [](Q q, T t) { im2col(q, t[0], t[1], {.kernel = {2, 2}}); }},
        {"grid_sample", {make({1, 2, 4, 4}), make({1, 3, 3, 2}), make({1, 2, 3, 3})},
         [](Q q, T t) { grid_sample(q, t[0], t[1], t[2], {}); }},
        {"grid_sample_backward",
         {make({1, 2, 3, 3}), make({1, 2, 4, 4}), make({1, 3, 3, 2}), make({1, 2, 4, 4}), make({1, 3, 3, 2})},
         [](Q q, T t) { grid_sample_backward(q, {t[0], t[1], t[2], t[3], t[4], {}}); }},
        {"fft", {make({2, 8}, DataType::complex64), make({2, 8}, DataType::complex64)},
         [](Q q, T t) { fft(q, t[0], false, t[1]); }},
        {"pairwise_distances", {make({1, 3, 4}), make({1, 5, 4}), make({1, 3, 5})},
         [](Q q, T t) { pairwise_distances(q, t[0], t[1], 2, t[2]); }},
        {"nms", {make({6, 4}), make({6}, i64), make({6}, i64), make({1}, i64)},
         [](Q q, T t) { nms(q, t[0], t[1], 0.5, t[2], t[3]); }},
        {"concat", {make({2, 3}), make({4, 3}), make({6, 3})},
         [](Q q, T t) { concat(q, {t[0], t[1]}, 0, t[2]); }},
        {"lstm_cell",
         {make({2, 16}), make({2, 16}), make({16}), make({16}), make({2, 4}), make({2, 4}), make({2, 4}), make({2, 16})},
         [](Q q, T t) { lstm_cell(q, {t[0], t[1], t[2], t[3]}, {t[4], t[5], t[6], t[7]}); }},
        {"gru_cell", {make({2, 12}), make({2, 12}), make({12}), make({12}), make({2, 4}), make({2, 4}), make({2, 20})},
         [](Q q, T t) { gru_cell(q, {t[0], t[1], t[2], t[3]}, {t[4], t[5], t[6]}); }},
        {"sgd_step", {make({5}), make({5}), make({5})},
         [](Q q, T t) { sgd_step(q, {.common = {}, .momentum = 0.9}, {t[0]}, {t[1]}, {t[2]}); }},
        {"adam_step", {make({5}), make({5}), make({5}), make({5}), make({})},
         [](Q q, T t) { adam_step(q, {}, {{t[0]}, {t[1]}, {t[2]}, {t[3]}, {}, {t[4]}}); }},
        {"index_select", {make({4, 5}), make({3}, i64), make({3, 5})},
         [](Q q, T t) { index_select(q, t[0], 0, t[1], t[2]); }},
        {"gather", {make({4, 5}), make({4, 2}, i64), make({4, 2})},
         [](Q q, T t) { gather(q, t[0], 1, t[1], t[2]); }},
        {"scatter_reduce", {make({4, 5}), make({4, 2}, i64), make({4, 2})},
         [](Q q, T t) { scatter_reduce(q, t[0], 1, t[1], t[2], IndexReduce::sum); }},
        {"index_reduce", {make({4, 5}), make({3}, i64), make({3, 5})},
         [](Q q, T t) { index_reduce(q, t[0], 0, t[1], t[2], IndexReduce::sum); }},
        {"masked_fill", {make({4, 5}), make({4, 5}, DataType::boolean), make({4, 5})},
         [](Q q, T t) { masked_fill(q, t[0], t[1], t[2]); }},
        {"copy", {make({4, 5}), make({4, 5}, DataType::float64)}, [](Q q, T t) { copy(q, t[0], t[1]); }},
        {"triangle", {make({4, 5}), make({4, 5})}, [](Q q, T t) { triangle(q, t[0], 0, true, t[1]); }},
        {"cumulative", {make({4, 5}), make({4, 5})}, [](Q q, T t) { cumulative(q, t[0], 1, Scan::sum, t[1]); }},
        {"cumulative_extreme", {make({4, 5}), make({4, 5}), make({4, 5}, i64)},
         [](Q q, T t) { cumulative_extreme(q, t[0], 1, true, t[1], t[2]); }},
        {"sparse_mm", {make({4}, i64), make({1}, i64), make({1}), make({1, 2, 3}), make({1, 3, 3})},
         [](Q q, T t) { sparse_mm(q, {t[0], t[1], t[2]}, t[3], {}, t[4]); }},
    };
}

// What a tensor can claim of memory that it does not have.
std::vector<std::pair<std::string, Tensor>> forgeries(const Tensor& t)
{
    std::vector<std::pair<std::string, Tensor>> result;
    const auto add = [&](std::string name, auto&& change) {
        Tensor forged = t;
        change(forged);
        result.emplace_back(std::move(name), std::move(forged));
    };
    add("begins a gibibyte on", [](Tensor& f) { f.offset = 1 << 30; });
    add("begins before its memory", [](Tensor& f) { f.offset = -1 - f.offset; });
    add("begins at the largest number", [](Tensor& f) { f.offset = INT64_MAX; });
    for (std::size_t axis = 0; axis < t.dim(); ++axis) {
        const std::string at = " in axis " + std::to_string(axis);
        if (t.shape[axis] > 1) {
            add("steps 2^40" + at, [&](Tensor& f) { f.strides[axis] = std::int64_t{1} << 40; });
            add("steps back" + at, [&](Tensor& f) { f.strides[axis] = -f.strides[axis]; });
            add("steps the largest number" + at, [&](Tensor& f) { f.strides[axis] = INT64_MAX; });
        }
        add("has a size of -1" + at, [&](Tensor& f) { f.shape[axis] = -1; });
        add("has a size of 2^40" + at, [&](Tensor& f) { f.shape[axis] = std::int64_t{1} << 40; });
        add("has a size of the largest number" + at, [&](Tensor& f) { f.shape[axis] = INT64_MAX; });
    }
    add("has a stride too few", [](Tensor& f) { f.strides.push_back(1); });
    return result;
}

std::vector<std::pair<std::string, Tensor>> others(const Tensor& t)
{
    std::vector<std::pair<std::string, Tensor>> result{{"is undefined", Tensor()}};
    for (const DataType type : {DataType::int64, DataType::uint8, DataType::boolean, DataType::complex64})
        if (type != t.dtype)
            result.emplace_back("is of " + std::string(name_of(type)), make(t.shape, type));
    for (std::size_t axis = 0; axis < t.dim(); ++axis)
        for (const std::int64_t size : {std::int64_t{0}, t.shape[axis] - 1, t.shape[axis] + 1}) {
            Dims shape = t.shape;
            shape[axis] = size;
            result.emplace_back("has " + std::to_string(size) + " in axis " + std::to_string(axis),
                                make(shape, t.dtype));
        }
    Dims more{1};
    for (const std::int64_t size : t.shape)
        more.push_back(size);
    result.emplace_back("has an axis more", make(more, t.dtype));
    if (t.dim() > 0)
        result.emplace_back("has an axis less", make(Dims(std::span(t.shape.data(), t.dim() - 1)), t.dtype));
    return result;
}

class ForgedOperandsTest : public testing::TestWithParam<std::size_t> {
protected:
    static const Call& call()
    {
        static const std::vector<Call> all = calls();
        return all.at(GetParam());
    }
};

TEST_P(ForgedOperandsTest, AreRefused)
{
    Queue& queue = Context::get().queue();
    ASSERT_NO_THROW(call().act(queue, call().tensors)) << call().name;
    for (std::size_t i = 0; i < call().tensors.size(); ++i)
        for (const auto& [what, forged] : forgeries(call().tensors[i])) {
            Tensors tensors = call().tensors;
            tensors[i] = forged;
            EXPECT_THROW(call().act(queue, tensors), InvalidArgument)
                << call().name << ": tensor " << i << ' ' << what;
        }
    queue.finish();
}

TEST_P(ForgedOperandsTest, WhatElseIsWrongIsAnErrorOrNoHarm)
{
    Queue& queue = Context::get().queue();
    for (std::size_t i = 0; i < call().tensors.size(); ++i)
        for (const auto& [what, wrong] : others(call().tensors[i])) {
            Tensors tensors = call().tensors;
            tensors[i] = wrong;
            try {
                call().act(queue, tensors);
                queue.finish();
            } catch (const Error& error) {
                EXPECT_STRNE(error.what(), "") << call().name;
            } catch (const std::exception& error) {
                ADD_FAILURE() << call().name << ": tensor " << i << ' ' << what << ": " << error.what();
            }
        }
    EXPECT_NO_THROW(call().act(queue, call().tensors));
    queue.finish();
}

INSTANTIATE_TEST_SUITE_P(Functions, ForgedOperandsTest, testing::Range<std::size_t>(0, 70),
                         [](const auto& one) { return std::to_string(one.param); });

}  // namespace
}  // namespace clprim
