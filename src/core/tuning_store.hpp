// What tuning found on a device, kept across processes: one small file per problem in the cache folder, so concurrent
// processes never meet in a file and a damaged entry costs one measurement.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <clprim/device.hpp>
#include <core/lru_cache.hpp>

namespace clprim CLPRIM_API {

class TuningStore {
public:
    explicit TuningStore(const Device& device);
    static TuningStore& of(const Device& device);   // the process's store of a device

    // The name kept for a problem of a family, from memory or disk.
    std::optional<std::string> find(std::string_view family, std::string_view problem);
    void keep(std::string_view family, std::string_view problem, std::string_view name);

private:
    std::string key(std::string_view family, std::string_view problem) const;

    std::string device_key_;
    LruCache<std::string, std::string> known_{1024};   // the others are on disk
};

}  // namespace clprim
