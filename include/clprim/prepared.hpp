// What operators derive from an operand that never changes, such as weights in the order of their kernels. Whoever
// keeps the operand keeps one of these with it and hands it over with every call that reads the operand.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <clprim/tensor.hpp>

CLPRIM_API_BEGIN
namespace clprim {

namespace detail {
class MemoryPool;
}

class Prepared {
public:
    Prepared();
    // What is kept comes from that pool, so that it does not lie among memory that comes and goes.
    explicit Prepared(std::shared_ptr<const detail::MemoryPool> pool);
    ~Prepared();

    // Whether the operand itself is read beside what is kept.
    enum class Keeps { part, all };

    // What is kept under `key` for a queue, made by `make` on that queue the first time.
    Tensor get(const Queue& queue, const std::string& key, const std::function<Tensor()>& make,
               Keeps keeps = Keeps::part);

    // How many tensors this thread has made so. Of a recording that made one, the making is part.
    static std::size_t made() noexcept;

    // Whether somebody asked since this was called before, and the last one had all it needs of the operand here. Where
    // that is so of every reader, who owns the operand may let it go.
    bool take_replaced()
    {
        const std::lock_guard lock(mutex_);
        return std::exchange(replaces_, false);
    }

private:
    std::shared_ptr<const detail::MemoryPool> pool_;
    std::mutex mutex_;
    bool replaces_ = false;
    std::map<std::pair<const Queue*, std::string>, Tensor> tensors_;
};

}  // namespace clprim
CLPRIM_API_END
