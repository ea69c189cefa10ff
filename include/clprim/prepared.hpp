// What operators derive from an operand that never changes, such as weights in the order of their kernels. Whoever
// keeps the operand keeps one of these with it and hands it over with every call that reads the operand.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <clprim/tensor.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class Prepared {
public:
    // What is kept under `key` for a queue, made by `make` on that queue the first time.
    Tensor get(const Queue& queue, const std::string& key, const std::function<Tensor()>& make)
    {
        const std::lock_guard lock(mutex_);
        Tensor& kept = tensors_[{&queue, key}];
        if (!kept.defined())
            kept = make();
        return kept;
    }

private:
    std::mutex mutex_;
    std::map<std::pair<const Queue*, std::string>, Tensor> tensors_;
};

}  // namespace clprim
CLPRIM_API_END
