// The floating-point environment of a thread that runs kernels. On CPU devices a thread that waits, or launches a small
// kernel, runs kernels itself, and drivers leave it the rounding and the flushing of denormal numbers that the program
// has chosen for its own arithmetic.
#pragma once

#if defined(__SSE__) || defined(_M_X64)
#define CLPRIM_HAS_MXCSR
#include <xmmintrin.h>
#endif

namespace clprim::detail {

// While it lives: round to nearest, denormal numbers kept, no traps.
class KernelFloatEnvironment {
public:
#ifdef CLPRIM_HAS_MXCSR
    KernelFloatEnvironment() noexcept : before_(_mm_getcsr())
    {
        if ((before_ & ~flags) != standard) [[unlikely]]
            _mm_setcsr(standard);
    }
    ~KernelFloatEnvironment()
    {
        if ((before_ & ~flags) != standard) [[unlikely]]
            _mm_setcsr(before_);
    }
    KernelFloatEnvironment(const KernelFloatEnvironment&) = delete;

private:
    static constexpr unsigned standard = 0x1f80, flags = 0x3f;   // what has happened: left as it comes
    unsigned before_;
#endif
};

}  // namespace clprim::detail
