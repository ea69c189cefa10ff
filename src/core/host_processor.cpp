#include <core/host_processor.hpp>

#ifdef __x86_64__
#include <cpuid.h>

#include <core/system.hpp>
#endif

namespace clprim {

#ifdef __x86_64__

namespace {

constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, amx_int8 = 1u << 25;   // of leaf 7

bool has_all(unsigned bits) noexcept
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bits) == bits;
}

}  // namespace

bool host_has_amx() noexcept
{
    static const bool has = has_all(amx_bf16 | amx_tile) && detail::allow_tile_registers();
    return has;
}

bool host_has_amx_int8() noexcept
{
    static const bool has = host_has_amx() && has_all(amx_int8);
    return has;
}

unsigned host_vnni_bytes() noexcept
{
    constexpr unsigned avx_vnni = 1u << 4;   // of leaf 7, 1
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl"))
        return 64;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx_vnni) ? 32 : 0;
}

bool host_has_avx512_bf16() noexcept
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl");
}

bool host_halves_vectors() noexcept
{
    constexpr unsigned fp512 = 1u << 3;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") && __get_cpuid(0x8000001a, &a, &b, &c, &d) &&
           (a & fp512) == 0;
}

#else

bool host_has_amx() noexcept { return false; }
bool host_has_amx_int8() noexcept { return false; }
unsigned host_vnni_bytes() noexcept { return 0; }
bool host_has_avx512_bf16() noexcept { return false; }
bool host_halves_vectors() noexcept { return false; }

#endif

std::size_t host_cache()
{
    static const std::size_t bytes = [] {
        const std::size_t said = detail::last_level_cache();
        return said ? said : std::size_t{32} << 20;
    }();
    return bytes;
}

}  // namespace clprim
