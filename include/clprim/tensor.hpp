// Tensor: memory + element offset + dtype + shape + strides. A value; views are free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <clprim/dtype.hpp>
#include <clprim/error.hpp>
#include <clprim/memory.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// A short list of sizes or strides, in elements; on the heap only beyond 8 entries.
class Dims {
public:
    Dims() = default;
    Dims(std::initializer_list<std::int64_t> values) { assign(values.begin(), values.size()); }
    explicit Dims(std::span<const std::int64_t> values) { assign(values.data(), values.size()); }
    Dims(std::size_t count, std::int64_t value) { resize(count); std::fill(begin(), end(), value); }
    Dims(const Dims& other) { assign(other.data(), other.size()); }
    Dims(Dims&& other) noexcept : size_(other.size_), capacity_(other.capacity_), heap_(std::move(other.heap_))
    {
        std::copy_n(other.inline_, inline_capacity, inline_);
        other.size_ = 0;
        other.capacity_ = inline_capacity;
    }
    Dims& operator=(const Dims& other) { if (this != &other) assign(other.data(), other.size()); return *this; }
    Dims& operator=(Dims&& other) noexcept { swap(other); return *this; }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    std::int64_t* data() { return heap_ ? heap_.get() : inline_; }
    const std::int64_t* data() const { return heap_ ? heap_.get() : inline_; }
    std::int64_t& operator[](std::size_t i) { return data()[i]; }
    std::int64_t operator[](std::size_t i) const { return data()[i]; }
    std::int64_t* begin() { return data(); }
    std::int64_t* end() { return data() + size_; }
    const std::int64_t* begin() const { return data(); }
    const std::int64_t* end() const { return data() + size_; }
    std::int64_t back() const { return at(size_ - 1); }
    std::int64_t at(std::size_t i) const             // throws InvalidArgument beyond the last entry
    {
        if (i >= size_) [[unlikely]]
            throw_beyond(i);
        return data()[i];
    }
    void resize(std::size_t count);                  // new entries are 0
    void swap(Dims& other) noexcept;
    void push_back(std::int64_t value) { resize(size_ + 1); data()[size_ - 1] = value; }
    // Throws InvalidArgument where it does not fit 64 bits.
    std::int64_t product() const
    {
        std::int64_t n = 1;
        for (const auto v : *this)
            if (__builtin_mul_overflow(n, v, &n)) [[unlikely]]
                return large_product();
        return n;
    }
    operator std::span<const std::int64_t>() const { return {data(), size_}; }
    friend bool operator==(const Dims& a, const Dims& b)
    {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    static constexpr std::size_t inline_capacity = 8;
    std::int64_t large_product() const;              // 0 if any entry is; else throws
    [[noreturn]] void throw_beyond(std::size_t i) const;
    void assign(const std::int64_t* values, std::size_t count) { resize(count); std::copy_n(values, count, data()); }

    std::size_t size_ = 0, capacity_ = inline_capacity;
    std::unique_ptr<std::int64_t[]> heap_;
    std::int64_t inline_[inline_capacity] = {};
};

std::string to_string(const Dims& dims);            // "[2, 3, 4]"
Dims contiguous_strides(const Dims& shape);          // row-major, in elements

struct Tensor {
    Memory memory;
    std::int64_t offset = 0;     // elements from the first byte of memory
    DataType dtype = DataType::float32;
    Dims shape, strides;         // strides in elements, may be 0 (broadcast)

    Tensor() = default;
    Tensor(Memory memory_, DataType dtype_, Dims shape_)
        : memory(std::move(memory_)), dtype(dtype_), shape(std::move(shape_)), strides(contiguous_strides(shape)) {}
    Tensor(Memory memory_, std::int64_t offset_, DataType dtype_, Dims shape_, Dims strides_)
        : memory(std::move(memory_)), offset(offset_), dtype(dtype_), shape(std::move(shape_)),
          strides(std::move(strides_)) {}

    bool defined() const { return memory != nullptr; }
    std::size_t dim() const { return shape.size(); }
    std::int64_t size(std::size_t axis) const { return shape.at(axis); }
    std::int64_t stride(std::size_t axis) const { return strides.at(axis); }
    std::int64_t numel() const { return shape.product(); }
    std::size_t nbytes() const;                      // of the elements, without gaps
    bool is_contiguous() const;                      // row-major without gaps
    bool is_channels_last() const;                   // N, C, spatial... with C innermost and no gaps (3 to 5 dims)
    bool is_non_overlapping_and_dense() const;       // some permutation of the axes is contiguous

    // Throws InvalidArgument unless kernels may touch every element: there is memory, a stride for each size, no
    // negative size, and all elements lie within the memory. Every public function checks its operands so; both names
    // are for the error.
    void check(std::string_view operator_name, std::string_view argument) const;

    // Element offset within memory's cl_mem, what kernels get next to the buffer.
    std::uint64_t buffer_offset() const
    {
        return memory->offset / size_of(dtype) + static_cast<std::uint64_t>(offset);
    }

    // Views. All throw InvalidArgument for a bad axis or range.
    Tensor reshape(const Dims& new_shape) const;     // contiguous tensors only
    Tensor permute(std::initializer_list<int> axes) const;
    Tensor transpose(std::size_t a, std::size_t b) const;
    Tensor slice(std::size_t axis, std::int64_t begin, std::int64_t end) const;
    Tensor expand(const Dims& new_shape) const;      // axes of size 1 get stride 0; new leading axes allowed
};

}  // namespace clprim
CLPRIM_API_END
