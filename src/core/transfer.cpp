// Where two devices share a context, bytes pass through a buffer of their own: a driver moves buffers between devices
// as a whole, and the segments of tensors, which hold other tensors too, must stay where they are. Other devices share
// nothing but the host, so bytes pass through its memory. Pieces follow each other through a few staging buffers, so
// that reading and writing overlap; events order all of it.
#include <core/transfer.hpp>

#include <map>
#include <new>
#include <vector>

#include <clprim/context.hpp>
#include <clprim/transfer.hpp>
#include <core/host_memory.hpp>
#include <core/profile.hpp>
#include <core/queue_handle.hpp>

namespace clprim {
namespace {

constexpr std::size_t page = 4096;

struct FreeHostMemory {
    void operator()(char* pointer) const { ::operator delete[](pointer, std::align_val_t{page}); }
};

struct Staging {
    cl::Buffer buffer;                               // of a shared context, or pinned memory
    std::unique_ptr<char[], FreeHostMemory> memory;  // where the host's memory need not be pinned
    char* host = nullptr;                            // null in a shared context
    Event used;                                      // the last command that works on it
};

struct Bytes {
    cl_mem buffer;
    std::size_t offset;
};

Bytes bytes_of(const Location& place) { return {place.block.buffer, place.block.offset + place.offset}; }

void copy_buffer(Queue& queue, const Bytes& source, const Bytes& target, std::size_t bytes)
{
    detail::CommandEvent event(queue, ProfiledCommand::Kind::copy, bytes);
    check_opencl(clEnqueueCopyBuffer(detail::QueueAccess::handle(queue), source.buffer, target.buffer, source.offset,
                                     target.offset, bytes, 0, nullptr, event.pointer()),
                 "clEnqueueCopyBuffer", "copy between devices");
    event.keep();
    detail::QueueAccess::count_command(queue);
}

cl_mem create_buffer(Context& context, cl_mem_flags flags, std::size_t bytes)
{
    cl_int code = CL_SUCCESS;
    const cl_mem buffer = clCreateBuffer(context.handle()(), flags, bytes, nullptr, &code);
    check_opencl(code, "clCreateBuffer", "staging of a copy between devices");
    return buffer;
}

std::unique_ptr<Staging> make_staging(Context& context, bool through_host, std::size_t bytes)
{
    auto staging = std::make_unique<Staging>();
    if (!through_host) {
        staging->buffer = cl::Buffer(create_buffer(context, CL_MEM_READ_WRITE, bytes));
    } else if (context.device().unified_memory || runs_on_host_processor(context.device())) {
        staging->memory.reset(static_cast<char*>(::operator new[](bytes, std::align_val_t{page})));
        staging->host = staging->memory.get();
    } else {
        staging->buffer = cl::Buffer(create_buffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes));
        // In a queue of its own, since mapping waits for what is in the queue.
        const Queue queue(context, -1, false);
        cl_int code = CL_SUCCESS;
        staging->host =
            static_cast<char*>(clEnqueueMapBuffer(queue.handle()(), staging->buffer(), CL_TRUE,
                                                  CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, nullptr, nullptr, &code));
        check_opencl(code, "clEnqueueMapBuffer", "staging of a copy between devices");
    }
    return staging;
}

// The staging buffers of one source device.
class Ring {
public:
    Ring(Context& context, bool through_host) : context_(context), through_host_(through_host) {}

    static constexpr std::size_t small = std::size_t{256} << 10, large = std::size_t{8} << 20;

    void pass(const Location& source, const Location& target, std::size_t bytes)
    {
        const std::lock_guard lock(mutex_);
        Staging& staging = take(bytes <= small ? small_ : large_, bytes <= small ? small : large, source.queue);
        if (staging.host) {
            source.queue.read(source.block, source.offset, staging.host, bytes, true);
            hand_over(staging, source.queue, target.queue);
            target.queue.write(target.block, target.offset, staging.host, bytes, true);
        } else {
            const Bytes between{staging.buffer(), 0};
            copy_buffer(source.queue, bytes_of(source), between, bytes);
            hand_over(staging, source.queue, target.queue);
            copy_buffer(target.queue, between, bytes_of(target), bytes);
        }
        staging.used = target.queue.record();
    }

    void release_idle()
    {
        const std::lock_guard lock(mutex_);
        for (auto* list : {&small_, &large_})
            std::erase_if(*list, [](const auto& staging) { return staging->used.query(); });
    }

private:
    using List = std::vector<std::unique_ptr<Staging>>;

    Staging& take(List& list, std::size_t bytes, Queue& queue)
    {
        constexpr std::size_t most = 4;
        for (auto& staging : list)
            if (staging->used.query())
                return *staging;
        if (list.size() < most)
            return *list.emplace_back(make_staging(context_, through_host_, bytes));
        Staging& staging = *list[next_++ % list.size()];
        queue.wait_for(staging.used);   // the queue, not the host
        return staging;
    }

    static void hand_over(Staging& staging, Queue& from, Queue& to)
    {
        staging.used = from.record();
        to.wait_for(staging.used);
    }

    Context& context_;
    const bool through_host_;
    std::mutex mutex_;
    List small_, large_;
    std::size_t next_ = 0;
};

struct Rings {
    std::mutex mutex;
    std::map<std::pair<const Context*, bool>, Ring> rings;
};

// Never destroyed: drivers may be unloaded before static objects.
Rings& rings()
{
    static auto* const all = new Rings;
    return *all;
}

Ring& ring_of(Context& context, bool through_host)
{
    auto& [mutex, all] = rings();
    const std::lock_guard lock(mutex);
    return all.try_emplace({&context, through_host}, context, through_host).first->second;
}

}  // namespace

void copy_between(const Location& source, const Location& target, std::size_t bytes)
{
    if (bytes == 0)
        return;
    for (const Location* place : {&source, &target})
        require(place->offset <= place->block.size && bytes <= place->block.size - place->offset,
                "copy_between: ", bytes, " bytes from byte ", place->offset, " on reach beyond a block of ",
                place->block.size, " bytes");
    Queue &from = source.queue, &to = target.queue;
    const bool shared = from.context().handle()() == to.context().handle()();
    if (shared && from.device().handle() == to.device().handle()) {   // one device, in two queues or listed twice
        if (&from != &to)
            to.wait_for(from.record());
        copy_buffer(to, bytes_of(source), bytes_of(target), bytes);
        if (&from != &to)
            from.wait_for(to.record());
        return;
    }
    Ring& ring = ring_of(from.context(), !shared);
    for (std::size_t at = 0; at < bytes; at += Ring::large)
        ring.pass({from, source.block, source.offset + at}, {to, target.block, target.offset + at},
                  std::min(Ring::large, bytes - at));
}

namespace detail {

void release_idle_staging(const Context& context)
{
    auto& [mutex, all] = rings();
    const std::lock_guard lock(mutex);
    for (const bool through_host : {false, true})
        if (const auto found = all.find({&context, through_host}); found != all.end())
            found->second.release_idle();
}

}  // namespace detail
}  // namespace clprim
