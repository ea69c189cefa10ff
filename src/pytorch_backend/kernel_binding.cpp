#include <kernel_binding.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <c10/util/Half.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <clprim/context.hpp>

#include <runtime/errors.hpp>
#include <runtime/stream.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

namespace py = pybind11;

// What one argument of the call becomes. A tensor: a buffer and its offset; a number or bytes: a value; local: memory
// of so many elements; errors: the queue's error buffer and the code of the kernel's name, of which the caller gives
// none.
enum class Kind { tensor, number, bytes, local, errors };

// Numbers as they go into a kernel argument.
enum class Number { i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64 };

struct Parameter {
    Kind kind;
    std::string name;
    std::vector<at::ScalarType> accepted;   // tensor: dtypes that its pointer stands for
    bool written = false;                   // tensor: the pointer is not const
    std::size_t size = 0;                   // tensor: elements of one pointee; bytes and local: bytes of one
    Number number = Number::i32;
};

constexpr std::pair<std::string_view, Number> number_names[] = {
    {"int8", Number::i8},   {"uint8", Number::u8},     {"int16", Number::i16},   {"uint16", Number::u16},
    {"int32", Number::i32}, {"uint32", Number::u32},   {"int64", Number::i64},   {"uint64", Number::u64},
    {"float16", Number::f16}, {"float32", Number::f32}, {"float64", Number::f64},
};

Number number_of(std::string_view name)
{
    for (const auto& [known, number] : number_names)
        if (known == name)
            return number;
    throw py::value_error("there is no kernel argument of type " + std::string(name));
}

class UserKernel {
public:
    UserKernel(std::string source, std::string name, std::string options, const py::sequence& parameters, bool checked)
        : source_(std::move(source)), name_(std::move(name)), options_(std::move(options)), checked_(checked)
    {
        for (const py::handle item : parameters)
            add(py::reinterpret_borrow<py::tuple>(item));
    }

    // Builds the program for a device, unless it is built.
    clprim::Kernel& prepare(c10::DeviceIndex index)
    {
        if (clprim::Kernel* known = kernels_[index].load(std::memory_order_acquire))
            return *known;
        const py::gil_scoped_release without_gil;
        clprim::Kernel& kernel = translate_errors([&]() -> clprim::Kernel& {
            return context(index).program_from_text(name_, source_, options_).kernel(name_);
        });
        const unsigned taken = kernel.argument_count;   // 0 in a dry run, which builds nothing
        TORCH_CHECK(taken == 0 || taken == argument_count_, "kernel ", name_, " takes ", taken,
                    " arguments, but its declaration was read as ", argument_count_);
        kernels_[index].store(&kernel, std::memory_order_release);
        return kernel;
    }

    void call(const py::args& arguments, const py::object& global_size, const py::object& local_size)
    {
        TORCH_CHECK_TYPE(arguments.size() == expected_, "kernel ", name_, " takes ", expected_, " arguments (",
                         names(), "), got ", arguments.size());
        const c10::Device device = device_of(arguments);
        clprim::Kernel& kernel = prepare(device.index());
        clprim::Range range = range_of(global_size, local_size, kernel);
        if (range.global[0] == 0 || range.global[1] == 0 || range.global[2] == 0)
            return;
        translate_errors([&] { launch(kernel, range, arguments, device); });
    }

    const std::string& name() const { return name_; }
    const std::string& source() const { return source_; }
    std::string names() const
    {
        std::string text;
        for (const Parameter& p : parameters_)
            if (p.kind != Kind::errors)
                text += (text.empty() ? "" : ", ") + p.name;
        return text;
    }

private:
    void add(const py::tuple& item)
    {
        const auto kind = item[0].cast<std::string>();
        Parameter p;
        p.name = item[1].cast<std::string>();
        argument_count_ += 1;
        expected_ += 1;
        if (kind == "tensor") {
            p.kind = Kind::tensor;
            p.accepted = item[2].cast<std::vector<at::ScalarType>>();
            p.written = item[3].cast<bool>();
            p.size = item[4].cast<std::size_t>();
            argument_count_ += 1;
        } else if (kind == "errors") {
            p.kind = Kind::errors;
            argument_count_ += 1;
            expected_ -= 1;
            error_code_ = clprim::Queue::error_code(item[2].cast<std::string>());
        } else if (kind == "number") {
            p.kind = Kind::number;
            p.number = number_of(item[2].cast<std::string>());
        } else {
            p.kind = kind == "local" ? Kind::local : Kind::bytes;
            p.size = item[2].cast<std::size_t>();
        }
        parameters_.push_back(std::move(p));
    }

