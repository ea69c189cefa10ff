// Collectives that reduce.
#include <map>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <distributed/backend.hpp>
#include <distributed/reductions.hpp>
#include <distributed/tensors.hpp>

namespace torch_ocl::distributed {
namespace {

template <class Slices>
void cut(Collective& collective, std::int64_t count, std::int64_t element_size, std::int64_t pieces, Slices slices)
{
    const std::int64_t step = chunk_elements(element_size, pieces);
    for (std::int64_t at = 0; at < count; at += step)
        collective.chunks.push_back(slices(at, std::min(step, count - at)));
}

// Copies that an engine reduces in place of host tensors, until their results are brought back. Posted by one thread,
// ended by another.
class Copies {
public:
    Reducible make(const at::Tensor& host, RedOp op)
    {
        Reducible made = reducible(host, op);
        if (made.back) {
            const std::lock_guard lock(mutex_);
            back_[host.const_data_ptr()] = made.back;
        }
        return made;
    }
    void end(const at::Tensor& host, bool bring_back)
    {
        std::function<void()> back;
        {
            const std::lock_guard lock(mutex_);
            const auto found = back_.find(host.const_data_ptr());
            if (found == back_.end())
                return;
            back = std::move(found->second);
            back_.erase(found);
        }
        if (bring_back)
            back();
    }

private:
    std::mutex mutex_;
    std::map<const void*, std::function<void()>> back_;   // by host memory
};

}  // namespace

Backend::Pending Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options)
{
    const Call call{c10d::OpType::ALLREDUCE, "all_reduce", options.timeout, tensors};
    if (tensors.size() == 1 && tensors[0].layout() == at::kSparse)
        return allreduce_sparse(tensors, options);
    check_one(call, "tensor", tensors);
    return allreduce_coalesced(tensors, static_cast<const c10d::AllreduceCoalescedOptions&>(options));
}

Backend::Pending Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options)
{
    const bool one = tensors.size() == 1;
    const Call call{one ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
                    one ? "all_reduce" : "all_reduce_coalesced", options.timeout, tensors, waits(options)};
    check(call, "tensors", tensors);
    const auto dtype = common_dtype(call, tensors);
    const bool scaled = options.reduceOp == RedOp::PREMUL_SUM;
    const RedOp op = scaled ? RedOp::SUM : static_cast<RedOp>(options.reduceOp);
    const auto problem = refuses(op, dtype);
    require(call, !problem, problem.value_or(""));

    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Moves moves;
    at::Tensor flat;
    if (one) {
        flat = flat_in_place(tensors[0], moves);
    } else {   // one message instead of many
        Tensors flats;
        for (const at::Tensor& tensor : tensors)
            flats.push_back(flat_source(tensor));
        flat = at::cat(flats);
        std::int64_t at = 0;
        for (const at::Tensor& tensor : tensors) {
            moves.emplace_back(tensor.detach(), flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
            at += tensor.numel();
        }
    }
    premultiply_(flat, options.reduceOp);

    Collective what;
    what.intent.exact = c10::str(call.name, " ", name_of(options.reduceOp), " of ", counted(flat));
    what.direct = true;
    cut(what, flat.numel(), flat.element_size(), 1, [&](std::int64_t at, std::int64_t n) {
        return Chunk{{flat.narrow(0, at, n)}, {}, true};
    });
    auto copies = std::make_shared<Copies>();
    what.post = [op, copies](c10d::Backend& inner, at::Tensor& in, at::Tensor&, Milliseconds timeout) {
        const Reducible part = copies->make(in, op);
        c10d::AllreduceOptions options;
        options.reduceOp = part.op;
        options.timeout = timeout;
        Tensors list{part.tensor};
        return inner.allreduce(list, options);
    };
    what.finish_on_host = [copies](at::Tensor& in, at::Tensor&) { copies->end(in, true); };
    std::function<void()> divide;
    if (averages(op))
        divide = [flat, size = size_]() mutable { divide_(flat, size); };
    what.finish_on_device = finish(std::move(moves), std::move(divide));
    return run(call, std::move(what), tensors, {flat});
}

Backend::Pending Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options)
{
    const Call call{c10d::OpType::REDUCE, "reduce", options.timeout, tensors};
    check_one(call, "tensor", tensors);
    const bool scaled = options.reduceOp == RedOp::PREMUL_SUM;
    const RedOp op = scaled ? RedOp::SUM : static_cast<RedOp>(options.reduceOp);
    const auto problem = refuses(op, tensors[0].scalar_type());
    require(call, !problem, problem.value_or(""));
    const int root = static_cast<int>(options.rootRank);
    const bool mine = root == rank_;

    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Moves moves;
    at::Tensor flat = mine ? flat_in_place(tensors[0], moves) : flat_source(tensors[0]);
    if (mine)
        premultiply_(flat, options.reduceOp);
    else
        flat = premultiplied(flat, options.reduceOp);

    Collective what;
    what.intent.exact = c10::str("reduce ", name_of(options.reduceOp), " of ", counted(flat), " to rank ", root);
    what.scratch = !mine;
    cut(what, flat.numel(), flat.element_size(), 1, [&](std::int64_t at, std::int64_t n) {
        return Chunk{{flat.narrow(0, at, n)}, {}, mine};
    });
    auto copies = std::make_shared<Copies>();
    what.post = [op, root, copies](c10d::Backend& inner, at::Tensor& in, at::Tensor&, Milliseconds timeout) {
        const Reducible part = copies->make(in, op);
        c10d::ReduceOptions options;
        options.reduceOp = part.op;
        options.rootRank = root;
        options.timeout = timeout;
        Tensors list{part.tensor};
        return inner.reduce(list, options);
    };
    what.finish_on_host = [copies, mine](at::Tensor& in, at::Tensor&) { copies->end(in, mine); };
    std::function<void()> divide;
    if (mine && averages(op))
        divide = [flat, size = size_]() mutable { divide_(flat, size); };
    what.finish_on_device = finish(std::move(moves), std::move(divide));
    return run(call, std::move(what), tensors, {flat});
}

