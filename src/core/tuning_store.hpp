// What tuning found on a device, kept across processes: one small file per problem in the cache folder, so concurrent
// processes never meet in a file and a damaged entry costs one measurement.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <clprim/device.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class TuningStore {
public:
    using Results = std::map<std::pair<std::string, std::string>, std::string>;   // (family, problem) -> choice

    explicit TuningStore(const Device& device);          // reads what is on disk
    static TuningStore& of(const Device& device);        // the process's store of a device
    static bool any_kept();                              // of any device, on disk or by this process

    // The choice kept for a problem of a family: "gpu_tiled", or with parameters "gpu_tiled:tile=64".
    std::optional<std::string> find(std::string_view family, std::string_view problem) const;
    void keep(std::string_view family, std::string_view problem, std::string_view choice);
    Results results() const;

private:
    void read_folder();

    std::string device_key_;
    mutable std::mutex mutex_;
    Results results_;
};

}  // namespace clprim
CLPRIM_API_END
