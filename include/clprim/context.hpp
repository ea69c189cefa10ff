// Context: everything that belongs to one device: cl context, queues, allocator, programs, tuning results.
#pragma once

#include <memory>
#include <string_view>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class Context {
public:
    // The context of a device, created at first use and kept until the process ends. Throws InvalidArgument for an
    // unknown index or text ("0:1", "gpu", part of a name).
    static Context& get(int device_index = 0);
    static Context& get(std::string_view device);
    static bool created(int device_index) noexcept;   // whether get was called for it
    // The same for a device of so many of this one's compute units, which a driver of CPUs runs on as many threads. It
    // has memory and programs of its own, is kept until the process ends, and is not among devices(). This context
    // itself where the device has no more. Throws InvalidArgument for 0, NotSupported where the driver cannot divide.
    Context& with_threads(unsigned threads);

    Context(const Context&) = delete;
    ~Context();

    const Device& device() const;
    const cl::Context& handle() const;

    // Queues. Queue 0 is the default; new_queue takes one from a fixed round-robin pool, so ids stay small.
    Queue& queue(int id = 0);
    Queue& new_queue();
    Queue& add_queue(const cl::CommandQueue& queue);   // a program's own, once for each: adopt (clprim/interop.hpp)
    int queue_count() const;
    void finish();                       // waits for every queue; throws deferred errors

    // Memory. allocate throws OutOfMemory; 0 bytes give a valid empty block. `queue` is where it is used first.
    Memory allocate(std::size_t bytes, Queue& queue);
    Block* allocate_block(std::size_t bytes, Queue& queue);   // for owners that keep raw pointers
    void free_block(Block* block) noexcept;
    void record_use(Block& block, Queue& queue);               // also used on this queue: reused only after its work
    // Whatever is freed from now on is reused only after this queue's work: for queues that work on memory whose last
    // owner may be gone while they do, as those of callbacks.
    void await_before_reuse(Queue& queue);
    void empty_cache();
    MemoryStatistics memory_statistics() const;
    void reset_peak_memory_statistics();
    void reset_accumulated_memory_statistics();
    void set_memory_limit(std::size_t bytes);                  // upper bound of reserved bytes; 0 = the device's memory
    // The block whose address range holds an address, or null. For pointers that come back from foreign code.
    Block* find_block(const void* address) const;
    Tensor empty(const Dims& shape, DataType dtype, Queue& queue);

    // A program from an embedded file (see kernel_source) or from text; built at first use, then from memory or disk.
    // Options are -D definitions and portable flags; -cl-std is added. The result lives as long as the context.
    // Throws BuildError. Thread-safe; look-ups cost a hash of the arguments, so hot paths keep the Kernel& they get.
    const Program& program(std::string_view source_path, std::string_view options = {});
    const Program& program_from_text(std::string_view name, std::string_view text, std::string_view options = {});
    std::size_t program_builds() const;                        // compiled in this process (not from the disk cache)

private:
    explicit Context(const Device& device);
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace clprim
CLPRIM_API_END
