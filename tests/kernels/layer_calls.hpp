// Right calls of networks' layers, for test_forged_operands.cpp.
#pragma once

#include "kernels/forged_operands.hpp"

#include <cstring>

#include <clprim/attention.hpp>
#include <clprim/conv.hpp>
#include <clprim/ctc.hpp>
#include <clprim/deform_conv.hpp>
#include <clprim/grid_sample.hpp>
#include <clprim/integer_add.hpp>
#include <clprim/integer_conv.hpp>
#include <clprim/linear_attention.hpp>
#include <clprim/loss.hpp>
#include <clprim/norm.hpp>
#include <clprim/pad.hpp>
#include <clprim/pointwise.hpp>
#include <clprim/pool.hpp>
#include <clprim/psroi_pool.hpp>
#include <clprim/recurrent.hpp>
#include <clprim/reduce.hpp>
#include <clprim/resample.hpp>
#include <clprim/roi.hpp>
#include <clprim/softmax.hpp>
#include <clprim/unfold.hpp>

namespace clprim::test {

// Of a function that GPUs have no kernel for: refused there, once all operands are found right.
template <class F>
void on_cpus(const Queue& queue, F&& call)
{
    try {
        call();
        EXPECT_EQ(queue.device().kind, DeviceKind::cpu);
    } catch (const InvalidArgument& error) {
        if (queue.device().kind == DeviceKind::cpu || !std::strstr(error.what(), "only on CPU devices"))
            throw;
    }
}

inline std::vector<Call> layer_calls()
{
    [[maybe_unused]] const auto i64 = DataType::int64, i32 = DataType::int32, i8 = DataType::int8;
    using T = const Tensors&;
    using Q = Queue&;
    return {
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
        {"lstm_cell",
         {make({2, 16}), make({2, 16}), make({16}), make({16}), make({2, 4}), make({2, 4}), make({2, 4}),
          make({2, 16})},
         [](Q q, T t) { lstm_cell(q, {t[0], t[1], t[2], t[3]}, {t[4], t[5], t[6], t[7]}); }},
        {"gru_cell", {make({2, 12}), make({2, 12}), make({12}), make({12}), make({2, 4}), make({2, 4}), make({2, 20})},
         [](Q q, T t) { gru_cell(q, {t[0], t[1], t[2], t[3]}, {t[4], t[5], t[6]}); }},
        {"col2im", {make({1, 8, 9}), make({1, 2, 4, 4})},
         [](Q q, T t) { col2im(q, t[0], t[1], {.kernel = {2, 2}}); }},
        {"pad_backward", {make({1, 2, 9}), make({1, 2, 6})},
         [](Q q, T t) { pad_backward(q, t[0], t[1], {.before = {2, 0, 0}, .mode = PadMode::replicate}); }},
        {"group_norm_backward",
         {make({2, 4, 3}), make({2, 4, 3}), make({4}), make({2, 2}), make({2, 2}), make({2, 4, 3}), make({4}),
          make({4})},
         [](Q q, T t) { group_norm_backward(q, {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], 2}); }},
        {"fractional_max_pool", {make({1, 2, 6, 6}), make({1, 2, 2}, DataType::float32, 0.5), make({1, 2, 3, 3}),
          make({1, 2, 3, 3}, i64)},
         [](Q q, T t) { fractional_max_pool(q, t[0], t[1], {1, 2, 2}, t[2], t[3]); }},
        {"fractional_max_pool_backward", {make({1, 2, 3, 3}), make({1, 2, 3, 3}, i64), make({1, 2, 6, 6})},
         [](Q q, T t) { fractional_max_pool_backward(q, t[0], t[1], t[2]); }},
        {"resample_axis", {make({2, 4}), make({2, 8})},
         [](Q q, T t) {
             resample_axis(q, t[0], t[1], 1, {.taps = 1, .indices = std::vector<std::int32_t>(8, 1),
                                              .weights = std::vector<double>(8, 1)});
         }},
        {"resample_repeat", {make({1, 2, 4, 4}), make({1, 2, 8, 8})},
         [](Q q, T t) { resample_repeat(q, t[0], t[1], 2, 2); }},
        {"deform_psroi_pooling",
         {make({1, 4, 8, 8}), make({3, 5}, DataType::float32, 0), make({3, 2, 1, 1}), make({3, 4, 1, 1}),
          make({3, 4, 1, 1})},
         [](Q q, T t) { deform_psroi_pooling(q, {.output_dim = 4}, t[0], t[1], t[2], t[3], t[4]); }},
        {"deform_psroi_pooling_backward",
         {make({3, 4, 1, 1}), make({1, 4, 8, 8}), make({3, 5}, DataType::float32, 0), make({3, 2, 1, 1}),
          make({3, 4, 1, 1}), make({1, 4, 8, 8}), make({3, 2, 1, 1})},
         [](Q q, T t) {
             deform_psroi_pooling_backward(q, {.output_dim = 4}, t[0], t[1], t[2], t[3], t[4], t[5], t[6]);
         }},
        {"lstm_cell_backward",
         {make({2, 4}), make({2, 4}), make({2, 16}), make({2, 4}), make({2, 4}), make({2, 16}), make({2, 4})},
         [](Q q, T t) { lstm_cell_backward(q, {t[0], {}, t[1], t[2]}, {t[3], t[4], t[5], t[6]}); }},
        {"recurrent_steps of lstm",
         {make({2, 3, 16}), make({3, 4}), make({3, 4}), make({2, 3, 4}), make({3, 4}), make({3, 4}),
          make({2, 3, 16}), make({2, 3, 4}), make({16, 4})},
         [](Q q, T t) {
             const RecurrentSteps steps{.gates = t[0], .hidden_bias = {}, .h = t[1], .c = t[2], .y = t[3],
                                        .last_h = t[4], .last_c = t[5], .saved = t[6], .cells = t[7]};
             on_cpus(q, [&] { recurrent_steps(q, steps, t[8]); });
         }},
        {"recurrent_steps of gru",
         {make({2, 3, 12}), make({12}), make({3, 4}), make({2, 3, 4}), make({3, 4}), make({2, 3, 16}),
          make({12, 4})},
         [](Q q, T t) {
             const RecurrentSteps steps{.cell = RecurrentCell::gru, .gates = t[0], .hidden_bias = t[1], .h = t[2],
                                        .c = {}, .y = t[3], .last_h = t[4], .last_c = {}, .saved = t[5], .cells = {}};
             on_cpus(q, [&] { recurrent_steps(q, steps, t[6]); });
         }},
        {"recurrent_steps_backward of lstm",
         {make({3, 4}), make({3, 4}), make({2, 3, 4}), make({2, 3, 4}), make({2, 3, 16}), make({16, 4}),
          make({2, 3, 4}), make({2, 3, 4}), make({2, 3, 4}), make({2, 3, 16})},
         [](Q q, T t) {
             const RecurrentSteps steps{.gates = {}, .hidden_bias = {}, .h = t[0], .c = t[1], .y = t[2],
                                        .last_h = {}, .last_c = {}, .saved = t[4], .cells = t[3]};
             on_cpus(q, [&] { recurrent_steps_backward(q, steps, t[5], {t[6], t[7], t[8], t[9], {}}); });
         }},
        {"recurrent_steps_backward of gru",
         {make({3, 4}), make({2, 3, 4}), make({2, 3, 16}), make({12, 4}), make({2, 3, 4}), make({2, 3, 4}),
          make({2, 3, 12}), make({2, 3, 12})},
         [](Q q, T t) {
             const RecurrentSteps steps{.cell = RecurrentCell::gru, .gates = {}, .hidden_bias = {}, .h = t[0],
                                        .c = {}, .y = t[1], .last_h = {}, .last_c = {}, .saved = t[2],
                                        .cells = {}};
             on_cpus(q, [&] { recurrent_steps_backward(q, steps, t[3], {t[4], t[5], {}, t[6], t[7]}); });
         }},
        {"gru_cell_backward",
         {make({2, 20}), make({2, 4}), make({2, 12}), make({2, 12}), make({2, 4})},
         [](Q q, T t) { gru_cell_backward(q, t[0], {t[1], t[2], t[3], t[4]}); }},
        {"ctc_loss", {make({5, 1, 4}), make({1, 2}, i64), make({1}), make({1, 5, 5})},
         [](Q q, T t) {
             static const std::int64_t inputs[] = {5}, targets[] = {2};
             ctc_loss(q, {t[0], t[1], inputs, targets}, t[2], t[3]);
         }},
        {"integer_add", {make({8}, i8), make({8}, i8), make({8}, i8), make({}), make({}, i8)},
         [](Q q, T t) {
             integer_add(q, {t[0], t[3], t[4]}, {t[1], t[3], t[4]}, {t[2], t[3], t[4]}, -128, 127);
         }},
        {"ctc_loss_backward",
         {make({5, 1, 4}), make({1, 2}, i64), make({1}), make({1, 5, 5}), make({1}), make({5, 1, 4})},
         [](Q q, T t) {
             static const std::int64_t inputs[] = {5}, targets[] = {2};
             ctc_loss_backward(q, {.forward = {t[0], t[1], inputs, targets}, .loss = t[2], .alpha = t[3],
                                   .grad_loss = t[4], .grad_log_probs = t[5]});
         }},
        {"fold_batch_norm",
         {make({4, 2, 3, 3}), make({4}), make({4}), make({4}), make({4}), make({4}), make({4, 2, 3, 3}), make({4})},
         [](Q q, T t) {
             fold_batch_norm(q, {.weight = t[0], .bias = t[1], .gamma = t[2], .beta = t[3], .mean = t[4],
                                 .variance = t[5], .scaled = t[6], .shifted = t[7]});
         }},
        {"pointwise rows", {make({4, 5}), make({4, 5}), make({4, 5})},
         [](Q q, T t) {
             const Input inputs[] = {t[0], t[1]};
             const Tensor outputs[] = {t[2]};
             pointwise(q, pointwise_row("mul"), {inputs, outputs, {}, DataType::float32});
         }},
        {"pointwise lgamma", {make({4, 5}), make({4, 5})},
         [](Q q, T t) {
             const Input inputs[] = {t[0]};
             const Tensor outputs[] = {t[1]};
             pointwise(q, pointwise_row("lgamma"), {inputs, outputs, {}, DataType::float32});
         }},
        {"pointwise code", {make({4, 5}), make({4, 5})},
         [](Q q, T t) { pointwise(q, {t[0]}, {t[1]}, {}, "y0 = x0 + 1;"); }},
        {"reduce rows", {make({4, 5}), make({4, 1})},
         [](Q q, T t) {
             const Input inputs[] = {t[0]};
             const Tensor outputs[] = {t[1]};
             reduce(q, reduce_row("sum"), {inputs, outputs, {}, DataType::float32});
         }},
    };
}

}  // namespace clprim::test
