// What happens to an operator that has no kernel for the device: by policy it runs on the CPU, silently or after a
// warning, or is an error. Never a silence: every operator that ran on the CPU is counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>

namespace torch_ocl {

enum class FallbackPolicy { error, warn, allow };

// The policy of the process; at first TORCH_OCL_FALLBACK=error|warn|allow, by default warn (once per operator).
FallbackPolicy fallback_policy();
void set_fallback_policy(FallbackPolicy policy);

std::map<std::string, std::int64_t> fallback_report();   // calls per operator ("aten::name.overload")
void reset_fallback_report();                            // also warns anew

// The fallback as an operator's kernel: for what PyTorch has for every device and what reads through its tensors'
// addresses.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace torch_ocl
