#include <core/tuning_store.hpp>

#include <map>
#include <vector>

#include <fmt/format.h>

#include <core/program_cache.hpp>

namespace clprim {
namespace {

std::filesystem::path file_of(const std::string& key)
{
    const auto folder = cache_folder();
    return folder.empty() ? folder : folder / (cache_hash(key) + ".tune");
}

}  // namespace

TuningStore::TuningStore(const Device& device)
    : device_key_(fmt::format("tuning\n{}\n{}\n{}\n{}", device.platform_name, device.name, device.driver_version,
                              device.kind == DeviceKind::cpu ? "cpu" : "gpu"))
{
}

TuningStore& TuningStore::of(const Device& device)
{
    static std::mutex mutex;
    static std::map<int, TuningStore> stores;
    std::lock_guard lock(mutex);
    return stores.try_emplace(device.index, device).first->second;
}

std::string TuningStore::key(std::string_view family, std::string_view problem) const
{
    return fmt::format("{}\n{}\n{}", device_key_, family, problem);
}

std::optional<std::string> TuningStore::find(std::string_view family, std::string_view problem)
{
    const std::string wanted = key(family, problem);
    if (auto found = known_.find(wanted))
        return found;
    const auto file = file_of(wanted);
    if (file.empty())
        return std::nullopt;
    const auto data = load_cache_entry(file, wanted);
    if (!data)
        return std::nullopt;
    const std::string name(data->begin(), data->end());
    known_.keep(wanted, name);
    return name;
}

void TuningStore::keep(std::string_view family, std::string_view problem, std::string_view name)
{
    const std::string wanted = key(family, problem);
    known_.keep(wanted, std::string(name));
    if (const auto file = file_of(wanted); !file.empty())
        save_cache_entry(file, wanted, std::vector<unsigned char>(name.begin(), name.end()));
}

}  // namespace clprim
