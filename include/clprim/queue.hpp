// In-order command queues: launches, copies, events. Nothing here waits unless its comment says so.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <ranges>
#include <string_view>
#include <type_traits>
#include <vector>

#include <clprim/program.hpp>
#include <clprim/tensor.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class Context;
namespace detail {
class CallerQueue;
class QueueAccess;
}

// Global and local sizes of a launch; local all 0 lets the driver choose. Sizes are rounded by the caller.
struct Range {
    std::array<std::size_t, 3> global{1, 1, 1};
    std::array<std::size_t, 3> local{0, 0, 0};
    unsigned dims = 1;

    // n work-items in one dimension, rounded up to a multiple of the local size (kernels test the index).
    static Range linear(std::size_t n, std::size_t local);
    // groups work-groups of `local` work-items each, in one to three dimensions.
    static Range groups(std::array<std::size_t, 3> groups, std::array<std::size_t, 3> local);
    static Range groups(std::size_t count, std::size_t local = 1) { return groups({count, 1, 1}, {local, 1, 1}); }
};

// A __local argument of that many bytes.
struct LocalMemory {
    std::size_t bytes;
};

// A __global argument of one buffer without an offset argument (e.g. Queue::error_buffer()).
struct BufferArgument {
    cl_mem buffer;
};

// An absent optional tensor: a null buffer and offset 0.
struct NoTensor {};

// Sets the arguments of one kernel in order, then enqueues it. Holds the kernel's mutex while it lives.
// A Tensor or Memory sets two arguments: the buffer and a ulong offset in elements (bytes for Memory).
class Launch {
public:
    Launch(Queue& queue, Kernel& kernel) : queue_(queue), kernel_(kernel), lock_(kernel.mutex) {}

    Launch& arg(const Tensor& tensor)
    {
        return tensor.defined() ? memory(*tensor.memory, tensor.buffer_offset()) : arg(NoTensor{});
    }
    Launch& arg(const Memory& block) { return memory(*block, block->offset); }
    Launch& arg(NoTensor);
    Launch& arg(LocalMemory local) { return set(local.bytes, nullptr); }
    Launch& arg(BufferArgument argument) { return set(sizeof(cl_mem), &argument.buffer); }
    template <class T>
        requires std::is_trivially_copyable_v<T>
    Launch& arg(const T& value)
    {
        static_assert(!std::is_same_v<T, bool>, "OpenCL kernels take no bool argument; pass cl_int");
        return set(sizeof(T), &value);
    }
    Launch& set(std::size_t bytes, const void* value);   // raw bytes of a scalar or struct argument

    // Enqueues. Throws OpenCLError that names the kernel, InvalidArgument if an argument is missing.
    void run(const Range& range);

private:
    Launch& memory(const Block& block, std::uint64_t offset);

    Queue& queue_;
    Kernel& kernel_;
    std::unique_lock<std::mutex> lock_;
    unsigned next_ = 0;
};

// A point in a queue's order.
class Event {
public:
    Event() = default;
    explicit Event(cl::Event handle) : handle_(std::move(handle)) {}
    bool recorded() const { return handle_() != nullptr; }
    bool query() const;        // true when all work before it is done
    void wait() const;         // blocks the host
    double elapsed_ms(const Event& end) const;   // device time between two events; 0 where the driver has none
    const cl::Event& handle() const { return handle_; }

private:
    cl::Event handle_;
};

class Queue {
public:
    Queue(Context& context, int id, bool profiling);
    Queue(Context& context, int id, cl::CommandQueue theirs);
    Queue(const Queue&) = delete;
    ~Queue();

    Context& context() const { return context_; }
    const Device& device() const;
    int id() const { return id_; }
    // For commands of one's own beside the library's.
    const cl::CommandQueue& handle() const
    {
        lent_.store(true, std::memory_order_relaxed);
        return handle_;
    }

    template <class... Arguments>
    void launch(Kernel& kernel, const Range& range, const Arguments&... arguments)
    {
        Launch launch(*this, kernel);
        (launch.arg(arguments), ...);
        launch.run(range);
    }

