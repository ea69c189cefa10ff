// What PyTorch's generic code asks an accelerator: generators, pinned memory, current device.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/StorageImpl.h>

#include <runtime/allocator.hpp>
#include <runtime/generator.hpp>
#include <runtime/pinned_allocator.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl {

void resize_storage(c10::StorageImpl& storage, std::size_t bytes);   // ops/factory.cpp

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return device_count() > 0; }
    void init() const override { context(-1); }
    bool hasPrimaryContext(c10::DeviceIndex device) const override
    {
        return is_initialized() && device >= 0 && device < device_count() && clprim::Context::created(device);
    }

    c10::DeviceIndex deviceCount() const override { return device_count(); }
    c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
    void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }

    const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override
    {
        return default_generator(device);
    }
    at::Generator getNewGenerator(c10::DeviceIndex device) const override
    {
        return at::make_generator<Generator>(checked_device(device));
    }

    c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
    bool isPinnedPtr(const void* data) const override { return is_pinned(data); }

    c10::Device getDeviceFromPtr(void* data) const override
    {
        for (c10::DeviceIndex i = 0; i < device_count(); ++i)
            if (clprim::Context::created(i) && context(i).find_block(data) != nullptr)
                return {device_type, i};
        TORCH_CHECK(false, "the pointer does not lie in memory of an ocl device");
    }

    void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override
    {
        resize_storage(*storage.unsafeGetStorageImpl(), bytes);
    }
};

const bool hooks_registered = [] {
    at::RegisterPrivateUse1HooksInterface(new Hooks());   // PyTorch keeps it for good
    return true;
}();

}  // namespace
}  // namespace torch_ocl
