// AOTInductor's packages for the ocl device: who opens them. torch::inductor::AOTIModelPackageLoader, and with it
// torch._inductor.aoti_load_package, finds the runner by the device's name.
#include <dlfcn.h>

#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <inductor/binding.hpp>
#include <inductor/ranges.hpp>
#include <runtime/device.hpp>

namespace torch_ocl {

void share_symbols()
{
    // Python opens extension modules for themselves alone. What a package calls must be there for everyone.
    static const bool shared = [] {
        Dl_info place;
        return dladdr(reinterpret_cast<const void*>(&torch_ocl_launch), &place) != 0 &&
               dlopen(place.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD) != nullptr;
    }();
    TORCH_CHECK(shared, "torch_ocl's library could not be opened for packages of AOTInductor: ", dlerror());
}

namespace {

class Runner final : public torch::inductor::AOTIModelContainerRunner {
public:
    // The package knows the device by another name: <torch_ocl/inductor_aot.h>.
    Runner(const std::string& path, std::size_t models, c10::DeviceIndex index, const std::string& folder,
           bool single_threaded)
        : AOTIModelContainerRunner(path, models, "mps:" + std::to_string(index), folder, single_threaded)
    {
    }
};

std::unique_ptr<torch::inductor::AOTIModelContainerRunner> open(const std::string& path, std::size_t models,
                                                                const std::string& device, const std::string& folder,
                                                                bool single_threaded)
{
    share_symbols();
    return std::make_unique<Runner>(path, models, checked_device(c10::Device(device).index()), folder, single_threaded);
}

const torch::inductor::RegisterAOTIModelRunner registered("ocl", &open);

}  // namespace
}  // namespace torch_ocl
