#include <core/tuning_store.hpp>

#include <atomic>

#include <fmt/format.h>

#include <core/environment.hpp>
#include <core/program_cache.hpp>

namespace clprim {
namespace {

constexpr std::string_view extension = ".tune";
std::atomic<bool> kept_here{false};

std::filesystem::path folder()
{
    if (std::string own = environment("CLPRIM_TUNING_DIR"); !own.empty())
        return own;
    const auto cache = cache_folder();
    return cache.empty() ? cache : cache / "tuning";
}

// A file's key is the device's, family and problem, and its data the choice.
std::string key_of(const std::string& device, std::string_view family, std::string_view problem)
{
    return fmt::format("{}\n{}\n{}", device, family, problem);
}

}  // namespace

TuningStore::TuningStore(const Device& device)
    : device_key_(fmt::format("tuning\n{}\n{}\n{}\n{}", device.platform_name, device.name, device.driver_version,
                              device.kind == DeviceKind::cpu ? "cpu" : "gpu"))
{
    read_folder();
}

void TuningStore::read_folder()
{
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder(), error)) {
        if (entry.path().extension() != extension)
            continue;
        const auto kept = load_any_cache_entry(entry.path());
        if (!kept || !kept->key.starts_with(device_key_ + "\n"))
            continue;
        const std::string_view rest = std::string_view(kept->key).substr(device_key_.size() + 1);
        const std::size_t line = rest.find('\n');
        if (line == std::string_view::npos)
            continue;
        results_[{std::string(rest.substr(0, line)), std::string(rest.substr(line + 1))}] =
            std::string(kept->data.begin(), kept->data.end());
    }
}

TuningStore& TuningStore::of(const Device& device)
{
    static std::mutex mutex;
    static std::map<int, TuningStore> stores;
    std::lock_guard lock(mutex);
    return stores.try_emplace(device.index, device).first->second;
}

bool TuningStore::any_kept()
{
    std::error_code error;
    const auto path = folder();
    return kept_here || (!path.empty() && std::filesystem::exists(path, error));
}

std::optional<std::string> TuningStore::find(std::string_view family, std::string_view problem) const
{
    const std::lock_guard lock(mutex_);
    const auto found = results_.find({std::string(family), std::string(problem)});
    return found == results_.end() ? std::nullopt : std::optional(found->second);
}

void TuningStore::keep(std::string_view family, std::string_view problem, std::string_view choice)
{
    {
        const std::lock_guard lock(mutex_);
        results_[{std::string(family), std::string(problem)}] = choice;
        kept_here = true;
    }
    const auto path = folder();
    std::error_code error;
    if (path.empty() || (std::filesystem::create_directories(path, error), error))
        return;
    const std::string key = key_of(device_key_, family, problem);
    save_cache_entry(path / (cache_hash(key) + std::string(extension)), key,
                     std::vector<unsigned char>(choice.begin(), choice.end()));
}

TuningStore::Results TuningStore::results() const
{
    const std::lock_guard lock(mutex_);
    return results_;
}

}  // namespace clprim
