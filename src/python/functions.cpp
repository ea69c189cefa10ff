// Functions of tensors, and files of weights.
#include <array>
#include <cstring>

#include <pybind11/complex.h>
#include <pybind11/stl.h>

#include <clprim/conv.hpp>
#include <clprim/gemm.hpp>
#include <clprim/reduce.hpp>
#include <clprim/softmax.hpp>
#include <clprim/weights.hpp>

#include "bindings.hpp"

namespace clprim::python {

namespace {

Scalar scalar_of(const py::handle& number)
{
    if (py::isinstance<py::int_>(number))
        return Scalar(number.cast<std::int64_t>());
    if (PyComplex_Check(number.ptr()))
        return Scalar(number.cast<std::complex<double>>());
    return Scalar(number.cast<double>());
}

std::vector<Scalar> scalars_of(const py::iterable& numbers)
{
    std::vector<Scalar> result;
    for (const py::handle number : numbers)
        result.push_back(scalar_of(number));
    return result;
}

Queue& common_queue(const std::vector<Tensor>& tensors)
{
    require(!tensors.empty(), "at least one output tensor is needed");
    return queue_of(tensors[0]);
}

Activation activation_of(const std::string& name)
{
    for (const auto& [known, activation] : {std::pair{"none", Activation::none}, {"relu", Activation::relu},
                                            {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}})
        if (name == known)
            return activation;
    throw InvalidArgument("unknown activation '" + name + "'; there are none, relu, gelu, gelu_tanh");
}

struct ProductOptions {
    Scalar alpha, beta;
    Activation activation;
};

Tensor product(const Tensor& a, const Tensor& b, const Tensor& bias, const ProductOptions& options)
{
    require(a.dim() >= 2 && a.dim() <= 3 && a.dim() == b.dim(),
            "matmul takes two matrices or two batches of them, got ", to_string(a.shape), " and ", to_string(b.shape));
    Dims shape = a.shape;
    shape[a.dim() - 1] = b.shape.back();
    Queue& queue = queue_of(a);
    const Tensor result = queue.context().empty(shape, a.dtype, queue);
    GemmProblem problem = gemm_problem(a, b, result, bias);
    problem.alpha = options.alpha;
    problem.beta = options.beta;
    problem.activation = options.activation;
    gemm(queue, problem, a, b, result, bias);
    return result;
}

Tensor convolution(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvOptions& options)
{
    Queue& queue = queue_of(x);
    const Dims shape = conv_output_shape(x.shape, w.shape, options);
    for (const std::int64_t size : shape)
        require(size >= 0, "the convolution of ", to_string(x.shape), " with ", to_string(w.shape), " has no output");
    const Tensor result = queue.context().empty(shape, x.dtype, queue);
    conv_forward(queue, x, w, bias, result, options);
    return result;
}

Dims optional_dims(const py::object& sizes, std::size_t spatial)
{
    if (sizes.is_none())
        return {};
    const Dims given = dims_of(sizes);
    return given.size() == 1 ? Dims(spatial, given[0]) : given;
}

HostTensor host_tensor_of(const std::string& name, const py::handle& array)
{
    const HostArray host = host_array(array);
    require(host.type != ElementType::string && !is_narrow(host.type), "weight '", name, "': files hold no ",
            name_of(host.type));
    const auto* data = static_cast<const std::byte*>(host.array.data());
    return host_tensor(storage_type(host.type), host.shape, {data, data + host.array.nbytes()});
}

}  // namespace

WeightMap weights_of(const py::dict& arrays)
{
    WeightMap weights;
    for (const auto& [key, array] : arrays) {
        const std::string name = string_of(key);
        weights[name] = host_tensor_of(name, array);
    }
    return weights;
}

py::dict weights_to_python(const WeightMap& weights)
{
    py::dict result;
    for (const auto& [name, tensor] : weights) {
        py::array array = empty_array(tensor.shape, tensor.dtype);
        if (!tensor.data.empty())
            std::memcpy(array.mutable_data(), tensor.data.data(), tensor.data.size());
        result[text_of(name)] = typed_array(std::move(array), element_type(tensor.dtype));
    }
    return result;
}

void bind_functions(py::module_& m)
{
    m.def("pointwise_",
        [](const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, const py::iterable& scalars,
           const std::string& code) { pointwise(common_queue(outputs), inputs, outputs, scalars_of(scalars), code); });
    m.def("pointwise_reduce_", [](const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                                  const py::iterable& scalars, const std::array<std::string, 5>& c) {
        pointwise_reduce(common_queue(outputs), inputs, outputs, scalars_of(scalars), {c[0], c[1], c[2], c[3], c[4]});
    });
    m.def(
        "matmul",
        [](const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const py::object& alpha,
           const py::object& beta, const std::string& activation) {
            return product(a, b, bias.value_or(Tensor()),
                           {scalar_of(alpha), scalar_of(beta), activation_of(activation)});
        },
        py::arg("a"), py::arg("b"), py::arg("bias") = py::none(), py::kw_only(), py::arg("alpha") = 1,
        py::arg("beta") = 1, py::arg("activation") = "none",
        "activation(alpha * a @ b + beta * bias) of matrices or batches of matrices.");
    m.def("convolution",
        [](const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias, const py::object& stride,
           const py::object& padding, const py::object& padding_end, const py::object& dilation,
           const py::object& output_padding, std::int64_t groups, bool transposed, bool relu) {
            require(x.dim() >= 3, "a convolution takes (N, C, spatial...), got ", to_string(x.shape));
            const std::size_t spatial = x.dim() - 2;
            ConvOptions options;
            options.stride = optional_dims(stride, spatial);
            options.pad_begin = optional_dims(padding, spatial);
            options.pad_end = padding_end.is_none() ? options.pad_begin : optional_dims(padding_end, spatial);
            options.dilation = optional_dims(dilation, spatial);
            options.output_padding = optional_dims(output_padding, spatial);
            options.groups = groups;
            options.transposed = transposed;
            options.activation = relu ? Activation::relu : Activation::none;
            return convolution(x, w, bias.value_or(Tensor()), options);
        },
        py::arg("x"), py::arg("weight"), py::arg("bias") = py::none(), py::kw_only(), py::arg("stride") = py::none(),
        py::arg("padding") = py::none(), py::arg("padding_end") = py::none(), py::arg("dilation") = py::none(),
        py::arg("output_padding") = py::none(), py::arg("groups") = 1, py::arg("transposed") = false,
        py::arg("relu") = false, "Convolution in one to three dimensions of x (N, C, spatial...).");
    m.def("softmax",
        [](const Tensor& x, int axis, bool log) {
            const Tensor result = queue_of(x).context().empty(x.shape, x.dtype, queue_of(x));
            softmax(queue_of(x), x, result, axis, log);
            return result;
        },
        py::arg("x"), py::arg("axis") = -1, py::kw_only(), py::arg("log") = false);
    m.def(
        "load_weights", [](const std::string& path) { return weights_to_python(load_weights(path)); }, py::arg("path"),
        "Arrays by name from a .safetensors, .npz, .npy or .dlp file.");
    m.def("save_weights",
          [](const std::string& path, const py::dict& weights) { save_weights(path, weights_of(weights)); },
          py::arg("path"), py::arg("weights"), "Writes arrays by name; the extension chooses the format.");
}

}  // namespace clprim::python
