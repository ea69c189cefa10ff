#include <pybind11/stl.h>

#include <clprim/interop.hpp>
#include <clprim/runtime.hpp>

#include "bindings.hpp"

namespace clprim::python {

namespace {

// The counts of memory_statistics that a user asks for, in bytes.
py::dict memory_of(const Context& context)
{
    const MemoryStatistics statistics = context.memory_statistics();
    py::dict result;
    result["allocated"] = statistics.allocated_bytes.current;
    result["peak_allocated"] = statistics.allocated_bytes.peak;
    result["reserved"] = statistics.reserved_bytes.current;
    result["peak_reserved"] = statistics.reserved_bytes.peak;
    return result;
}

// The function stays for good: a thread may be about to call it.
void set_python_log(const py::object& function)
{
    if (function.is_none())
        return set_log({});
    if (!PyCallable_Check(function.ptr()))
        throw py::type_error("a log is a function of (level, line) or None");
    set_log([kept = new py::object(function)](LogLevel level, std::string_view line) {
        if (!Py_IsInitialized())
            return;
        const py::gil_scoped_acquire held;
        try {
            (*kept)(level == LogLevel::warning ? "warning" : "information", text_of(std::string(line)));
        } catch (py::error_already_set& error) {
            error.discard_as_unraisable("clprim.set_log");
        }
    });
}

}  // namespace

Context& context_of(const py::object& device)
{
    if (device.is_none())
        return Context::get(0);
    if (py::isinstance<Context>(device))
        return device.cast<Context&>();
    if (py::isinstance<Device>(device))
        return Context::get(device.cast<const Device&>().index);
    if (py::isinstance<py::int_>(device))
        return Context::get(device.cast<int>());
    require(py::isinstance<py::str>(device), "a device is named by an index or a text such as \"0:1\" or \"gpu\"");
    return Context::get(std::string_view(device.cast<std::string>()));
}

void bind_devices(py::module_& m)
{
    py::class_<Device>(m, "Device", "An OpenCL device and what it can do.")
        .def_readonly("index", &Device::index)
        .def_readonly("id", &Device::id, "\"platform:device\", for Session's device argument")
        .def_readonly("name", &Device::name)
        .def_readonly("vendor", &Device::vendor)
        .def_readonly("driver_version", &Device::driver_version)
        .def_readonly("platform_name", &Device::platform_name)
        .def_property_readonly("kind", [](const Device& d) { return d.kind == DeviceKind::cpu ? "cpu" : "gpu"; })
        .def_readonly("version", &Device::version, "OpenCL version as a number: 120, 200, 300")
        .def_readonly("extensions", &Device::extensions)
        .def_readonly("fp64", &Device::fp64)
        .def_readonly("fp16", &Device::fp16)
        .def_readonly("unified_memory", &Device::unified_memory)
        .def_readonly("amx", &Device::amx, "whether kernels use the tile registers of the host's processor")
        .def_readonly("vnni_bytes", &Device::vnni_bytes, "of vectors that multiply fours of bytes; 0: there are none")
        .def_readonly("compute_units", &Device::compute_units)
        .def_readonly("global_memory", &Device::global_memory)
        .def_readonly("max_allocation", &Device::max_allocation)
        .def_readonly("local_memory", &Device::local_memory)
        .def("__repr__", [](const Device& d) { return "<clprim.Device " + d.id + " '" + d.name + "'>"; });
    // Contexts live until the process ends: Python holds them without owning them.
    py::class_<Context, std::unique_ptr<Context, py::nodelete>>(m, "Context",
                                                                "What belongs to one device: memory, queues, "
                                                                "programs. One object per device.")
        .def(py::init(
                 [](const py::object& device) { return std::unique_ptr<Context, py::nodelete>(&context_of(device)); }),
             py::arg("device") = py::none())
        .def_property_readonly("device", &Context::device, py::return_value_policy::copy)
        .def_property_readonly("name", [](const Context& c) { return c.device().name; })
        .def_property_readonly("is_cpu", [](const Context& c) { return c.device().kind == DeviceKind::cpu; })
        .def("synchronize", &Context::finish, py::call_guard<Released>(),
             "Waits for all work of the device; raises what went wrong in it.")
        .def("memory", &memory_of, "Bytes allocated and reserved, now and at most.")
        .def("reset_peak_memory", &Context::reset_peak_memory_statistics)
        .def("empty_cache", &Context::empty_cache, "Gives unused memory back to the driver.")
        .def("set_memory_limit", &Context::set_memory_limit, py::arg("bytes"), "0: the device's memory.")
        .def_property_readonly(
            "cl_context", [](const Context& c) { return reinterpret_cast<std::uintptr_t>(c.handle()()); },
            "The cl_context, cl_device_id and cl_command_queue as numbers, for other libraries of OpenCL.")
        .def_property_readonly("cl_device",
                               [](const Context& c) { return reinterpret_cast<std::uintptr_t>(c.device().handle()); })
        .def_property_readonly("cl_queue",
                               [](Context& c) { return reinterpret_cast<std::uintptr_t>(c.queue().handle()()); })
        .def(
            "wait_for",
            [](Context& c, std::uintptr_t event) { c.queue().wait_for(adopt(reinterpret_cast<cl_event>(event))); },
            py::arg("event"), "Work enqueued from now on starts after a cl_event (its handle as a number).")
        .def("__eq__", [](const Context& a, const Context& b) { return &a == &b; })
        .def("__hash__", [](const Context& c) { return c.device().index; })
        .def("__repr__",
             [](const Context& c) { return "<clprim.Context " + c.device().id + " '" + c.device().name + "'>"; });
    m.def("devices", [] { return devices(); }, "All usable OpenCL devices, the default one first.");
    m.def("find_device", [](const std::string& text) { return device_at(find_device(text)); }, py::arg("text"),
          "The device that a text names: \"1\", \"0:1\", \"gpu\" or part of a name.");
    m.def(
        "use_cl_context", [](std::uintptr_t context) { use_context(reinterpret_cast<cl_context>(context)); },
        py::arg("context"),
        "Takes another library's cl_context (its handle as a number) for its devices, before their first use.");
    m.def("use_programs",
          [](const py::object& folder) {
              use_programs(py::module_::import("os").attr("fsdecode")(folder).cast<std::string>());
          },
          py::arg("folder"), "Adds a folder that Session.prepare wrote. Its programs are machine code: trust them.");
    m.def("set_log", &set_python_log, py::arg("function"),
          "Calls function(level, line) for what the library would print, from any thread; None: stderr again.");
    m.def("kernel_launches", &kernel_launches, "How many kernels this process has launched so far.");
    m.def("blocking_calls", &blocking_calls, "How often this process has waited for a device so far.");
}

}  // namespace clprim::python
