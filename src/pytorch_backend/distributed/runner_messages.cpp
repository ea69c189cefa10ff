// Messages between two ranks.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>

#include <distributed/runner_state.hpp>
#include <distributed/tensors.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl::distributed {
namespace {

// What goes ahead of a message, so that the receiver can tell what does not fit.
struct Header {
    std::int64_t id, elements, dtype, bytes;
};
constexpr std::int64_t first_data_tag = std::int64_t{1} << 30;

at::Tensor tensor_over(Header& header) { return at::from_blob(&header, {4}, at::dtype(at::kLong)); }

int data_tag(std::int64_t id) { return static_cast<int>(first_data_tag + id % (messages_tag - first_data_tag)); }

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
            start.lanes->in().wait_for(start.ready);   // which tells the end
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

}  // namespace torch_ocl::distributed
