// Value: what flows along the edges of a model. A tensor of any of ONNX's element types, on the device, on the host or
// both; a sequence of values; a map; or nothing (an absent input, an empty optional).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

namespace detail {
class MemoryPool;
}

// Element types with the numbers of onnx.proto's TensorProto.DataType.
enum class ElementType : std::int32_t {
    undefined = 0,
    float32 = 1, uint8 = 2, int8 = 3, uint16 = 4, int16 = 5, int32 = 6, int64 = 7, string = 8, boolean = 9,
    float16 = 10, float64 = 11, uint32 = 12, uint64 = 13, complex64 = 14, complex128 = 15, bfloat16 = 16,
    float8e4m3fn = 17, float8e4m3fnuz = 18, float8e5m2 = 19, float8e5m2fnuz = 20,
    uint4 = 21, int4 = 22, float4e2m1 = 23, float8e8m0 = 24, uint2 = 25, int2 = 26,
};

std::string_view name_of(ElementType type) noexcept;
ElementType element_type(DataType type);            // of a device tensor; NotSupported: (b)complex32
// How elements lie in memory. Types narrower than a byte and 8-bit floats take one byte each: integers as signed or
// unsigned bytes of their value, floats as their bit pattern. Throws NotSupported for strings.
DataType storage_type(ElementType type);
bool is_narrow(ElementType type) noexcept;          // stored as bytes that are not numbers of their own DataType

// Copies share one state, so an upload or download by one serves all. Immutable once shared, hence safe to use from
// several threads.
class Value {
public:
    Value() = default;                               // nothing
    Value(Tensor tensor);                            // on its device
    Value(Tensor tensor, ElementType type);          // its storage is storage_type(type)
    // Host tensors, row-major. `copy_of` copies; `holding` keeps `data`, with bytes for all elements and aligned for
    // them; `zeros` starts from zero bytes, to be filled through mutable_host.
    static Value copy_of(ElementType type, const Dims& shape, const void* data);
    static Value holding(ElementType type, const Dims& shape, std::shared_ptr<std::byte[]> data);
    static Value zeros(ElementType type, const Dims& shape);
    static Value strings(const Dims& shape, std::vector<std::string> elements);
    static Value ints(std::span<const std::int64_t> elements);      // int64, shape [n]
    static Value scalar(std::int64_t value);                         // int64, shape []
    static Value scalar(bool value);
    static Value scalar(float value);
    static Value sequence(std::vector<Value> items, ElementType item_type = ElementType::undefined);
    // Two host tensors of one axis and as many elements: keys (strings or int64, all different), and their values.
    static Value map(Value keys, Value values);

    bool is_none() const { return !state_; }
    bool is_tensor() const;
    bool is_sequence() const;
    bool is_map() const;
    explicit operator bool() const { return !is_none(); }

    // Of tensors; throw InvalidArgument otherwise. type() is that of a sequence's items and of a map's values, too.
    ElementType type() const;
    const Dims& shape() const;
    std::size_t dim() const { return shape().size(); }
    std::int64_t numel() const { return shape().product(); }
    bool on_host() const;                            // reading costs nothing
    bool on_device() const;

    // Whether this is the only Value, and its tensor the only one, that holds the device memory.
    bool owns_memory() const;
    // The tensor on the queue's device; uploaded at first use. Throws NotSupported for strings.
    Tensor device(Queue& queue) const;
    // The elements on the host, row-major; downloaded at first use, which waits for the queue.
    const std::byte* bytes(Queue& queue) const;
    const std::byte* host_bytes() const;             // of a value that is on the host; throws otherwise
    template <class T>
    std::span<const T> host(Queue& queue) const      // T as in is_element; throws InvalidArgument for another type
    {
        check_element(is_element<T>(storage_type(type())));
        return {reinterpret_cast<const T*>(bytes(queue)), static_cast<std::size_t>(numel())};
    }
    // Of a fresh value made by `zeros`, not yet shared.
    std::byte* mutable_bytes();
    template <class T>
    std::span<T> mutable_host()
    {
        check_element(is_element<T>(storage_type(type())));
        return {reinterpret_cast<T*>(mutable_bytes()), static_cast<std::size_t>(numel())};
    }
    const std::vector<std::string>& strings() const;

    // Elements as numbers, whatever the (real, not narrow) type. Throw InvalidArgument for other types.
    std::vector<std::int64_t> to_ints(Queue& queue) const;
    std::vector<double> to_doubles(Queue& queue) const;

    const std::vector<Value>& items() const;         // of a sequence
    const Value& keys() const;                       // of a map, as is the next
    const Value& values() const;

    // The same elements in another shape with as many of them; shares host memory, device tensors if contiguous.
    Value reshaped(const Dims& shape, Queue& queue) const;

    // A host tensor by itself that a device gets into memory of that pool, as constants of sessions do.
    Value kept_in(std::shared_ptr<const detail::MemoryPool> pool) const;

private:
    struct State;
    explicit Value(std::shared_ptr<State> state) : state_(std::move(state)) {}
    const State& tensor_state(std::string_view asked) const;
    void check_element(bool fits) const;
    std::shared_ptr<State> state_;
};

}  // namespace clprim
CLPRIM_API_END
