// torch_ocl._C: what python/torch_ocl needs from C++.
#include <torch/csrc/utils/pybind.h>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <clprim/context.hpp>

#include <distributed/bindings.hpp>
#include <extension_binding.hpp>
#include <fallback.hpp>
#include <inductor/binding.hpp>
#include <kernel_binding.hpp>
#include <memory_binding.hpp>
#include <profiler.hpp>
#include <runtime/accelerator.hpp>
#include <runtime/allocator.hpp>
#include <runtime/autograd_threads.hpp>
#include <runtime/errors.hpp>
#include <runtime/generator.hpp>
#include <runtime/stream.hpp>
#include <tuning_binding.hpp>

namespace torch_ocl {
namespace {

namespace py = pybind11;

py::dict device_properties(int index)
{
    const clprim::Device& device = clprim::device_at(checked_device(static_cast<c10::DeviceIndex>(index)));
    py::dict result;
    result["name"] = device.name;
    result["vendor"] = device.vendor;
    result["platform_name"] = device.platform_name;
    result["driver_version"] = device.driver_version;
    result["id"] = device.id;
    result["kind"] = device.kind == clprim::DeviceKind::cpu ? "cpu" : "gpu";
    result["opencl_version"] = py::make_tuple(device.version / 100, device.version / 10 % 10);
    result["total_memory"] = device.global_memory;
    result["max_allocation"] = device.max_allocation;
    result["local_memory"] = device.local_memory;
    result["compute_units"] = device.compute_units;
    result["max_work_group_size"] = device.max_work_group_size;
    result["sub_group_sizes"] = device.sub_group_sizes;
    result["fp64"] = device.fp64;
    result["fp16"] = device.fp16;
    result["unified_memory"] = device.unified_memory;
    result["amx"] = device.amx;
    result["vnni_bytes"] = device.vnni_bytes;
    return result;
}

FallbackPolicy policy_from_name(const std::string& name)
{
    if (name == "error")
        return FallbackPolicy::error;
    if (name == "warn")
        return FallbackPolicy::warn;
    if (name == "allow")
        return FallbackPolicy::allow;
    throw py::value_error("the fallback policy is 'error', 'warn' or 'allow', not '" + name + "'");
}

const char* name_of(FallbackPolicy policy)
{
    switch (policy) {
    case FallbackPolicy::error: return "error";
    case FallbackPolicy::allow: return "allow";
    default: return "warn";
    }
}

PYBIND11_MODULE(_C, m)
{
    m.attr("built_for_torch") = TORCH_OCL_BUILT_FOR;

    m.def("device_count", [] { return static_cast<int>(device_count()); });
    m.def("current_device", [] { return static_cast<int>(checked_device(-1)); });
    m.def("set_device", [](int index) { set_device(static_cast<c10::DeviceIndex>(index)); });
    m.def("exchange_device",
          [](int index) { return static_cast<int>(exchange_device(static_cast<c10::DeviceIndex>(index))); });
    m.def("set_stream", [](std::int64_t id, int index) {
        exchange_stream(c10::Stream(c10::Stream::UNSAFE, {device_type, static_cast<c10::DeviceIndex>(index)}, id));
    });
    m.def("elapsed_time", [](std::intptr_t begin, std::intptr_t end) {   // ids of PyTorch's events
        return c10::impl::getDeviceGuardImpl(device_type)
            ->elapsedTime(reinterpret_cast<void*>(begin), reinterpret_cast<void*>(end), -1);
    });
    m.def("device_properties", &device_properties);
    m.def("no_device_help", &clprim::no_device_help);
    m.def("init", [] { context(-1); }, py::call_guard<py::gil_scoped_release>());
    m.def("is_initialized", &is_initialized);
    m.def("let_go_of_backward_passes", [] { let_go_of_backward_passes(std::chrono::seconds(1)); },
          py::call_guard<py::gil_scoped_release>());
    py::module_::import("atexit").attr("register")(m.attr("let_go_of_backward_passes"));
    m.def("in_bad_fork", &in_bad_fork);
    m.def("leave_accelerator_to_pytorch_until_used", &leave_accelerator_to_pytorch_until_used);
    m.def("default_generator", [](int index) { return default_generator(static_cast<c10::DeviceIndex>(index)); });

    m.def("seed_all", [](std::int64_t seed) { seed_all(static_cast<std::uint64_t>(seed)); });

    m.def("empty_cache", [] { device_allocator().emptyCache({}); }, py::call_guard<py::gil_scoped_release>());
    m.def("set_memory_limit", [](int index, std::size_t bytes) {
        context(static_cast<c10::DeviceIndex>(index)).set_memory_limit(bytes);
    });

    m.def("fallback_policy", [] { return name_of(fallback_policy()); });
    m.def("set_fallback_policy", [](const std::string& name) { set_fallback_policy(policy_from_name(name)); });
    m.def("fallback_report", &fallback_report);
    m.def("reset_fallback_report", &reset_fallback_report);

    m.def("cl_memory", [](const at::Tensor& tensor) {
        const clprim::Context& own = context(tensor.device().index());
        const auto* address = static_cast<const char*>(tensor.const_data_ptr());
        const clprim::Block* block = own.find_block(address);
        TORCH_CHECK(block, "cl_mem: the tensor has no memory of the device");
        return py::make_tuple(reinterpret_cast<std::uintptr_t>(block->buffer),
                              block->offset +
                                  static_cast<std::size_t>(address - static_cast<const char*>(block->address)));
    });
    m.def("cl_handles", [](int index) {
        const clprim::Context& own = context(static_cast<c10::DeviceIndex>(index));
        return py::make_tuple(reinterpret_cast<std::uintptr_t>(own.handle()()),
                              reinterpret_cast<std::uintptr_t>(own.device().handle()));
    });
    m.def("blocking_calls", &clprim::blocking_calls);
    m.def("kernel_launches", &clprim::kernel_launches);
    m.def("program_builds", [](int index) { return context(static_cast<c10::DeviceIndex>(index)).program_builds(); });

    bind_extension(m);
    bind_inductor(m);
    bind_kernel(m);
    bind_memory(m);
    bind_profiler(m);
    bind_distributed(m);
    bind_tuning(m);
}

}  // namespace
}  // namespace torch_ocl
