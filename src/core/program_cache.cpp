#include <core/program_cache.hpp>

#include <fmt/format.h>

#include <clprim/error.hpp>
#include <core/dry_run.hpp>
#include <core/build_notice.hpp>
#include <core/environment.hpp>
#include <core/program_dump.hpp>
#include <core/ptx_for_sm_90a.hpp>
#include <core/runtime.hpp>

namespace clprim {
namespace {

// All that decides the binary, in words; the disk entry repeats it, so a hash collision cannot serve a wrong program.
std::string disk_key(const Device& device, const std::string& text, const std::string& options)
{
    const std::string told = environment("CL_CONFIG_LLVM_OPTIONS");   // what Intel's CPU compiler does beside them
    return fmt::format("{}\n{}\n{}\n{}\n{}{}{}\n{}", device.platform_name, device.name, device.vendor,
                       device.driver_version, options, told.empty() ? "" : " ", told, text);
}

std::string build_log(const cl::Program& program, const cl::Device& device)
{
    std::string log;
    try {
        log = program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device);
    } catch (const cl::Error&) {
    }
    return log.find_first_not_of(" \n") == std::string::npos ? "(the driver gives no build log)" : log;
}

std::atomic<bool>& all_binaries()
{
    static std::atomic<bool> asked = environment("CLPRIM_KEEP_BINARIES") == "1";
    return asked;
}

// PoCL keeps what it compiled in a cache of its own. Asked for a binary it compiles every kernel of the program once
// more, for any size of work-groups, which takes longer than what a launch then compiles for its size; so it is asked
// only where binaries are made for later or for elsewhere.
bool keeps_binaries(const Device& device)
{
    return device.platform_name != "Portable Computing Language" || all_binaries();
}

bool can_round_division(const Device& device)
{
    cl_device_fp_config config = 0;
    return clGetDeviceInfo(device.handle(), CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, nullptr) ==
               CL_SUCCESS &&
           (config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT);
}

}  // namespace

std::string program_base_options(const Device& device)
{
    std::string options = "-cl-std=" + device.c_standard;
    // As PyTorch's are on CPUs and with CUDA; OpenCL itself asks for 2.5 units of the last place. Figures of programs
    // (tools/kernel_report) are without: few of them divide where it counts.
    if (!detail::dry_run() && can_round_division(device))
        options += " -cl-fp32-correctly-rounded-divide-sqrt";
    if (device.fp64)
        options += " -DCLPRIM_FP64";
    if (device.fp16)
        options += " -DCLPRIM_FP16";
    if (device.kind == DeviceKind::gpu)
        return options + " -DCLPRIM_DEVICE_GPU";
    // How kernels cut their tiles: narrower vectors also come in fewer registers.
    return options + fmt::format(" -DCLPRIM_DEVICE_CPU -DCLPRIM_VECTOR_BYTES={}",
                                 device.native_float_lanes * sizeof(cl_float));
}

void keep_all_binaries() { all_binaries() = true; }

ProgramCache::ProgramCache(const Device& device, const cl::Context& context)
    : device_(device), context_(context), base_options_(program_base_options(device))
{
}

const Program& ProgramCache::embedded(std::string_view path, std::string_view options)
{
    return program(path, detail::concat("file\n", options, '\n', path));
}

const Program& ProgramCache::from_text(std::string_view name, std::string_view text, std::string_view options)
{
    return program(name, detail::concat("text\n", options, '\n', text));
}

const Program& ProgramCache::program(std::string_view name, std::string key)
{
    std::shared_ptr<Entry> entry;
    const std::string* kept = nullptr;
    {
        std::lock_guard lock(mutex_);
        const auto found = entries_.try_emplace(std::move(key)).first;
        if (!found->second)
            found->second = std::make_shared<Entry>();
        entry = found->second;
        kept = &found->first;   // stays where it is as long as this cache
    }
    std::lock_guard lock(entry->mutex);
    if (!entry->program)
        entry->program = std::make_unique<detail::LoadedProgram>(
            device_, loaded_,
            [this, name = std::string(name), kept, one = entry.get()] { return load(name, *kept, *one); });
    if (detail::dry_run()) [[unlikely]]
        detail::name_program(*entry->program, entry->stem);
    return *entry->program;
}

cl::Program ProgramCache::from_binary(std::vector<unsigned char> binary, const std::string& options)
{
    const std::vector<cl::Device> devices{device_.handle};
    cl::Program program(context_, devices, cl::Program::Binaries{std::move(binary)});
    program.build(devices, options.c_str());
    return program;
}

// A program of PTX that was written anew: of the options only NVIDIA's own are the assembler's.
cl::Program ProgramCache::completed(std::string_view name, const std::vector<unsigned char>& ptx,
                                    const std::string& options)
try {
    const std::size_t own = options.find("-cl-nv-");
    return from_binary(ptx, own == std::string::npos ? "" : options.substr(own, options.find(' ', own) - own));
} catch (const cl::Error& error) {
    throw BuildError(name, options, detail::concat("its PTX for sm_90a is refused: ", error.what()));
}

