// Tensor and Value.
#include <pybind11/stl.h>

#include <clprim/copy.hpp>
#include <clprim/interop.hpp>
#include <clprim/net.hpp>

#include "bindings.hpp"

namespace clprim::python {

namespace {

py::object tensor_numpy(const Tensor& tensor) { return value_to_python(Value(tensor)); }

// The buffer protocol of a device object shows a read-only copy on the host, which lives as long as the buffer.
template <class T>
int get_buffer(PyObject* self, Py_buffer* view, int flags)
{
    try {
        const py::object array = value_to_python(Value(py::handle(self).cast<T>()));
        array.attr("setflags")(py::arg("write") = false);
        return PyObject_GetBuffer(array.ptr(), view, flags);
    } catch (py::error_already_set& error) {
        error.restore();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_BufferError, error.what());
    }
    view->obj = nullptr;
    return -1;
}

template <class T>
py::custom_type_setup with_buffer()
{
    return py::custom_type_setup([](PyHeapTypeObject* type) {
        type->ht_type.tp_as_buffer = &type->as_buffer;
        type->as_buffer.bf_getbuffer = &get_buffer<T>;
    });
}

py::object as_array(const py::object& array, const py::object& dtype)
{
    return dtype.is_none() ? array : array.attr("astype")(dtype);
}

void write(const Tensor& tensor, const py::handle& source)
{
    const HostArray host = host_array(source, element_type(tensor.dtype));
    require(!is_narrow(host.type) && host.type != ElementType::string && storage_type(host.type) == tensor.dtype,
            "a tensor of ", name_of(tensor.dtype), " cannot take an array of ", name_of(host.type));
    require(host.shape == tensor.shape, "a tensor of shape ", to_string(tensor.shape),
            " cannot take an array of shape ", to_string(host.shape));
    if (!tensor.numel())
        return;
    const void* data = host.array.data();
    const Released released;
    Queue& queue = queue_of(tensor);
    Tensor target = tensor;
    if (!tensor.is_contiguous())
        target = queue.context().empty(tensor.shape, tensor.dtype, queue);
    queue.write(*target.memory, static_cast<std::size_t>(target.offset) * size_of(target.dtype), data, target.nbytes());
    if (!tensor.is_contiguous())
        copy(queue, target, tensor);
}

Tensor converted(const Tensor& tensor, DataType dtype)
{
    const Tensor result = queue_of(tensor).context().empty(tensor.shape, dtype, queue_of(tensor));
    copy(queue_of(tensor), tensor, result);
    return result;
}

// One -1 stands for what is left.
Tensor reshaped(const Tensor& tensor, Dims shape)
{
    std::int64_t known = 1, *open = nullptr;
    for (std::int64_t& size : shape) {
        require(size >= -1 && (size != -1 || !open), "cannot reshape to ", to_string(shape));
        size == -1 ? void(open = &size) : void(known *= size);
    }
    if (open)
        *open = known ? tensor.numel() / known : 0;
    return tensor.is_contiguous() ? tensor.reshape(shape) : converted(tensor, tensor.dtype).reshape(shape);
}

Tensor permuted(const Tensor& tensor, const Dims& axes)
{
    require(axes.size() == tensor.dim(), "permute needs all ", tensor.dim(), " axes");
    Tensor result = tensor;
    std::vector<bool> seen(tensor.dim());
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::int64_t from = axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(tensor.dim()) : axes[i];
        require(from >= 0 && from < static_cast<std::int64_t>(tensor.dim()) && !seen[static_cast<std::size_t>(from)],
                "bad axes ", to_string(axes));
        seen[static_cast<std::size_t>(from)] = true;
        result.shape[i] = tensor.shape[static_cast<std::size_t>(from)];
        result.strides[i] = tensor.strides[static_cast<std::size_t>(from)];
    }
    return result;
}