    // Elements between host and a contiguous tensor. The C++ type must be that of the elements (see is_element), and as
    // many as the tensor has; InvalidArgument otherwise.
    //     queue.write(x, std::vector<float>{1, 2, 3});      const std::vector<float> y = queue.read<float>(x);
    template <std::ranges::contiguous_range Elements>
    void write(const Tensor& target, const Elements& elements)
    {
        using T = std::ranges::range_value_t<Elements>;
        write_elements(target, is_element<T>(target.dtype), std::ranges::data(elements),
                       static_cast<std::size_t>(std::ranges::size(elements)));
    }
    template <class T>
        requires(!std::is_same_v<T, bool>)           // a vector of bool holds bits: read std::uint8_t
    std::vector<T> read(const Tensor& source)
    {
        check_elements(source, is_element<T>(source.dtype), "read");
        std::vector<T> elements(static_cast<std::size_t>(source.numel()));
        read(*source.memory, static_cast<std::size_t>(source.offset) * sizeof(T), elements.data(),
             elements.size() * sizeof(T));
        return elements;
    }

    // Bytes between host and device; a range outside of the block throws InvalidArgument. write copies small sources
    // aside and never waits; a larger pageable source waits unless `pinned` promises that the bytes stay unchanged
    // until the copy is done. read waits unless `pinned`.
    void write(Block& target, std::size_t offset_bytes, const void* source, std::size_t bytes, bool pinned = false);
    void read(const Block& source, std::size_t offset_bytes, void* target, std::size_t bytes, bool pinned = false);
    void copy(const Block& source, std::size_t source_bytes, Block& target, std::size_t target_bytes,
              std::size_t bytes);
    void fill(Block& target, std::size_t offset_bytes, std::size_t bytes, const void* pattern,
              std::size_t pattern_bytes);

    Event record();                    // a marker after everything enqueued so far
    void wait_for(const Event& event); // work enqueued from now on starts after the event; the host does not wait
    void flush();
    void finish();                     // waits for all work; then reports deferred errors (IndexError)
    bool idle();                       // true if all work is done; does not wait for it
    Event unfinished();                // a marker behind all work so far; not recorded where that is known to be done

    // Deferred errors: a kernel that meets a bad index records it (core/errors.cl: clprim_index_error) instead of
    // reading or writing out of bounds. Pass error_buffer() and error_code("gather") to such a kernel and call
    // expect_errors() after its launch; the next synchronisation of this queue throws IndexError naming the operator.
    BufferArgument error_buffer();
    static cl_int error_code(std::string_view operator_name);
    void expect_errors() { errors_expected_.store(true, std::memory_order_relaxed); }

private:
    void write_elements(const Tensor& target, bool fits, const void* elements, std::size_t count);
    static void check_elements(const Tensor& tensor, bool fits, const char* what);
    void finish_commands();            // waits, without reporting errors
    bool nothing_enqueued() const;     // since the last wait for all of them
    void read_errors_ahead();          // enqueues the copy of the error words before a synchronisation
    void throw_errors();               // after it
    void clear_error_words();
    std::uint64_t flush_now_and_then();   // counts a command; returns how many were counted before it
    void count_command() { commands_.fetch_add(1, std::memory_order_release); }
    friend class Launch;
    friend class detail::QueueAccess;

    struct Staging {                   // a host copy of a pageable source under way to the device
        std::unique_ptr<char[]> data;
        std::size_t bytes = 0;
        bool taken = false;
        cl::Event copied;
    };
    Staging* staging_for(std::size_t bytes);

    Context& context_;
    int id_;
    cl::CommandQueue handle_;
    std::unique_ptr<detail::CallerQueue> caller_;   // of small launches; on some CPU devices
    std::mutex error_mutex_;
    cl::Buffer error_buffer_;
    std::array<cl_long, 4> error_words_{};
    std::atomic<bool> errors_expected_{false};
    std::mutex staging_mutex_;
    std::list<Staging> staging_;
    std::size_t staging_bytes_ = 0;
    std::atomic<std::uint64_t> commands_{0};   // enqueued so far; counted after they are
    std::mutex idle_mutex_;
    cl::Event last_marker_;            // of idle() and unfinished(), after `marked_commands_` of them
    std::uint64_t marked_commands_ = 0;
    std::atomic<std::uint64_t> finished_commands_{0};
    mutable std::atomic<bool> lent_{false};
};

// How often this process waited for a device since start, by any call above. For tests and profiling.
std::uint64_t blocking_calls() noexcept;

// How many kernels this process has launched since start.
std::uint64_t kernel_launches() noexcept;

}  // namespace clprim
CLPRIM_API_END
