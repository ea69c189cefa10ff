// Tensors from nothing, and tensors that change their storage: empty, resize_, set_.
#include <array>
#include <memory>
#include <mutex>

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/StorageImpl.h>
#include <torch/library.h>

#include <runtime/allocator.hpp>
#include <runtime/errors.hpp>
#include <runtime/stream.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

// Gives the storage a new block of that many bytes and copies what both have. The old block is reused only after the
// copy, for both are on the current stream.
void resize_storage(c10::StorageImpl& storage, std::size_t bytes)
{
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    c10::DataPtr fresh = allocate_on(storage.device().index(), bytes);
    if (const std::size_t kept = std::min(bytes, storage.nbytes()); kept > 0) {
        const Place from = place_of(storage.data_ptr());
        const Place to = place_of(fresh);
        current_queue(storage.device().index()).copy(*from.block, from.bytes, *to.block, to.bytes, kept);
    }
    storage.set_data_ptr_noswap(std::move(fresh));
    storage.set_nbytes(bytes);
}

namespace {

using at::IntArrayRef;
using at::Tensor;

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory)
{
    TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided,
                                "ocl tensors must be strided, but got ", layout.value_or(c10::kStrided));
    TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

// torch.use_deterministic_algorithms(True): new memory holds NaN, or the largest number, instead of what it held
// before.
bool fills_new_memory()
{
    return at::globalContext().deterministicAlgorithms() &&
           at::globalContext().deterministicFillUninitializedMemory();
}

Tensor& fill_if_deterministic(Tensor& tensor)
{
    if (fills_new_memory())
        at::native::fill_empty_deterministic_(tensor);
    return tensor;
}

Tensor empty_memory_format(IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout> layout,
                           std::optional<c10::Device> device, std::optional<bool> pin_memory,
                           std::optional<at::MemoryFormat> format)
{
    check_options(layout, pin_memory);
    Tensor result = empty(size, c10::dtype_or_default(dtype), device.value_or(c10::Device(device_type, -1)), format);
    return fill_if_deterministic(result);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                     std::optional<bool> pin_memory)
{
    check_options(layout, pin_memory);
    at::detail::check_size_nonnegative(size);
    const at::ScalarType type = c10::dtype_or_default(dtype);
    const std::size_t item = c10::elementSize(type);
    const std::size_t bytes = at::detail::computeStorageNbytes(size, stride, item);
    Tensor result = empty({static_cast<std::int64_t>(bytes / item)}, type,
                          device.value_or(c10::Device(device_type, -1)));
    result.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
    return fill_if_deterministic(result);
}

// PyTorch shares the storage until one of the two is written to. Kernels of this device do not say what they only read,
// so the copy is made at once, of the whole storage and with the same layout.
Tensor lazy_clone(const Tensor& self)
{
    const c10::Storage& from = self.storage();
    c10::Storage storage(c10::Storage::use_byte_size_t(), from.nbytes(),
                         allocate_on(self.device().index(), from.nbytes()), &device_allocator(), from.resizable());
    if (from.nbytes() > 0) {
        const Place source = place_of(from.data_ptr()), target = place_of(storage.data_ptr());
        current_queue(self).copy(*source.block, source.bytes, *target.block, target.bytes, from.nbytes());
    }
    Tensor result = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), self.key_set(), self.dtype());
    result.unsafeGetTensorImpl()->set_storage_offset(self.storage_offset());
    result.unsafeGetTensorImpl()->set_sizes_and_strides(self.sizes(), self.strides());
    return result;
}

// A tensor of zeros without memory, which operators answer about by rule: undefined gradients become such.
Tensor efficient_zero_tensor(IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout> layout,
                             std::optional<c10::Device> device, std::optional<bool> pin_memory)
{
    check_options(layout, pin_memory);
    const c10::Device where(device_type, checked_device(device ? device->index() : -1));
    static std::mutex mutex;
    static std::array<std::unique_ptr<at::native::ZeroTensorAllocator>, max_devices> allocators;
    const std::lock_guard lock(mutex);
    auto& allocator = allocators[static_cast<std::size_t>(where.index())];
    if (!allocator)
        allocator = std::make_unique<at::native::ZeroTensorAllocator>(where);
    constexpr c10::DispatchKeySet keys({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor});
    return at::detail::empty_generic(size, allocator.get(), keys, c10::dtype_or_default(dtype), std::nullopt);
}

void grow_storage(c10::TensorImpl& self, std::size_t bytes)
{
    if (self.numel() == 0)
        return;
    const c10::Storage& storage = self.unsafe_storage();
    TORCH_CHECK(storage, "Tensor: invalid null storage");
    if (bytes > storage.nbytes())
        resize_storage(*storage.unsafeGetStorageImpl(), bytes);
}

std::size_t bytes_needed(const c10::TensorImpl& self)
{
    return at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.dtype().itemsize(),
                                            static_cast<std::size_t>(self.storage_offset()));
}

const Tensor& resize_(const Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat> format)
{
    c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
    const c10::Storage& storage = impl.unsafe_storage();
    const auto bytes_before = static_cast<std::int64_t>(storage ? storage.nbytes() : 0);
    if (self.sizes() != size) {
        impl.set_sizes_contiguous(size);
        grow_storage(impl, bytes_needed(impl));
    }
    if (format) {
        TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
        impl.empty_tensor_restride(*format);
    }
    if (fills_new_memory())
        at::native::fill_resize_deterministic_(self, bytes_before);
    return self;
}

Tensor& set_storage_offset(Tensor& self, at::Storage storage, std::int64_t offset, IntArrayRef size, IntArrayRef stride)
{
    at::native::checkSetStorage(self, std::move(storage), offset, size, stride);
    c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
    impl.set_storage_offset(offset);
    if (stride.data() != nullptr && stride.size() == size.size())
        impl.set_sizes_and_strides(size, stride);
    else
        impl.set_sizes_contiguous(size);
    grow_storage(impl, bytes_needed(impl));
    return self;
}

Tensor& set_storage(Tensor& self, at::Storage storage)
{
    const auto elements = static_cast<std::int64_t>(storage.nbytes() / self.dtype().itemsize());
    return set_storage_offset(self, std::move(storage), 0, {elements}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source)
{
    if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl())
        return self;
    return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_nothing(Tensor& self)
{
    const c10::Storage storage(c10::Storage::use_byte_size_t(), 0, allocate_on(self.device().index(), 0),
                               &device_allocator(), true);
    return set_storage_offset(self, storage, 0, {0}, {});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", empty_memory_format);
    m.impl("empty_strided", empty_strided);
    m.impl("_efficientzerotensor", efficient_zero_tensor);
    m.impl("_lazy_clone", lazy_clone);
    m.impl("resize_", resize_);
    m.impl("set_.source_Storage_storage_offset", set_storage_offset);
    m.impl("set_.source_Storage", set_storage);
    m.impl("set_.source_Tensor", set_tensor);
    m.impl("set_", set_nothing);
}

}  // namespace
}  // namespace torch_ocl
