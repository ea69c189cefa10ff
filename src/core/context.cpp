#include <clprim/context.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <vector>

#include <core/at_exit.hpp>
#include <core/adopted_context.hpp>
#include <core/caching_allocator.hpp>
#include <core/device_part.hpp>
#include <core/environment.hpp>
#include <core/event_bridge.hpp>
#include <core/planned_memory.hpp>
#include <core/poison.hpp>
#include <core/program_cache.hpp>
#include <core/system.hpp>
#include <core/transfer.hpp>

namespace clprim {
namespace {

constexpr int max_devices = 64;
constexpr int pool_size = 32;   // queues of new_queue() besides queue 0
constexpr int most_adopted = 32;

std::mutex registry_mutex;
// Never destroyed: drivers may be unloaded before static destructors run.
std::array<std::atomic<Context*>, max_devices> registry{};
std::int64_t owner_process = 0;

// Work still under way at exit would meet a driver that is being torn down. (Oclgrind works only when it is waited for,
// and cannot be called any more: its thread-local data is gone.)
void finish_at_exit()
{
    if (detail::process_id() != owner_process)
        return;
    detail::settle_barriers();
    for (auto& slot : registry)
        if (Context* context = slot.load(); context && context->device().platform_name != "Oclgrind")
            for (int i = 0; i < context->queue_count(); ++i)
                clFinish(context->queue(i).handle()());
}

cl::Context create_context(const cl::Platform& platform, const std::vector<cl_device_id>& ids, cl_int* code)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                reinterpret_cast<cl_context_properties>(platform()), 0};
    return cl::Context(clCreateContext(properties, static_cast<cl_uint>(ids.size()), ids.data(), nullptr, nullptr,
                                       code));
}

// Whether a device shares its context with the others of its platform, so that events and buffers pass between them
// within the driver. Intel's driver for GPUs does not: it would keep room for every buffer on every GPU.
bool shares_context(const Device& device)
{
    const std::string wanted = environment("CLPRIM_SHARED_CONTEXTS");
    if (!wanted.empty())
        return wanted != "0";
    return device.unified_memory || device.platform_name.find("Intel") == std::string::npos;
}

// Contexts of the program's own, by device. Under the registry's mutex.
std::map<cl_device_id, cl::Context>& adopted_contexts()
{
    static auto* const contexts = new std::map<cl_device_id, cl::Context>;
    return *contexts;
}

// The context of a device: the program's, or one for all of its platform that devices() lists, or one for it alone if
// the driver does not give that. Called under the registry's mutex.
cl::Context context_for(const Device& device)
{
    if (const auto found = adopted_contexts().find(device.handle()); found != adopted_contexts().end())
        return found->second;
    static auto* const shared = new std::map<cl_platform_id, cl::Context>;
    cl_int code = CL_SUCCESS;
    const bool listed = std::ranges::any_of(devices(), [&](const Device& d) { return d.handle() == device.handle(); });
    if (listed && shares_context(device)) {
        if (const auto found = shared->find(device.platform()); found != shared->end())
            return found->second;
        std::vector<cl_device_id> ids;
        for (const Device& other : devices())
            if (other.platform() == device.platform() && shares_context(other) &&
                std::find(ids.begin(), ids.end(), other.handle()) == ids.end())
                ids.push_back(other.handle());
        cl::Context context = create_context(device.platform, ids, &code);
        if (code == CL_SUCCESS)
            return shared->emplace(device.platform(), std::move(context)).first->second;
    }
    cl::Context context = create_context(device.platform, {device.handle()}, &code);
    check_opencl(code, "clCreateContext", device.name);
    return context;
}

}  // namespace

struct Context::State {
    State(Context& self, const Device& device_)
        : device(device_), handle(context_for(device_)), programs(device_, handle), allocator(self)
    {
    }

    const Device& device;
    cl::Context handle;
    ProgramCache programs;
    CachingAllocator allocator;
    std::mutex mutex;
    std::array<std::atomic<Queue*>, 1 + pool_size + most_adopted> queues{};   // those of the program's own last
    std::atomic<int> queue_count{0};
    std::atomic<unsigned> next_queue{0};
};

Context::Context(const Device& device) : state_(std::make_unique<State>(*this, device)) { queue(0); }
Context::~Context() = default;

Context& Context::get(int device_index)
{
    if (device_index >= 0 && device_index < max_devices)
        if (Context* context = registry[device_index].load(std::memory_order_acquire)) [[likely]] {
            require<Error>(detail::process_id() == owner_process,
                           "OpenCL was initialised before this process was forked and cannot be used in the child; use "
                           "the 'spawn' or 'forkserver' start method of multiprocessing");
            return *context;
        }
    const Device& device = device_at(device_index);
    require<NotSupported>(device_index < max_devices, "clprim serves at most ", max_devices, " devices");
    std::lock_guard lock(registry_mutex);
    if (Context* context = registry[device_index].load())
        return *context;
    if (owner_process == 0) {
        owner_process = detail::process_id();
        std::atexit(finish_at_exit);
    }
    auto* context = new Context(device);
    registry[device_index].store(context, std::memory_order_release);
    return *context;
}

void detail::wait_at_exit_before_drivers(const Device& device)
{
    if (device.platform_name == "Portable Computing Language")
        std::atexit(finish_at_exit);
}

void detail::adopt_context(const cl::Context& context, const std::vector<cl_device_id>& ids)
{
    std::lock_guard lock(registry_mutex);
    bool known = false;
    for (const Device& device : devices()) {
        if (std::find(ids.begin(), ids.end(), device.handle()) == ids.end())
            continue;
        known = true;
        require(!Context::created(device.index), "use_context: clprim uses ", device.name,
                " already; give it the context before first use");
    }
    require(known, "use_context: clprim has none of the context's devices; see CLPRIM_DEVICES");
    for (const cl_device_id id : ids)
        adopted_contexts()[id] = context;
}

