// A group's life, checks of arguments, messages. Collectives that compute are in backend_reductions.cpp, those that
// only move bytes in backend_moves.cpp and backend_exchanges.cpp.
#include <distributed/backend.hpp>

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <distributed/tensors.hpp>
#include <runtime/allocator.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl::distributed {

Backend::Backend(Engine::Group group, EngineFactory factory, Milliseconds timeout, std::vector<std::uint64_t> ranks)
    : c10d::Backend(group.rank, group.size),
      engine_(std::make_shared<Engine>(std::move(group), std::move(factory), timeout)), ranks_(std::move(ranks)),
      runner_(engine_)
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
    options->global_ranks_in_group = ranks_;
    return options;
}

c10::intrusive_ptr<Backend> Backend::derived(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                             const c10::intrusive_ptr<Options>& options)
{
    auto made = c10::make_intrusive<Backend>(Engine::Group{rank, size, store}, engine_->factory(),
                                             options->timeout, options->global_ranks_in_group);
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

Runner& Backend::runner(const Call& call)
{
    if (!in_callback())
        return runner_;
    if (const Inner made = engine_->inner_if_made(); made && made->getBackendName() == "mpi")
        return runner_;   // which has one communicator
    engine_->check_usable(call.name);
    const std::lock_guard lock(mutex_);
    if (!runner_of_callbacks_) {
        const Engine::Group& group = engine_->group();
        auto store = c10::make_intrusive<c10d::PrefixStore>("callbacks", group.store);
        auto engine = std::make_shared<Engine>(Engine::Group{group.rank, group.size, std::move(store)},
                                               engine_->factory(), engine_->timeout());
        engine->call_when_broken(0, [whole = std::weak_ptr(engine_)] {
            if (const auto engine = whole.lock())
                engine->break_off("a collective that a callback had begun failed");
        });
        runner_of_callbacks_ = std::make_unique<Runner>(std::move(engine));
    }
    return *runner_of_callbacks_;
}

void Backend::setTimeout(Milliseconds timeout)
{
    engine_->set_timeout(timeout);
    const std::lock_guard lock(mutex_);
    if (runner_of_callbacks_)
        runner_of_callbacks_->engine().set_timeout(timeout);
}

void Backend::abort() { end("it was aborted", false); }

void Backend::shutdown() { end("it was destroyed", true); }

void Backend::end(const std::string& reason, bool quietly)
{
    runner_.abort(reason, quietly);
    const std::lock_guard lock(mutex_);
    if (runner_of_callbacks_)
        runner_of_callbacks_->abort(reason, true);
}

#ifdef C10D_BACKEND_HAS_HOOKS
void Backend::registerAbortHook(std::int64_t id, c10d::AbortHook hook)
{
    engine_->call_when_broken(id, std::move(hook));
}

void Backend::unregisterAbortHook(std::int64_t id) { engine_->forget_call(id); }
#endif

bool Backend::is_message(const Call& call)
{
    return call.type == c10d::OpType::SEND || call.type == c10d::OpType::RECV ||
           call.type == c10d::OpType::RECVANYSOURCE;
}

// A rank that cannot take part says so to the others, which would wait for it otherwise.
void Backend::require(const Call& call, bool condition, const std::string& problem)
{
    if (condition)
        return;
    if (!is_message(call) && size_ > 1) {
        Collective refusal;
        refusal.intent = {std::string(call.name) + ": " + problem, "", true};
        runner(call).collective(new_work(call, {}, {}), std::move(refusal), std::nullopt);
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
        require(call, tensor.is_privateuseone(),
                c10::str(which(), " is on ", tensor.device(), ", expected an ocl device"));
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
    const char* title = call.type == c10d::OpType::RECVANYSOURCE   ? "recvAnySource"   // as with PyTorch's backends
                        : call.type == c10d::OpType::ALLTOALL_BASE ? "all_to_all"
                                                                   : call.name;
    const bool in_order = !is_message(call) && !in_callback();
    return c10::make_intrusive<Work>(
        rank_, Work::About{call.type, std::move(text), std::move(results), device, engine_->or_default(call.timeout),
                           sequence, c10::str("occl:", title), call.inputs.vec(),
                           at::hasCallbacks() ? std::make_shared<const CommsGroup>(getGroupUid(), getGroupDesc(), rank_,
                                                                                   size_, ranks_)
                                              : nullptr,
                           in_order ? callbacks_ : nullptr});
}

Backend::Pending Backend::kept(Pending work)
{
    if (coalescing())
        coalesced_.push_back(work);
    return work;
}

void Backend::recorded(const Call& call, const Work& work, const std::function<void()>& body)
{
    const Work::About& about = work.about();
    if (!about.group)
        return body();
    with_comms_record({*about.group, comms_name(call.type), static_cast<std::int64_t>(about.sequence),
                       is_message(call), call.inputs.vec(), about.results},
                      body);
}

Backend::Pending Backend::run(const Call& call, Collective collective, Tensors results, const Tensors& used)
{
    auto work = new_work(call, std::move(results), used.at(0));
    Runner& runner = this->runner(call);
    auto start = runner.start(used[0].device());
    for (const at::Tensor& tensor : used) {   // memory freed by the caller stays untouched until the copies are done
        device_allocator().recordStream(tensor.storage().data_ptr(), stream_of(start.lanes->in()));
        device_allocator().recordStream(tensor.storage().data_ptr(), stream_of(start.lanes->out()));
    }
    collective.at_once = call.at_once && !coalescing();
    recorded(call, *work, [&] { runner.collective(work, std::move(collective), std::move(start)); });
    return kept(work);
}

Backend::Pending Backend::together(const Call& call, std::vector<Pending> parts)
{
    return c10::make_intrusive<Works>(rank_, call.type, std::move(parts));
}

void Backend::startCoalescing()
{
    coalescing_ = std::this_thread::get_id();
    coalesced_.clear();
}

Backend::Pending Backend::endCoalescing()
{
    coalescing_ = std::thread::id();
    return c10::make_intrusive<Works>(rank_, c10d::OpType::COALESCED, std::exchange(coalesced_, {}));
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
    recorded(call, *work, [&] {
        sends ? runner_.send(work, std::move(message), std::move(start))
              : runner_.receive(work, std::move(message), std::move(start));
    });
    return kept(work);
}

Backend::Pending Backend::send(Tensors& tensors, int destination, int tag)
{
    return message({c10d::OpType::SEND, "send", Milliseconds(-1), tensors}, tensors, destination, tag);
}

Backend::Pending Backend::recv(Tensors& tensors, int source, int tag)
{
    return message({c10d::OpType::RECV, "recv", Milliseconds(-1), tensors}, tensors, source, tag);
}

Backend::Pending Backend::recvAnysource(Tensors& tensors, int tag)
{
    return message({c10d::OpType::RECVANYSOURCE, "recv from any rank", Milliseconds(-1), tensors}, tensors, -1, tag);
}

}  // namespace torch_ocl::distributed
