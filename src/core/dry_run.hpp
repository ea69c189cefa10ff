// A dry run (CLPRIM_DRY_RUN=file): programs are dumped but never built, launches are recorded and not enqueued. It says
// which kernels a device would be asked for, with which sizes, on a machine that does not have the device
// (CLPRIM_DEVICE_FIGURES); what tensors hold afterwards means nothing.
#pragma once

#include <string>

#include <clprim/queue.hpp>

namespace clprim::detail {

bool dry_run();

// What a program is called in the log: the stem of its file among CLPRIM_DUMP_PROGRAMS.
void name_program(const Program& program, const std::string& stem);
void name_kernel(const Kernel& kernel, const Program& program);

// Called with the kernel's mutex held, as from a Launch. A line of the log reads
// "program kernel global local bytes-of-local-arguments", sizes as 64x64x1, local 0x0x0 where the driver chooses.
void add_local_argument(const Kernel& kernel, std::size_t bytes);
void log_launch(const Kernel& kernel, const Range& range);

}  // namespace clprim::detail
