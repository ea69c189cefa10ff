#include <runtime/prepared_constants.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

namespace torch_ocl {
namespace {

struct Kept {
    std::int64_t offset = 0;
    std::vector<std::int64_t> sizes, strides;
    std::uint32_t version = 0;
    std::unique_ptr<clprim::Prepared> prepared;

    bool is_of(const at::Tensor& t) const
    {
        return offset == t.storage_offset() && t.sizes().equals(sizes) && t.strides().equals(strides);
    }
};

struct OfStorage {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::vector<Kept> views;
};

struct Constants {
    std::mutex mutex;
    std::unordered_map<const c10::StorageImpl*, OfStorage> storages;
    std::size_t swept = 16;     // how many storages there may be before those that are gone are looked for

    void forget_gone()
    {
        std::erase_if(storages, [](const auto& entry) { return entry.second.storage.expired(); });
        swept = std::max<std::size_t>(16, 2 * storages.size());
    }
};

Constants& constants()
{
    static auto* const all = new Constants;   // never destroyed: drivers may be gone at exit
    return *all;
}

}  // namespace

clprim::Prepared* prepared_of(const at::Tensor& constant)
{
    Constants& all = constants();
    const std::uint32_t version = constant.is_inference() ? 0 : static_cast<std::uint32_t>(constant._version());
    const c10::StorageImpl* const storage = constant.storage().unsafeGetStorageImpl();
    const std::lock_guard lock(all.mutex);
    if (all.storages.size() > all.swept)
        all.forget_gone();
    auto found = all.storages.find(storage);
    if (found != all.storages.end() && found->second.storage.expired()) {   // another storage where that one was
        all.storages.erase(found);
        found = all.storages.end();
    }
    if (found == all.storages.end())
        found = all.storages
                    .emplace(storage, OfStorage{c10::weak_intrusive_ptr<c10::StorageImpl>(
                                                    constant.storage().getWeakStorageImpl()), {}})
                    .first;
    std::vector<Kept>& views = found->second.views;
    auto view = std::ranges::find_if(views, [&](const Kept& kept) { return kept.is_of(constant); });
    if (view == views.end())
        view = views.insert(view, {constant.storage_offset(), constant.sizes().vec(), constant.strides().vec(), version,
                                   nullptr});
    if (!view->prepared || view->version != version) {
        view->prepared = std::make_unique<clprim::Prepared>();
        view->version = version;
    }
    return view->prepared.get();
}

void release_prepared_of_gone()
{
    const std::lock_guard lock(constants().mutex);
    constants().forget_gone();
}

}  // namespace torch_ocl
