// What the processor of this process offers to kernels of CPU devices.
#pragma once

namespace clprim {

// Whether it has AMX tile registers with bfloat16 products and the operating system lets this process use them, which
// is asked for here, once. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18;
// Linux, Documentation/arch/x86/xstate.rst.
bool host_has_amx() noexcept;

}  // namespace clprim
