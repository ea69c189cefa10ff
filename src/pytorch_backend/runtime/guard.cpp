// c10's device guard: current device and streams, events, synchronisation.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <clprim/recording.hpp>

#include <runtime/allocator.hpp>
#include <runtime/errors.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl {
namespace {

clprim::Event& event_of(void* event) { return *static_cast<clprim::Event*>(event); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return device_type; }

    c10::Device exchangeDevice(c10::Device device) const override
    {
        TORCH_CHECK(device.type() == device_type, "expected an ocl device, but got ", device);
        return {device_type, exchange_device(device.index())};
    }
    c10::Device getDevice() const override { return {device_type, current_device()}; }
    void setDevice(c10::Device device) const override { exchangeDevice(device); }
    void uncheckedSetDevice(c10::Device device) const noexcept override { set_device_unchecked(device.index()); }
    c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

    c10::DeviceCapability getDeviceCapability(c10::Device device) const override
    {
        c10::DeviceCapability result;
        auto& types = result.capability_data.supported_scalar_types;
        result.capability_data.capability_bits = 0;
        types.has_Byte = types.has_Char = types.has_Short = types.has_Int = types.has_Long = types.has_Bool = 1;
        types.has_Float = types.has_Half = types.has_BFloat16 = types.has_ComplexFloat = 1;
        types.has_Double = types.has_ComplexDouble = clprim::device_at(checked_device(device.index())).fp64;
        return result;
    }

    c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
    c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(device.index()); }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override   // asked for by futures alone
    {
        return callback_stream(device.index());
    }
    c10::Stream getNewStream(c10::Device device, int priority) const override
    {
        return new_stream(device.index(), priority);
    }
    c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
    void* getStreamNativeHandle(const c10::Stream stream) const TORCH_OCL_OVERRIDE_SINCE_2_14
    {
        return queue_of(stream).handle()();
    }

    bool queryStream(const c10::Stream& stream) const override { return queue_of(stream).idle(); }
    void synchronizeStream(const c10::Stream& stream) const override
    {
        translate_errors([&] { queue_of(stream).finish(); });
    }
    void synchronizeDevice(const c10::DeviceIndex device) const override
    {
        translate_errors([&] { context(device).finish(); });
    }

    bool isStreamCapturing(const c10::Stream& stream) const TORCH_OCL_OVERRIDE_SINCE_2_14
    {
        return clprim::is_recording(queue_of(stream));
    }

    void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
                const c10::EventFlag) const override
    {
        TORCH_CHECK(device == -1 || device == stream.device_index(), "the event lives on device ",
                    static_cast<int>(device), ", the stream on device ", static_cast<int>(stream.device_index()));
        if (*event == nullptr)
            *event = new clprim::Event();
        event_of(*event) = queue_of(stream).record();
    }
    void block(void* event, const c10::Stream& stream) const override
    {
        if (event != nullptr)
            queue_of(stream).wait_for(event_of(event));
    }
    bool queryEvent(void* event) const override { return event == nullptr || event_of(event).query(); }
    void synchronizeEvent(void* event) const override
    {
        if (event != nullptr)
            event_of(event).wait();
    }
    void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override
    {
        delete static_cast<clprim::Event*>(event);
    }
    double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override
    {
        TORCH_CHECK(begin != nullptr && end != nullptr,
                    "Both events must be recorded before calculating elapsed time.");
        TORCH_CHECK(event_of(begin).query() && event_of(end).query(),
                    "Both events must be completed before calculating elapsed time.");
        return event_of(begin).elapsed_ms(event_of(end));
    }

    void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override
    {
        device_allocator().recordStream(pointer, stream);
    }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace torch_ocl
