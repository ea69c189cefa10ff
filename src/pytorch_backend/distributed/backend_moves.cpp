// Collectives that move bytes and compute nothing; those in which every rank sends to every other are in
// backend_exchanges.cpp.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <distributed/backend.hpp>
#include <distributed/tensors.hpp>

namespace torch_ocl::distributed {
namespace {

using Tensors = std::vector<at::Tensor>;

template <class Slices>
void cut(Collective& collective, const at::Tensor& tensor, std::int64_t pieces, Slices slices)
{
    const std::int64_t step = chunk_elements(tensor.element_size(), pieces), count = tensor.numel();
    for (std::int64_t at = 0; at < count; at += step)
        collective.chunks.push_back(slices(at, std::min(step, count - at)));
}

Tensors slices_of(const Tensors& tensors, std::int64_t at, std::int64_t count)
{
    Tensors slices;
    for (const at::Tensor& tensor : tensors)
        slices.push_back(tensor.narrow(0, at, count));
    return slices;
}

}  // namespace

Backend::Pending Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options)
{
    const Call call{c10d::OpType::BROADCAST, "broadcast", options.timeout, tensors, waits(options)};
    check_one(call, "tensor", tensors);
    const int root = static_cast<int>(options.rootRank);
    require(call, root >= 0 && root < size_, c10::str("its source is rank ", root, " of ", size_));
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Moves moves;
    const bool mine = root == rank_;
    const at::Tensor flat = mine ? flat_source(tensors[0]) : flat_target(tensors[0], moves);
    Collective what;
    what.intent.exact = c10::str("broadcast of ", counted(flat), " from rank ", root);
    what.direct = true;
    cut(what, flat, 1, [&](std::int64_t at, std::int64_t n) {
        const Tensors slice{flat.narrow(0, at, n)};
        return mine ? Chunk{slice, {}} : Chunk{{}, slice};
    });
    what.post = [root, mine](c10d::Backend& inner, at::Tensor& in, at::Tensor& out, Milliseconds timeout) {
        c10d::BroadcastOptions options;
        options.rootRank = root;
        options.timeout = timeout;
        Tensors list{(mine ? in : out).view(at::kByte)};
        return inner.broadcast(list, options);
    };
    what.finish_on_device = finish(std::move(moves));
    return run(call, std::move(what), tensors, {flat});
}

Backend::Pending Backend::gather_flat(const Call& call, Tensors outputs, const at::Tensor& input, Tensors results)
{
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Moves moves;
    for (at::Tensor& output : outputs)
        output = flat_target(output, moves);
    const at::Tensor source = flat_source(input);
    Collective what;
    what.intent.exact = c10::str("all_gather of ", counted(input));
    what.direct = true;
    cut(what, source, size_, [&](std::int64_t at, std::int64_t n) {
        return Chunk{{source.narrow(0, at, n)}, slices_of(outputs, at, n)};
    });
    what.post = [](c10d::Backend& inner, at::Tensor& in, at::Tensor& out, Milliseconds timeout) {
        c10d::AllgatherOptions options;
        options.timeout = timeout;
        at::Tensor from = in.view(at::kByte), to = out.view(at::kByte);
        return inner._allgather_base(to, from, options);
    };
    what.finish_on_device = finish(std::move(moves));
    return run(call, std::move(what), std::move(results), all_of(outputs, source));
}

Backend::Pending Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options)
{
    const Call call{c10d::OpType::ALLGATHER, "all_gather", options.timeout, inputs, waits(options)};
    check_one(call, "tensor", inputs);
    require(call, outputs.size() == 1, "tensor_list must be one list of tensors");
    check(call, "tensor_list", outputs[0]);
    require(call, static_cast<int>(outputs[0].size()) == size_,
            c10::str("tensor_list has ", outputs[0].size(), " tensors, expected one for each of ", size_, " ranks"));
    common_dtype(call, all_of(outputs[0], inputs[0]));
    require(call, outputs[0][rank_].numel() == inputs[0].numel(),
            c10::str("tensor is ", described(inputs[0]), ", but tensor_list[", rank_, "] ",
                     described(outputs[0][rank_])));
    if (of_one_size(outputs[0]))
        return gather_flat(call, outputs[0], inputs[0], outputs[0]);
    // Parts of different sizes: one broadcast from each rank.
    std::vector<Pending> parts;
    for (int rank = 0; rank < size_; ++rank) {
        c10d::BroadcastOptions one;
        one.rootRank = rank;
        one.timeout = options.timeout;
        if (rank == rank_)
            outputs[0][rank].copy_(inputs[0].view_as(outputs[0][rank]));
        Tensors list{outputs[0][rank]};
        parts.push_back(broadcast(list, one));
    }
    return together(call, std::move(parts));
}

