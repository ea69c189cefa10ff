#include <inductor/binding.hpp>

#include <clprim/context.hpp>

#include <inductor/ranges.hpp>
#include <runtime/device.hpp>

namespace torch_ocl {
namespace {

namespace py = pybind11;

constexpr std::pair<std::string_view, TorchOclRange> range_names[] = {
    {"linear", TORCH_OCL_LINEAR}, {"rows", TORCH_OCL_ROWS}, {"tiles", TORCH_OCL_TILES}, {"outputs", TORCH_OCL_OUTPUTS},
    {"groups", TORCH_OCL_GROUPS}, {"items", TORCH_OCL_ITEMS},
};

py::object sizes(const std::array<std::size_t, 3>& values, unsigned dims)
{
    if (dims == 1)
        return py::int_(values[0]);
    return py::make_tuple(values[0], values[1]);
}

}  // namespace

void bind_inductor(py::module_& m)
{
    m.def("share_symbols", &share_symbols);
    m.def("inductor_range", [](int index, std::string_view kind, const std::vector<std::int64_t>& numbers) {
        const clprim::Device& device = clprim::device_at(checked_device(static_cast<c10::DeviceIndex>(index)));
        for (const auto& [name, range] : range_names)
            if (name == kind) {
                const clprim::Range found = inductor_range(device, range, numbers.data());
                return py::make_tuple(sizes(found.global, found.dims), sizes(found.local, found.dims));
            }
        throw py::value_error("there is no range of kind " + std::string(kind));
    });
}

}  // namespace torch_ocl
