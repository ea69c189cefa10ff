// A group's life, checks of arguments, reductions, messages. What only moves bytes is in backend_moves.cpp.
#include <distributed/backend.hpp>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <distributed/reductions.hpp>
#include <distributed/tensors.hpp>
#include <runtime/allocator.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl::distributed {

Backend::Backend(Engine::Group group, EngineFactory factory, Milliseconds timeout)
    : c10d::Backend(group.rank, group.size),
      engine_(std::make_shared<Engine>(std::move(group), std::move(factory), timeout)), runner_(engine_)
{
}

Backend::~Backend() = default;

std::string Backend::group_name() const
{
    return getGroupDesc().empty() || getGroupDesc() == "undefined" ? getGroupUid() : getGroupDesc();
}

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions()
{
    auto options = c10::make_intrusive<Options>(backend_name, engine_->timeout());
    options->group_name = getGroupUid();
    return options;
}

c10::intrusive_ptr<Backend> Backend::derived(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                             const c10::intrusive_ptr<Options>& options)
{
    auto made = c10::make_intrusive<Backend>(Engine::Group{rank, size, store}, engine_->factory(),
                                             options->timeout);
    made->setGroupUid(options->group_name);
    made->setGroupDesc(options->group_desc);
    return made;
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options)
{
    const auto found = std::find(ranks.begin(), ranks.end(), rank_);
    if (found == ranks.end())
        return nullptr;
    return derived(store, static_cast<int>(found - ranks.begin()), static_cast<int>(ranks.size()), options);
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const c10::intrusive_ptr<Options>& options, const int& rank,
                                                 const int& size)
{
    return derived(store, rank, size, options);
}

void Backend::abort()
{
    std::map<std::int64_t, std::function<void()>> hooks;
    {
        const std::lock_guard lock(hook_mutex_);
        hooks = abort_hooks_;
    }
    for (const auto& [id, hook] : hooks)
        hook();
    runner_.abort("it was aborted or destroyed");
}

#ifdef C10D_BACKEND_HAS_HOOKS
void Backend::registerAbortHook(std::int64_t id, c10d::AbortHook hook)
{
    const std::lock_guard lock(hook_mutex_);
    abort_hooks_[id] = std::move(hook);
}

void Backend::unregisterAbortHook(std::int64_t id)
{
    const std::lock_guard lock(hook_mutex_);
    abort_hooks_.erase(id);
}
#endif

// A rank that cannot take part says so to the others, which would wait for it otherwise.
void Backend::require(const Call& call, bool condition, const std::string& problem)
{
    if (condition)
        return;
    const bool collective = call.type != c10d::OpType::SEND && call.type != c10d::OpType::RECV &&
                            call.type != c10d::OpType::RECVANYSOURCE;
    if (collective && size_ > 1) {
        Collective refusal;
        refusal.intent = {std::string(call.name) + ": " + problem, "", true};
        runner_.collective(new_work(call, {}, {}), std::move(refusal), std::nullopt);
    }
    TORCH_CHECK(false, call.name, " in group '", group_name(), "' on rank ", rank_, " of ", size_, ": ", problem);
}

void Backend::check(const Call& call, const char* argument, const Tensors& tensors)
{
    require(call, !tensors.empty(), c10::str(argument, " has no tensors"));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto which = [&] { return tensors.size() == 1 ? argument : c10::str(argument, "[", i, "]"); };
        const at::Tensor& tensor = tensors[i];
        require(call, tensor.defined(), which() + " is not defined");
        require(call, tensor.is_privateuseone(), c10::str(which(), " is on ", tensor.device(), ", expected an ocl device"));
        require(call, tensor.device() == tensors[0].device(),
                c10::str(which(), " is on ", tensor.device(), ", the first tensor on ", tensors[0].device()));
        require(call, tensor.layout() == at::kStrided, c10::str(which(), " is not a dense tensor"));
    }
}

void Backend::check_one(const Call& call, const char* argument, const Tensors& tensors)
{
    require(call, tensors.size() == 1, c10::str(argument, " must be one tensor, not ", tensors.size()));
    check(call, argument, tensors);
}

at::ScalarType Backend::common_dtype(const Call& call, const Tensors& tensors)
{
    for (const at::Tensor& tensor : tensors) {
        require(call, tensor.scalar_type() == tensors[0].scalar_type(),
                c10::str("its tensors are of ", described(tensors[0]), " and ", described(tensor),
                         ", expected one dtype"));
        require(call, tensor.device() == tensors[0].device(),
                c10::str("its tensors are on ", tensors[0].device(), " and ", tensor.device()));
    }
    return tensors[0].scalar_type();
}