Backend::Pending Backend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options)
{
    const Call call{c10d::OpType::_ALLGATHER_BASE, "all_gather_into_tensor", options.timeout, input, waits(options)};
    check(call, "output_tensor", {output});
    check(call, "input_tensor", {input});
    common_dtype(call, {output, input});
    require(call, output.numel() == input.numel() * size_,
            c10::str("output_tensor is ", described(output), ", expected ", size_,
                     " times the elements of input_tensor, ", described(input)));
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    if (output.is_contiguous()) {
        const at::Tensor flat = output.detach().view({-1});
        Tensors outputs;
        for (int rank = 0; rank < size_; ++rank)
            outputs.push_back(flat.narrow(0, rank * input.numel(), input.numel()));
        return gather_flat(call, std::move(outputs), input, {output});
    }
    at::Tensor beside = at::empty(output.sizes(), output.options());
    auto work = _allgather_base(beside, input, options);
    work->wait();
    output.copy_(beside);
    return work;
}

Backend::Pending Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options)
{
    const Call call{c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced", options.timeout};
    // Outputs come as one list for each rank.
    require(call, static_cast<int>(outputs.size()) == size_,
            c10::str("expected one list of outputs for each of ", size_, " ranks"));
    std::vector<Pending> parts;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        std::vector<Tensors> one(1);
        for (const Tensors& of_rank : outputs) {
            require(call, of_rank.size() == inputs.size(), "there must be as many outputs of each rank as inputs");
            one[0].push_back(of_rank[i]);
        }
        Tensors input{inputs[i]};
        parts.push_back(allgather(one, input, options));
    }
    return together(call, std::move(parts));
}

Backend::Pending Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options)
{
    const Call call{gathers_coalesced, "all_gather_into_tensor_coalesced", options.timeout};
    require(call, outputs.size() == inputs.size(), "there must be as many outputs as inputs");
    std::vector<Pending> parts;
    for (std::size_t i = 0; i < outputs.size(); ++i)
        parts.push_back(_allgather_base(outputs[i], inputs[i], options));
    return together(call, std::move(parts));
}

Backend::Pending Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options)
{
    const Call call{c10d::OpType::GATHER, "gather", options.timeout, inputs};
    check_one(call, "tensor", inputs);
    const int root = static_cast<int>(options.rootRank);
    const bool mine = root == rank_;
    Tensors targets;
    if (mine) {
        require(call, outputs.size() == 1, "gather_list must be one list of tensors on the destination");
        check(call, "gather_list", outputs[0]);
        require(call, static_cast<int>(outputs[0].size()) == size_,
                c10::str("gather_list has ", outputs[0].size(), " tensors, expected one for each of ", size_,
                         " ranks"));
        common_dtype(call, all_of(outputs[0], inputs[0]));
        targets = outputs[0];
        for (const at::Tensor& target : targets)
            require(call, target.numel() == inputs[0].numel(),
                    c10::str("gather_list has ", described(target), ", but tensor is ", described(inputs[0])));
    } else {
        require(call, outputs.empty(), "gather_list is given on a rank that is not the destination");
    }
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Moves moves;
    const Tensors results = targets;
    for (at::Tensor& target : targets)
        target = flat_target(target, moves);
    const at::Tensor source = flat_source(inputs[0]);
    Collective what;
    what.intent.exact = c10::str("gather of ", counted(source), " to rank ", root);
    cut(what, source, size_, [&](std::int64_t at, std::int64_t n) {
        return Chunk{{source.narrow(0, at, n)}, slices_of(targets, at, n)};
    });
    what.post = [root, mine, size = size_](c10d::Backend& inner, at::Tensor& in, at::Tensor& out,
                                           Milliseconds timeout) {
        c10d::GatherOptions options;
        options.rootRank = root;
        options.timeout = timeout;
        std::vector<Tensors> to;
        if (mine)
            to.push_back(out.view(at::kByte).chunk(size));
        Tensors from{in.view(at::kByte)};
        return inner.gather(to, from, options);
    };
    what.finish_on_device = finish(std::move(moves));
    return run(call, std::move(what), results, all_of(targets, source));
}

