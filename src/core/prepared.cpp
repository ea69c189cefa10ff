#include <clprim/prepared.hpp>

#include <optional>

#include <core/memory_pool.hpp>

namespace clprim {

namespace {

thread_local std::size_t made_by_thread = 0;

}  // namespace

Prepared::Prepared() = default;
Prepared::Prepared(std::shared_ptr<const detail::MemoryPool> pool) : pool_(std::move(pool)) {}
Prepared::~Prepared() = default;

Tensor Prepared::get(const Queue& queue, const std::string& key, const std::function<Tensor()>& make, Keeps keeps)
{
    const std::lock_guard lock(mutex_);
    Tensor& kept = tensors_[{&queue, key}];
    if (!kept.defined()) {
        std::optional<detail::MemoryPool::Use> use;
        if (pool_)
            use.emplace(*pool_);
        kept = make();
        ++made_by_thread;
    }
    replaces_ = keeps == Keeps::all;
    return kept;
}

std::size_t Prepared::made() noexcept { return made_by_thread; }

}  // namespace clprim
