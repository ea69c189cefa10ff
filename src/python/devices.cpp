#include <pybind11/stl.h>

#include "bindings.hpp"

namespace clprim::python {

Context& context_of(const py::object& device)
{
    if (device.is_none())
        return Context::get(0);
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
        .def_readonly("compute_units", &Device::compute_units)
        .def_readonly("global_memory", &Device::global_memory)
        .def_readonly("max_allocation", &Device::max_allocation)
        .def_readonly("local_memory", &Device::local_memory)
        .def("__repr__", [](const Device& d) { return "<clprim.Device " + d.id + " '" + d.name + "'>"; });
    m.def("devices", [] { return devices(); }, "All usable OpenCL devices, the default one first.");
    m.def("find_device", [](const std::string& text) { return device_at(find_device(text)); }, py::arg("text"),
          "The device that a text names: \"1\", \"0:1\", \"gpu\" or part of a name.");
}

}  // namespace clprim::python
