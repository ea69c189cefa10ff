// Forward, backward and measuring.
#include <chrono>

#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>

#include "net/graph.hpp"

namespace clprim {
namespace {

void add_to(Queue& queue, const Tensor& total, const Tensor& more)
{
    const Tensor inputs[] = {total, more}, outputs[] = {total};
    pointwise(queue, inputs, outputs, {}, "y0 = x0 + x1;");
}

bool same_memory(const Tensor& a, const Tensor& b) { return a.memory == b.memory && a.offset == b.offset; }

double now_ms()
{
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

void Net::State::forward_step(NetStep& step, Queue& on, std::uint64_t pass_seed)
{
    if (step.skips)
        return;
    with_label([&] { return label(step); }, [&] {
        step.op->forward({on, mode, step.in, step.out, step.params, step.saved, {}, {}, {},
                          pass_seed + static_cast<std::uint64_t>(step.node)});
    });
}

void Net::State::backward_step(NetStep& step, std::uint64_t pass_seed)
{
    if (!step.runs_backward)
        return;
    if (step.skips && same_memory(step.in_gradients[0], step.out_gradients[0]))
        return;
    // Operators overwrite; what is added to something goes to a tensor of its own first.
    std::vector<Tensor> in = step.in_gradients, params(step.params.size());
    std::vector<std::pair<Tensor, Tensor>> sums;
    const auto apart = [&](Tensor& target) {
        const Tensor total = target;
        target = queue->context().empty(total.shape, total.dtype, *queue);
        sums.emplace_back(total, target);
    };
    for (std::size_t k = 0; k < in.size(); ++k)
        if (step.adds[k] && in[k].defined())
            apart(in[k]);
    for (std::size_t k = 0; k < params.size() && !step.frozen; ++k) {
        NetParameter& parameter = parameters[step.parameters[k]];
        if (!parameter.trained)
            continue;
        params[k] = parameter.gradient;
        if (!parameter.fresh)
            apart(params[k]);
        parameter.fresh = false;
    }
    with_label([&] { return label(step); }, [&] {
        step.op->backward({*queue, mode, step.in, step.out, step.params, step.saved, step.out_gradients, in, params,
                           pass_seed + static_cast<std::uint64_t>(step.node)});
    });
    for (const auto& [total, more] : sums)
        add_to(*queue, total, more);
}

void Net::forward()
{
    State& s = alive(state_);
    if (!s.planned)
        s.plan();
    if (s.parameters_changed)
        s.fold_parameters();
    s.parameters_changed = false;
    ++s.passes;
    s.forward_steps();
    s.forward_done = true;
}

namespace {

template <class State>
void start_backward(State& s)
{
    require(s.mode == NetMode::train, "backward: the net is in predict mode");
    require(s.planned && s.forward_done, "backward: forward comes first");
    for (const auto& [name, weight] : s.loss_weights) {
        const NetValue& value = s.values[s.value(name)];
        if (value.has_gradient && weight != 0)
            fill(*s.queue, value.gradient, weight);
    }
}

}  // namespace

void Net::backward()
{
    State& s = alive(state_);
    start_backward(s);
    const std::uint64_t seed = s.pass_seed();
    for (auto step = s.steps.rbegin(); step != s.steps.rend(); ++step)
        s.backward_step(*step, seed);
    s.forward_done = false;   // memory that forward left has been reused
}

void Net::zero_grad()
{
    for (NetParameter& parameter : alive(state_).parameters)
        parameter.fresh = true;
}

std::vector<OperatorTime> Net::profile()
{
    State& s = alive(state_);
    if (!s.planned)
        s.plan();
    if (s.parameters_changed)
        s.fold_parameters();
    s.parameters_changed = false;
    ++s.passes;
    const std::uint64_t seed = s.pass_seed();
    std::vector<OperatorTime> times;
    const auto measured = [&](const auto& f) {
        s.queue->finish();
        const double start = now_ms();
        f();
        s.queue->finish();
        return now_ms() - start;
    };
    for (NetStep& step : s.steps) {
        OperatorTime time{s.nodes[step.node].name, std::string(step.op->type())};
        time.forward_ms = measured([&] { s.forward_step(step, *s.queue, seed); });
        times.push_back(time);
    }
    s.forward_done = true;
    if (s.mode == NetMode::train) {
        start_backward(s);
        for (std::size_t i = s.steps.size(); i-- > 0;)
            times[i].backward_ms = measured([&] { s.backward_step(s.steps[i], seed); });
        s.forward_done = false;
    }
    return times;
}

}  // namespace clprim