    [[noreturn]] void refuse(const Parameter& p, std::string_view expected, PyObject* value) const
    {
        C10_THROW_ERROR(TypeError, c10::str("kernel ", name_, ", argument ", p.name, ": expected ", expected, ", got ",
                                            Py_TYPE(value)->tp_name));
    }

    // That of the tensors, which have to agree; the current one without tensors.
    c10::Device device_of(const py::args& arguments) const
    {
        std::optional<c10::Device> device;
        std::size_t next = 0;
        for (const Parameter& p : parameters_) {
            if (p.kind == Kind::errors)
                continue;
            PyObject* value = PyTuple_GET_ITEM(arguments.ptr(), next++);
            if (p.kind != Kind::tensor || value == Py_None)
                continue;
            if (!THPVariable_Check(value))
                refuse(p, "a tensor", value);
            const c10::Device other = THPVariable_Unpack(value).device();
            TORCH_CHECK(other.is_privateuseone(), "kernel ", name_, ", argument ", p.name,
                        ": expected a tensor on an ocl device, got one on ", other);
            TORCH_CHECK(!device || *device == other,
                        "Expected all tensors to be on the same device, but found at least "
                        "two devices, ",
                        *device, " and ", other, "! (kernel ", name_, ", argument ", p.name, ")");
            device = other;
        }
        return device ? *device : c10::Device(device_type, checked_device(-1));
    }

