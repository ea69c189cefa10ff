// For C++ extensions of PyTorch (torch.utils.cpp_extension): tensors of the ocl device as clprim's, and their queue.
//
//     at::Tensor swish(const at::Tensor& x)
//     {
//         at::Tensor y = at::empty_like(x);
//         clprim::pointwise(torch_ocl::queue_of(x), {torch_ocl::as_clprim(x)}, {torch_ocl::as_clprim(y)}, {},
//                           "y0 = x0 * sigmoid(x0);");
//         return y;
//     }
//
// Built with what torch_ocl.extension_options() gives: the folders of these headers, C++20, and libclprim. An extension
// fits the version of torch_ocl that it was built with; another one refuses it at the first call.
#pragma once

#include <Python.h>

#include <cstring>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <clprim/context.hpp>
#include <clprim/queue.hpp>
#include <clprim/version.h>

namespace torch_ocl {

// What torch_ocl's module hands out, as the capsule torch_ocl._C.extension_api.
struct ExtensionApi {
    const char* version;
    clprim::Tensor (*as_clprim)(const at::Tensor&);
    clprim::Queue& (*current_queue)(c10::Device);
    clprim::DataType (*data_type)(at::ScalarType);
};

inline const ExtensionApi& extension_api()
{
    static const ExtensionApi* const api = [] {
        const PyGILState_STATE state = PyGILState_Ensure();
        auto* found = static_cast<const ExtensionApi*>(PyCapsule_Import("torch_ocl._C.extension_api", 0));
        PyErr_Clear();
        PyGILState_Release(state);
        TORCH_CHECK(found, "torch_ocl's C++ part is not there: import torch with torch_ocl installed first");
        TORCH_CHECK(std::strcmp(found->version, CLPRIM_VERSION_STRING) == 0, "this extension was built with torch_ocl ",
                    CLPRIM_VERSION_STRING, ", the one here is ", found->version, "; build it again");
        return found;
    }();
    return *api;
}

// The tensor as clprim sees it: the same memory, strides and offset, no reference counted: valid while `tensor` lives.
// Throws for tensors of other devices, and for dtypes that the device does not compute with.
inline clprim::Tensor as_clprim(const at::Tensor& tensor)
{
    TORCH_CHECK(tensor.is_privateuseone(), "expected a tensor on an ocl device, got one on ", tensor.device());
    return extension_api().as_clprim(tensor);
}

// The queue that PyTorch's current stream stands for, of the tensor's device. Work that is launched there follows
// what PyTorch has launched before, and PyTorch's later work follows it; nothing waits.
inline clprim::Queue& queue_of(const at::Tensor& tensor)
{
    TORCH_CHECK(tensor.is_privateuseone(), "expected a tensor on an ocl device, got one on ", tensor.device());
    return extension_api().current_queue(tensor.device());
}

inline clprim::DataType data_type_of(at::ScalarType type) { return extension_api().data_type(type); }

}  // namespace torch_ocl
