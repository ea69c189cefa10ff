// Random number generators of the device: Philox 4x32-10, whose whole state is a seed and an offset.
#pragma once

#include <cstdint>

#include <ATen/core/Generator.h>

#include <runtime/device.hpp>

namespace torch_ocl {

// What a random kernel gets: Philox key `seed`, and the first counter it may use, `offset`. One counter value gives
// four 32-bit numbers; a kernel that uses n counter values reserves n, so that no two launches share one.
struct PhiloxState {
    std::uint64_t seed;
    std::uint64_t offset;
};

class Generator final : public c10::GeneratorImpl {
public:
    explicit Generator(c10::DeviceIndex device);

    static c10::DeviceType device_type() { return torch_ocl::device_type; }

    // Reserves `increment` counter values and returns the state before them. Locks; may be called from any thread.
    PhiloxState reserve(std::uint64_t increment);

    void set_current_seed(std::uint64_t seed) override;
    std::uint64_t current_seed() const override { return state_.seed; }
    std::uint64_t seed() override;
    void set_offset(std::uint64_t offset) override { state_.offset = offset; }
    std::uint64_t get_offset() const override { return state_.offset; }
    void set_state(const c10::TensorImpl& state) override;
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
    void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
    c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

private:
    Generator* clone_impl() const override;

    PhiloxState state_{c10::default_rng_seed_val, 0};
};

// The generator that random operators on a device use unless one is given; -1 is the current device.
const at::Generator& default_generator(c10::DeviceIndex device);

// Seeds the default generators of all devices, also of those that have not been used yet. Opens no driver.
void seed_all(std::uint64_t seed);

// For random operators: reserves `increment` counter values of the given generator (checked to be of this device type),
// or of the device's default one, and returns the state before them.
PhiloxState philox_state(const std::optional<at::Generator>& generator, c10::Device device, std::uint64_t increment);

}  // namespace torch_ocl