    void read_dimensions(PyObject* value, const char* what, std::array<std::size_t, 3>& sizes, unsigned* dims) const
    {
        auto read = [&](PyObject* item) -> std::size_t {
            const long long n = PyLong_Check(item)
                                    ? PyLong_AsLongLong(item)
                                    : py::reinterpret_steal<py::int_>(PyNumber_Index(item)).cast<long long>();
            if (PyErr_Occurred())
                throw py::error_already_set();
            TORCH_CHECK_VALUE(n >= 0, "kernel ", name_, ": the ", what, " must not be negative, got ", n);
            return static_cast<std::size_t>(n);
        };
        if (!PyTuple_Check(value) && !PyList_Check(value)) {
            sizes[0] = read(value);
            return;
        }
        const auto fast = py::reinterpret_steal<py::object>(PySequence_Fast(value, what));
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.ptr());
        TORCH_CHECK_VALUE(count >= 1 && count <= 3, "kernel ", name_, ": the ", what, " has one to three sizes, got ",
                          count);
        for (Py_ssize_t i = 0; i < count; ++i)
            sizes[i] = read(PySequence_Fast_GET_ITEM(fast.ptr(), i));
        if (dims)
            *dims = static_cast<unsigned>(count);
    }

    clprim::Range range_of(const py::object& global_size, const py::object& local_size,
                           const clprim::Kernel& kernel) const
    {
        clprim::Range range;
        read_dimensions(global_size.ptr(), "global range", range.global, &range.dims);
        if (local_size.is_none())
            return range;
        range.local = {1, 1, 1};
        read_dimensions(local_size.ptr(), "local range", range.local, nullptr);
        std::size_t items = 1;
        for (int i = 0; i < 3; ++i) {
            items *= range.local[i];
            TORCH_CHECK_VALUE(range.local[i] > 0 && range.global[i] % range.local[i] == 0, "kernel ", name_,
                              ": the global range, ", range.global[i], " in dimension ", i,
                              ", is not a multiple of the local range, ", range.local[i]);
        }
        TORCH_CHECK_VALUE(items <= kernel.max_work_group_size, "kernel ", name_, ": a work-group has ", items,
                          " work-items; on this device the kernel can have ", kernel.max_work_group_size);
        return range;
    }

    void launch(clprim::Kernel& kernel, const clprim::Range& range, const py::args& arguments, c10::Device device)
    {
        clprim::Queue& queue = current_queue(device.index());
        clprim::Launch launch(queue, kernel);
        std::size_t next = 0;
        bool reports = false;
        for (const Parameter& p : parameters_) {
            if (p.kind == Kind::errors) {
                launch.arg(queue.error_buffer()).arg(error_code_);
                reports = true;
                continue;
            }
            PyObject* value = PyTuple_GET_ITEM(arguments.ptr(), next++);
            switch (p.kind) {
            case Kind::tensor: set_tensor(launch, p, value); break;
            case Kind::number: set_number(launch, p, value); break;
            case Kind::bytes: set_bytes(launch, p, value); break;
            default: set_local(launch, p, value);
            }
        }
        launch.run(range);
        if (reports)
            queue.expect_errors();
    }

    void set_tensor(clprim::Launch& launch, const Parameter& p, PyObject* value) const
    {
        if (value == Py_None) {
            launch.arg(clprim::NoTensor{});
            return;
        }
        const at::Tensor& tensor = THPVariable_Unpack(value);
        if (checked_) {
            const bool fits = std::find(p.accepted.begin(), p.accepted.end(), tensor.scalar_type()) != p.accepted.end();
            TORCH_CHECK_TYPE(fits, "kernel ", name_, ", argument ", p.name, ": expected a tensor of dtype ",
                             c10::Join(" or ", p.accepted), ", got ", tensor.scalar_type());
            if (p.written) {
                TORCH_CHECK(!(tensor.requires_grad() && at::GradMode::is_enabled()), "kernel ", name_, ", argument ",
                            p.name, ": a tensor that requires grad is written; call the kernel under torch.no_grad(), "
                            "or from a torch.autograd.Function");
                tensor.unsafeGetTensorImpl()->bump_version();
            }
        }
        const clprim::Tensor view = storage_view(tensor);
        if (p.size <= 1) {
            launch.arg(view);
            return;
        }
        const cl_ulong offset = view.buffer_offset();
        TORCH_CHECK_VALUE(offset % p.size == 0, "kernel ", name_, ", argument ", p.name,
                          ": the tensor begins at element ", offset,
                          " of its memory, which is not a multiple of the vector's ", p.size, " elements");
        launch.set(sizeof(cl_mem), &view.memory->buffer).arg(cl_ulong(offset / p.size));
    }

    template <class T>
    void set_integer(clprim::Launch& launch, const Parameter& p, PyObject* value) const
    {
        PyObject* number = PyLong_Check(value) ? Py_NewRef(value) : nullptr;
        if (!number) {
            if (THPVariable_Check(value) || !(number = PyNumber_Index(value))) {
                PyErr_Clear();
                refuse(p, "an integer", value);
            }
        }
        const auto owner = py::reinterpret_steal<py::object>(number);
        bool fits;
        T result;
        if constexpr (std::is_same_v<T, std::uint64_t>) {
            result = PyLong_AsUnsignedLongLong(number);
            fits = !PyErr_Occurred();
        } else {
            int overflow = 0;
            const long long wide = PyLong_AsLongLongAndOverflow(number, &overflow);
            fits = !overflow && wide >= static_cast<long long>(std::numeric_limits<T>::min()) &&
                   wide <= static_cast<long long>(std::numeric_limits<T>::max());
            result = static_cast<T>(wide);
        }
        PyErr_Clear();
        TORCH_CHECK_VALUE(fits, "kernel ", name_, ", argument ", p.name, ": ", py::str(owner).cast<std::string>(),
                          " does not fit an integer of ", sizeof(T) * 8, " bits");
        launch.arg(result);
    }

    double floating(const Parameter& p, PyObject* value) const
    {
        if (THPVariable_Check(value))
            refuse(p, "a number", value);
        const double result = PyFloat_AsDouble(value);
        if (result == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            refuse(p, "a number", value);
        }
        return result;
    }

    void set_number(clprim::Launch& launch, const Parameter& p, PyObject* value) const
    {
        switch (p.number) {
        case Number::i8: return set_integer<std::int8_t>(launch, p, value);
        case Number::u8: return set_integer<std::uint8_t>(launch, p, value);
        case Number::i16: return set_integer<std::int16_t>(launch, p, value);
        case Number::u16: return set_integer<std::uint16_t>(launch, p, value);
        case Number::i32: return set_integer<std::int32_t>(launch, p, value);
        case Number::u32: return set_integer<std::uint32_t>(launch, p, value);
        case Number::i64: return set_integer<std::int64_t>(launch, p, value);
        case Number::u64: return set_integer<std::uint64_t>(launch, p, value);
        case Number::f16: launch.arg(c10::Half(static_cast<float>(floating(p, value))).x); return;
        case Number::f32: launch.arg(static_cast<float>(floating(p, value))); return;
        case Number::f64: launch.arg(floating(p, value)); return;
        }
    }

    void set_bytes(clprim::Launch& launch, const Parameter& p, PyObject* value) const
    {
        if (!PyBytes_Check(value))
            refuse(p, "bytes with the value of the argument's own type", value);
        const auto size = static_cast<std::size_t>(PyBytes_GET_SIZE(value));
        TORCH_CHECK_VALUE(p.size == 0 || size == p.size, "kernel ", name_, ", argument ", p.name, ": expected ", p.size,
                          " bytes, got ", size);
        launch.set(size, PyBytes_AS_STRING(value));
    }

    void set_local(clprim::Launch& launch, const Parameter& p, PyObject* value) const
    {
        const long long count = PyLong_Check(value) ? PyLong_AsLongLong(value) : -1;
        if (PyErr_Occurred())
            throw py::error_already_set();
        TORCH_CHECK_VALUE(count > 0, "kernel ", name_, ", argument ", p.name,
                          ": expected a positive number of elements of local memory");
        launch.arg(clprim::LocalMemory{static_cast<std::size_t>(count) * p.size});
    }

    std::string source_, name_, options_;
    std::vector<Parameter> parameters_;
    std::size_t expected_ = 0;              // arguments of a call
    unsigned argument_count_ = 0;           // arguments of the kernel
    cl_int error_code_ = 0;
    bool checked_;
    std::array<std::atomic<clprim::Kernel*>, max_devices> kernels_{};
};

}  // namespace

