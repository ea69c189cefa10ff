#include <tuning_binding.hpp>

#include <pybind11/stl.h>

#include <clprim/context.hpp>
#include <clprim/tuning.hpp>

#include <runtime/device.hpp>
#include <runtime/errors.hpp>

namespace torch_ocl {
namespace {

namespace py = pybind11;

const clprim::Device& device_of(int index) { return context(static_cast<c10::DeviceIndex>(index)).device(); }

}  // namespace

void bind_tuning(py::module_& m)
{
    m.def("tune_choices", [](bool on) { clprim::tune_choices(on); });
    m.def("choices_are_tuned", &clprim::choices_are_tuned);
    m.def("limit_tuning", &clprim::limit_tuning);
    m.def("tuning_limit", &clprim::tuning_limit);
    m.def("export_tuning", [](int device, const std::string& file) {
        return translate_errors([&] { return clprim::export_tuning(device_of(device), file); });
    });
    m.def("import_tuning", [](int device, const std::string& file) {
        try {
            return clprim::import_tuning(device_of(device), file);
        } catch (const clprim::InvalidArgument& error) {
            throw py::value_error(error.what());
        }
    });
    m.def("tuning_results", [](int device) {
        std::vector<std::tuple<std::string, std::string, std::string>> results;
        for (clprim::TuningResult& one : clprim::tuning_results(device_of(device)))
            results.emplace_back(std::move(one.family), std::move(one.problem), std::move(one.choice));
        return results;
    });
}

}  // namespace torch_ocl
