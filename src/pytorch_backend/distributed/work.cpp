#include <distributed/work.hpp>

#include <algorithm>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/StreamGuard.h>

#include <runtime/stream.hpp>

namespace torch_ocl::distributed {
namespace {

using c10::ivalue::Future;

c10::intrusive_ptr<Future> new_future(std::vector<c10::Device> devices)
{
    return c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

// The value of an all_gather's future is one tensor with the parts of all ranks, as NCCL's: PyTorch's hooks of
// DistributedDataParallel read value()[0][rank].
std::vector<at::Tensor> value_of(c10d::OpType type, const std::vector<at::Tensor>& results)
{
    const auto fits = [&](const at::Tensor& part) { return part.sizes() == results[0].sizes(); };
    if (type != c10d::OpType::ALLGATHER || !std::all_of(results.begin(), results.end(), fits))
        return results;
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    return {at::stack(results)};
}

}  // namespace

Work::Work(int rank, About about)
    : c10d::Work(rank, about.type, about.title.c_str(), about.inputs), about_(std::move(about)),
      begin_(std::chrono::steady_clock::now())
{
    about_.inputs.clear();
}

void Work::complete(clprim::Queue* queue)
{
    if (queue) {
        const std::lock_guard lock(mutex_);
        done_ = queue->record();
        queue->flush();
    }
    end(nullptr);
}

void Work::fail(std::exception_ptr error) { end(std::move(error)); }

void Work::end(std::exception_ptr error)
{
    c10::intrusive_ptr<Future> future;
    {
        const std::lock_guard lock(mutex_);
        if (completed_)
            return;
        completed_ = true;
        exception_ = std::move(error);
        end_ = std::chrono::steady_clock::now();
        future = future_;
        if (recordFunctionEndCallback_)
            std::exchange(recordFunctionEndCallback_, nullptr)();
    }
    cv_.notify_all();
    // Callbacks may wait for further operations of this group, so the thread that serves those does not run them.
    if (!future)
        return;
    const auto task = [self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this), future] {
        self->mark(future);
    };
    about_.callbacks ? about_.callbacks->push(task) : run_in_background(task);
}

void Work::mark(const c10::intrusive_ptr<Future>& future)
{
    if (exception_)
        return future->setError(exception_);
    std::optional<c10::StreamGuard> guard;
    if (about_.device) {   // the events of the future are recorded behind the operation
        guard.emplace(new_stream(about_.device->index()));
        synchronize();
    }
    future->markCompleted(c10::IValue(value_of(about_.type, about_.results)));
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    if (about_.group && at::hasCallbacks())
        return with_comms_record({*about_.group, "wait", static_cast<std::int64_t>(about_.sequence), false, {}, {}},
                                 [&] { return wait_for_end(timeout); });
    return wait_for_end(timeout);
}

bool Work::wait_for_end(std::chrono::milliseconds timeout)
{
    std::exception_ptr error;
    {
        std::unique_lock lock(mutex_);
        if (timeout == kNoTimeout)
            cv_.wait(lock, [&] { return completed_; });
        else if (!cv_.wait_for(lock, timeout, [&] { return completed_; }))
            TORCH_CHECK_WITH(DistBackendError, false, about_.text, ": not done after the ", timeout.count(),
                             " ms that wait() was given");
        error = exception_;
    }
    if (error)
        std::rethrow_exception(error);
    synchronize();
    return true;
}

void Work::synchronize()
{
    if (!about_.device)
        return;
    clprim::Queue& queue = current_queue(about_.device->index());
    const std::lock_guard lock(mutex_);
    if (done_.recorded())
        queue.wait_for(done_);
}

void Work::abort()
{
    end(std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                                                      about_.text + ": aborted")));
}

c10::intrusive_ptr<Future> Work::getFuture()
{
    {
        const std::lock_guard lock(mutex_);
        if (future_)
            return future_;
        future_ = new_future(about_.device ? std::vector<c10::Device>{*about_.device} : std::vector<c10::Device>{});
        if (!completed_)
            return future_;
    }
    // Callbacks of earlier operations come first, on every rank, unless it is one of them that asks.
    if (about_.callbacks && !in_callback())
        about_.callbacks->run([self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this)] {
            self->mark(self->future_);
        });
    else
        mark(future_);
    return future_;
}

float Work::getDuration() const
{
    const std::lock_guard lock(mutex_);
    return std::chrono::duration<float, std::milli>(end_ - begin_).count();
}

Works::Works(int rank, c10d::OpType type, std::vector<c10::intrusive_ptr<c10d::Work>> parts)
    : c10d::Work(rank, type), parts_(std::move(parts))
{
}

bool Works::isCompleted()
{
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isCompleted(); });
}

bool Works::isSuccess() const
{
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isSuccess(); });
}

std::exception_ptr Works::exception() const
{
    for (const auto& part : parts_)
        if (auto error = part->exception())
            return error;
    return nullptr;
}

bool Works::wait(std::chrono::milliseconds timeout)
{
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& part : parts_) {
        if (timeout == kNoTimeout) {
            part->wait();
            continue;
        }
        const auto passed =
            std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
        part->wait(std::max(timeout - passed, std::chrono::milliseconds(1)));   // 0 would be no limit at all
    }
    return true;
}

void Works::synchronize()
{
    for (const auto& part : parts_)
        part->synchronize();
}

void Works::abort()
{
    for (const auto& part : parts_)
        part->abort();
}

std::vector<at::Tensor> Works::result()
{
    std::vector<at::Tensor> all;
    for (const auto& part : parts_)
        for (auto& tensor : part->result())
            all.push_back(std::move(tensor));
    return all;
}

c10::intrusive_ptr<Future> Works::getFuture()
{
    std::vector<c10::intrusive_ptr<Future>> futures;
    std::vector<c10::Device> devices;
    for (const auto& part : parts_) {
        futures.push_back(part->getFuture());
        devices.insert(devices.end(), futures.back()->devices().begin(), futures.back()->devices().end());
    }
    auto all = new_future(std::move(devices));
    if (futures.empty()) {
        all->markCompleted(c10::IValue(result()));
        return all;
    }
    struct Countdown {
        std::atomic<std::size_t> left;
        std::atomic<bool> failed{false};
    };
    auto countdown = std::make_shared<Countdown>();
    countdown->left = futures.size();
    auto self = c10::intrusive_ptr<Works>::unsafe_reclaim_from_nonowning(this);
    for (const auto& future : futures)
        future->addCallback([all, countdown, self](Future& part) {
            if (part.hasError()) {
                if (!countdown->failed.exchange(true))
                    all->setError(part.exception_ptr());
            } else if (--countdown->left == 0) {
                self->synchronize();
                all->markCompleted(c10::IValue(self->result()));
            }
        });
    return all;
}

}  // namespace torch_ocl::distributed
