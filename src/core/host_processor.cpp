#include <core/host_processor.hpp>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace clprim {

#if defined(__x86_64__) && defined(__linux__)

namespace {

bool ask_for_amx() noexcept
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;   // of leaf 7
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (amx_bf16 | amx_tile)) != (amx_bf16 | amx_tile))
        return false;
    constexpr long request_permission = 0x1023, tile_data = 18;    // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool host_has_amx() noexcept
{
    static const bool has = ask_for_amx();
    return has;
}

#else

bool host_has_amx() noexcept { return false; }

#endif

}  // namespace clprim
