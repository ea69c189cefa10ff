// Deferred errors: what kernels record of bad indices, and the synchronisations that report it.
#include <clprim/queue.hpp>

#include <deque>
#include <map>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/error_hook.hpp>
#include <core/caller_queue.hpp>
#include <core/event_bridge.hpp>

namespace clprim {
namespace {

// Names behind the operator codes of deferred errors; code = position + 1.
struct OperatorNames {
    std::mutex mutex;
    std::deque<std::string> names;
    std::map<std::string, cl_int, std::less<>> codes;
};
OperatorNames& operator_names()
{
    static auto* names = new OperatorNames;
    return *names;
}

}  // namespace

BufferArgument Queue::error_buffer()
{
    std::lock_guard lock(error_mutex_);
    if (!error_buffer_()) {
        cl_int code = CL_SUCCESS;
        error_buffer_ = cl::Buffer(clCreateBuffer(context_.handle()(), CL_MEM_READ_WRITE, sizeof error_words_, nullptr,
                                                  &code));
        check_opencl(code, "clCreateBuffer", "error words");
        try {
            clear_error_words();
        } catch (...) {
            error_buffer_ = {};   // what lies in it would be reported
            throw;
        }
    }
    return {error_buffer_()};
}

void Queue::clear_error_words()
{
    const cl_int zero = 0;
    const detail::TransferPlace place(*this, sizeof error_words_);
    check_opencl(clEnqueueFillBuffer(place.queue(), error_buffer_(), &zero, sizeof zero, 0, sizeof error_words_, 0,
                                     nullptr, nullptr),
                 "clEnqueueFillBuffer");
    if (!place.by_caller())
        count_command();
}

cl_int Queue::error_code(std::string_view operator_name)
{
    auto& known = operator_names();
    std::lock_guard lock(known.mutex);
    if (auto found = known.codes.find(operator_name); found != known.codes.end())
        return found->second;
    known.names.emplace_back(operator_name);
    const auto code = static_cast<cl_int>(known.names.size());
    known.codes.emplace(operator_name, code);
    return code;
}

void Queue::read_errors_ahead()
{
    if (!errors_expected_.load(std::memory_order_relaxed))
        return;
    std::lock_guard lock(error_mutex_);
    const detail::TransferPlace place(*this, sizeof error_words_);
    check_opencl(clEnqueueReadBuffer(place.queue(), error_buffer_(), place.by_caller(), 0, sizeof error_words_,
                                     error_words_.data(), 0, nullptr, nullptr),
                 "clEnqueueReadBuffer", "error words");
}

void Queue::throw_errors()
{
    detail::throw_awaited_failure(*this);
    if (!errors_expected_.load(std::memory_order_relaxed))
        return;
    std::lock_guard lock(error_mutex_);
    errors_expected_ = false;
    const auto code = static_cast<cl_int>(error_words_[0] & 0xffffffff);
    if (code == 0)
        return;
    const cl_long kind = error_words_[0] >> 32;
    const cl_long index = error_words_[1], size = error_words_[2];
    error_words_.fill(0);
    try {
        clear_error_words();
    } catch (const Error&) {
        error_buffer_ = {};   // the next one that is made is clear, and this error is not reported again
    }
    auto& known = operator_names();
    std::lock_guard names_lock(known.mutex);
    const std::string name =
        code >= 1 && code <= static_cast<cl_int>(known.names.size()) ? known.names[code - 1] : "unknown operator";
    if (kind == 1)
        detail::raise(Error(fmt::format("ZeroDivisionError: {}: an integer was divided by zero", name)));
    if (kind == 2)
        detail::raise(Error(fmt::format("{}: expected probabilities p with 0 <= p <= 1", name)));
    if (kind == 3)
        detail::raise(Error(name));
    detail::raise(
        IndexError(fmt::format("{}: index {} is out of bounds for dimension with size {}", name, index, size)));
}

}  // namespace clprim
