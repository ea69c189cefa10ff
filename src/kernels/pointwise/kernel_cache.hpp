// Generated kernels by a small key, so that a launch costs one comparison and builds no string.
#pragma once

#include <cstdint>

#include <clprim/context.hpp>

namespace clprim {

struct KernelKey {
    const void* code = nullptr;       // the row, or the interned text
    std::uint64_t dtypes = 0;         // four bits for each operand
    std::uint64_t form = 0;           // how operands move, variant of the kernel, common dtype: see the packers
    friend bool operator==(const KernelKey&, const KernelKey&) = default;
};

Kernel* find_kernel(Context& context, const KernelKey& key);                     // null: not built yet
Kernel& remember_kernel(Context& context, const KernelKey& key, Kernel& kernel);

// The kernel of a key in a context; made by `build` at first use. Thread-safe; kernels live as long as the context.
template <class Build>
Kernel& cached_kernel(Context& context, const KernelKey& key, const Build& build)
{
    if (Kernel* kernel = find_kernel(context, key)) [[likely]]
        return *kernel;
    return remember_kernel(context, key, build());
}

// Packs fields into a key from the low bits up.
class KeyPacker {
public:
    KeyPacker& add(unsigned value, unsigned bits)
    {
        word_ |= std::uint64_t{value} << used_;
        used_ += bits;
        return *this;
    }
    std::uint64_t word() const { return word_; }

private:
    std::uint64_t word_ = 0;
    unsigned used_ = 0;
};

}  // namespace clprim
