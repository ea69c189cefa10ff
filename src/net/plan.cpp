// From nodes to steps with tensors: shapes, gradients, and who lives where in memory for how long.
//
// Time runs from 0 to n - 1 through the forward steps and, in train mode, from n to 2 n - 1 through the same steps
// backward. A storage lives from its first write to its last read.
#include <algorithm>
#include <limits>
#include <numeric>

#include "net/graph.hpp"
#include "core/memory_plan.hpp"

namespace clprim {

void Net::State::infer_shapes()
{
    for (NetNode& node : nodes) {
        const auto label = [&] { return detail::concat("operator \"", node.name, "\" (", node.op->type(), ")"); };
        with_label(label, [&] {
            std::vector<TensorSpec> specs;
            for (const int input : node.inputs)
                specs.push_back(values[input].spec);
            const std::vector<TensorSpec> results = node.op->outputs(specs);
            for (std::size_t i = 0; i < results.size(); ++i)
                values[node.outputs[i]].spec = checked(results[i], "output \"" + values[node.outputs[i]].name + "\"");
            const std::vector<TensorSpec> wanted = node.op->parameters(specs);
            for (std::size_t i = 0; i < wanted.size(); ++i)
                require(parameters[node.parameters[i]].spec == wanted[i], "parameter \"",
                        parameters[node.parameters[i]].name, "\" has shape ",
                        to_string(parameters[node.parameters[i]].spec.shape), ", but these inputs need ",
                        to_string(wanted[i].shape));
        });
    }
}

void Net::State::allocate_parameters()
{
    for (NetParameter& p : parameters) {
        if (!p.data.defined())
            p.data = queue->context().empty(p.spec.shape, p.spec.dtype, *queue);
        if (p.trained && mode == NetMode::train && !p.gradient.defined())
            p.gradient = queue->context().empty(p.spec.shape, p.spec.dtype, *queue);
    }
}

void Net::State::make_steps()
{
    steps.clear();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const NetNode& node = nodes[i];
        NetStep step;
        step.op = node.op.get();
        step.node = static_cast<int>(i);
        step.frozen = node.frozen;
        step.inputs = node.inputs;
        step.outputs = node.outputs;
        step.parameters = node.parameters;
        steps.push_back(std::move(step));
    }
    if (mode == NetMode::predict && fusion && !keep_intermediates)
        fuse();
}

// Which values and steps have gradients: those between something trained and a loss.
void Net::State::plan_gradients()
{
    std::vector<bool> wanted(values.size()), reaches(values.size());
    for (std::size_t v = 0; v < values.size(); ++v)
        wanted[v] = values[v].requires_gradient;
    const auto wants = [&](const NetStep& step) {
        return step.op->traits().differentiable &&
               (std::ranges::any_of(step.inputs, [&](int v) { return wanted[v]; }) ||
                (!step.frozen && std::ranges::any_of(step.parameters, [&](int p) { return parameters[p].trained; })));
    };
    for (const NetStep& step : steps)
        if (wants(step))
            for (const int v : step.outputs)
                wanted[v] = is_floating_point(values[v].spec.dtype);
    for (const auto& [name, weight] : loss_weights)
        reaches[value(name)] = true;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
        if (step->op->traits().differentiable && std::ranges::any_of(step->outputs, [&](int v) { return reaches[v]; }))
            for (const int v : step->inputs)
                reaches[v] = true;
    for (std::size_t v = 0; v < values.size(); ++v)
        values[v].has_gradient = mode == NetMode::train && wanted[v] && reaches[v] &&
                                 is_floating_point(values[v].spec.dtype);
    for (NetStep& step : steps)
        step.runs_backward =
            wants(step) && std::ranges::any_of(step.outputs, [&](int v) { return values[v].has_gradient; });
}

namespace {

// A storage and its life; values that share memory share a storage.
struct Storage {
    std::size_t bytes = 0;
    int first = std::numeric_limits<int>::max(), last = -1;
    std::string own{};   // the name under which it keeps memory of its own; empty: it takes turns

