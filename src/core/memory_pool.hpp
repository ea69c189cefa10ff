// A pool of device memory (clprim/memory_history.hpp) that is released when this goes.
#pragma once

#include <clprim/memory_history.hpp>

namespace clprim::detail {

class MemoryPool {
public:
    MemoryPool() : id_(new_memory_pool()) {}
    MemoryPool(const MemoryPool&) = delete;
    ~MemoryPool() { release_memory_pool(id_); }

    std::uint64_t id() const { return id_; }

    // Gives back what is free of it. Not while a recording has memory of it.
    void trim() const;

    // What this thread allocates comes from the pool while this lives.
    class Use {
    public:
        explicit Use(const MemoryPool& pool) : before_(exchange_memory_pool(pool.id_)) {}
        Use(const Use&) = delete;
        ~Use() { exchange_memory_pool(before_); }

    private:
        std::uint64_t before_;
    };

private:
    std::uint64_t id_;
};

}  // namespace clprim::detail
