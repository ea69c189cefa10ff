#include <distributed/runner.hpp>

#include <set>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <distributed/tensors.hpp>
#include <runtime/errors.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl::distributed {
namespace {

constexpr std::int64_t chunk_bytes = std::int64_t{8} << 20;
constexpr int most_in_flight = 6;   // chunks in host memory of their own

// A gate with a number of places.
class Places {
public:
    void take()
    {
        std::unique_lock lock(mutex_);
        freed_.wait(lock, [&] { return free_ > 0; });
        --free_;
    }
    void leave()
    {
        {
            const std::lock_guard lock(mutex_);
            ++free_;
        }
        freed_.notify_one();
    }

private:
    std::mutex mutex_;
    std::condition_variable freed_;
    int free_ = most_in_flight;
};

struct Place {
    explicit Place(std::shared_ptr<Places> places) : places_(std::move(places)) { places_->take(); }
    ~Place() { places_->leave(); }
    std::shared_ptr<Places> places_;
};

// A chunk under way.
struct InFlight {
    InFlight(std::shared_ptr<Places> places, Lanes& lanes, const Chunk& chunk) : place(std::move(places))
    {
        using Use = HostView::Use;
        if (!chunk.reads.empty())
            source.emplace(lanes, chunk.reads, chunk.in_place ? Use::both : Use::read);
        if (!chunk.writes.empty())
            target.emplace(lanes, chunk.writes, Use::write);
    }
    Place place;
    std::optional<HostView> source, target;
    at::Tensor in, out;
    Posted posted;
};

std::string text_of(const std::exception& error)
{
    if (const auto* ours = dynamic_cast<const c10::Error*>(&error))
        return ours->what_without_backtrace();
    return error.what();
}

}  // namespace

std::int64_t chunk_elements(std::int64_t element_size, std::int64_t pieces)
{
    return std::max<std::int64_t>(1, chunk_bytes / (element_size * pieces));
}

struct Runner::State {
    std::shared_ptr<Strand> posting = std::make_shared<Strand>(), completing = std::make_shared<Strand>();
    std::shared_ptr<Places> places = std::make_shared<Places>();
    std::mutex mutex;
    std::map<int, std::shared_ptr<Lanes>> lanes;                              // by device
    std::map<std::tuple<bool, int, int>, std::shared_ptr<Strand>> messages;   // by direction, peer and tag
    std::map<int, std::int64_t> sent;                                         // messages by peer
    std::set<Work*> pending;

    void add(Work* work)
    {
        const std::lock_guard lock(mutex);
        pending.insert(work);
    }
    void remove(Work* work)
    {
        const std::lock_guard lock(mutex);
        pending.erase(work);
    }
    std::shared_ptr<Strand> strand(bool sends, int peer, int tag)
    {
        const std::lock_guard lock(mutex);
        if (messages.size() > 256)
            std::erase_if(messages, [](const auto& entry) { return entry.second->idle(); });
        auto& strand = messages[{sends, peer, tag}];
        if (!strand)
            strand = std::make_shared<Strand>();
        return strand;
    }
};

Runner::Runner(std::shared_ptr<Engine> engine) : engine_(std::move(engine)), state_(std::make_shared<State>()) {}

Runner::Start Runner::start(c10::Device device)
{
    Start start;
    {
        const std::lock_guard lock(state_->mutex);
        auto& lanes = state_->lanes[device.index()];
        if (!lanes)
            lanes = std::make_shared<Lanes>(device);
        start.lanes = lanes;
    }
    clprim::Queue& queue = current_queue(device.index());
    start.ready = queue.record();
    queue.flush();
    return start;
}

namespace {

// What ends a work with an error that says which operation it was, and the group where nothing can follow.
void fail(Work& work, Engine& engine, const std::exception& error, bool transport)
{
    std::string text = text_of(error);
    const std::string name = work.about().text;
    if (transport && engine.usable()) {
        const bool late = text.find("imed out") != std::string::npos;
        text = (late ? "timed out after " + std::to_string(work.getTimeout().count()) + " ms: "
                     : std::string("a peer is gone or the connection failed: ")) + text;
        engine.break_off(name + ": " + text);
    }
    work.fail(std::make_exception_ptr(
        c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, name + ": " + text)));
}

// Runs one stage; what goes wrong ends the work. `transport` tells whether the group ends with it.
template <class Function>
bool guarded(Work& work, Engine& engine, bool transport, Function&& function)
{
    if (work.isCompleted() && !work.isSuccess())
        return false;
    try {
        engine.check_usable("not begun");
        const at::AutoDispatchBelowADInplaceOrView no_autograd;
        function();
        return true;
    }
    catch (const Disagreement& error) {
        fail(work, engine, error, false);
        return false;
    }
    catch (const std::exception& error) {
        fail(work, engine, error, transport);
        return false;
    }
}

std::exception_ptr wait_quietly(const Posted& posted, Milliseconds timeout)
{
    try {
        if (posted)
            posted->wait(timeout);
        return nullptr;
    }
    catch (const std::exception&) {
        return std::current_exception();
    }
}

}  // namespace

