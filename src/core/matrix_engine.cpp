#include <core/matrix_engine.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <clprim/error.hpp>
#include <core/environment.hpp>

namespace clprim::detail {
namespace {

constexpr std::array<std::pair<MatrixEngine, std::string_view>, 8> names{{
    {MatrixEngine::none, "none"},
    {MatrixEngine::dpas16, "dpas16"},
    {MatrixEngine::dpas8, "dpas8"},
    {MatrixEngine::mma, "mma"},
    {MatrixEngine::mma75, "mma75"},
    {MatrixEngine::wmma, "wmma"},
    {MatrixEngine::wmma12, "wmma12"},
    {MatrixEngine::mfma, "mfma"},
}};

constexpr std::string_view emulated = "emulated_";

int asked_capability(const Device& device)
{
    constexpr cl_device_info major_nv = 0x4000, minor_nv = 0x4001;   // CL_DEVICE_COMPUTE_CAPABILITY_..._NV
    cl_uint major = 0, minor = 0;
    if (!device.has_extension("cl_nv_device_attribute_query") ||
        clGetDeviceInfo(device.handle(), major_nv, sizeof major, &major, nullptr) != CL_SUCCESS ||
        clGetDeviceInfo(device.handle(), minor_nv, sizeof minor, &minor, nullptr) != CL_SUCCESS)
        return 0;
    return static_cast<int>(10 * major + minor);
}

MatrixEngine engine_of(const Device& device)
{
    if (device.has_extension("cl_intel_subgroup_matrix_multiply_accumulate") &&
        device.has_extension("cl_intel_subgroup_local_block_io") && !device.sub_group_sizes.empty())
        return std::ranges::min(device.sub_group_sizes) == 8 ? MatrixEngine::dpas8 : MatrixEngine::dpas16;
    const int capability = compute_capability(device);
    if (capability >= 80)
        return MatrixEngine::mma;
    if (capability == 75 && device.name.find("GTX 16") == std::string::npos)   // which have no tensor cores
        return MatrixEngine::mma75;
    // AMD's own driver names its devices as its compiler does; others compile no builtins of that compiler.
    const std::string_view name = device.name;
    if (name.starts_with("gfx11"))
        return MatrixEngine::wmma;
    if (name.starts_with("gfx12"))
        return MatrixEngine::wmma12;
    if (name.starts_with("gfx90a") || name.starts_with("gfx94"))
        return MatrixEngine::mfma;
    return MatrixEngine::none;
}

}  // namespace

int compute_capability(const Device& device)
{
    static std::mutex mutex;
    static std::map<int, int> known;
    const std::lock_guard lock(mutex);
    const auto found = known.find(device.index);
    return found != known.end() ? found->second : known[device.index] = asked_capability(device);
}

std::string_view name_of(MatrixEngine engine)
{
    return std::ranges::find(names, engine, &decltype(names)::value_type::first)->second;
}

MatrixEngineChoice matrix_engine(const Device& device, std::string_view text)
{
    if (text.empty()) {
        const MatrixEngine found = engine_of(device);
        return found == MatrixEngine::none ? MatrixEngineChoice{MatrixEngine::mma, true, false}
                                           : MatrixEngineChoice{found, false, false};
    }
    const bool by_emulation = text.starts_with(emulated);
    const std::string_view name = by_emulation ? text.substr(emulated.size()) : text;
    const auto found = std::ranges::find(names, name, &decltype(names)::value_type::second);
    if (found == names.end() || (by_emulation && found->first == MatrixEngine::none)) {
        std::string known;
        for (const auto& [engine, one] : names)
            known += fmt::format("{}{}", known.empty() ? "" : ", ", one);
        throw InvalidArgument(
            fmt::format("CLPRIM_MATRIX_ENGINE: there is no matrix engine '{}'; there are {}, each but "
                        "the first also emulated_..",
                        text, known));
    }
    return {found->first, by_emulation, true};
}

MatrixEngineChoice matrix_engine(const Device& device)
{
    if (const std::string text = environment("CLPRIM_MATRIX_ENGINE"); !text.empty())
        return matrix_engine(device, text);
    // Asked at every product: the driver's answers are kept.
    static std::mutex mutex;
    static std::map<int, MatrixEngineChoice> known;
    const std::lock_guard lock(mutex);
    const auto found = known.find(device.index);
    return found != known.end() ? found->second : known[device.index] = matrix_engine(device, "");
}

}  // namespace clprim::detail
