// Exceptions of clprim as Python's: each derives from clprim.Error and from the built-in type that fits.
#include <exception>
#include <initializer_list>
#include <new>

#include <clprim/onnx.hpp>

#include "bindings.hpp"

namespace clprim::python {

namespace {

// Created once per process and never released: translators run until the interpreter ends.
struct Types {
    PyObject *error, *invalid_argument, *not_supported, *index_error, *out_of_memory, *opencl_error, *build_error,
        *cancelled;
};
Types types;

PyObject* make_type(py::module_& m, const char* name, std::initializer_list<PyObject*> bases, const char* doc)
{
    py::tuple parents(bases.size());
    std::size_t i = 0;
    for (PyObject* base : bases)
        parents[i++] = py::reinterpret_borrow<py::object>(base);
    const std::string full = std::string("clprim.") + name;
    PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, parents.ptr(), nullptr);
    if (!type)
        throw py::error_already_set();
    m.add_object(name, py::reinterpret_borrow<py::object>(type));
    return type;
}

// A message may quote bytes of a damaged file.
void set_error(PyObject* type, const char* message)
{
    const std::string_view text(message);
    PyObject* decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
    if (!decoded)
        return;                      // MemoryError is set
    PyErr_SetObject(type, decoded);
    Py_DECREF(decoded);
}

void translate(std::exception_ptr pointer)
{
    if (!pointer)
        return;
    try {
        std::rethrow_exception(pointer);
    } catch (const InvalidArgument& e) {
        set_error(types.invalid_argument, e.what());
    } catch (const NotSupported& e) {
        set_error(types.not_supported, e.what());
    } catch (const IndexError& e) {
        set_error(types.index_error, e.what());
    } catch (const OutOfMemory& e) {
        set_error(types.out_of_memory, e.what());
    } catch (const std::bad_alloc&) {
        set_error(types.out_of_memory, "the host has no memory left");
    } catch (const BuildError& e) {
        set_error(types.build_error, e.what());
    } catch (const OpenCLError& e) {
        set_error(types.opencl_error, e.what());
    } catch (const Cancelled& e) {
        set_error(types.cancelled, e.what());
    } catch (const Error& e) {
        set_error(types.error, e.what());
    }
}

}  // namespace

void bind_errors(py::module_& m)
{
    types.error = make_type(m, "Error", {PyExc_Exception}, "Base of all errors of clprim.");
    const auto derived = [&](const char* name, PyObject* builtin, const char* doc) {
        return make_type(m, name, {types.error, builtin}, doc);
    };
    types.invalid_argument =
        derived("InvalidArgument", PyExc_ValueError, "An argument breaks the function's contract.");
    types.not_supported = derived("NotSupported", PyExc_NotImplementedError, "This device or build cannot do it.");
    types.index_error = derived("IndexError", PyExc_IndexError, "An index lay outside its dimension.");
    types.out_of_memory = derived("OutOfMemory", PyExc_MemoryError, "The device has no room for an allocation.");
    types.opencl_error = derived("OpenCLError", PyExc_RuntimeError, "An OpenCL call failed.");
    types.build_error = derived("BuildError", PyExc_RuntimeError, "A program did not compile; holds the driver's log.");
    types.cancelled = derived("Cancelled", PyExc_RuntimeError, "Session.cancel ended the run.");
    // Local: PyTorch's own functions keep turning errors of the device into theirs.
    py::register_local_exception_translator(&translate);
}

}  // namespace clprim::python