    void use(int time) { first = std::min(first, time), last = std::max(last, time); }
};

std::size_t bytes_of(const TensorSpec& spec)
{
    return static_cast<std::size_t>(spec.shape.product()) * size_of(spec.dtype);
}

Tensor place(const Memory& memory, std::size_t offset, const TensorSpec& spec)
{
    return {memory, static_cast<std::int64_t>(offset / size_of(spec.dtype)), spec.dtype, spec.shape,
            contiguous_strides(spec.shape)};
}

class Planner {
public:
    Planner(std::vector<NetValue>& values, std::vector<NetStep>& steps, bool train)
        : values_(values), steps_(steps), train_(train), count_(static_cast<int>(steps.size())),
          data_(values.size(), -1), gradient_(values.size(), -1)
    {
    }

    std::vector<Storage> storages;

    void plan_data(const std::vector<bool>& keeps);
    void plan_saved(const std::vector<std::vector<TensorSpec>>& saved);
    void plan_gradients(const std::vector<bool>& keeps, const std::vector<bool>& seeded);
    int data(int value) const { return data_[value]; }
    int gradient(int value) const { return gradient_[value]; }
    int saved(std::size_t step, std::size_t i) const { return saved_[step][i]; }

private:
    int backward_time(int step) const { return 2 * count_ - 1 - step; }
    int add(std::size_t bytes)
    {
        storages.push_back({bytes});
        return static_cast<int>(storages.size()) - 1;
    }
    static bool same(const TensorSpec& a, const TensorSpec& b) { return a.shape == b.shape && a.dtype == b.dtype; }