c10::intrusive_ptr<Work> Backend::new_work(const Call& call, Tensors results, const at::Tensor& example)
{
    const std::uint64_t sequence = ++sequence_;
    std::string text = c10::str(call.name, " #", sequence, " in group '", group_name(), "' on rank ", rank_, " of ",
                                size_);
    std::optional<c10::Device> device;
    if (example.defined()) {
        text += c10::str(" (", described(example), " on ", example.device(), ")");
        device = example.device();
    }
    return c10::make_intrusive<Work>(rank_, Work::About{call.type, std::move(text), std::move(results), device,
                                                        engine_->or_default(call.timeout), sequence});
}

Backend::Pending Backend::kept(Pending work)
{
    if (coalescing_)
        coalesced_.push_back(work);
    return work;
}

Backend::Pending Backend::run(const Call& call, Collective collective, Tensors results, const Tensors& used)
{
    auto work = new_work(call, std::move(results), used.at(0));
    auto start = runner_.start(used[0].device());
    for (const at::Tensor& tensor : used) {   // memory freed by the caller stays untouched until the copies are done
        device_allocator().recordStream(tensor.storage().data_ptr(), stream_of(start.lanes->in()));
        device_allocator().recordStream(tensor.storage().data_ptr(), stream_of(start.lanes->out()));
    }
    runner_.collective(work, std::move(collective), std::move(start));
    return kept(work);
}

Backend::Pending Backend::together(const Call& call, std::vector<Pending> parts)
{
    return c10::make_intrusive<Works>(rank_, call.type, std::move(parts));
}

void Backend::startCoalescing()
{
    coalescing_ = true;
    coalesced_.clear();
}

Backend::Pending Backend::endCoalescing()
{
    coalescing_ = false;
    return c10::make_intrusive<Works>(rank_, c10d::OpType::COALESCED, std::exchange(coalesced_, {}));
}

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
    const Call call{c10d::OpType::ALLREDUCE, "all_reduce", options.timeout};
    if (tensors.size() == 1 && tensors[0].layout() == at::kSparse)
        return allreduce_sparse(tensors, options);
    check_one(call, "tensor", tensors);
    return allreduce_coalesced(tensors, static_cast<const c10d::AllreduceCoalescedOptions&>(options));
}

Backend::Pending Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options)
{
    const bool one = tensors.size() == 1;
    const Call call{one ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
                    one ? "all_reduce" : "all_reduce_coalesced", options.timeout};
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
    const Call call{c10d::OpType::REDUCE, "reduce", options.timeout};
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
        reduce_rows(rows.view({size, -1}), out, op);
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
    const Call call{c10d::OpType::REDUCE_SCATTER, "reduce_scatter", options.timeout};
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
    const Call call{c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", options.timeout};
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
    const Call call{c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, "reduce_scatter_tensor_coalesced", options.timeout};
    require(call, outputs.size() == inputs.size(), "there must be as many outputs as inputs");
    std::vector<Pending> parts;
    for (std::size_t i = 0; i < outputs.size(); ++i)
        parts.push_back(_reduce_scatter_base(outputs[i], inputs[i], options));
    return together(call, std::move(parts));
}

Backend::Pending Backend::message(const Call& call, Tensors& tensors, int peer, int tag)
{
    check_one(call, "tensor", tensors);
    require(call, peer < size_ && peer != rank_,
            c10::str("its peer is rank ", peer, ", expected another one of ", size_, " ranks"));
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const bool sends = call.type == c10d::OpType::SEND;
    Moves moves;
    Runner::Message message{sends ? flat_source(tensors[0]) : flat_target(tensors[0], moves), {}, peer, tag};
    auto work = new_work(call, tensors, tensors[0]);
    auto start = runner_.start(tensors[0].device());
    for (const at::Tensor& tensor : {message.data, tensors[0]})
        for (clprim::Queue* queue : {&start.lanes->in(), &start.lanes->out()})
            device_allocator().recordStream(tensor.storage().data_ptr(), stream_of(*queue));
    if (!moves.empty())
        message.target = moves[0].first;
    sends ? runner_.send(work, std::move(message), std::move(start))
          : runner_.receive(work, std::move(message), std::move(start));
    return kept(work);
}

Backend::Pending Backend::send(Tensors& tensors, int destination, int tag)
{
    return message({c10d::OpType::SEND, "send"}, tensors, destination, tag);
}

Backend::Pending Backend::recv(Tensors& tensors, int source, int tag)
{
    return message({c10d::OpType::RECV, "recv"}, tensors, source, tag);
}

Backend::Pending Backend::recvAnysource(Tensors& tensors, int tag)
{
    return message({c10d::OpType::RECVANYSOURCE, "recv from any rank"}, tensors, -1, tag);
}

}  // namespace torch_ocl::distributed
