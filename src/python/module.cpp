#include "bindings.hpp"

PYBIND11_MODULE(_C, m)
{
    m.doc() = "C++ part of clprim";
    clprim::python::bind_errors(m);
    clprim::python::bind_devices(m);
    clprim::python::bind_dlpack(m);
    clprim::python::bind_tensors(m);
    clprim::python::bind_functions(m);
    clprim::python::bind_onnx(m);
    clprim::python::bind_nets(m);
}
