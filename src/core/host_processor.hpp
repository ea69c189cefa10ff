// What the processor of this process offers to kernels of CPU devices.
#pragma once

#include <cstddef>

#include <clprim/device.hpp>

namespace clprim {

// Whether it has AMX tile registers with bfloat16 products and the operating system lets this process use them, which
// is asked for here, once. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18;
// Linux, Documentation/arch/x86/xstate.rst.
bool host_has_amx() noexcept;

// Whether they multiply bytes too.
bool host_has_amx_int8() noexcept;

// Bytes of the vectors that it multiplies and adds fours of bytes with (vpdpbusd): 64 with AVX-512 VNNI, 32 with
// AVX-VNNI alone, which has an encoding of its own, 0 with neither.
unsigned host_vnni_bytes() noexcept;

// Whether it multiplies pairs of bfloat16 by vectors of 64 bytes (vdpbf16ps).
bool host_has_avx512_bf16() noexcept;

// The same of a device, whose driver may be kept to shorter vectors.
inline bool multiplies_bfloat16_by_vectors(const Device& device)
{
    return device.vnni_bytes == 64 && host_has_avx512_bf16();
}

// Of programs with core/prefetch.cl: x86 processors that multiply bytes have its instructions.
inline const char* prefetch_option(const Device& device)
{
    return device.kind == DeviceKind::cpu && device.vnni_bytes ? " -DX86_PREFETCH" : "";
}

// Whether it computes with vectors of 64 bytes in two halves, as AMD's Zen 4 does: one product a cycle in place of two.
// Source: AMD64 Architecture Programmer's Manual, volume 3, appendix E, function 8000_001A (FP512).
bool host_halves_vectors() noexcept;

// Bytes of its largest cache, or what is usual where the system does not say.
std::size_t host_cache();

}  // namespace clprim