    std::vector<NetValue>& values_;
    std::vector<NetStep>& steps_;
    bool train_;
    int count_;
    std::vector<int> data_, gradient_;
    std::vector<std::vector<int>> saved_;
};

void Planner::plan_data(const std::vector<bool>& keeps)
{
    // The last time at which each value is read, with that of its views.
    std::vector<int> last(values_.size(), -1), view_of(values_.size(), -1);
    for (int i = 0; i < count_; ++i) {
        const NetStep& step = steps_[i];
        const OperatorTraits traits = step.op->traits();
        for (const int v : step.inputs)
            last[v] = std::max(last[v], step.runs_backward && traits.backward_reads_inputs ? backward_time(i) : i);
        for (const int v : step.outputs)
            last[v] = std::max(last[v], step.runs_backward && traits.backward_reads_outputs ? backward_time(i) : i);
        if (traits.alias)
            view_of[step.outputs[0]] = step.inputs[0];
    }
    std::vector<bool> kept = keeps;
    for (int v = static_cast<int>(values_.size()) - 1; v >= 0; --v)
        if (view_of[v] >= 0) {
            last[view_of[v]] = std::max(last[view_of[v]], last[v]);
            kept[view_of[v]] = kept[view_of[v]] || kept[v];
        }

    const auto start = [&](int v, int time) {
        data_[v] = add(bytes_of(values_[v].spec));
        storages[data_[v]].use(time);
    };
    for (std::size_t v = 0; v < values_.size(); ++v)
        if (values_[v].producer < 0)
            start(static_cast<int>(v), 0);
    for (int i = 0; i < count_; ++i) {
        const NetStep& step = steps_[i];
        const OperatorTraits traits = step.op->traits();
        for (std::size_t o = 0; o < step.outputs.size(); ++o) {
            const int v = step.outputs[o], x = step.inputs.empty() ? -1 : step.inputs[traits.in_place_of];
            // The input's memory is free for the output if nobody reads it later, nor now through another input.
            const bool in_place = o == 0 && traits.in_place && x >= 0 && last[x] == i && !kept[x] &&
                                  same(values_[x].spec, values_[v].spec) && storages[data_[x]].own.empty() &&
                                  values_[x].producer >= 0 &&
                                  std::ranges::count_if(step.inputs, [&](int k) { return data_[k] == data_[x]; }) == 1;
            if ((traits.alias && o == 0) || in_place)
                data_[v] = data_[x];
            else
                start(v, i);
        }
    }
    for (std::size_t v = 0; v < values_.size(); ++v) {
        if (data_[v] < 0)
            continue;   // fused away
        storages[data_[v]].use(std::max(last[v], 0));
        if (kept[v] && storages[data_[v]].own.empty())
            storages[data_[v]].own = values_[v].producer < 0 ? "input " + values_[v].name
                                                             : detail::concat("value ", v, " ", values_[v].name);
    }
}

void Planner::plan_saved(const std::vector<std::vector<TensorSpec>>& saved)
{
    for (int i = 0; i < count_; ++i) {
        saved_.emplace_back();
        for (const TensorSpec& spec : saved[i]) {
            saved_[i].push_back(add(bytes_of(spec)));
            storages.back().use(i);
            if (steps_[i].runs_backward)
                storages.back().use(backward_time(i));
        }
    }
}

void Planner::plan_gradients(const std::vector<bool>& keeps, const std::vector<bool>& seeded)
{
    if (!train_)
        return;
    std::vector<int> writers(values_.size());
    for (const NetStep& step : steps_)
        for (const int v : step.inputs)
            writers[v] += step.runs_backward && values_[v].has_gradient;
    std::vector<bool> written = seeded;
    const auto start = [&](int v, int time) {
        if (gradient_[v] < 0)
            gradient_[v] = add(bytes_of(values_[v].spec));
        storages[gradient_[v]].use(time);
    };
    for (std::size_t v = 0; v < values_.size(); ++v)
        if (values_[v].has_gradient && seeded[v])
            start(static_cast<int>(v), count_);
    for (int i = count_ - 1; i >= 0; --i) {
        NetStep& step = steps_[i];
        step.adds.assign(step.inputs.size(), false);
        if (!step.runs_backward)
            continue;
        for (const int v : step.outputs)
            if (values_[v].has_gradient)
                start(v, backward_time(i));
        const OperatorTraits traits = step.op->traits();
        for (std::size_t k = 0; k < step.inputs.size(); ++k) {
            const int v = step.inputs[k], y = step.outputs[0];
            if (!values_[v].has_gradient)
                continue;
            // The gradient of the result turns into that of the input where nobody else needs either.
            const bool own = keeps[v] || keeps[y] || seeded[v] || seeded[y];
            const bool one_to_one = step.inputs.size() == 1 && step.outputs.size() == 1 && writers[v] == 1;
            const bool in_place = traits.in_place && step.parameters.empty() && same(values_[v].spec, values_[y].spec);
            if (one_to_one && !own && (traits.alias || in_place) && values_[y].has_gradient)
                gradient_[v] = gradient_[y];
            step.adds[k] = written[v];
            written[v] = true;
            start(v, backward_time(i));
        }
    }
    for (std::size_t v = 0; v < values_.size(); ++v)
        if (gradient_[v] >= 0 && keeps[v])
            storages[gradient_[v]].own = detail::concat("gradient ", v, " ", values_[v].name);
}

}  // namespace

