#include <kernels/pointwise/kernel_cache.hpp>

#include <mutex>
#include <unordered_map>

namespace clprim {
namespace {

struct Place {
    Context* context = nullptr;
    KernelKey key;
    friend bool operator==(const Place&, const Place&) = default;
};

std::size_t hash(const Place& place)
{
    std::uint64_t h =
        reinterpret_cast<std::uintptr_t>(place.context) ^ reinterpret_cast<std::uintptr_t>(place.key.code);
    for (std::uint64_t word : {place.key.dtypes, place.key.form})
        h = (h ^ word) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return static_cast<std::size_t>(h);
}

struct Hash {
    std::size_t operator()(const Place& place) const { return hash(place); }
};

// All kernels of the process.
std::mutex table_mutex;
std::unordered_map<Place, Kernel*, Hash>& table()
{
    static auto* kernels = new std::unordered_map<Place, Kernel*, Hash>;   // never destroyed: queues may outlive it
    return *kernels;
}

// In front of the table, per thread and without a lock: the kernels used last.
struct Entry {
    Place place;
    Kernel* kernel = nullptr;
};
constexpr std::size_t recent_entries = 512;
thread_local Entry recent_kernels[recent_entries];

}  // namespace

Kernel* find_kernel(Context& context, const KernelKey& key)
{
    const Place place{&context, key};
    Entry& entry = recent_kernels[hash(place) % recent_entries];
    if (entry.kernel && entry.place == place)
        return entry.kernel;
    std::lock_guard lock(table_mutex);
    auto found = table().find(place);
    if (found == table().end())
        return nullptr;
    entry = {place, found->second};
    return found->second;
}

Kernel& remember_kernel(Context& context, const KernelKey& key, Kernel& kernel)
{
    std::lock_guard lock(table_mutex);
    table().emplace(Place{&context, key}, &kernel);
    return kernel;
}

}  // namespace clprim
