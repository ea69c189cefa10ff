// A queue's work, kept instead of done, to be done as often as wanted: a launch of a recorded kernel costs neither the
// choice of an implementation nor an allocation. What CUDA calls graph capture, for one queue.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class Queue;

struct RecordedCommand {
    std::string name;   // of a kernel, or write, read, copy, fill
    std::array<std::size_t, 3> global{}, local{};
    std::size_t bytes = 0;
};

// From construction to end() kernels, copies and fills of the queue are recorded and not done. The memory that they
// name must stay: who records allocates from a pool (clprim/memory_history.hpp) that lives as long. Bytes of pageable
// host memory are kept as they are now, and written now as well, since what is kept with a device (tables of constants)
// is used by others too; pinned memory is read at each replay. A wait for the queue, a read to pageable memory, and
// another queue's wait for an event of this one throw Error.
class Recording {
public:
    // Whose work on the queue is recorded: that of every thread, as autograd's threads launch too, or of this one alone
    // while others go on as ever.
    enum class Threads { all, this_one };
    explicit Recording(Queue& queue, Threads threads = Threads::all);
    ~Recording();
    Recording(const Recording&) = delete;

    void end();
    void replay(Queue& queue) const;              // of the same device
    std::vector<RecordedCommand> commands() const;

    struct State;

private:
    std::unique_ptr<State> state_;
};

bool is_recording(const Queue& queue) noexcept;

}  // namespace clprim
CLPRIM_API_END
