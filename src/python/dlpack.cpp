// DLPack with device type kDLOpenCL: `data` is a cl_mem, and `byte_offset` says where the tensor lies in it.
#include <clprim/interop.hpp>

#include "bindings.hpp"

namespace clprim::python {

namespace {

// The protocol's structures (dlpack.h, version 1).
struct DlDevice {
    std::int32_t type, id;
};
struct DlType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct DlTensor {
    void* data;
    DlDevice device;
    std::int32_t ndim;
    DlType dtype;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
};
struct DlManaged {
    DlTensor tensor;
    void* context;
    void (*deleter)(DlManaged*);
};
struct DlVersioned {
    std::uint32_t major, minor;
    void* context;
    void (*deleter)(DlVersioned*);
    std::uint64_t flags;
    DlTensor tensor;
};
template <class Managed>
constexpr const char* name_of_kind = std::is_same_v<Managed, DlManaged> ? "dltensor" : "dltensor_versioned";
template <class Managed>
constexpr const char* used_name = std::is_same_v<Managed, DlManaged> ? "used_dltensor" : "used_dltensor_versioned";

constexpr std::int32_t on_opencl = 4;

struct TypeCode {
    DataType type;
    DlType code;
};
constexpr TypeCode type_codes[] = {
    {DataType::int8, {0, 8, 1}}, {DataType::int16, {0, 16, 1}}, {DataType::int32, {0, 32, 1}},
    {DataType::int64, {0, 64, 1}}, {DataType::uint8, {1, 8, 1}}, {DataType::uint16, {1, 16, 1}},
    {DataType::uint32, {1, 32, 1}}, {DataType::uint64, {1, 64, 1}}, {DataType::float16, {2, 16, 1}},
    {DataType::float32, {2, 32, 1}}, {DataType::float64, {2, 64, 1}}, {DataType::bfloat16, {4, 16, 1}},
    {DataType::complex64, {5, 64, 1}}, {DataType::complex128, {5, 128, 1}}, {DataType::boolean, {6, 8, 1}},
};

template <class Managed>
py::capsule exported(const Tensor& tensor, const DlType& type)
{
    struct Held {
        Tensor tensor;
        Managed managed{};
    };
    auto held = std::make_unique<Held>(Held{tensor, {}});
    const OpenCLMemory memory = memory_of(tensor);
    held->managed.tensor = {memory.buffer, {on_opencl, tensor.memory->context->device().index},
                            static_cast<std::int32_t>(tensor.dim()), type, held->tensor.shape.data(),
                            held->tensor.strides.data(), memory.offset};
    if constexpr (std::is_same_v<Managed, DlVersioned>)
        held->managed.major = 1;
    held->managed.context = held.get();
    held->managed.deleter = [](Managed* managed) { delete static_cast<Held*>(managed->context); };
    PyObject* const capsule = PyCapsule_New(&held->managed, name_of_kind<Managed>, [](PyObject* unused) {
        if (!PyCapsule_IsValid(unused, name_of_kind<Managed>))      // somebody took it
            return;
        auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(unused, name_of_kind<Managed>));
        managed->deleter(managed);
    });
    if (!capsule)
        throw py::error_already_set();
    held.release();
    return py::reinterpret_steal<py::capsule>(capsule);
}

// A tensor in the memory that a capsule lends, which is given back with the last view of it.
template <class Managed>
Tensor taken(const py::object& capsule, Context& context)
{
    auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name_of_kind<Managed>));
    if (!managed)
        throw py::error_already_set();
    const DlTensor& given = managed->tensor;
    require(given.device.type == on_opencl, "from_dlpack: device type ", given.device.type, ", expected kDLOpenCL");
    const auto* const row = std::ranges::find_if(type_codes, [&](const TypeCode& known) {
        return known.code.code == given.dtype.code && known.code.bits == given.dtype.bits && given.dtype.lanes == 1;
    });
    require<NotSupported>(row != std::end(type_codes), "from_dlpack: elements of type code ", int{given.dtype.code},
                          " with ", int{given.dtype.bits}, " bits");
    require(given.ndim >= 0 && given.ndim <= 64 && (given.ndim == 0 || given.shape), "from_dlpack: ", given.ndim,
            " axes");
    const auto axes = static_cast<std::size_t>(given.ndim);
    const Dims shape(std::span<const std::int64_t>(given.shape, axes));
    const Dims strides = given.strides ? Dims(std::span<const std::int64_t>(given.strides, axes)) : Dims();
    const Tensor adopted =
        adopt(context, static_cast<cl_mem>(given.data), row->type, shape, given.byte_offset, strides);
    const Memory lent(adopted.memory.get(), [memory = adopted.memory, managed](Block*) {
        if (managed->deleter)
            managed->deleter(managed);
    });
    PyCapsule_SetName(capsule.ptr(), used_name<Managed>);
    return {lent, adopted.offset, adopted.dtype, adopted.shape, adopted.strides};
}

py::object to_dlpack(const Tensor& tensor, const py::object& version)
{
    const auto* const row = std::ranges::find(type_codes, tensor.dtype, &TypeCode::type);
    require<NotSupported>(row != std::end(type_codes), "__dlpack__: DLPack has no ", name_of(tensor.dtype));
    {
        const Released released;
        queue_of(tensor).finish();                // the protocol has no stream for OpenCL
    }
    const bool versioned = !version.is_none() && version.cast<std::pair<int, int>>().first >= 1;
    return versioned ? exported<DlVersioned>(tensor, row->code) : exported<DlManaged>(tensor, row->code);
}

Tensor from_capsule(const py::object& capsule, const py::object& device)
{
    return PyCapsule_IsValid(capsule.ptr(), name_of_kind<DlVersioned>)
               ? taken<DlVersioned>(capsule, context_of(device))
               : taken<DlManaged>(capsule, context_of(device));
}

}  // namespace

void bind_dlpack(py::module_& m)
{
    m.def("_to_dlpack_opencl", &to_dlpack);
    m.def("_from_dlpack_opencl", &from_capsule);
}

}  // namespace clprim::python
