// A map that keeps the entries used last. For what is worth keeping by problem, where problems never end.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace clprim {

template <class Key, class Value, class Hash = std::hash<Key>>
class LruCache {
public:
    explicit LruCache(std::size_t most) : most_(most) {}

    std::optional<Value> find(const Key& key)
    {
        std::lock_guard lock(mutex_);
        const auto found = places_.find(key);
        if (found == places_.end())
            return std::nullopt;
        entries_.splice(entries_.begin(), entries_, found->second);
        return found->second->second;
    }

    void keep(const Key& key, Value value)
    {
        std::lock_guard lock(mutex_);
        if (const auto found = places_.find(key); found != places_.end()) {
            found->second->second = std::move(value);
            entries_.splice(entries_.begin(), entries_, found->second);
            return;
        }
        entries_.emplace_front(key, std::move(value));
        places_.emplace(key, entries_.begin());
        if (places_.size() > most_) {
            places_.erase(entries_.back().first);
            entries_.pop_back();
        }
    }

    // The value of a key; made at first use, without holding others up.
    template <class Make>
    Value get(const Key& key, const Make& make)
    {
        if (std::optional<Value> found = find(key))
            return *std::move(found);
        Value value = make();
        keep(key, value);
        return value;
    }

    std::size_t size()
    {
        std::lock_guard lock(mutex_);
        return places_.size();
    }

private:
    using Entries = std::list<std::pair<Key, Value>>;   // the one used last in front

    const std::size_t most_;
    std::mutex mutex_;
    Entries entries_;
    std::unordered_map<Key, typename Entries::iterator, Hash> places_;
};

}  // namespace clprim