void bind_kernel(py::module_& m)
{
    py::class_<UserKernel>(m, "Kernel", "A kernel written in OpenCL C; torch.ocl.compile_kernel makes one.")
        .def(py::init<std::string, std::string, std::string, const py::sequence&, bool>(), py::arg("source"),
             py::arg("name"), py::arg("options"), py::arg("parameters"), py::arg("checked"))
        .def("prepare", [](UserKernel& kernel, int device) {
            HANDLE_TH_ERRORS
            kernel.prepare(checked_device(static_cast<c10::DeviceIndex>(device)));
            END_HANDLE_TH_ERRORS_PYBIND
        })
        .def("__call__", [](UserKernel& kernel, const py::args& arguments, const py::object& global_size,
                            const py::object& local_size) {
            HANDLE_TH_ERRORS
            kernel.call(arguments, global_size, local_size);
            END_HANDLE_TH_ERRORS_PYBIND
        }, py::arg("global_size"), py::arg("local_size") = py::none())
        .def_property_readonly("name", &UserKernel::name)
        .def_property_readonly("source", &UserKernel::source)
        .def_property_readonly("parameters", &UserKernel::names)
        .def("__repr__", [](const UserKernel& kernel) {
            return "<OpenCL kernel " + kernel.name() + "(" + kernel.names() + ")>";
        });
}

}  // namespace torch_ocl
