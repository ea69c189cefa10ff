// The parts of clprim._C, one file each, and the conversions between values and NumPy arrays that they share.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <pybind11/pybind11.h>
#include <pybind11/numpy.h>

#include <clprim/context.hpp>
#include <clprim/error_hook.hpp>
#include <clprim/value.hpp>
#include <clprim/weights.hpp>

namespace clprim::python {

namespace py = pybind11;

// Around work of the library: other threads may run Python, and errors are clprim's own even where PyTorch's device is
// loaded too.
struct Released {
    Released() = default;   // no aggregate: pybind11 makes it from empty braces, and the lock's constructor is explicit
    py::gil_scoped_release lock;
    OwnErrors errors;
};

void bind_errors(py::module_& m);
void bind_devices(py::module_& m);
void bind_dlpack(py::module_& m);
void bind_tensors(py::module_& m);
void bind_functions(py::module_& m);
void bind_onnx(py::module_& m);
void bind_nets(py::module_& m);

// The context that `device` names: None (the default device), an index, a text such as "0:1" or "gpu", a Device or a
// Context.
Context& context_of(const py::object& device);
inline Queue& queue_of(const Tensor& tensor) { return tensor.memory->context->queue(); }

// A name ("float32", "half") or anything that np.dtype takes.
DataType data_type_of(const py::handle& dtype);
Dims dims_of(const py::handle& sizes);               // an integer or a sequence of integers
// A new device tensor with the array's elements.
Tensor upload(const py::handle& array, Context& context);

// Raw bytes of an array's elements and what they mean. Keeps the array alive.
struct HostArray {
    py::array array;             // C-contiguous, in clprim's storage of `type`; for strings of objects
    ElementType type;
    Dims shape;
};
// Takes NumPy arrays and whatever np.asarray takes. A Python number or list without a dtype of its own becomes
// `expected` where that is known. Throws InvalidArgument for dtypes that ONNX lacks.
HostArray host_array(const py::handle& object, ElementType expected = ElementType::undefined);
py::array empty_array(const Dims& shape, DataType storage);
// The same elements as an array of the NumPy type for `type` (ml_dtypes where NumPy has none).
py::object typed_array(py::array storage, ElementType type);

// Large arrays go to the device at once, small ones stay on the host. Lists become sequences unless `is_tensor`.
struct Expected {
    ElementType type = ElementType::undefined;
    bool is_tensor = true;
};
Value value_from(const py::handle& object, Context& context, const Expected& expected = {});
// The same for a use that ends before the caller goes on: a large array stays where it is and must not change
// meanwhile.
Value borrowed_value(const py::handle& object, Context& context, const Expected& expected = {});
// Arrays, lists of them, arrays of str, None. Waits for the device.
py::object value_to_python(const Value& value);
// Of a tensor that the host has where it lies (host_address), without a copy.
py::object array_in_place(const Value& value);

// Weights are dictionaries of arrays.
WeightMap weights_of(const py::dict& arrays);
py::dict weights_to_python(const WeightMap& weights);

// Names and texts of files need not be valid UTF-8: such bytes become escapes (as in file names), and bytes again.
inline py::str text_of(std::string_view text)
{
    PyObject* decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
    if (!decoded)
        throw py::error_already_set();
    return py::reinterpret_steal<py::str>(decoded);
}
inline std::string string_of(const py::handle& text)
{
    return py::isinstance<py::bytes>(text) ? text.cast<std::string>()
                                           : text.attr("encode")("utf-8", "surrogateescape").cast<std::string>();
}
// Maps with texts as keys, as dictionaries.
template <class Map>
py::dict dict_of(const Map& map)
{
    py::dict result;
    for (const auto& [key, value] : map)
        if constexpr (std::is_convertible_v<decltype(value), std::string_view>)
            result[text_of(key)] = text_of(value);
        else
            result[text_of(key)] = value;
    return result;
}

inline py::tuple shape_tuple(const Dims& shape)
{
    py::tuple result(shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i)
        result[i] = shape[i];
    return result;
}

}  // namespace clprim::python