void bind_tensor(py::module_& m)
{
    py::class_<Tensor>(m, "Tensor", with_buffer<Tensor>(), "An array on a device. Views share its memory.")
        .def(py::init(
                 [](const py::object& array, const py::object& device) { return upload(array, context_of(device)); }),
             py::arg("array"), py::arg("device") = py::none(), "A copy of an array on a device.")
        .def_static(
            "empty",
            [](const py::object& shape, const py::object& dtype, const py::object& device) {
                Context& context = context_of(device);
                return context.empty(dims_of(shape), data_type_of(dtype), context.queue());
            },
            py::arg("shape"), py::arg("dtype") = "float32", py::arg("device") = py::none(), "Without defined contents.")
        .def_static(
            "full",
            [](const py::object& shape, double value, const py::object& dtype, const py::object& device) {
                Context& context = context_of(device);
                const Tensor tensor = context.empty(dims_of(shape), data_type_of(dtype), context.queue());
                fill(context.queue(), tensor, value);
                return tensor;
            },
            py::arg("shape"), py::arg("value"), py::arg("dtype") = "float32", py::arg("device") = py::none())
        .def_static(
            "from_cl_mem",
            [](std::uintptr_t buffer, const py::object& shape, const py::object& dtype, std::size_t offset,
               const py::object& device) {
                return adopt(context_of(device), reinterpret_cast<cl_mem>(buffer), data_type_of(dtype), dims_of(shape),
                             offset);
            },
            py::arg("buffer"), py::arg("shape"), py::arg("dtype") = "float32", py::arg("offset") = 0,
            py::arg("device") = py::none(),
            "The memory of another library's cl_mem (its handle as a number) in the device's cl_context, shared; "
            "offset\n"
            "in bytes.")
        .def_property_readonly(
            "cl_mem",
            [](const Tensor& t) {
                const OpenCLMemory memory = memory_of(t);
                return py::make_tuple(reinterpret_cast<std::uintptr_t>(memory.buffer), memory.offset);
            },
            "The cl_mem that holds the tensor (its handle as a number) and the bytes to its first element.")
        .def_property_readonly("shape", [](const Tensor& t) { return shape_tuple(t.shape); })
        .def_property_readonly(
            "strides", [](const Tensor& t) { return shape_tuple(t.strides); }, "In elements.")
        .def_property_readonly(
            "dtype", [](const Tensor& t) { return name_of(t.dtype); }, "Its name: \"float32\".")
        .def_property_readonly("ndim", &Tensor::dim)
        .def_property_readonly("size", &Tensor::numel)
        .def_property_readonly("nbytes", &Tensor::nbytes)
        .def_property_readonly("device", [](const Tensor& t) { return queue_of(t).device(); })
        .def_property_readonly(
            "context", [](const Tensor& t) { return t.memory->context; }, py::return_value_policy::reference)
        .def("numpy", &tensor_numpy, "A copy as a NumPy array; waits for the device.")
        .def(
            "__array__",
            [](const Tensor& t, const py::object& dtype, const py::object&) {
                return as_array(tensor_numpy(t), dtype);
            },
            py::arg("dtype") = py::none(), py::arg("copy") = py::none())
        .def(
            "__dlpack__",
            [](const py::object& t, const py::kwargs& options) {
                return py::module_::import("clprim._dlpack").attr("exported")(t, **options);
            },
            "A copy on the host; with dl_device=(4, index of the device), kDLOpenCL, the memory itself.")
        .def("__dlpack_device__", [](const Tensor&) { return py::make_tuple(1, 0); })
        .def("write", &write, py::arg("array"), "Takes the elements of an array of the same shape and dtype.")
        .def(
            "fill", [](const Tensor& t, double value) { fill(queue_of(t), t, value); }, py::arg("value"))
        .def(
            "astype", [](const Tensor& t, const py::object& dtype) { return converted(t, data_type_of(dtype)); },
            py::arg("dtype"))
        .def("contiguous", [](const Tensor& t) { return t.is_contiguous() ? t : converted(t, t.dtype); })
        .def("reshape",
             [](const Tensor& t, const py::args& sizes) {
                 return reshaped(t, dims_of(sizes.size() == 1 ? py::object(sizes[0]) : py::object(sizes)));
             })
        .def("permute",
             [](const Tensor& t, const py::args& axes) {
                 return permuted(t, dims_of(axes.size() == 1 ? py::object(axes[0]) : py::object(axes)));
             })
        .def("expand",
             [](const Tensor& t, const py::args& sizes) {
                 return t.expand(dims_of(sizes.size() == 1 ? py::object(sizes[0]) : py::object(sizes)));
             })
        .def("slice", &Tensor::slice, py::arg("axis"), py::arg("begin"), py::arg("end"))
        .def("item", [](const Tensor& t) { return tensor_numpy(t).attr("item")(); })
        .def("tolist", [](const Tensor& t) { return tensor_numpy(t).attr("tolist")(); })
        .def("__len__",
             [](const Tensor& t) {
                 if (!t.dim())
                     throw py::type_error("len() of a 0-d tensor");
                 return t.shape[0];
             })
        .def("__repr__", [](const Tensor& t) {
            return "<clprim.Tensor " + std::string(name_of(t.dtype)) + " " + to_string(t.shape) + " on " +
                   queue_of(t).device().id + ">";
        });
}

