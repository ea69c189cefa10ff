// An engine for ranks of one machine: the bytes of most collectives pass through memory that the processes share, all
// else goes to the engine below it.
#pragma once

#include <distributed/engine.hpp>
#include <distributed/shared_segment.hpp>

namespace torch_ocl::distributed {

// Collective: the engine that shares memory where all ranks can, otherwise `below` itself.
Inner with_shared_memory(Inner below, Milliseconds timeout);

}  // namespace torch_ocl::distributed
