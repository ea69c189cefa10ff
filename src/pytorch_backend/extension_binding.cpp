#include <extension_binding.hpp>

#include <torch_ocl/extension.hpp>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {

void bind_extension(pybind11::module_& m)
{
    static const ExtensionApi api = {
        CLPRIM_VERSION_STRING,
        [](const at::Tensor& tensor) { return view(tensor); },
        [](c10::Device device) -> clprim::Queue& { return current_queue(device); },
        &data_type,
    };
    m.attr("extension_api") = pybind11::capsule(&api, "torch_ocl._C.extension_api");
}

}  // namespace torch_ocl
