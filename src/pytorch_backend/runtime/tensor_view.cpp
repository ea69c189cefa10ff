#include <runtime/tensor_view.hpp>

#include <array>

#include <ATen/EmptyTensor.h>
#include <torch/headeronly/version.h>

#include <runtime/allocator.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl {
namespace {

using clprim::DataType;

struct DataTypePair {
    at::ScalarType torch;
    DataType ours;
};
constexpr DataTypePair data_types[] = {
    {at::kFloat, DataType::float32},        {at::kDouble, DataType::float64},
    {at::kHalf, DataType::float16},         {at::kBFloat16, DataType::bfloat16},
    {at::kChar, DataType::int8},            {at::kShort, DataType::int16},
    {at::kInt, DataType::int32},            {at::kLong, DataType::int64},
    {at::kByte, DataType::uint8},           {at::kUInt16, DataType::uint16},
    {at::kUInt32, DataType::uint32},        {at::kUInt64, DataType::uint64},
    {at::kBool, DataType::boolean},         {at::kComplexHalf, DataType::complex32},
    {at::kComplexFloat, DataType::complex64}, {at::kComplexDouble, DataType::complex128},
#if TORCH_VERSION_MINOR >= 14
    {at::kBComplex32, DataType::bcomplex32},
#endif
};

constexpr std::size_t scalar_type_count = static_cast<std::size_t>(at::ScalarType::NumOptions);

constexpr auto to_ours = [] {
    std::array<std::int8_t, scalar_type_count> table{};
    table.fill(-1);
    for (const auto& pair : data_types)
        table[static_cast<std::size_t>(pair.torch)] = static_cast<std::int8_t>(pair.ours);
    return table;
}();

}  // namespace

clprim::DataType data_type(at::ScalarType type)
{
    const auto index = static_cast<std::size_t>(type);
    TORCH_CHECK_NOT_IMPLEMENTED(index < to_ours.size() && to_ours[index] >= 0, "the ocl device has no kernels for ",
                                type);
    return static_cast<DataType>(to_ours[index]);
}

at::ScalarType scalar_type(clprim::DataType type)
{
    for (const auto& pair : data_types)
        if (pair.ours == type)
            return pair.torch;
    TORCH_INTERNAL_ASSERT(false);
}

namespace {

// What elements are to code that moves their bytes: also those of formats without arithmetic.
DataType storage_type(at::ScalarType type)
{
    if (c10::isFloat8Type(type) || type == at::kFloat4_e2m1fn_x2 || c10::isBitsType(type))
        return c10::elementSize(type) == 1 ? DataType::uint8 : DataType::uint16;
    return data_type(type);
}

}  // namespace

clprim::Tensor storage_view(const at::Tensor& tensor)
{
    TORCH_CHECK(tensor.is_privateuseone(), "Expected all tensors to be on the same device, but found at least two "
                "devices, ", c10::Device(device_type, current_device()), " and ", tensor.device(), "!");
    const Place place = place_of(tensor.storage().data_ptr());
    return clprim::Tensor(clprim::borrow(place.block),
                          tensor.storage_offset() + static_cast<std::int64_t>(place.bytes / tensor.element_size()),
                          storage_type(tensor.scalar_type()),
                          clprim::Dims({tensor.sizes().data(), tensor.sizes().size()}),
                          clprim::Dims({tensor.strides().data(), tensor.strides().size()}));
}

clprim::Tensor view(const at::Tensor& tensor)
{
    clprim::Tensor result = storage_view(tensor);
    if (result.dtype == DataType::uint8 || result.dtype == DataType::uint16)
        result.dtype = data_type(tensor.scalar_type());   // refuses what has no arithmetic
    if (result.dtype == DataType::float64 || result.dtype == DataType::complex128) {
        const clprim::Device& device = result.memory->context->device();
        TORCH_CHECK_NOT_IMPLEMENTED(device.fp64, "the device ", device.name, " has no ", clprim::name_of(result.dtype),
                                    " arithmetic; convert the tensor to a narrower type first");
    }
    return result;
}

clprim::Tensor view(const std::optional<at::Tensor>& tensor)
{
    return tensor.has_value() && tensor->defined() ? view(*tensor) : clprim::Tensor();
}

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device,
                 std::optional<at::MemoryFormat> format)
{
    constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
    const c10::DeviceIndex wanted = device.index() < 0 ? current_device() : device.index();
    if (wanted == current_device())
        return at::detail::empty_generic(sizes, &device_allocator(), keys, dtype, format);
    const c10::DeviceIndex former = exchange_device(wanted);
    struct Restore {
        c10::DeviceIndex index;
        ~Restore() { set_device_unchecked(index); }
    } restore{former};
    return at::detail::empty_generic(sizes, &device_allocator(), keys, dtype, format);
}

}  // namespace torch_ocl