void Runner::collective(c10::intrusive_ptr<Work> work, Collective collective, std::optional<Start> start)
{
    engine_->check_usable(work->about().text);
    state_->add(work.get());
    struct Shared {
        c10::intrusive_ptr<Work> work;
        Collective what;
        std::optional<Start> start;
        Milliseconds timeout;
        std::shared_ptr<Engine> engine;
        std::shared_ptr<State> state;
        bool ended = false;   // in the strand that completes
    };
    auto shared = std::make_shared<Shared>(Shared{work, std::move(collective), std::move(start), work->getTimeout(),
                                                  engine_, state_});
    state_->posting->push([shared] {
        Shared& s = *shared;
        std::vector<std::shared_ptr<InFlight>> ahead;   // enqueued, not yet posted: at most two
        const auto enqueue = [&](std::size_t i) {
            ahead.push_back(std::make_shared<InFlight>(s.state->places, *s.start->lanes, s.what.chunks[i]));
        };
        bool fine = guarded(*s.work, *s.engine, false, [&] {
            if (s.start) {
                s.start->lanes->out().wait_for(s.start->ready);
                s.start->lanes->in().wait_for(s.start->ready);
                s.start->lanes->in().flush();
            }
            if (!s.what.chunks.empty())
                enqueue(0);   // under way while the ranks agree
        });
        fine = fine && guarded(*s.work, *s.engine, true, [&] {
            const auto inner = s.engine->inner();
            if (!s.engine->agree(s.what.intent, s.timeout) && s.what.check_counts)
                s.engine->agree_on_success(s.what.check_counts(*inner, s.timeout), s.timeout);
        });
        for (std::size_t i = 0; fine && i < s.what.chunks.size(); ++i) {
            fine = guarded(*s.work, *s.engine, true, [&] {
                // One more on its way to the host before waiting for this one.
                if (i + 1 < s.what.chunks.size() && ahead.size() <= i + 1)
                    enqueue(i + 1);
                InFlight& chunk = *ahead[i];
                if (chunk.source)
                    chunk.in = chunk.source->host();
                if (chunk.target)
                    chunk.out = chunk.target->host();
                if (s.what.scratch && s.start->lanes->lends())
                    chunk.in = chunk.in.clone();
                if (s.what.chunks[i].in_place)
                    chunk.out = chunk.in;
                chunk.posted = s.what.post(*s.engine->inner(), chunk.in, chunk.out, s.timeout);
            });
            if (!fine)
                break;
            s.state->completing->push([shared, chunk = std::move(ahead[i])] {
                Shared& s = *shared;
                // Even for an operation that has failed: the engine still works on this memory.
                std::exception_ptr error = wait_quietly(chunk->posted, s.timeout);
                guarded(*s.work, *s.engine, true, [&] {
                    if (error)
                        std::rethrow_exception(error);
                });
                guarded(*s.work, *s.engine, false, [&] {
                    if (s.what.finish_on_host)
                        s.what.finish_on_host(chunk->in, chunk->out);
                    if (chunk->source)
                        chunk->source->give_back();
                    if (chunk->target)
                        chunk->target->give_back();
                    s.start->lanes->in().flush();
                });
            });
        }
        s.state->completing->push([shared] {
            Shared& s = *shared;
            guarded(*s.work, *s.engine, false, [&] {
                clprim::Queue* queue = s.start ? &s.start->lanes->in() : nullptr;
                if (queue && s.what.finish_on_device) {
                    const c10::StreamGuard stream(stream_of(*queue));
                    s.what.finish_on_device();
                }
                s.work->complete(queue);
            });
            s.state->remove(s.work.get());
            s.what = {};   // tensors go here, not with the last reference
        });
    });
}

namespace {

// What goes ahead of a message, so that the receiver can tell what does not fit.
struct Header {
    std::int64_t id, elements, dtype, bytes;
};
constexpr std::int64_t first_data_tag = std::int64_t{1} << 30;

at::Tensor tensor_over(Header& header) { return at::from_blob(&header, {4}, at::dtype(at::kLong)); }

int data_tag(std::int64_t id) { return static_cast<int>(first_data_tag + id % first_data_tag); }

void check_tag(const Work& work, int tag)
{
    TORCH_CHECK(tag >= 0 && tag < first_data_tag, work.about().text, ": the tag is ", tag,
                ", expected one in [0, 2^30)");
}

void wait_for(const Posted& posted, Milliseconds timeout) { posted->wait(timeout); }

}  // namespace

