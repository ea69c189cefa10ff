#include "onnx/ops/small_loops.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/onnx.hpp>

#include "onnx/ops/loop_translation.hpp"

namespace clprim::onnx {

namespace {

// So many iterations are done before somebody looks whether the run was cancelled.
constexpr std::int64_t most_iterations = 65536;

// What a translation depends on.
std::string key_of(const Call& call, const LoopOperands& operands)
{
    std::string key = fmt::format("small loop {}", static_cast<const void*>(operands.body));
    const auto see = [&](const Value& value) {
        key += !value.is_tensor() ? " -"
                                  : fmt::format(" {}{}", static_cast<int>(value.type()), to_string(value.shape()));
    };
    std::ranges::for_each(operands.carried, see);
    for (const auto& [from, to] : operands.body->captures)
        see(call.outer(from));
    for (std::size_t k = 0; k < operands.sequences.size(); ++k)
        key += fmt::format(" {}{}", static_cast<int>(operands.sequences[k].dtype),
                           to_string(Dims(std::span<const std::int64_t>(operands.sequences[k].shape).subspan(1))));
    return key;
}

Tensor contiguous(const Call& call, const Tensor& tensor)
{
    if (tensor.is_contiguous())
        return tensor;
    const Tensor result = call.allocate(tensor.shape, tensor.dtype);
    copy(call.queue(), tensor, result);
    return result;
}

SmallLoopTensors tensors_of(const Call& call, const LoopOperands& operands, const LoopTranslation& translation)
{
    const SmallLoop& loop = translation.program->loop;
    SmallLoopTensors tensors;
    tensors.inputs.resize(loop.values.size());
    const auto input = [&](const Value& value) { return contiguous(call, value.device(call.queue())); };
    for (const auto& [value, slot] : translation.captured)
        tensors.inputs[value] = input(call.outer(slot));
    for (const auto& [value, constant] : translation.constants)
        tensors.inputs[value] = input(constant);
    for (std::size_t k = 0; k < translation.carried.size(); ++k)
        tensors.inputs[translation.carried[k]] = input(operands.carried[k]);
    for (std::size_t k = 0; k < translation.sequences.size(); ++k)
        tensors.inputs[translation.sequences[k]] = operands.sequences[k];
    for (const SmallLoop::Carried& carried : loop.carried)
        tensors.carried.push_back(call.allocate(loop.values[carried.value].shape, loop.values[carried.value].dtype));
    for (const SmallLoop::Scanned& scanned : loop.scanned) {
        Dims shape{operands.iterations};
        for (const std::int64_t size : loop.values[scanned.value].shape)
            shape.push_back(size);
        tensors.scanned.push_back(call.allocate(shape, loop.values[scanned.value].dtype));
    }
    tensors.state = call.allocate({2}, DataType::int64);
    return tensors;
}

void run(const Call& call, const LoopOperands& operands, const LoopTranslation& translation, SmallLoopTensors& tensors)
{
    Queue& queue = call.queue();
    for (std::int64_t done = 0; done < operands.iterations;) {
        const std::int64_t end = std::min(operands.iterations, done + most_iterations);
        run_small_loop(queue, *translation.program, tensors, done, end);
        if (operands.iterations == end && done == 0)
            return;
        std::int64_t state[2] = {};
        queue.read(*tensors.state.memory, 0, state, sizeof state);
        if (!state[1])
            return;
        if (call.engine().is_cancelled())
            throw Cancelled("the run was cancelled within a loop");
        done = end;
        for (std::size_t k = 0; k < translation.carried.size(); ++k)
            tensors.inputs[translation.carried[k]] = tensors.carried[k];
        tensors.condition = {};
    }
}

}  // namespace

std::optional<std::vector<Value>> small_loop(Call& call, const LoopOperands& operands)
{
    if (call.queue().device().kind != DeviceKind::cpu || operands.iterations < 2)
        return std::nullopt;
    const auto translation =
        call.derived(key_of(call, operands), [&] { return translated_loop(call, operands); });
    if (!translation->program)
        return std::nullopt;
    const SmallLoop& loop = translation->program->loop;
    const bool asks = operands.is_loop && !operands.condition.on_host();
    if ((!loop.scanned.empty() && (asks || operands.iterations > most_iterations)) ||
        (operands.is_loop && operands.condition.numel() != 1))
        return std::nullopt;
    SmallLoopTensors tensors = tensors_of(call, operands, *translation);
    if (asks)
        tensors.condition = contiguous(call, operands.condition.device(call.queue()));
    run(call, operands, *translation, tensors);
    std::vector<Value> results;
    for (std::size_t k = 0; k < tensors.carried.size(); ++k)
        results.emplace_back(tensors.carried[k]);
    for (const Tensor& tensor : tensors.scanned)
        results.emplace_back(tensor);
    return results;
}

}  // namespace clprim::onnx
