// What happens to an operator that has no kernel for the device: by policy it runs on the CPU, silently or after a
// warning, or is an error. Never a silence: every operator that ran on the CPU is counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace torch_ocl {

enum class FallbackPolicy { error, warn, allow };

// The policy of the process; at first TORCH_OCL_FALLBACK=error|warn|allow, by default warn (once per operator).
FallbackPolicy fallback_policy();
void set_fallback_policy(FallbackPolicy policy);

std::map<std::string, std::int64_t> fallback_report();   // calls per operator ("aten::name.overload")
void reset_fallback_report();                            // also warns anew

}  // namespace torch_ocl
