// The threads that PyTorch runs backward passes on, one a device.
#pragma once

#include <chrono>

namespace torch_ocl {

// PyTorch runs the operators of a backward pass on a thread of their device, so that devices work at the same time.
// With one device nothing else runs meanwhile, and a small pass pays for two switches of threads: the passes that this
// thread asks for run on itself, as those of the CPU do, unless it is told otherwise later
// (torch.autograd.set_multithreading_enabled). To be called when a thread first uses the device.
void keep_backward_passes_on_this_thread();

// Waits until the devices' threads have let go of the backward passes that they ran. A thread does so only after it has
// told the caller that the pass is done, and a pass may own Python objects: a thread that lets go of them while the
// interpreter ends is ended by it in the middle of a destructor, and the process with it. To be called before that,
// without the GIL. A thread that is busy for longer is left alone.
void let_go_of_backward_passes(std::chrono::milliseconds at_most);

}  // namespace torch_ocl