void Runner::send(c10::intrusive_ptr<Work> work, Message message, Start start)
{
    engine_->check_usable(work->about().text);
    check_tag(*work, message.tag);
    state_->add(work.get());
    std::int64_t id;
    {
        const std::lock_guard lock(state_->mutex);
        id = state_->sent[message.peer]++;
    }
    state_->strand(true, message.peer, message.tag)->push([=, engine = engine_, state = state_] {
        guarded(*work, *engine, true, [&] {
            const Milliseconds timeout = work->getTimeout();
            auto inner = engine->inner();
            start.lanes->out().wait_for(start.ready);
            Header header{id, message.data.numel(), static_cast<std::int64_t>(message.data.scalar_type()),
                          static_cast<std::int64_t>(message.data.nbytes())};
            std::vector<at::Tensor> list{tensor_over(header)};
            const Posted announced = inner->send(list, message.peer, message.tag);
            std::vector<std::pair<std::unique_ptr<HostView>, Posted>> parts;
            const std::int64_t step = chunk_elements(message.data.element_size(), 1);
            for (std::int64_t at = 0; at < message.data.numel(); at += step) {
                const std::int64_t n = std::min(step, message.data.numel() - at);
                auto view = std::make_unique<HostView>(*start.lanes, std::vector{message.data.narrow(0, at, n)},
                                                       HostView::Use::read);
                list = {view->host().view(at::kByte)};
                Posted posted = inner->send(list, message.peer, data_tag(id));
                parts.emplace_back(std::move(view), std::move(posted));
                if (parts.size() > most_in_flight)
                    wait_for(parts[parts.size() - 1 - most_in_flight].second, timeout);
            }
            wait_for(announced, timeout);
            for (const auto& [view, posted] : parts) {
                wait_for(posted, timeout);
                view->give_back();
            }
            work->complete(&start.lanes->in());
        });
        state->remove(work.get());
    });
}

void Runner::receive(c10::intrusive_ptr<Work> work, Message message, Start start)
{
    engine_->check_usable(work->about().text);
    check_tag(*work, message.tag);
    state_->add(work.get());
    state_->strand(false, message.peer, message.tag)->push([=, engine = engine_, state = state_] {
        std::string misfit;
        const bool fine = guarded(*work, *engine, true, [&] {
            const Milliseconds timeout = work->getTimeout();
            auto inner = engine->inner();
            Header header{};
            std::vector<at::Tensor> list{tensor_over(header)};
            const Posted announced = message.peer < 0 ? inner->recvAnysource(list, message.tag)
                                                      : inner->recv(list, message.peer, message.tag);
            wait_for(announced, timeout);
            const int source = message.peer < 0 ? announced->sourceRank() : message.peer;
            work->set_source(source);
            at::Tensor data = message.data;
            const auto dtype = static_cast<at::ScalarType>(header.dtype);
            if (header.elements != data.numel() || dtype != data.scalar_type()) {
                misfit = c10::str("rank ", source, " sent ", header.elements, " elements of ", name_of(dtype),
                                  ", but the tensor given has ", data.numel(), " of ",
                                  name_of(data.scalar_type()));
                // Taken all the same, so that the sender can go on.
                std::int64_t step = chunk_elements(c10::elementSize(dtype), 1);
                for (std::int64_t at = 0; at < header.elements; at += step) {
                    const std::int64_t n = std::min(step, header.elements - at) * c10::elementSize(dtype);
                    list = {at::empty({n}, at::dtype(at::kByte))};
                    wait_for(inner->recv(list, source, data_tag(header.id)), timeout);
                }
                return;
            }
            start.lanes->in().wait_for(start.ready);
            start.lanes->out().wait_for(start.ready);
            std::vector<std::pair<std::unique_ptr<HostView>, Posted>> parts;
            std::size_t done = 0;
            const auto finish_one = [&] {
                auto& [view, posted] = parts[done++];
                wait_for(posted, timeout);
                view->give_back();
                view.reset();
            };
            const std::int64_t step = chunk_elements(data.element_size(), 1);
            for (std::int64_t at = 0; at < data.numel(); at += step) {
                const std::int64_t n = std::min(step, data.numel() - at);
                auto view = std::make_unique<HostView>(*start.lanes, std::vector{data.narrow(0, at, n)},
                                                       HostView::Use::write);
                list = {view->host().view(at::kByte)};
                Posted posted = inner->recv(list, source, data_tag(header.id));
                parts.emplace_back(std::move(view), std::move(posted));
                if (parts.size() - done > most_in_flight)
                    finish_one();
            }
            while (done < parts.size())
                finish_one();
            if (message.target.defined()) {
                const c10::StreamGuard stream(stream_of(start.lanes->in()));
                message.target.copy_(data.view(message.target.sizes()));
            }
            work->complete(&start.lanes->in());
        });
        if (fine && !misfit.empty())
            fail(*work, *engine, std::runtime_error(misfit), false);
        state->remove(work.get());
    });
}

void Runner::abort(const std::string& reason, bool quietly)
{
    engine_->break_off(reason, quietly);
    std::vector<c10::intrusive_ptr<Work>> pending;
    {
        const std::lock_guard lock(state_->mutex);
        for (Work* work : state_->pending)
            pending.push_back(c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(work));
    }
    for (const auto& work : pending)
        work->abort();
    if (auto inner = engine_->inner_if_made())
        inner->abort();
}

}  // namespace torch_ocl::distributed
