// com.microsoft's convolutions over packed batches: tokens of all sequences one after the other.
#include <algorithm>

#include <clprim/conv.hpp>
#include <clprim/copy.hpp>

#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

std::vector<std::int64_t> packed_ends(const Call& call, std::size_t input, std::int64_t tokens)
{
    const auto ends = call.ints(input);
    call.check(call.shape(input).size() == 1 && ends.size() >= 1 && ends.front() == 0 && ends.back() == tokens &&
                   std::ranges::is_sorted(ends),
               "input ", input, " must rise from 0 to the ", tokens, " tokens that there are");
    return ends;
}

std::vector<std::int64_t> captured_counts(const Call& call, std::size_t input, std::int64_t capacity,
                                          const std::vector<std::int64_t>& ends)
{
    call.check(capacity >= 0 && capacity <= 8, "state_update_capacity is ", capacity, ", expected 0 to 8");
    call.check(call.has(input) == (capacity > 0), "state_update_capacity is ", capacity, ", capture_count is ",
               call.has(input) ? "there" : "missing");
    if (capacity == 0)
        return {};
    auto counts = call.ints(input);
    call.check(counts.size() + 1 == ends.size(), "capture_count has ", counts.size(), " elements, expected ",
               ends.size() - 1);
    for (std::size_t b = 0; b < counts.size(); ++b)
        counts[b] = std::clamp<std::int64_t>(counts[b], 0, std::min(capacity, ends[b + 1] - ends[b]));
    return counts;
}

