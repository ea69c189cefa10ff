// Fusion in predict mode: from the last step to the first, each takes in the only reader of its result where it can.
#include <algorithm>

#include "net/graph.hpp"

namespace clprim {

// y = act(step(x) + other): the step takes the place of the sum, since `other` may be computed after it.
void Net::State::add_residual(NetStep& step, NetStep& sum, Activation activation)
{
    const int result = step.outputs[0], other = sum.inputs[sum.inputs[0] == result ? 1 : 0];
    const TensorSpec &y = values[result].spec, &x = values[other].spec;
    if (x.shape != y.shape || x.dtype != y.dtype)
        return;
    std::unique_ptr<Operator> fused = dynamic_cast<const Fusible*>(step.op)->with_residual(activation);
    if (!fused)
        return;
    NetStep merged = std::move(step);
    merged.inputs.push_back(other);
    merged.outputs = sum.outputs;
    const TensorSpec specs[] = {values[merged.inputs[0]].spec, x};
    fused->outputs(specs);
    merged.fused = std::move(fused);
    merged.op = merged.fused.get();
    sum = std::move(merged);
    step.op = nullptr;
}

void Net::State::fuse()
{
    std::vector<int> readers(values.size());
    for (const NetStep& step : steps)
        for (const int v : step.inputs)
            ++readers[v];

    const auto reader_of = [&](int v, std::size_t after) {
        for (std::size_t i = after; i < steps.size(); ++i)
            if (steps[i].op && std::ranges::find(steps[i].inputs, v) != steps[i].inputs.end())
                return i;
        return steps.size();
    };
    for (std::size_t i = steps.size(); i-- > 0;) {
        NetStep& step = steps[i];
        for (;;) {
            const auto* fusible = dynamic_cast<const Fusible*>(step.op);
            if (!fusible || step.outputs.size() != 1 || readers[step.outputs[0]] != 1 || is_output(step.outputs[0]))
                break;
            const std::size_t next = reader_of(step.outputs[0], i + 1);
            if (next == steps.size())
                break;
            NetStep& reader = steps[next];
            const auto* what = dynamic_cast<const Fusible*>(reader.op);
            if (!what || reader.outputs.size() != 1)
                break;
            std::unique_ptr<Operator> fused;
            if (const auto activation = what->as_residual_sum()) {
                add_residual(step, reader, *activation);
                break;   // it stands where the sum stood
            }
            if (what->is_scale_shift() && !step.fold.base && (fused = fusible->with_scale_shift()))
                step.fold = {fusible, what, step.parameters, reader.parameters};
            else if (const auto activation = what->as_activation())
                fused = fusible->with_activation(*activation);
            else if (const auto function = what->as_function())
                fused = fusible->with_function(*function);
            if (!fused)
                break;
            std::vector<TensorSpec> specs;
            for (const int v : step.inputs)
                specs.push_back(values[v].spec);
            fused->outputs(specs);   // settles what depends on shapes
            if (what->is_scale_shift())
                for (const TensorSpec& spec : fused->parameters(specs))
                    step.params.push_back(queue->context().empty(spec.shape, spec.dtype, *queue));
            // The node's own operator stays with the node; fold.base points to it.
            step.fused = std::move(fused);
            step.op = step.fused.get();
            step.outputs = reader.outputs;
            reader.op = nullptr;
        }
    }
    std::erase_if(steps, [](const NetStep& step) { return step.op == nullptr; });
}

void Net::State::fold_parameters()
{
    for (NetStep& step : steps) {
        const NetFold& fold = step.fold;
        if (!fold.base)
            continue;
        const auto tensors = [&](const std::vector<int>& ids) {
            std::vector<Tensor> list;
            for (const int p : ids)
                list.push_back(parameters[p].data);
            return list;
        };
        const std::vector<Tensor> normal = tensors(fold.scale_shift_parameters);
        const Tensor scale = queue->context().empty(normal[0].shape, normal[0].dtype, *queue);
        const Tensor shift = queue->context().empty(normal[0].shape, normal[0].dtype, *queue);
        fold.scale_shift->scale_shift(*queue, normal, scale, shift);
        fold.base->fold(*queue, tensors(fold.base_parameters), scale, shift, step.params);
    }
}

}  // namespace clprim