Context& Context::get(std::string_view device) { return get(find_device(device)); }

Context& Context::with_threads(unsigned threads)
{
    require(threads > 0, "with_threads: 0 threads compute nothing");
    if (threads >= device().compute_units)
        return *this;
    // Devices of few units have the last of the numbers, which none of devices() has.
    static auto* const parts = new std::map<std::pair<int, unsigned>, Context*>;
    const std::lock_guard lock(registry_mutex);
    Context*& known = (*parts)[{device().index, threads}];
    if (known)
        return *known;
    const int index = max_devices - static_cast<int>(parts->size());
    require<NotSupported>(index >= static_cast<int>(devices().size()), "with_threads: clprim serves at most ",
                          max_devices, " devices");
    auto* const part = new Device(detail::part_of(device(), threads, index));
    known = new Context(*part);
    registry[static_cast<std::size_t>(index)].store(known, std::memory_order_release);
    return *known;
}

bool Context::created(int device_index) noexcept
{
    return device_index >= 0 && device_index < max_devices && registry[device_index].load() != nullptr;
}

const Device& Context::device() const { return state_->device; }
const cl::Context& Context::handle() const { return state_->handle; }

Queue& Context::queue(int id)
{
    if (id >= 0 && id <= pool_size + most_adopted)
        if (Queue* queue = state_->queues[id].load(std::memory_order_acquire)) [[likely]]
            return *queue;
    require(id >= 0 && id <= pool_size, "queue ", id, " is out of range 0 to ", pool_size);
    std::lock_guard lock(state_->mutex);
    // All queues up to this one, so that ids below queue_count() always exist.
    for (int i = state_->queue_count; i <= id; ++i) {
        state_->queues[i].store(new Queue(*this, i, true), std::memory_order_release);
        state_->queue_count = i + 1;
    }
    return *state_->queues[id].load();
}

Queue& Context::new_queue()
{
    return queue(1 + 2 * static_cast<int>(state_->next_queue++ % (pool_size / 2)));   // even ids have high priority
}

Queue& Context::add_queue(const cl::CommandQueue& queue)
{
    const std::lock_guard lock(state_->mutex);
    for (int id = pool_size + 1; id <= pool_size + most_adopted; ++id) {
        auto& slot = state_->queues[id];
        Queue* const known = slot.load();
        if (known && known->handle()() == queue())
            return *known;
        if (!known) {
            slot.store(new Queue(*this, id, queue), std::memory_order_release);
            return *slot.load();
        }
    }
    throw NotSupported("a device has at most " + std::to_string(most_adopted) + " queues of the program's own");
}

int Context::queue_count() const { return state_->queue_count; }

void Context::finish()
{
    for (const auto& slot : state_->queues)
        if (Queue* const queue = slot.load(std::memory_order_acquire))
            queue->finish();
}

Block* Context::allocate_block(std::size_t bytes, Queue& queue)
{
    Block* block = state_->allocator.allocate(bytes, queue);
    if (detail::poisons_blocks()) [[unlikely]]
        try {
            detail::poison(queue, *block);
        } catch (...) {
            state_->allocator.free(block);
            throw;
        }
    return block;
}

void Context::free_block(Block* block) noexcept { state_->allocator.free(block); }

Memory Context::allocate(std::size_t bytes, Queue& queue)
{
    if (detail::AllocationGuide* const guide = detail::AllocationGuide::current()) [[unlikely]]
        return guide->allocate(*this, bytes, queue);
    return Memory(allocate_block(bytes, queue), [](Block* block) { block->context->free_block(block); });
}

void Context::record_use(Block& block, Queue& queue) { state_->allocator.record_use(block, queue.id()); }
void Context::await_before_reuse(Queue& queue) { state_->allocator.await_before_reuse(queue); }
void Context::empty_cache()
{
    state_->allocator.empty_cache();
    detail::release_idle_staging(*this);
}
MemoryStatistics Context::memory_statistics() const { return state_->allocator.statistics(); }
void Context::reset_peak_memory_statistics() { state_->allocator.reset_peak(); }
void Context::reset_accumulated_memory_statistics() { state_->allocator.reset_accumulated(); }
void Context::set_memory_limit(std::size_t bytes) { state_->allocator.set_limit(bytes); }
Block* Context::find_block(const void* address) const { return state_->allocator.find(address); }

Tensor Context::empty(const Dims& shape, DataType dtype, Queue& queue)
{
    for (auto size : shape)
        require(size >= 0, "empty: negative size in shape ", to_string(shape));
    require(is_data_type(dtype), "empty: ", static_cast<int>(dtype), " is no dtype");
    require<NotSupported>(device().fp64 || (dtype != DataType::float64 && dtype != DataType::complex128), "empty: ",
                          device().name, " has no ", name_of(dtype));
    std::size_t bytes = size_of(dtype);
    bool fits = true;
    for (auto size : shape)
        fits &= !__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes);
    if (!fits)   // no device holds what cannot be counted
        bytes = std::find(shape.begin(), shape.end(), 0) == shape.end() ? SIZE_MAX : 0;
    return {allocate(bytes, queue), dtype, shape};
}

const Program& Context::program(std::string_view source_path, std::string_view options)
{
    return state_->programs.embedded(source_path, options);
}

const Program& Context::program_from_text(std::string_view name, std::string_view text, std::string_view options)
{
    return state_->programs.from_text(name, text, options);
}

std::size_t Context::program_builds() const { return state_->programs.builds(); }

}  // namespace clprim
