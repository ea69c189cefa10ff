#include <clprim/device.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include <clprim/error.hpp>
#include <core/device_choice.hpp>
#include <core/device_figures.hpp>
#include <core/environment.hpp>
#include <core/host_memory.hpp>
#include <core/host_processor.hpp>

namespace clprim {
namespace {

bool contains_ignoring_case(std::string_view text, std::string_view part)
{
    auto same = [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    };
    return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// "OpenCL 3.0 ..." and "OpenCL C 1.2 ..." both give the number as 300, 120.
int parse_version(std::string_view text)
{
    const auto dot = text.find('.');
    if (dot == std::string_view::npos || dot == 0 || dot + 1 >= text.size())
        return 120;
    return (text[dot - 1] - '0') * 100 + (text[dot + 1] - '0') * 10;
}

// Strings that drivers return may be padded or end in zeros.
std::string clean(std::string text)
{
    text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
    const auto first = text.find_first_not_of(' ');
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

DeviceKind kind_of(cl_device_type type)
{
    const std::string forced = environment("CLPRIM_DEVICE_KIND");
    if (forced == "gpu")
        return DeviceKind::gpu;
    if (forced == "cpu")
        return DeviceKind::cpu;
    return type & CL_DEVICE_TYPE_CPU ? DeviceKind::cpu : DeviceKind::gpu;
}

Device read_device(const cl::Platform& platform, const cl::Device& handle)
{
    Device device;
    device.handle = handle;
    device.platform = platform;
    device.name = clean(handle.getInfo<CL_DEVICE_NAME>());
    device.vendor = clean(handle.getInfo<CL_DEVICE_VENDOR>());
    device.driver_version = clean(handle.getInfo<CL_DRIVER_VERSION>());
    device.platform_name = clean(platform.getInfo<CL_PLATFORM_NAME>());
    device.kind = kind_of(handle.getInfo<CL_DEVICE_TYPE>());
    device.version = parse_version(handle.getInfo<CL_DEVICE_VERSION>());
    const int c_version = parse_version(handle.getInfo<CL_DEVICE_OPENCL_C_VERSION>());
    device.c_standard = c_version >= 300 ? "CL3.0" : c_version >= 200 ? "CL2.0" : "CL1.2";

    const std::string extensions = clean(handle.getInfo<CL_DEVICE_EXTENSIONS>());
    for (std::size_t at = 0; at < extensions.size();) {
        const std::size_t end = std::min(extensions.find(' ', at), extensions.size());
        if (end > at)
            device.extensions.push_back(extensions.substr(at, end - at));
        at = end + 1;
    }
    device.fp64 = handle.getInfo<CL_DEVICE_DOUBLE_FP_CONFIG>() != 0;
    device.fp16 = device.has_extension("cl_khr_fp16");
    device.int64_atomics = device.has_extension("cl_khr_int64_base_atomics");
    device.sub_groups = device.has_extension("cl_khr_subgroups") || device.has_extension("cl_intel_subgroups");
    if (device.has_extension("cl_intel_required_subgroup_size")) {
        constexpr cl_device_info sub_group_sizes_intel = 0x4108;   // CL_DEVICE_SUB_GROUP_SIZES_INTEL
        std::size_t bytes = 0;
        if (clGetDeviceInfo(handle(), sub_group_sizes_intel, 0, nullptr, &bytes) == CL_SUCCESS) {
            device.sub_group_sizes.resize(bytes / sizeof(std::size_t));
            clGetDeviceInfo(handle(), sub_group_sizes_intel, bytes, device.sub_group_sizes.data(), nullptr);
        }
    }
    if (device.kind == DeviceKind::cpu && runs_on_host_processor(device)) {
        const std::string vnni = environment("CLPRIM_VNNI");
        device.amx = environment("CLPRIM_AMX") != "0" && host_has_amx();
        device.vnni_bytes = std::min(host_vnni_bytes(), vnni == "0" ? 0u : vnni == "32" ? 32u : 64u);
    }
    device.unified_memory = handle.getInfo<CL_DEVICE_HOST_UNIFIED_MEMORY>();
    device.native_float_lanes = std::max(1u, handle.getInfo<CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT>());
    device.compute_units = std::max<cl_uint>(1, handle.getInfo<CL_DEVICE_MAX_COMPUTE_UNITS>());
    device.global_memory = handle.getInfo<CL_DEVICE_GLOBAL_MEM_SIZE>();
    device.max_allocation = handle.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
    // NVIDIA counts four bytes of its own in every launch with local memory from the host: all of it would be refused.
    device.local_memory = handle.getInfo<CL_DEVICE_LOCAL_MEM_SIZE>();
    if (contains_ignoring_case(device.vendor, "nvidia"))
        device.local_memory -= 4;
    device.max_work_group_size = handle.getInfo<CL_DEVICE_MAX_WORK_GROUP_SIZE>();
    device.global_cache = handle.getInfo<CL_DEVICE_GLOBAL_MEM_CACHE_SIZE>();
    detail::apply_device_figures(device, environment("CLPRIM_DEVICE_FIGURES"));
    return device;
}

// GPUs, accelerators, CPUs; vendors' drivers before those for everybody, among CPU drivers the faster first, software
// GPUs last.
int rank(const Device& device)
{
    const cl_device_type type = device.handle.getInfo<CL_DEVICE_TYPE>();
    if (contains_ignoring_case(device.name, "llvmpipe"))
        return 9;
    if (type & CL_DEVICE_TYPE_GPU)
        return std::ranges::any_of(std::array{"rusticl", "clover", "portable"}, [&](const char* name) {
            return contains_ignoring_case(device.platform_name, name); });
    if (!(type & CL_DEVICE_TYPE_CPU))
        return 2;
    return contains_ignoring_case(device.platform_name, "intel") ? 3 : 4;
}

// Where a device sits on the PCI bus, as all drivers would say it: domain, bus, device, function.
std::string location(const Device& device)
{
    std::array<cl_uint, 4> at{};
    if (device.has_extension("cl_khr_pci_bus_info") &&
        clGetDeviceInfo(device.handle(), 0x410F, sizeof at, at.data(), nullptr) == CL_SUCCESS)   // ..._PCI_BUS_INFO_KHR
        return fmt::format("pci {:x}:{:x}:{:x}.{:x}", at[0], at[1], at[2], at[3]);
    cl_uint bus = 0, slot = 0;
    if (device.has_extension("cl_nv_device_attribute_query") &&
        clGetDeviceInfo(device.handle(), 0x4008, sizeof bus, &bus, nullptr) == CL_SUCCESS &&     // ..._PCI_BUS_ID_NV
        clGetDeviceInfo(device.handle(), 0x4009, sizeof slot, &slot, nullptr) == CL_SUCCESS) {   // ..._PCI_SLOT_ID_NV
        cl_uint domain = 0;
        clGetDeviceInfo(device.handle(), 0x400A, sizeof domain, &domain, nullptr);               // ..._PCI_DOMAIN_ID_NV
        return fmt::format("pci {:x}:{:x}:{:x}.{:x}", domain, bus, slot >> 3, slot & 7);
    }
    struct {
        cl_uint type;
        unsigned char unused[17], bus, device, function;
    } topology{};
    if (device.has_extension("cl_amd_device_attribute_query") &&
        clGetDeviceInfo(device.handle(), 0x4037, sizeof topology, &topology, nullptr) == CL_SUCCESS) // ..._TOPOLOGY_AMD
        return fmt::format("pci 0:{:x}:{:x}.{:x}", topology.bus, topology.device, topology.function);
    return "";
}

detail::OfferedDevice offered(const Device& device)
{
    const bool cpu = device.handle.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_CPU;
    return {cpu || contains_ignoring_case(device.name, "llvmpipe"), device.platform_name, location(device)};
}

bool matches(const Device& device, const std::string& token)
{
    const cl_device_type type = device.handle.getInfo<CL_DEVICE_TYPE>();
    if (token == "gpu")
        return type & CL_DEVICE_TYPE_GPU;
    if (token == "cpu")
        return type & CL_DEVICE_TYPE_CPU;
    if (token == "all")
        return true;
    return device.id == token || contains_ignoring_case(device.name, token) ||
           contains_ignoring_case(device.platform_name, token) || contains_ignoring_case(device.vendor, token);
}

// The parts of a device, of equal numbers of compute units; none if the driver does not split it so.
std::vector<Device> split(const Device& device, unsigned parts)
{
    std::vector<Device> result;
    const unsigned units = device.compute_units / std::max(1u, parts);
    const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, units, 0};
    std::vector<cl_device_id> handles(device.compute_units);
    cl_uint count = 0;
    if (parts < 2 || units == 0 ||
        clCreateSubDevices(device.handle(), equally, device.compute_units, handles.data(), &count) != CL_SUCCESS)
        return result;
    for (unsigned i = 0; i < std::min(count, parts); ++i) {
        Device part = device;
        part.handle = cl::Device(handles[i]);
        part.id += fmt::format(".{}", i);
        part.compute_units = units;
        result.push_back(std::move(part));
    }
    return result;
}

// What one entry of CLPRIM_DEVICES adds. An id lists a device also a second time; "id/2" stands for its two halves.
void add_wanted(const std::string& token, const std::vector<Device>& found, std::vector<Device>& result)
{
    const auto slash = token.find('/');
    for (const Device& device : found) {
        const bool taken = std::any_of(result.begin(), result.end(), [&](auto& d) { return d.id == device.id; });
        if (token == device.id || (!taken && matches(device, token)))
            result.push_back(device);
        else if (slash != std::string::npos && token.substr(0, slash) == device.id)
            for (Device& part : split(device, static_cast<unsigned>(std::atoi(token.c_str() + slash + 1))))
                result.push_back(std::move(part));
    }
}

std::vector<Device> filter(std::vector<Device> found)
{
    const std::string wanted = environment("CLPRIM_DEVICES");
    std::vector<Device> result;
    if (wanted.empty()) {
        std::vector<detail::OfferedDevice> all;
        all.reserve(found.size());
        for (const Device& device : found)
            all.push_back(offered(device));
        for (const std::size_t i : detail::default_devices(all))
            result.push_back(std::move(found[i]));
        return result;
    }
    for (std::size_t at = 0; at <= wanted.size();) {
        const std::size_t end = std::min(wanted.find(',', at), wanted.size());
        if (const std::string token = clean(wanted.substr(at, end - at)); !token.empty())
            add_wanted(token, found, result);
        at = end + 1;
    }
    return result;
}

// Devices of one platform; a broken driver gives none.
void add_platform(const cl::Platform& platform, std::size_t platform_index, std::set<std::string>& seen,
                  std::vector<Device>& found)
try {
    std::vector<cl::Device> handles;
    platform.getDevices(CL_DEVICE_TYPE_ALL, &handles);
    std::set<std::string> here;
    for (std::size_t i = 0; i < handles.size(); ++i) {
        if (!handles[i].getInfo<CL_DEVICE_AVAILABLE>() || !handles[i].getInfo<CL_DEVICE_COMPILER_AVAILABLE>() ||
            !handles[i].getInfo<CL_DEVICE_ENDIAN_LITTLE>())
            continue;
        Device device = read_device(platform, handles[i]);
        device.id = fmt::format("{}:{}", platform_index, i);
        // A driver that is installed twice shows the same devices on two platforms.
        const std::string identity = device.platform_name + '\n' + device.name + '\n' + device.driver_version;
        if (seen.count(identity))
            continue;
        here.insert(identity);
        found.push_back(std::move(device));
    }
    seen.merge(here);
} catch (const cl::Error&) {
}

// All that the drivers offer, those first that would be taken first.
std::vector<Device> offered_devices()
{
    std::vector<cl::Platform> platforms;
    cl::Platform::get(&platforms);
    std::vector<Device> found;
    std::set<std::string> seen;
    for (std::size_t p = 0; p < platforms.size(); ++p)
        add_platform(platforms[p], p, seen, found);
    std::stable_sort(found.begin(), found.end(), [](auto& a, auto& b) { return rank(a) < rank(b); });
    return found;
}

std::vector<Device> discover() noexcept
try {
    std::vector<Device> found = filter(offered_devices());
    for (std::size_t i = 0; i < found.size(); ++i)
        found[i].index = static_cast<int>(i);
    return found;
} catch (const std::exception&) {
    return {};
}

// For a message; empty where the drivers offer nothing.
std::string names_of_offered() noexcept
try {
    std::vector<std::string> names;
    for (const Device& device : offered_devices())
        names.push_back(fmt::format("{} ({})", device.name, device.id));
    return fmt::format("{}", fmt::join(names, ", "));
} catch (const std::exception&) {
    return "";
}

// The drivers that a loader finds, whether or not they offer a device.
std::string names_of_drivers() noexcept
try {
    std::vector<cl::Platform> platforms;
    cl::Platform::get(&platforms);
    std::vector<std::string> names;
    names.reserve(platforms.size());
    for (const cl::Platform& platform : platforms)
        names.push_back(clean(platform.getInfo<CL_PLATFORM_NAME>()));
    return fmt::format("{}", fmt::join(names, ", "));
} catch (const std::exception&) {
    return "";
}

// Why CLPRIM_DEVICE_FIGURES cannot be taken; empty if it can. Then there are no devices, rather than others than those
// asked for.
std::string bad_figures()
try {
    Device any;
    detail::apply_device_figures(any, environment("CLPRIM_DEVICE_FIGURES"));
    return "";
} catch (const InvalidArgument& error) {
    return error.what();
}

}  // namespace

std::string environment(const char* name)
{
    const char* value = std::getenv(name);
    return value ? value : "";
}

bool Device::has_extension(std::string_view extension) const
{
    return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

const std::vector<Device>& devices() noexcept
{
    static const std::vector<Device>* const found = new std::vector<Device>(discover());
    return *found;
}

std::string no_device_help()
{
    if (const std::string why = bad_figures(); !why.empty())
        return why;
    if (const std::string wanted = environment("CLPRIM_DEVICES"); !wanted.empty())
        if (const std::string there = names_of_offered(); !there.empty())
            return fmt::format("CLPRIM_DEVICES='{}' leaves out every OpenCL device; there are {}: unset it, or name "
                               "one of them",
                               wanted, there);
    std::string help = "no usable OpenCL device was found";
    if (const std::string there = names_of_drivers(); !there.empty())
        help += fmt::format(": the drivers that are there, {}, offer none (in a container, a GPU has to be passed on)",
                            there);
    if (const std::string chosen = environment("OCL_ICD_VENDORS"); !chosen.empty())
        return help + fmt::format("; OCL_ICD_VENDORS='{}' hides the system's drivers: unset it, or let it name a "
                                  "driver's library",
                                  chosen);
    return help + ". Install a driver: for a CPU `pip install intel-opencl-rt intel-cmplr-lib-rt` (programs that are "
                  "not Python find it with OCL_ICD_VENDORS=<environment>/lib/libintelocl.so) or pocl-opencl-icd; for "
                  "GPUs intel-opencl-icd (Intel), mesa-opencl-icd or ROCm (AMD), NVIDIA's driver; `clinfo -l` lists "
                  "what is there";
}

const Device& device_at(int index)
{
    const auto& all = devices();
    require(!all.empty(), no_device_help());
    require(index >= 0 && index < static_cast<int>(all.size()), "device index ", index, " is out of range: there ",
            all.size() == 1 ? "is 1 OpenCL device" : fmt::format("are {} OpenCL devices", all.size()));
    return all[index];
}

int find_device(std::string_view text)
{
    std::string token = clean(std::string(text));
    if (token.rfind("ocl", 0) == 0)
        token = token.size() > 4 ? token.substr(4) : "0";
    if (!token.empty() && token.find_first_not_of("0123456789") == std::string::npos)
        return device_at(std::atoi(token.substr(0, 6).c_str())).index;
    for (const Device& device : devices())
        if (!token.empty() && matches(device, token))
            return device.index;
    require(!devices().empty(), no_device_help());
    std::string list;
    for (const Device& device : devices())
        list += fmt::format("\n  {} ({}): {} [{}]", device.index, device.id, device.name, device.platform_name);
    if (environment("CLPRIM_DEVICES").empty())
        list += "\n(CLPRIM_DEVICES=all lists processors beside GPUs and devices of second drivers as well)";
    throw InvalidArgument(fmt::format("no OpenCL device matches '{}'; there are:{}", text, list));
}

}  // namespace clprim
