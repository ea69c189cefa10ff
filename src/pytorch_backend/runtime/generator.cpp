#include <runtime/generator.hpp>

#include <array>
#include <cstring>
#include <mutex>
#include <optional>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <clprim/recording.hpp>

#include <runtime/stream.hpp>

namespace torch_ocl {

Generator::Generator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(torch_ocl::device_type, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1))
{
}

PhiloxState Generator::reserve(std::uint64_t increment)
{
    const std::lock_guard lock(mutex_);
    const PhiloxState before = state_;
    state_.offset += increment;
    return before;
}

void Generator::set_current_seed(std::uint64_t seed) { state_ = {seed, 0}; }

std::uint64_t Generator::seed()
{
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return state_.seed;
}

// The state tensor: 16 bytes, seed then offset.
c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const
{
    at::TensorBase tensor = at::detail::empty_cpu({sizeof(PhiloxState)}, at::kByte);
    std::memcpy(tensor.mutable_data_ptr(), &state_, sizeof(PhiloxState));
    return tensor.getIntrusivePtr();
}

void Generator::set_state(const c10::TensorImpl& state)
{
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == sizeof(PhiloxState), "RNG state is wrong size");
    std::memcpy(&state_, state.data(), sizeof(PhiloxState));
}

void Generator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state)
{
    const auto* other = dynamic_cast<const Generator*>(state.get());
    TORCH_CHECK(other != nullptr, "Expected an ocl generator");
    state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const { return clone(); }

Generator* Generator::clone_impl() const
{
    auto* copy = new Generator(device().index());
    copy->state_ = state_;
    return copy;
}

namespace {

struct DefaultGenerators {
    std::mutex mutex;
    std::array<std::optional<at::Generator>, max_devices> of_device;
    std::uint64_t first_seed = c10::default_rng_seed_val;   // of generators that are made later
};
DefaultGenerators& defaults()
{
    static auto* generators = new DefaultGenerators();
    return *generators;
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device)
{
    auto& [mutex, of_device, first_seed] = defaults();
    device = checked_device(device);
    const std::lock_guard lock(mutex);
    auto& generator = of_device[static_cast<std::size_t>(device)];
    if (!generator) {
        generator = at::make_generator<Generator>(device);
        generator->set_current_seed(first_seed);
    }
    return *generator;
}

void seed_all(std::uint64_t seed)
{
    auto& [mutex, of_device, first_seed] = defaults();
    const std::lock_guard lock(mutex);
    first_seed = seed;
    for (auto& generator : of_device) {
        if (generator) {
            const std::lock_guard generator_lock(generator->mutex());
            generator->set_current_seed(seed);
        }
    }
}

PhiloxState philox_state(const std::optional<at::Generator>& generator, c10::Device device, std::uint64_t increment)
{
    TORCH_CHECK(!clprim::is_recording(current_queue(device.index())),
                "random numbers cannot be drawn while a graph is captured: every replay would draw the same ones. Draw "
                "them outside, into a static tensor that the graph reads, or leave the operator (e.g. dropout) out");
    return at::get_generator_or_default<Generator>(generator, default_generator(device.index()))->reserve(increment);
}

}  // namespace torch_ocl
