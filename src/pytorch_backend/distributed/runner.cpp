// Collectives; messages are in runner_messages.cpp.
#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <distributed/runner_state.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl::distributed {
namespace {

constexpr std::int64_t chunk_bytes = std::int64_t{8} << 20;

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

std::int64_t bytes_of(const Chunk& chunk)
{
    const auto sum = [](const std::vector<at::Tensor>& tensors) {
        std::int64_t bytes = 0;
        for (const at::Tensor& tensor : tensors)
            bytes += static_cast<std::int64_t>(tensor.nbytes());
        return bytes;
    };
    return std::max(sum(chunk.reads), sum(chunk.writes));
}

std::string text_of(const std::exception& error)
{
    if (const auto* ours = dynamic_cast<const c10::Error*>(&error))
        return ours->what_without_backtrace();
    return error.what();
}

}  // namespace

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

std::int64_t chunk_elements(std::int64_t element_size, std::int64_t pieces)
{
    return std::max<std::int64_t>(1, chunk_bytes / (element_size * pieces));
}

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
    start.ready = queue.record();   // and flushed
    return start;
}

namespace {

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
    const auto task = [shared] {
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
            const std::int64_t bytes = s.what.direct && s.what.chunks.size() == 1 ? bytes_of(s.what.chunks[0]) : -1;
            if (bytes > 0 && s.engine->agree_with_next(s.what.intent, bytes, s.timeout))
                return;
            if (!s.engine->agree(s.what.intent, s.timeout) && s.what.check_counts)
                s.engine->agree_on_success(s.what.check_counts(*s.engine->inner(), s.timeout), s.timeout);
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
                const auto post = [&] { return s.what.post(*s.engine->inner(), chunk.in, chunk.out, s.timeout); };
                try {
                    chunk.posted = post();
                }
                catch (const LooseAgreement&) {
                    s.engine->agree_on_success(s.what.check_counts(*s.engine->inner(), s.timeout), s.timeout);
                    chunk.posted = post();
                }
            });
            if (!fine)
                break;
            const Posted posted = ahead[i]->posted;
            const auto complete = [shared, chunk = std::move(ahead[i])] {
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
            };
            // What is done already needs no other thread, unless this one has more to send meanwhile.
            if (s.what.chunks.size() == 1 && (!posted || posted->isCompleted()))
                s.state->completing->run(complete);
            else
                s.state->completing->push(complete);
        }
        s.state->completing->run([shared] {
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
    };
    const bool here = shared->what.at_once && shared->what.chunks.size() <= 1 &&
                      engine_->prompt(shared->what.chunks.empty() ? 0 : bytes_of(shared->what.chunks[0]));
    if (!here)
        return state_->posting->push(task);
    // Another thread would have to wake up for it, and this one afterwards. What watches the caller's operators does
    // not see it.
    const c10::impl::ExcludeDispatchKeyGuard no_modes(c10::DispatchKeySet(c10::DispatchKey::Python) |
                                                      c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot));
    const at::DisableRecordFunctionGuard no_records;
    state_->posting->run(task);
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
