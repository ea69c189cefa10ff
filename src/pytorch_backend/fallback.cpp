#include <fallback.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Exceptions.h>
#include <torch/library.h>

#include <runtime/generator.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using c10::IValue;

FallbackPolicy policy_from_environment()
{
    const char* value = std::getenv("TORCH_OCL_FALLBACK");
    const std::string_view text = value == nullptr ? "warn" : value;
    if (text == "error")
        return FallbackPolicy::error;
    if (text == "allow")
        return FallbackPolicy::allow;
    if (text != "warn")
        TORCH_WARN("TORCH_OCL_FALLBACK is '", text, "'; it should be error, warn or allow");
    return FallbackPolicy::warn;
}

std::atomic<FallbackPolicy>& policy()
{
    static std::atomic<FallbackPolicy> value(policy_from_environment());
    return value;
}

std::mutex report_mutex;
std::map<std::string, std::int64_t>& report()
{
    static auto* counts = new std::map<std::string, std::int64_t>();
    return *counts;
}

std::string full_name(const c10::OperatorHandle& op)
{
    const auto& name = op.operator_name();
    return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// What the arguments are, by the CPU's key for them.
const char* kind_of(c10::DispatchKey cpu)
{
    switch (cpu) {
    case c10::DispatchKey::SparseCPU: return "sparse tensors on ";
    case c10::DispatchKey::SparseCsrCPU: return "sparse compressed tensors on ";
    case c10::DispatchKey::NestedTensorCPU: return "nested tensors on ";
    case c10::DispatchKey::QuantizedCPU: return "quantized tensors on ";
    default: return "";
    }
}

void apply_policy(const c10::OperatorHandle& op, c10::DispatchKey cpu)
{
    const std::string name = full_name(op);
    TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(cpu), name, " has no kernel for ", kind_of(cpu),
                                "the ocl device, and none for the CPU to fall back to");
    TORCH_CHECK_NOT_IMPLEMENTED(
        policy() != FallbackPolicy::error, name, " has no kernel for ", kind_of(cpu),
        "the ocl device, and the fallback policy is 'error'; "
        "torch.ocl.set_fallback_policy('warn') or TORCH_OCL_FALLBACK=warn lets it run on the CPU");
    std::int64_t calls;
    {
        const std::lock_guard lock(report_mutex);
        calls = ++report()[name];
    }
    if (calls == 1 && policy() == FallbackPolicy::warn) {
        torch::PyWarningHandler as_python_warning;   // whatever called: not every way from Python installs one
        TORCH_WARN(name, " has no kernel for ", kind_of(cpu), "the ocl device and runs on the CPU. "
                   "torch.ocl.fallback_report() lists such operators; torch.ocl.set_fallback_policy('allow') silences "
                   "this warning");
    }
}

// Operators whose CPU arguments may be longer than one element: index tensors and lengths.
bool takes_cpu_arguments(const c10::OperatorHandle& op)
{
    constexpr std::array<std::string_view, 6> names = {"aten::index", "aten::index_put", "aten::index_put_",
                                                       "aten::_index_put_impl_", "aten::_unsafe_index",
                                                       "aten::_pack_padded_sequence"};
    return std::find(names.begin(), names.end(), op.operator_name().name) != names.end();
}

// Arguments that CPU kernels write although their schema does not say so.
bool is_written_silently(const std::string& argument)
{
    return argument == "running_mean" || argument == "running_var";
}

// Whether no two indices share memory, gaps allowed: each axis steps over all of the axes with smaller strides.
bool every_element_once(const Tensor& tensor)
{
    std::vector<std::pair<std::int64_t, std::int64_t>> axes;   // stride, size
    for (std::int64_t axis = 0; axis < tensor.dim(); ++axis)
        if (tensor.size(axis) > 1)
            axes.emplace_back(tensor.stride(axis), tensor.size(axis));
    std::sort(axes.begin(), axes.end());
    std::int64_t last = 0;   // furthest element of the axes so far
    for (const auto& [stride, size] : axes) {
        if (stride <= last)
            return false;
        last += stride * (size - 1);
    }
    return true;
}

// Sparse and nested tensors: their parts are copied.
bool is_composite(const Tensor& tensor) { return tensor.layout() != c10::kStrided || tensor.is_nested(); }

Tensor copy_composite(const Tensor& tensor, c10::Device device)
{
    if (!tensor.is_nested())
        return tensor.to(device);
    const auto* impl = at::native::get_nested_tensor_impl(tensor);
    return at::detail::make_tensor<at::native::NestedTensorImpl>(impl->get_buffer().to(device),
                                                                 impl->get_nested_sizes(), impl->get_nested_strides(),
                                                                 impl->get_storage_offsets());
}