Backend::Pending Backend::reduce_scatter_flat(const Call& call, at::Tensor output, Tensors inputs,
                                              const c10d::ReduceOp& reduce_op)
{
    const bool scaled = reduce_op == RedOp::PREMUL_SUM;
    const RedOp op = scaled ? RedOp::SUM : static_cast<RedOp>(reduce_op);
    const auto problem = refuses(op, output.scalar_type());
    require(call, !problem, problem.value_or(""));
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Moves moves;
    at::Tensor target = flat_target(output, moves);
    for (at::Tensor& input : inputs)
        input = premultiplied(flat_source(input), reduce_op);

    Collective what;
    what.intent.exact = c10::str("reduce_scatter ", name_of(reduce_op), " into ", counted(output));
    what.direct = true;
    cut(what, target.numel(), target.element_size(), size_, [&](std::int64_t at, std::int64_t n) {
        Chunk chunk;
        for (const at::Tensor& input : inputs)
            chunk.reads.push_back(input.narrow(0, at, n));
        chunk.writes = {target.narrow(0, at, n)};
        return chunk;
    });
    // Each rank gets its part of every other and adds them in the order of the ranks: the same bits every time, and
    // any dtype.
    struct Received {
        std::mutex mutex;
        std::map<const void*, at::Tensor> rows;   // by host memory of the result
    };
    auto received = std::make_shared<Received>();
    what.post = [received](c10d::Backend& inner, at::Tensor& in, at::Tensor& out, Milliseconds timeout) {
        at::Tensor rows = at::empty_like(in);
        {
            const std::lock_guard lock(received->mutex);
            received->rows[out.const_data_ptr()] = rows;
        }
        at::Tensor from = in.view(at::kByte), to = rows.view(at::kByte);
        std::vector<std::int64_t> even;
        c10d::AllToAllOptions options;
        options.timeout = timeout;
        return inner.alltoall_base(to, from, even, even, options);
    };
    what.finish_on_host = [received, op, size = size_](at::Tensor&, at::Tensor& out) {
        at::Tensor rows;
        {
            const std::lock_guard lock(received->mutex);
            rows = received->rows.at(out.const_data_ptr());
            received->rows.erase(out.const_data_ptr());
        }
        reduce_rows(rows.view({size, -1}).unbind(), out, op);
    };
    std::function<void()> divide;
    if (averages(op))
        divide = [target, size = size_]() mutable { divide_(target, size); };
    what.finish_on_device = finish(std::move(moves), std::move(divide));
    Tensors used{target};
    used.insert(used.end(), inputs.begin(), inputs.end());
    return run(call, std::move(what), {output}, used);
}

Backend::Pending Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options)
{
    const Call call{c10d::OpType::REDUCE_SCATTER, "reduce_scatter", options.timeout,
                    inputs.empty() ? outputs : inputs[0], waits(options)};
    check_one(call, "output", outputs);
    require(call, inputs.size() == 1, "input_list must be one list of tensors");
    check(call, "input_list", inputs[0]);
    require(call, static_cast<int>(inputs[0].size()) == size_,
            c10::str("input_list has ", inputs[0].size(), " tensors, expected one for each of ", size_, " ranks"));
    Tensors all = inputs[0];
    all.push_back(outputs[0]);
    common_dtype(call, all);
    bool even = true;
    for (const at::Tensor& input : inputs[0])
        even = even && input.numel() == inputs[0][0].numel();
    require(call, inputs[0][rank_].numel() == outputs[0].numel(),
            c10::str("output is ", described(outputs[0]), ", but input_list[", rank_, "] ",
                     described(inputs[0][rank_])));
    if (even)
        return reduce_scatter_flat(call, outputs[0], inputs[0], options.reduceOp);
    // Parts of different sizes: one reduction to each rank.
    std::vector<Pending> parts;
    for (int rank = 0; rank < size_; ++rank) {
        c10d::ReduceOptions one;
        one.reduceOp = options.reduceOp;
        one.rootRank = rank;
        one.timeout = options.timeout;
        if (rank == rank_)
            outputs[0].copy_(inputs[0][rank].view_as(outputs[0]));
        Tensors list{rank == rank_ ? outputs[0] : inputs[0][rank]};
        parts.push_back(reduce(list, one));
    }
    return together(call, std::move(parts));
}

Backend::Pending Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options)
{
    const Call call{c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", options.timeout, input,
                    waits(options)};
    check(call, "output", {output});
    check(call, "input", {input});
    common_dtype(call, {output, input});
    require(call, input.numel() == output.numel() * size_,
            c10::str("input is ", described(input), ", expected ", size_, " times the elements of output, ",
                     described(output)));
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const at::Tensor flat = flat_source(input);
    Tensors inputs;
    for (int rank = 0; rank < size_; ++rank)
        inputs.push_back(flat.narrow(0, rank * output.numel(), output.numel()));
    return reduce_scatter_flat(call, output, std::move(inputs), options.reduceOp);
}

Backend::Pending Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& options)
{
    const Call call{reduces_coalesced, "reduce_scatter_tensor_coalesced", options.timeout};
    require(call, outputs.size() == inputs.size(), "there must be as many outputs as inputs");
    std::vector<Pending> parts;
    for (std::size_t i = 0; i < outputs.size(); ++i)
        parts.push_back(_reduce_scatter_base(outputs[i], inputs[i], options));
    return together(call, std::move(parts));
}

}  // namespace torch_ocl::distributed