namespace {

// Two taps, to which each token adds numbers of its own for groups of channels (inputs 6 and 7). All is rounded where
// PyTorch would do it: coefficients, both products, the older one times its mask, and their sum.
void two_taps(Call& call, const Tensor& source, const Tensor& state, const std::vector<std::int64_t>& ends,
              const Tensor& y)
{
    const std::int64_t tokens = source.size(0), channels = source.size(1),
                       size = call.integer_attribute("group_size", 1),
                       at = call.integer_attribute("delta_offset", 0);
    call.check(call.shape(1)[2] == 2 && call.integer_attribute("dilation", 1) == 1 && !call.has(3) &&
                   call.string_attribute("activation", "none") == "none",
               "kernel_delta is for two taps without dilation, bias and activation");
    call.check(size > 0 && channels % size == 0, "group_size is ", size, " of ", channels, " channels");
    const std::int64_t groups = channels / size;
    const Tensor delta = call.contiguous(6), mask = call.contiguous(7);
    call.check(delta.dim() == 3 && delta.size(0) == tokens && delta.size(2) == groups && at >= 0 &&
                   at < delta.size(1) - 1,
               "kernel_delta has shape ", to_string(delta.shape), ", expected ",
               to_string(Dims{tokens, std::max(at, std::int64_t{0}) + 2, groups}), " or more taps");
    call.check(mask.shape == Dims{tokens, 1}, "previous_mask has shape ", to_string(mask.shape), ", expected ",
               to_string(Dims{tokens, 1}));
    if (tokens == 0)
        return;
    const Tensor before = call.allocate(source.shape, source.dtype);
    copy(call.queue(), source.slice(0, 0, tokens - 1), before.slice(0, 1, tokens));
    for (std::size_t b = 0; b + 1 < ends.size(); ++b)
        if (ends[b] < ends[b + 1])
            copy(call.queue(), state.slice(0, static_cast<std::int64_t>(b), static_cast<std::int64_t>(b) + 1)
                                   .reshape({1, channels}),
                 before.slice(0, ends[b], ends[b] + 1));
    const Dims grouped{tokens, groups, size};
    const auto tap = [&](std::int64_t i) {
        Tensor t = call.contiguous(1);
        t.offset += i;
        t.shape = {1, groups, size};
        t.strides = {0, 2 * size, 2};
        return t;
    };
    const Tensor target = y.reshape(grouped);
    const Tensor inputs[] = {source.reshape(grouped), before.reshape(grouped), tap(1), tap(0),
                             delta.slice(1, at, at + 1).transpose(1, 2), delta.slice(1, at + 1, at + 2).transpose(1, 2),
                             mask.reshape({tokens, 1, 1})};
    const std::string round = source.dtype == DataType::float16    ? "round_float16"
                              : source.dtype == DataType::bfloat16 ? "round_bfloat16"
                                                                   : "";
    pointwise(call.queue(), inputs, std::span(&target, 1), {},
              detail::concat("float now = ", round, "(", round, "(x2 + x4) * x0), then = ", round, "(", round, "(",
                             round, "(x3 + x5) * x1) * x6); y0 = now + then;"));
}

// The depthwise convolution of each sequence, whose first tokens see the state that it came with.
void varlen_causal_conv(Call& call)
{
    const bool moving = call.has(6);
    call.check(moving == call.has(7), "kernel_delta and previous_mask must both be there or not");
    const Dims x = call.shape(0), w = call.shape(1);
    const std::int64_t dilation = call.integer_attribute("dilation", 1);
    call.check(x.size() == 2 && w.size() == 3 && w[0] == x[1] && w[1] == 1 && w[2] > 0, "input ", to_string(x),
               " and weight ", to_string(w), " must be [tokens, channels] and [channels, 1, k]");
    call.check(dilation > 0 && dilation < (1 << 20), "dilation is ", dilation);
    const std::string activation = call.string_attribute("activation", "none");
    call.check(activation == "none" || activation == "silu" || activation == "swish", "activation is '", activation,
               "', expected none, silu or swish");
    const auto ends = packed_ends(call, 2, x[0]);
    const auto batch = static_cast<std::int64_t>(ends.size()) - 1;
    const std::int64_t channels = x[1], carried = (w[2] - 1) * dilation;
    const Tensor source = call.contiguous(0), state = call.tensor(4);
    call.check(state.shape == Dims{batch, channels, carried}, "initial_state has shape ", to_string(state.shape),
               ", expected ", to_string(Dims{batch, channels, carried}));
    const std::int64_t capacity = call.integer_attribute("state_update_capacity", 0);
    const auto captured = captured_counts(call, 5, capacity, ends);
    const Tensor y = call.output_tensor(0, x, call.type(0));
    const Tensor last = call.output_tensor(1, state.shape, call.type(0));
    Tensor updates;
    if (call.wants(2)) {
        updates = call.output_tensor(2, {batch, capacity, channels}, call.type(0));
        fill(call.queue(), updates, 0);
    }
    ConvOptions options;
    options.groups = channels;
    options.dilation = {dilation};
    options.pad_begin = options.pad_end = {0};
    for (std::int64_t b = 0; b < batch && x.product() > 0; ++b) {
        const std::int64_t begin = ends[static_cast<std::size_t>(b)], end = ends[static_cast<std::size_t>(b + 1)];
        const auto channels_first = [&](const Tensor& rows) {
            return rows.slice(0, begin, end).reshape({1, end - begin, channels}).transpose(1, 2);
        };
        const Tensor whole = call.allocate({1, channels, carried + end - begin}, source.dtype);
        copy(call.queue(), state.slice(0, b, b + 1), whole.slice(2, 0, carried));
        copy(call.queue(), channels_first(source), whole.slice(2, carried, whole.size(2)));
        copy(call.queue(), whole.slice(2, end - begin, whole.size(2)), last.slice(0, b, b + 1));
        if (end > begin && !moving) {
            const Tensor one = call.allocate({1, channels, end - begin}, source.dtype);
            conv_forward(call.queue(), whole, call.tensor(1), call.has(3) ? call.contiguous(3) : Tensor(), one,
                         options);
            copy(call.queue(), one, channels_first(y));
        }
        if (!updates.defined() || capacity == 0)
            continue;
        const std::int64_t count = captured[static_cast<std::size_t>(b)];
        copy(call.queue(), source.slice(0, begin, begin + count),
             updates.slice(0, b, b + 1).slice(1, 0, count).reshape({count, channels}));
    }
    if (moving)
        two_taps(call, source, state, ends, y);
    if (activation != "none")
        pointwise_output(call, "silu", std::span(&y, 1), y.dtype);
}

const OperatorRow contrib_varlen_rows[] = {
    {"VarlenCausalConvWithState", 1, varlen_causal_conv, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_varlen_operators() { return contrib_varlen_rows; }

}  // namespace clprim::onnx