// A CPU copy of a device tensor with the same strides, for some kernels go by them.
Tensor copy_to_cpu(const Tensor& tensor)
{
    if (is_composite(tensor))
        return copy_composite(tensor, at::kCPU);
    const auto options = tensor.options().device(at::kCPU).pinned_memory(false);
    // Axes of stride 0 (expanded) are copied once and expanded again.
    Tensor base = tensor;
    for (std::int64_t axis = 0; axis < tensor.dim(); ++axis)
        if (tensor.stride(axis) == 0 && tensor.size(axis) > 1)
            base = base.narrow(axis, 0, 1);
    Tensor result;
    if (every_element_once(base)) {
        result = at::empty_strided(base.sizes(), base.strides(), options);
        result.copy_(base);
    }
    else {
        result = base.cpu();   // overlapping in another way (unfold): no strides to keep
    }
    return base.sizes() == tensor.sizes() ? result : result.expand(tensor.sizes());
}

Tensor copy_to_device(const Tensor& tensor, c10::Device device)
{
    if (is_composite(tensor))
        return copy_composite(tensor, device);
    if (!tensor.is_non_overlapping_and_dense())
        return tensor.to(device);
    Tensor result =
        at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device).pinned_memory(false));
    result.copy_(tensor);
    return result;
}

// One call of an operator on the CPU: its device tensors and their copies.
class CpuCall {
public:
    CpuCall(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::DispatchKey cpu)
        : op_(op), stack_(stack), cpu_(cpu) {}

    void run()
    {
        const auto& arguments = op_.schema().arguments();
        const std::size_t first = stack_.size() - arguments.size();
        find_device(first, arguments.size());
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const c10::AliasInfo* alias = arguments[i].alias_info();
            const bool written = (alias != nullptr && alias->isWrite()) || is_written_silently(arguments[i].name());
            stack_[first + i] = to_cpu(stack_[first + i], written);
        }
        call();
        for (const Copy& copy : copies_)
            if (copy.written)
                write_back(copy);
        const std::size_t results = op_.schema().returns().size();
        for (std::size_t i = stack_.size() - results; i < stack_.size(); ++i)
            stack_[i] = to_device(stack_[i]);
    }

