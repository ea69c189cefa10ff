// The C functions of <torch_ocl/inductor.h>.
#include <torch_ocl/inductor.h>

#include <atomic>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <clprim/context.hpp>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <inductor/ranges.hpp>
#include <runtime/allocator.hpp>
#include <runtime/errors.hpp>
#include <runtime/stream.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using torch::aot_inductor::tensor_handle_to_tensor_pointer;

enum class Kind { tensor, i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, errors };

constexpr std::pair<std::string_view, Kind> kind_names[] = {
    {"t", Kind::tensor},   {"int8", Kind::i8},     {"uint8", Kind::u8},    {"int16", Kind::i16},
    {"uint16", Kind::u16}, {"int32", Kind::i32},   {"uint32", Kind::u32},  {"int64", Kind::i64},
    {"uint64", Kind::u64}, {"float32", Kind::f32}, {"float64", Kind::f64}, {"errors", Kind::errors},
};

Kind kind_of(std::string_view name)
{
    for (const auto& [known, kind] : kind_names)
        if (known == name)
            return kind;
    TORCH_CHECK(false, "a kernel of Inductor has no argument of type ", name);
}

class GeneratedKernel {
public:
    GeneratedKernel(std::string source, std::string name, const std::string& signature)
        : source_(std::move(source)), name_(std::move(name))
    {
        std::istringstream words(signature);
        for (std::string word; words >> word;)
            kinds_.push_back(kind_of(word));
        if (!kinds_.empty() && kinds_.back() == Kind::errors)
            error_code_ = clprim::Queue::error_code(name_);
    }

    void launch(c10::DeviceIndex device, TorchOclRange kind, const std::int64_t* sizes,
                const TorchOclArgument* arguments, std::size_t count)
    {
        const bool reports = !kinds_.empty() && kinds_.back() == Kind::errors;
        TORCH_CHECK(count + (reports ? 1 : 0) == kinds_.size(), "kernel ", name_, " takes ", kinds_.size(),
                    " arguments, got ", count);
        clprim::Queue& queue = current_queue(device);
        const clprim::Range range = inductor_range(queue.device(), kind, sizes);
        if (range.global[0] == 0 || range.global[1] == 0 || range.global[2] == 0)
            return;
        clprim::Launch launch(queue, on(device));
        for (std::size_t i = 0; i < count; ++i)
            set(launch, kinds_[i], arguments[i]);
        if (reports)
            launch.arg(queue.error_buffer()).arg(error_code_);
        launch.run(range);
        if (reports)
            queue.expect_errors();
    }

private:
    clprim::Kernel& on(c10::DeviceIndex device)
    {
        if (clprim::Kernel* known = kernels_[device].load(std::memory_order_acquire))
            return *known;
        clprim::Kernel& kernel = context(device).program_from_text(name_, source_, "").kernel(name_);
        kernels_[device].store(&kernel, std::memory_order_release);
        return kernel;
    }

    static void set(clprim::Launch& launch, Kind kind, const TorchOclArgument& value)
    {
        switch (kind) {
        case Kind::tensor: launch.arg(storage_view(*tensor_handle_to_tensor_pointer(value.tensor))); break;
        case Kind::i8:
        case Kind::u8: launch.arg(static_cast<std::uint8_t>(value.integer)); break;
        case Kind::i16:
        case Kind::u16: launch.arg(static_cast<std::uint16_t>(value.integer)); break;
        case Kind::i32:
        case Kind::u32: launch.arg(static_cast<std::uint32_t>(value.integer)); break;
        case Kind::i64:
        case Kind::u64: launch.arg(value.integer); break;
        case Kind::f32: launch.arg(static_cast<float>(value.real)); break;
        case Kind::f64: launch.arg(value.real); break;
        case Kind::errors: break;
        }
    }

    std::string source_, name_;
    std::vector<Kind> kinds_;
    cl_int error_code_ = 0;
    std::array<std::atomic<clprim::Kernel*>, max_devices> kernels_{};
};

// Memory for constants by its address. Models are loaded seldom.
class Constants {
public:
    void* allocate(std::size_t bytes)
    {
        c10::DataPtr memory = allocate_on(-1, bytes);
        void* const address = memory.get();
        const std::lock_guard lock(mutex_);
        blocks_.emplace(address, std::move(memory));
        return address;
    }

    void free(void* address)
    {
        const std::lock_guard lock(mutex_);
        blocks_.erase(address);
    }

    clprim::Block& block(void* address)
    {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(address);
        TORCH_CHECK(found != blocks_.end(), "not the address of a package's constants on an ocl device");
        return *place_of(found->second).block;
    }

    // Of any storage, for instance one that a caller gives as new constants.
    static clprim::Block& any(clprim::Queue& queue, void* address)
    {
        clprim::Block* found = queue.context().find_block(address);
        TORCH_CHECK(found != nullptr, "not an address of ocl memory");
        return *found;
    }

private:
    std::mutex mutex_;
    std::map<void*, c10::DataPtr> blocks_;
};

Constants& constants()
{
    static auto* const all = new Constants;   // packages are unloaded late
    return *all;
}

std::size_t distance(void* address, const clprim::Block& block)
{
    return static_cast<std::size_t>(static_cast<char*>(address) - static_cast<char*>(block.address));
}

}  // namespace
}  // namespace torch_ocl

using namespace torch_ocl;

AOTITorchError torch_ocl_new_kernel(const char* source, const char* name, const char* signature, TorchOclKernel* kernel)
{
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
        { *kernel = reinterpret_cast<TorchOclKernel>(new GeneratedKernel(source, name, signature)); });
}

AOTITorchError torch_ocl_launch(TorchOclKernel kernel, std::int32_t device, std::int32_t range,
                                const std::int64_t* sizes, const TorchOclArgument* arguments, std::size_t count)
{
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
        translate_errors([&] {
            reinterpret_cast<GeneratedKernel*>(kernel)->launch(checked_device(static_cast<c10::DeviceIndex>(device)),
                                                               static_cast<TorchOclRange>(range), sizes, arguments,
                                                               count);
        });
    });
}

AOTITorchError torch_ocl_malloc(void** memory, std::size_t bytes)
{
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ translate_errors([&] { *memory = constants().allocate(bytes); }); });
}

AOTITorchError torch_ocl_free(void* memory)
{
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ constants().free(memory); });
}

AOTITorchError torch_ocl_memcpy(void* target, std::size_t target_offset, std::size_t source_offset, std::size_t bytes,
                                std::uint8_t* source)
{
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
        translate_errors([&] {
            clprim::Queue& queue = current_queue(-1);
            clprim::Block& block = constants().block(target);
            queue.write(block, distance(target, block) + target_offset, source + source_offset, bytes);
        });
    });
}

AOTITorchError torch_ocl_copy(void* source, void* target, std::size_t bytes, std::size_t source_offset,
                              std::size_t target_offset)
{
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
        translate_errors([&] {
            clprim::Queue& queue = current_queue(-1);
            clprim::Block& from = Constants::any(queue, source);
            clprim::Block& to = Constants::any(queue, target);
            queue.copy(from, distance(source, from) + source_offset, to, distance(target, to) + target_offset, bytes);
        });
    });
}
