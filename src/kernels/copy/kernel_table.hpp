// Kernels by a small number, one table per device, so that a launch in a hot path does not hash its build options.
#pragma once

#include <array>
#include <atomic>

#include <clprim/context.hpp>

namespace clprim {

template <std::size_t size>
class KernelTable {
public:
    // The kernel at `key`; `build` makes it at first use.
    template <class Build>
    Kernel& get(Context& context, std::size_t key, Build build)
    {
        auto& slot = tables_[static_cast<std::size_t>(context.device().index)];
        Table* table = slot.load(std::memory_order_acquire);
        if (table == nullptr) {
            auto* fresh = new Table();
            if (slot.compare_exchange_strong(table, fresh))
                table = fresh;
            else
                delete fresh;
        }
        Kernel* kernel = (*table)[key].load(std::memory_order_acquire);
        if (kernel == nullptr)
            (*table)[key].store(kernel = &build(), std::memory_order_release);
        return *kernel;
    }

private:
    using Table = std::array<std::atomic<Kernel*>, size>;
    static constexpr std::size_t most_devices = 64;
    std::array<std::atomic<Table*>, most_devices> tables_{};
};

}  // namespace clprim