void bind_value(py::module_& m)
{
    py::class_<Value>(m, "Value", with_buffer<Value>(),
                      "What flows through a model: a tensor of any ONNX type, a sequence, a map, or nothing.")
        .def(py::init([](const py::object& object, const py::object& device) {
                 if (py::isinstance<Tensor>(object))
                     return Value(object.cast<Tensor>());
                 const bool is_list = py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object) ||
                                      py::isinstance<py::dict>(object);
                 return value_from(object, context_of(device), {ElementType::undefined, !is_list});
             }),
             py::arg("value") = py::none(), py::arg("device") = py::none(),
             "From an array, a Tensor, a list of arrays (a sequence), a dictionary (a map) or None.")
        .def_property_readonly("is_none", &Value::is_none)
        .def_property_readonly("is_tensor", &Value::is_tensor)
        .def_property_readonly("is_sequence", &Value::is_sequence)
        .def_property_readonly("is_map", &Value::is_map)
        .def_property_readonly("type", [](const Value& v) { return v.is_none() ? "undefined" : name_of(v.type()); })
        .def_property_readonly("shape", [](const Value& v) { return shape_tuple(v.shape()); })
        .def_property_readonly("items", [](const Value& v) { return v.items(); })
        .def(
            "tensor", [](const Value& v, const py::object& device) { return v.device(context_of(device).queue()); },
            py::arg("device") = py::none(), "On its device, or uploaded to `device`.")
        .def("numpy", &value_to_python,
             "As Session.run gives it: an array, a list, a dictionary or None; waits for the device.")
        .def(
            "__array__",
            [](const Value& v, const py::object& dtype, const py::object&) {
                return as_array(value_to_python(v), dtype);
            },
            py::arg("dtype") = py::none(), py::arg("copy") = py::none())
        .def("__repr__", [](const Value& v) -> std::string {
            if (v.is_none())
                return "<clprim.Value none>";
            if (v.is_map())
                return "<clprim.Value map of " + std::to_string(v.keys().numel()) + ">";
            if (v.is_sequence())
                return "<clprim.Value sequence of " + std::to_string(v.items().size()) + ">";
            return "<clprim.Value " + std::string(name_of(v.type())) + " " + to_string(v.shape()) + ">";
        });
}

}  // namespace

DataType data_type_of(const py::handle& dtype)
{
    if (py::isinstance<py::str>(dtype))
        return net_data_type(dtype.cast<std::string>());
    return net_data_type(py::module_::import("numpy").attr("dtype")(dtype).attr("name").cast<std::string>());
}

Dims dims_of(const py::handle& sizes)
{
    Dims result;
    if (py::isinstance<py::int_>(sizes))
        result.push_back(sizes.cast<std::int64_t>());
    else
        for (const py::handle size : sizes)
            result.push_back(size.cast<std::int64_t>());
    return result;
}

Tensor upload(const py::handle& array, Context& context)
{
    const HostArray host = host_array(array);
    require<NotSupported>(host.type != ElementType::string && !is_narrow(host.type), "tensors of ", name_of(host.type),
                          " are values of models only: clprim.Value");
    const void* data = host.array.data();
    const Released released;
    const Tensor tensor = context.empty(host.shape, storage_type(host.type), context.queue());
    if (tensor.numel())
        context.queue().write(*tensor.memory, 0, data, tensor.nbytes());
    return tensor;
}

void bind_tensors(py::module_& m)
{
    bind_tensor(m);
    bind_value(m);
}

}  // namespace clprim::python