// What an earlier build left, on disk or, without a disk cache, in memory.
std::optional<cl::Program> ProgramCache::known(const Entry& entry, const std::filesystem::path& file,
                                               const std::string& key, const std::string& options)
{
    const auto taken = [&](std::optional<std::vector<unsigned char>> binary) -> std::optional<cl::Program> {
        if (!binary)
            return std::nullopt;
        try {
            return from_binary(std::move(*binary), options);
        } catch (const cl::Error&) {
            return std::nullopt;   // the driver no longer takes it: it is built again from its source
        }
    };
    std::optional<std::vector<unsigned char>> binary;
    if (!file.empty())
        binary = load_cache_entry(file, key);
    else if (!entry.binary.empty())
        binary = entry.binary;
    if (auto program = taken(std::move(binary)))
        return program;
    for (const std::filesystem::path& folder : detail::program_folders())
        if (auto program = taken(load_cache_entry(folder / (cache_hash(key) + ".bin"), key)))
            return program;
    return std::nullopt;
}

// From the key of an entry: "file" or "text", options, path or text, each in its line.
cl::Program ProgramCache::load(std::string_view name, const std::string& entry_key, Entry& entry)
{
    const std::size_t first = entry_key.find('\n'), second = entry_key.find('\n', first + 1);
    const std::string options = entry_key.substr(first + 1, second - first - 1), rest = entry_key.substr(second + 1);
    const std::string text = entry_key[0] == 'f' ? kernel_source(rest) : expanded_source(rest);
    const std::string all_options = options.empty() ? base_options_ : detail::concat(base_options_, ' ', options);
    entry.stem = dump_program(name, text, all_options);
    if (detail::dry_run()) [[unlikely]]
        return {};
    const std::string key = disk_key(device_, text, all_options);
    const std::filesystem::path folder = cache_folder();
    const std::filesystem::path file = folder.empty() ? folder : folder / (cache_hash(key) + ".bin");

    if (std::optional<cl::Program> program = known(entry, file, key, all_options))
        return *std::move(program);
    const BuildLock lock(file);
    if (lock.waited())
        if (std::optional<cl::Program> program = known(entry, file, key, all_options))
            return *std::move(program);

    cl::Program program = build(name, text, all_options);
    if (!keeps_binaries(device_))
        return program;
    std::vector<unsigned char> binary;
    try {
        // One for each device of the context, in the order of the program's devices; built was this device's.
        const auto binaries = program.getInfo<CL_PROGRAM_BINARIES>();
        const auto all = program.getInfo<CL_PROGRAM_DEVICES>();
        for (std::size_t i = 0; i < std::min(binaries.size(), all.size()); ++i)
            if (all[i]() == device_.handle())
                binary = binaries[i];
    } catch (const cl::Error&) {
        // A driver without binaries: every process builds anew.
    }
    if (binary.empty())
        return program;
    if (auto ptx = detail::ptx_for_sm_90a(binary)) {
        binary = *std::move(ptx);
        program = completed(name, binary, all_options);
    }
    if (!file.empty())
        save_cache_entry(file, key, binary);
    else
        entry.binary = binary;
    // Intel's driver keeps what its compiler made, megabytes for a program, but little for one made from a binary.
    if (device_.platform_name != "Intel(R) OpenCL")
        return program;
    try {
        return from_binary(std::move(binary), all_options);
    } catch (const cl::Error&) {
        return program;
    }
}

cl::Program ProgramCache::build(std::string_view name, const std::string& text, const std::string& options)
{
    const char* source = text.c_str();
    const std::size_t length = text.size();
    cl_int code = CL_SUCCESS;
    const cl::Program program(clCreateProgramWithSource(context_(), 1, &source, &length, &code));
    check_opencl(code, "clCreateProgramWithSource", name);
    const detail::BuildNotice notice(device_.name, !keeps_binaries(device_));
    const cl_device_id device = device_.handle();
    code = clBuildProgram(program(), 1, &device, options.c_str(), nullptr, nullptr);
    if (code == CL_BUILD_PROGRAM_FAILURE)
        throw BuildError(name, options, build_log(program, device_.handle));
    check_opencl(code, "clBuildProgram", name);
    ++builds_;
    if (environment("CLPRIM_VERBOSE") >= "2")
        detail::log(LogLevel::information,
                    fmt::format("built {} [{}]\n{}", name, options, build_log(program, device_.handle)));
    return program;
}

Kernel& Program::kernel(std::string_view name) const
{
    std::lock_guard lock(mutex_);
    if (auto found = kernels_.find(name); found != kernels_.end())
        return found->second;
    const std::string text(name);
    Kernel& kernel = kernels_[text];
    kernel.name = text;
    try {
        if (handle_()) {
            cl_int code = CL_SUCCESS;
            kernel.handle = cl::Kernel(clCreateKernel(handle_(), text.c_str(), &code));
            check_opencl(code, "clCreateKernel", name);
            detail::read_limits(kernel, *device_);
        } else if (!detail::dry_run()) [[likely]] {   // made by a ProgramCache
            const_cast<detail::LoadedProgram&>(static_cast<const detail::LoadedProgram&>(*this)).create(kernel);
        }
    } catch (...) {
        kernels_.erase(text);
        throw;
    }
    if (detail::dry_run()) [[unlikely]] {   // there is nothing to ask the driver about
        detail::name_kernel(kernel, *this);
        kernel.max_work_group_size = device_->max_work_group_size;
    }
    return kernel;
}

}  // namespace clprim
