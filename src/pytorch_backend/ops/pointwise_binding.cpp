// torch.ops.torch_ocl.pointwise_ and pointwise_reduce_: kernels from expressions, for python/torch_ocl/pointwise.py.
#include <ATen/core/Tensor.h>
#include <clprim/reduce.hpp>
#include <torch/library.h>

#include <ops/pointwise.hpp>
#include <runtime/errors.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

std::vector<clprim::Tensor> views(at::TensorList tensors)
{
    std::vector<clprim::Tensor> result;
    for (const at::Tensor& tensor : tensors) {
        TORCH_CHECK(tensor.device() == tensors[0].device(),
                    "Expected all tensors to be on the same device, but found at least two devices, ",
                    tensors[0].device(), " and ", tensor.device(), "!");
        result.push_back(view(tensor));
    }
    return result;
}

std::vector<clprim::Scalar> numbers(at::ArrayRef<at::Scalar> scalars)
{
    std::vector<clprim::Scalar> result;
    for (const at::Scalar& scalar : scalars)
        result.push_back(to_scalar(scalar));
    return result;
}

void pointwise(at::TensorList inputs, at::TensorList outputs, at::ArrayRef<at::Scalar> scalars, c10::string_view code)
{
    TORCH_CHECK(!outputs.empty(), "pointwise_kernel: at least one output is needed");
    translate_errors([&] {
        clprim::pointwise(current_queue(outputs[0]), views(inputs), views(outputs), numbers(scalars), code);
    });
}

// code: state, init, step, combine, finish.
void pointwise_reduce(at::TensorList inputs, at::TensorList outputs, at::ArrayRef<at::Scalar> scalars,
                      std::vector<std::string> code)
{
    TORCH_CHECK(!outputs.empty() && !inputs.empty() && code.size() == 5,
                "pointwise_kernel: inputs, outputs and five texts are needed");
    translate_errors([&] {
        clprim::pointwise_reduce(current_queue(outputs[0]), views(inputs), views(outputs), numbers(scalars),
                                 {code[0], code[1], code[2], code[3], code[4]});
    });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(torch_ocl, m)
{
    m.def("pointwise_(Tensor[] inputs, Tensor(a!)[] outputs, Scalar[] scalars, str code) -> ()");
    m.def("pointwise_reduce_(Tensor[] inputs, Tensor(a!)[] outputs, Scalar[] scalars, str[] code) -> ()");
}

TORCH_LIBRARY_IMPL(torch_ocl, PrivateUse1, m)
{
    m.impl("pointwise_", &pointwise);
    m.impl("pointwise_reduce_", &pointwise_reduce);
}

}  // namespace torch_ocl