private:
    struct Copy {
        Tensor device, cpu;
        bool written;
    };

    void call()
    {
        if (cpu_ == c10::DispatchKey::CPU)
            op_.redispatchBoxed(c10::DispatchKeySet(cpu_), &stack_);
        else
            op_.callBoxed(&stack_);   // the copies may be of several kinds: they say which kernel
    }

    void find_device(std::size_t first, std::size_t count)
    {
        for (std::size_t i = first; i < first + count; ++i) {
            const IValue& value = stack_[i];
            if (value.isTensor())
                see(value.toTensor());
            else if (value.isTensorList())
                for (const Tensor& tensor : value.toTensorVector())
                    see(tensor);
            else if (value.isOptionalTensorList())
                for (const auto& tensor : value.toOptionalTensorVector())
                    if (tensor)
                        see(*tensor);
            if (value.isDevice() && value.toDevice().type() == device_type && !device_)
                device_ = value.toDevice();
        }
        if (!device_)
            device_ = c10::Device(device_type, current_device());
    }

    void see(const Tensor& tensor)
    {
        if (!tensor.defined() || (tensor.is_cpu() && (tensor.dim() == 0 || takes_cpu_arguments(op_))))
            return;
        if (!seen_)
            seen_ = tensor.device();
        TORCH_CHECK(*seen_ == tensor.device(),
                    "Expected all tensors to be on the same device, but found at least two "
                    "devices, ",
                    *seen_, " and ", tensor.device(), "! (when checking arguments of ", full_name(op_), ")");
        if (tensor.is_privateuseone())
            device_ = tensor.device();
    }

    IValue to_cpu(const IValue& value, bool written)
    {
        if (value.isTensor())
            return to_cpu(value.toTensor(), written);
        if (value.isTensorList()) {
            c10::List<Tensor> list;
            for (const Tensor& tensor : value.toTensorVector())
                list.push_back(to_cpu(tensor, written));
            return list;
        }
        if (value.isOptionalTensorList()) {
            c10::List<std::optional<Tensor>> list;
            for (const auto& tensor : value.toOptionalTensorVector())
                list.push_back(tensor ? std::optional(to_cpu(*tensor, written)) : std::nullopt);
            return list;
        }
        if (value.isDevice() && value.toDevice().type() == device_type)
            return c10::Device(at::kCPU);
        if (value.isGenerator() && value.toGenerator().device().type() == device_type) {
            // A CPU generator that depends on nothing but the state of the given one.
            const PhiloxState state = philox_state(value.toGenerator(), *device_, 1);
            return at::detail::createCPUGenerator(state.seed ^ (state.offset * 0x9e3779b97f4a7c15u));
        }
        return value;
    }

    Tensor to_cpu(const Tensor& tensor, bool written)
    {
        if (!tensor.defined() || !tensor.is_privateuseone())
            return tensor;
        for (Copy& copy : copies_) {
            if (copy.device.is_same(tensor)) {   // the same tensor twice stays the same tensor
                copy.written |= written;
                return copy.cpu;
            }
        }
        copies_.push_back({tensor, copy_to_cpu(tensor), written});
        return copies_.back().cpu;
    }

    static void write_back(const Copy& copy)
    {
        if (at::sparse_csr::is_sparse_compressed(copy.device)) {
            const Tensor fresh = copy_composite(copy.cpu, copy.device.device());
            const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(fresh);
            at::sparse_csr::get_sparse_csr_impl(copy.device)->set_member_tensors(compressed, plain, fresh.values(),
                                                                                 fresh.sizes());
            return;
        }
        if (is_composite(copy.device)) {
            if (copy.device.is_nested())
                at::native::get_nested_tensor_impl(copy.device)->get_buffer().copy_(
                    at::native::get_nested_tensor_impl(copy.cpu)->get_buffer());
            else
                copy.device.copy_(copy.cpu);
            return;
        }
        if (copy.device.sizes() != copy.cpu.sizes())
            copy.device.resize_(copy.cpu.sizes());
        copy.device.copy_(copy.cpu);
    }

    IValue to_device(const IValue& value)
    {
        if (value.isTensor())
            return to_device(value.toTensor());
        if (value.isTensorList()) {
            c10::List<Tensor> list;
            for (const Tensor& tensor : value.toTensorVector())
                list.push_back(to_device(tensor));
            return list;
        }
        return value;
    }

    Tensor to_device(const Tensor& tensor)
    {
        if (!tensor.defined() || !tensor.is_cpu())
            return tensor;
        TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_quantized(), full_name(op_),
                                    ": there are no quantized tensors on the ocl "
                                    "device; call it with tensors on the CPU");
        for (const Copy& copy : copies_) {
            if (copy.cpu.is_same(tensor))
                return copy.device;
            // A view of an argument: the same view of the device tensor, since the copy has its strides.
            if (tensor.has_storage() && copy.cpu.has_storage() && copy.cpu.storage().is_alias_of(tensor.storage()) &&
                copy.cpu.strides() == copy.device.strides() && copy.cpu.scalar_type() == tensor.scalar_type())
                return copy.device.as_strided(tensor.sizes(), tensor.strides(),
                                              copy.device.storage_offset() + tensor.storage_offset() -
                                                  copy.cpu.storage_offset());
        }
        return copy_to_device(tensor, *device_);
    }

    const c10::OperatorHandle& op_;
    torch::jit::Stack& stack_;
    const c10::DispatchKey cpu_;
    std::vector<Copy> copies_;
    std::optional<c10::Device> device_;   // of the results
    std::optional<c10::Device> seen_;     // of the first argument
};

template <c10::DispatchKey cpu>
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    apply_policy(op, cpu);
    std::optional<at::AutoDispatchBelowADInplaceOrView> guard;   // copies of parts record no gradients
    if constexpr (cpu != c10::DispatchKey::CPU)
        guard.emplace();
    CpuCall(op, *stack, cpu).run();
}

using c10::DispatchKey;
TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback<DispatchKey::CPU>>());
}
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback<DispatchKey::SparseCPU>>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback<DispatchKey::SparseCsrCPU>>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback<DispatchKey::NestedTensorCPU>>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback<DispatchKey::QuantizedCPU>>());
}

}  // namespace

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) { fallback<DispatchKey::CPU>(op, stack); }
FallbackPolicy fallback_policy() { return policy(); }
void set_fallback_policy(FallbackPolicy value) { policy() = value; }

std::map<std::string, std::int64_t> fallback_report()
{
    const std::lock_guard lock(report_mutex);
    return report();
}

void reset_fallback_report()
{
    const std::lock_guard lock(report_mutex);
    report().clear();
}

}  // namespace torch_ocl