void Net::State::plan()
{
    planned = forward_done = false;
    infer_shapes();
    allocate_parameters();
    make_steps();
    plan_gradients();

    const bool train = mode == NetMode::train;
    std::vector<bool> keeps(values.size()), keeps_gradient(values.size()), seeded(values.size());
    for (std::size_t v = 0; v < values.size(); ++v) {
        const bool output = is_output(static_cast<int>(v));
        keeps[v] = keep_intermediates || output || values[v].producer < 0;
        seeded[v] = values[v].has_gradient && value_of.at(values[v].name) == static_cast<int>(v) &&
                    loss_weights.contains(values[v].name);
        keeps_gradient[v] = keep_intermediates || output || values[v].requires_gradient;
        values[v].keeps = keeps[v];
        values[v].keeps_gradient = keeps_gradient[v];
        values[v].data = values[v].gradient = Tensor();
    }
    std::vector<std::vector<TensorSpec>> saved(steps.size());
    for (std::size_t i = 0; train && i < steps.size(); ++i) {
        std::vector<TensorSpec> specs;
        for (const int v : steps[i].inputs)
            specs.push_back(values[v].spec);
        saved[i] = steps[i].op->saved(specs);
    }
    Planner planner(values, steps, train);
    planner.plan_data(keeps);
    planner.plan_saved(saved);
    planner.plan_gradients(keeps_gradient, seeded);

    // Memory: arenas grow and never shrink; what keeps its own memory keeps it while it is large enough.
    memory = {};
    Context& context = queue->context();
    std::vector<MemoryRequest> requests;
    std::vector<int> request_of(planner.storages.size(), -1);
    std::vector<Memory> own(planner.storages.size());
    std::unordered_map<std::string, Memory> kept_memory;
    for (std::size_t k = 0; k < planner.storages.size(); ++k) {
        const Storage& storage = planner.storages[k];
        if (storage.own.empty()) {
            request_of[k] = static_cast<int>(requests.size());
            requests.push_back({storage.bytes, storage.first, storage.last});
            memory.without_reuse += storage.bytes;
            continue;
        }
        Memory& block = own_memory[storage.own];
        if (!block || block->requested < storage.bytes || storage.bytes == 0) {
            block.reset();
            block = context.allocate(storage.bytes, *queue);
        }
        kept_memory[storage.own] = own[k] = block;
        memory.own += block->size;
    }
    own_memory = std::move(kept_memory);
    const MemoryPlan layout = plan_memory(requests, std::max<std::size_t>(context.device().max_allocation, 1));
    arenas.resize(std::max(arenas.size(), layout.arenas.size()));
    for (std::size_t a = 0; a < layout.arenas.size(); ++a) {
        if (!arenas[a] || arenas[a]->requested < layout.arenas[a]) {
            arenas[a].reset();   // before its successor, so that both need not fit
            arenas[a] = context.allocate(layout.arenas[a], *queue);
        }
        memory.intermediates += arenas[a]->size;
    }
    for (const NetParameter& p : parameters)
        memory.parameters += p.data.nbytes() + (p.gradient.defined() ? p.gradient.nbytes() : 0);

    const auto tensor_at = [&](int storage, const TensorSpec& spec) {
        if (request_of[storage] < 0)
            return place(own[storage], 0, spec);
        const MemoryPlace& where = layout.places[request_of[storage]];
        return place(arenas[where.arena], where.offset, spec);
    };
    for (std::size_t v = 0; v < values.size(); ++v) {
        if (planner.data(static_cast<int>(v)) >= 0)
            values[v].data = tensor_at(planner.data(static_cast<int>(v)), values[v].spec);
        if (planner.gradient(static_cast<int>(v)) >= 0)
            values[v].gradient = tensor_at(planner.gradient(static_cast<int>(v)), values[v].spec);
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
        NetStep& step = steps[i];
        for (const int v : step.inputs) {
            step.in.push_back(values[v].data);
            step.in_gradients.push_back(step.runs_backward ? values[v].gradient : Tensor());
        }
        for (const int v : step.outputs) {
            step.out.push_back(values[v].data);
            step.out_gradients.push_back(step.runs_backward ? values[v].gradient : Tensor());
        }
        if (step.params.empty())   // fused ones have theirs
            for (const int p : step.parameters)
                step.params.push_back(parameters[p].data);
        for (std::size_t k = 0; k < saved[i].size(); ++k)
            step.saved.push_back(tensor_at(planner.saved(i, k), saved[i][k]));
        step.skips = step.op->traits().alias;
    }
    plan_lanes();
    parameters_changed = true;
    planned = true;
}

}  // namespace clprim