Backend::Pending Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options)
{
    const Call call{c10d::OpType::SCATTER, "scatter", options.timeout, inputs.empty() ? outputs : inputs[0]};
    check_one(call, "tensor", outputs);
    const int root = static_cast<int>(options.rootRank);
    const bool mine = root == rank_;
    Tensors sources;
    if (mine) {
        require(call, inputs.size() == 1, "scatter_list must be one list of tensors on the source");
        check(call, "scatter_list", inputs[0]);
        require(call, static_cast<int>(inputs[0].size()) == size_,
                c10::str("scatter_list has ", inputs[0].size(), " tensors, expected one for each of ", size_,
                         " ranks"));
        common_dtype(call, all_of(inputs[0], outputs[0]));
        sources = inputs[0];
        for (const at::Tensor& source : sources)
            require(call, source.numel() == outputs[0].numel(),
                    c10::str("scatter_list has ", described(source), ", but tensor is ", described(outputs[0])));
    } else {
        require(call, inputs.empty(), "scatter_list is given on a rank that is not the source");
    }
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Moves moves;
    for (at::Tensor& source : sources)
        source = flat_source(source);
    const at::Tensor target = flat_target(outputs[0], moves);
    Collective what;
    what.intent.exact = c10::str("scatter of ", counted(target), " from rank ", root);
    cut(what, target, size_, [&](std::int64_t at, std::int64_t n) {
        return Chunk{slices_of(sources, at, n), {target.narrow(0, at, n)}};
    });
    what.post = [root, mine, size = size_](c10d::Backend& inner, at::Tensor& in, at::Tensor& out,
                                           Milliseconds timeout) {
        c10d::ScatterOptions options;
        options.rootRank = root;
        options.timeout = timeout;
        std::vector<Tensors> from;
        if (mine)
            from.push_back(in.view(at::kByte).chunk(size));
        Tensors to{out.view(at::kByte)};
        return inner.scatter(to, from, options);
    };
    what.finish_on_device = finish(std::move(moves));
    return run(call, std::move(what), outputs, all_of(sources, target));
}

Backend::Pending Backend::barrier(const c10d::BarrierOptions& options)
{
    const Call call{c10d::OpType::BARRIER, "barrier", options.timeout, {}, waits(options)};
    Collective what;   // agreeing on it is what makes every rank wait for every other
    what.intent.exact = "barrier";
    what.at_once = call.at_once && !coalescing();
    auto work = new_work(call, {}, {});
    recorded(call, *work, [&] { runner(call).collective(work, std::move(what), std::nullopt); });
    return kept(work);
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all)
{
    c10d::BarrierOptions passed = options;
    passed.timeout = engine_->or_default(options.timeout);
    engine_->inner()->monitoredBarrier(passed, wait_for_all);
}

Backend::Pending Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options)
{
    const Call call{c10d::OpType::_ALLREDUCE_SPARSE, "all_reduce of a sparse tensor", options.timeout};
    require(call, tensors.size() == 1 && tensors[0].is_sparse() && tensors[0].is_privateuseone(),
            "expected one sparse tensor on an ocl device");
    // Sizes differ between ranks: the engine exchanges them, and indices and values, on the host.
    engine_->check_usable(call.name);
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Tensors host{tensors[0].coalesce().to(at::kCPU)};
    c10d::AllreduceOptions passed = options;
    passed.timeout = engine_->or_default(options.timeout);
    Collective what;
    what.intent.exact = c10::str(call.name, " ", tensors[0].sizes(), " of ", name_of(tensors[0].scalar_type()));
    auto agreed = new_work(call, {}, {});
    Runner& runner = this->runner(call);
    runner.collective(agreed, std::move(what), std::nullopt);
    agreed->wait();
    auto inner = runner.engine().inner()->allreduce(host, passed);
    inner->wait();
    const at::Tensor sum = inner->result().empty() ? host[0] : inner->result()[0];
    tensors[0].copy_(sum.to(tensors[0].device()));
    auto work = new_work(call, tensors, {});
    work->complete(nullptr);
    return kept(work);
}

}  // namespace torch_ocl::distributed
