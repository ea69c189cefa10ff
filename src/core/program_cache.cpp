#include <core/program_cache.hpp>

#include <cctype>
#include <fstream>

#include <fmt/format.h>

#include <clprim/error.hpp>
#include <core/environment.hpp>

namespace clprim {
namespace {

std::string base_options(const Device& device)
{
    std::string options = "-cl-std=" + device.c_standard;
    // PyTorch's results for division and square root are correctly rounded; CPUs give that for nothing.
    const bool exact = device.handle.getInfo<CL_DEVICE_SINGLE_FP_CONFIG>() & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    if (exact && device.kind == DeviceKind::cpu)
        options += " -cl-fp32-correctly-rounded-divide-sqrt";
    if (device.fp64)
        options += " -DCLPRIM_FP64";
    if (device.fp16)
        options += " -DCLPRIM_FP16";
    options += device.kind == DeviceKind::cpu ? " -DCLPRIM_DEVICE_CPU" : " -DCLPRIM_DEVICE_GPU";
    return options;
}

// All that decides the binary, in words; the disk entry repeats it, so a hash collision cannot serve a wrong program.
std::string disk_key(const Device& device, const std::string& text, const std::string& options)
{
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", device.platform_name, device.name, device.vendor,
                       device.driver_version, options, text);
}

// CLPRIM_DUMP_PROGRAMS=folder keeps the text of every program asked for, with its options in the first line, for a look
// and for offline compilers (tools/compile_for_gpus.py).
void dump(std::string_view name, const std::string& text, const std::string& options)
{
    const std::string folder = environment("CLPRIM_DUMP_PROGRAMS");
    if (folder.empty())
        return;
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    std::string stem(name);
    for (char& c : stem)
        if (!std::isalnum(static_cast<unsigned char>(c)))
            c = '_';
    std::ofstream out(fmt::format("{}/{}-{}.cl", folder, stem, cache_hash(options + text).substr(0, 8)));
    out << "// " << options << '\n' << text;
}

std::string build_log(const cl::Program& program, const cl::Device& device)
{
    try {
        return program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device);
    } catch (const cl::Error&) {
        return "(the driver gives no build log)";
    }
}

}  // namespace

ProgramCache::ProgramCache(const Device& device, const cl::Context& context)
    : device_(device), context_(context), base_options_(base_options(device))
{
}

std::shared_ptr<ProgramCache::Entry> ProgramCache::entry(std::string key)
{
    std::lock_guard lock(mutex_);
    auto& found = entries_[std::move(key)];
    if (!found)
        found = std::make_shared<Entry>();
    return found;
}

const Program& ProgramCache::embedded(std::string_view path, std::string_view options)
{
    auto found = entry(detail::concat("file\n", path, '\n', options));
    std::lock_guard lock(found->mutex);
    if (!found->program)
        found->program = build(path, kernel_source(path), options);
    return *found->program;
}

const Program& ProgramCache::from_text(std::string_view name, std::string_view text, std::string_view options)
{
    auto found = entry(detail::concat("text\n", options, '\n', text));
    std::lock_guard lock(found->mutex);
    if (!found->program)
        found->program = build(name, std::string(text), options);
    return *found->program;
}

std::unique_ptr<Program> ProgramCache::build(std::string_view name, const std::string& text, std::string_view options)
{
    const std::string all_options = options.empty() ? base_options_ : detail::concat(base_options_, ' ', options);
    dump(name, text, all_options);
    const std::string key = disk_key(device_, text, all_options);
    const std::filesystem::path folder = cache_folder();
    const std::filesystem::path file = folder.empty() ? folder : folder / (cache_hash(key) + ".bin");
    const std::vector<cl::Device> devices{device_.handle};

    if (!file.empty()) {
        if (auto binary = load_cache_entry(file, key)) {
            try {
                cl::Program program(context_, devices, cl::Program::Binaries{std::move(*binary)});
                program.build(devices, all_options.c_str());
                return std::make_unique<Program>(program, device_);
            } catch (const cl::Error&) {
                // A binary that the driver no longer takes is built again from its source below.
            }
        }
    }

    cl::Program program(context_, text);
    try {
        program.build(devices, all_options.c_str());
    } catch (const cl::Error&) {
        throw BuildError(name, all_options, build_log(program, device_.handle));
    }
    ++builds_;
    if (environment("CLPRIM_VERBOSE") >= "2")
        fmt::print(stderr, "clprim: built {} [{}]\n{}", name, options, build_log(program, device_.handle));
    if (!file.empty()) {
        try {
            const auto binaries = program.getInfo<CL_PROGRAM_BINARIES>();
            if (!binaries.empty() && !binaries[0].empty())
                save_cache_entry(file, key, binaries[0]);
        } catch (const cl::Error&) {
            // A driver without binaries: every process builds anew.
        }
    }
    return std::make_unique<Program>(program, device_);
}

Kernel& Program::kernel(std::string_view name) const
{
    std::lock_guard lock(mutex_);
    if (auto found = kernels_.find(name); found != kernels_.end())
        return found->second;
    cl_int code = CL_SUCCESS;
    const std::string text(name);
    const cl::Kernel handle(clCreateKernel(handle_(), text.c_str(), &code));
    check_opencl(code, "clCreateKernel", name);
    Kernel& kernel = kernels_[text];
    kernel.handle = handle;
    kernel.name = text;
    kernel.argument_count = handle.getInfo<CL_KERNEL_NUM_ARGS>();
    kernel.max_work_group_size = handle.getWorkGroupInfo<CL_KERNEL_WORK_GROUP_SIZE>(device_->handle);
    return kernel;
}

}  // namespace clprim
