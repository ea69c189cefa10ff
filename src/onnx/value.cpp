#include <clprim/value.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/error.hpp>

#include "core/memory_pool.hpp"
#include "core/queue_handle.hpp"
#include "core/view_strides.hpp"
#include "onnx/element_numbers.hpp"

namespace clprim {

struct Value::State {
    ElementType type = ElementType::undefined;
    Dims shape;
    enum class Kind { tensor, sequence, map };
    Kind kind = Kind::tensor;
    std::vector<std::string> strings;
    std::vector<Value> items;                         // of a map its keys and its values
    // Either may be made from the other at first use.
    std::mutex mutex;
    Tensor tensor;
    std::shared_ptr<std::byte[]> host;
    std::shared_ptr<const detail::MemoryPool> pool;   // what the device tensor's memory comes from, if not the usual
};

namespace {

// How many elements a host tensor has, whose bytes can be counted too.
std::size_t checked_count(const char* what, ElementType type, const Dims& shape)
{
    for (const std::int64_t size : shape)
        require(size >= 0, what, ": negative size in shape ", to_string(shape));
    const std::int64_t count = shape.product();
    const std::size_t bytes = type == ElementType::string ? sizeof(std::string) : size_of(storage_type(type));
    require(static_cast<std::size_t>(count) <= PTRDIFF_MAX / bytes, what, ": shape ", to_string(shape),
            " is more than memory can hold");
    return static_cast<std::size_t>(count);
}

}  // namespace

Value::Value(Tensor tensor) : Value(tensor, element_type(tensor.dtype)) {}

Value::Value(Tensor tensor, ElementType type) : state_(std::make_shared<State>())
{
    tensor.check("Value", "the tensor");
    require(tensor.dtype == storage_type(type), "a tensor of ", name_of(tensor.dtype), " cannot hold ", name_of(type));
    state_->type = type;
    state_->shape = tensor.shape;
    state_->tensor = std::move(tensor);
}

Value Value::zeros(ElementType type, const Dims& shape)
{
    const std::size_t count = checked_count("Value::zeros", type, shape);
    Value result(std::make_shared<State>());
    result.state_->type = type;
    result.state_->shape = shape;
    if (type == ElementType::string)
        result.state_->strings.resize(count);
    else
        result.state_->host =
            std::make_shared<std::byte[]>(std::max<std::size_t>(1, count * size_of(storage_type(type))));
    return result;
}

Value Value::copy_of(ElementType type, const Dims& shape, const void* data)
{
    require(type != ElementType::string, "Value::copy_of: strings are given to Value::strings");
    const std::size_t bytes = checked_count("Value::copy_of", type, shape) * size_of(storage_type(type));
    require(bytes == 0 || data != nullptr, "Value::copy_of: data is null; expected ", bytes, " bytes of ",
            name_of(type), " ", to_string(shape));
    Value result = zeros(type, shape);
    if (bytes)
        std::memcpy(result.state_->host.get(), data, bytes);
    return result;
}

Value Value::holding(ElementType type, const Dims& shape, std::shared_ptr<std::byte[]> data)
{
    require(type != ElementType::string, "Value::holding: strings are given to Value::strings");
    checked_count("Value::holding", type, shape);
    require(data != nullptr, "Value::holding: data is null");
    Value result(std::make_shared<State>());
    result.state_->type = type;
    result.state_->shape = shape;
    result.state_->host = std::move(data);
    return result;
}

Value Value::strings(const Dims& shape, std::vector<std::string> elements)
{
    require(elements.size() == checked_count("Value::strings", ElementType::string, shape), elements.size(),
            " strings do not fill shape ", to_string(shape));
    Value result = zeros(ElementType::string, Dims{0});
    result.state_->shape = shape;
    result.state_->strings = std::move(elements);
    return result;
}

Value Value::ints(std::span<const std::int64_t> elements)
{
    return copy_of(ElementType::int64, Dims{static_cast<std::int64_t>(elements.size())}, elements.data());
}

Value Value::scalar(std::int64_t value) { return copy_of(ElementType::int64, {}, &value); }
Value Value::scalar(bool value) { return copy_of(ElementType::boolean, {}, &value); }
Value Value::scalar(float value) { return copy_of(ElementType::float32, {}, &value); }

Value Value::sequence(std::vector<Value> items, ElementType item_type)
{
    Value result(std::make_shared<State>());
    result.state_->kind = State::Kind::sequence;
    result.state_->type = items.empty() || !items[0].is_tensor() ? item_type : items[0].type();
    result.state_->items = std::move(items);
    return result;
}

Value Value::map(Value keys, Value values)
{
    const bool has_names = keys.is_tensor() && keys.type() == ElementType::string;
    require(has_names || (keys.is_tensor() && keys.type() == ElementType::int64 && keys.on_host()),
            "Value::map: keys are strings or int64 on the host");
    require(values.is_tensor() && values.on_host(), "Value::map: values are a tensor on the host");
    require(keys.dim() == 1 && keys.shape() == values.shape(), "Value::map: keys of shape ", to_string(keys.shape()),
            " and values of ", to_string(values.shape()), "; expected [n] and [n]");
    const auto require_different = [&](auto sorted) {
        std::ranges::sort(sorted);
        const auto same = std::ranges::adjacent_find(sorted);
        require(same == sorted.end(), "Value::map: key ", same == sorted.end() ? sorted.front() : *same,
                " is there twice");
    };
    if (keys.numel() && has_names)
        require_different(keys.strings());
    else if (keys.numel()) {
        const auto* numbers = reinterpret_cast<const std::int64_t*>(keys.host_bytes());
        require_different(std::vector(numbers, numbers + keys.numel()));
    }
    Value result(std::make_shared<State>());
    result.state_->kind = State::Kind::map;
    result.state_->type = values.type();
    result.state_->items = {std::move(keys), std::move(values)};
    return result;
}

bool Value::is_tensor() const { return state_ && state_->kind == State::Kind::tensor; }
bool Value::is_sequence() const { return state_ && state_->kind == State::Kind::sequence; }
bool Value::is_map() const { return state_ && state_->kind == State::Kind::map; }

const Value::State& Value::tensor_state(std::string_view asked) const
{
    require(state_ != nullptr, asked, " of an absent value");
    require(is_tensor(), asked, " of a ", is_map() ? "map" : "sequence", "; expected a tensor");
    return *state_;
}

ElementType Value::type() const
{
    require(state_ != nullptr, "element type of an absent value");
    return state_->type;
}

void Value::check_element(bool fits) const
{
    require(fits, "the C++ type asked for is not that of elements of ", name_of(type()));
}

const Dims& Value::shape() const { return tensor_state("shape").shape; }

bool Value::on_host() const
{
    if (!is_tensor())
        return false;
    std::lock_guard lock(state_->mutex);
    return state_->host || state_->type == ElementType::string;
}

bool Value::on_device() const
{
    if (!is_tensor())
        return false;
    std::lock_guard lock(state_->mutex);
    return state_->tensor.defined();
}

bool Value::owns_memory() const
{
    return on_device() && !on_host() && state_.use_count() == 1 && state_->tensor.memory.use_count() == 1;
}

Tensor Value::device(Queue& queue) const
{
    tensor_state("device tensor");
    std::lock_guard lock(state_->mutex);
    if (!state_->tensor.defined()) {
        std::optional<detail::MemoryPool::Use> use;
        if (state_->pool) {
            use.emplace(*state_->pool);
            detail::settle_for_write(queue);     // a constant, and there may be many: none is to be copied aside
        }
        Tensor tensor = queue.context().empty(state_->shape, storage_type(state_->type), queue);
        use.reset();
        if (tensor.numel())
            queue.write(*tensor.memory, 0, state_->host.get(), tensor.nbytes());
        state_->tensor = std::move(tensor);
    }
    return state_->tensor;
}

const std::byte* Value::bytes(Queue& queue) const
{
    tensor_state("elements");
    require(state_->type != ElementType::string, "expected numbers, got strings");
    std::lock_guard lock(state_->mutex);
    if (!state_->host) {
        Tensor tensor = state_->tensor;
        if (!tensor.is_contiguous()) {
            tensor = queue.context().empty(tensor.shape, tensor.dtype, queue);
            copy(queue, state_->tensor, tensor);
        }
        auto host = std::make_shared<std::byte[]>(std::max<std::size_t>(1, tensor.nbytes()));
        if (tensor.numel())
            queue.read(*tensor.memory, static_cast<std::size_t>(tensor.offset) * size_of(tensor.dtype), host.get(),
                       tensor.nbytes());
        state_->host = std::move(host);
    }
    return state_->host.get();
}

const std::byte* Value::host_bytes() const
{
    tensor_state("elements");
    std::lock_guard lock(state_->mutex);
    require(state_->host != nullptr, "the elements are not on the host");
    return state_->host.get();
}

std::byte* Value::mutable_bytes()
{
    require(is_tensor() && state_->host && state_.use_count() == 1, "only a fresh host tensor can be written");
    return state_->host.get();
}

const std::vector<std::string>& Value::strings() const
{
    const State& state = tensor_state("strings");
    require(state.type == ElementType::string, "expected strings, got ", name_of(state.type));
    return state.strings;
}

std::vector<std::int64_t> Value::to_ints(Queue& queue) const
{
    return onnx::numbers_of<std::int64_t>(type(), bytes(queue), static_cast<std::size_t>(numel()));
}

std::vector<double> Value::to_doubles(Queue& queue) const
{
    return onnx::numbers_of<double>(type(), bytes(queue), static_cast<std::size_t>(numel()));
}

const std::vector<Value>& Value::items() const
{
    require(is_sequence(), "expected a sequence, got ", is_none() ? "nothing" : is_map() ? "a map" : "a tensor");
    return state_->items;
}

const Value& Value::keys() const
{
    require(is_map(), "expected a map, got ", is_none() ? "nothing" : is_sequence() ? "a sequence" : "a tensor");
    return state_->items[0];
}

const Value& Value::values() const
{
    keys();
    return state_->items[1];
}

Value Value::kept_in(std::shared_ptr<const detail::MemoryPool> pool) const
{
    const State& state = tensor_state("memory");
    Value result(std::make_shared<State>());
    result.state_->type = state.type;
    result.state_->shape = state.shape;
    result.state_->pool = std::move(pool);
    std::lock_guard lock(state_->mutex);
    result.state_->host = state.host;
    return result;
}

Value Value::reshaped(const Dims& shape, Queue& queue) const
{
    const State& state = tensor_state("shape");
    bool countable = true;                                // a product that wraps could be the right one
    std::int64_t count = 1;
    for (const std::int64_t size : shape)
        countable &= size >= 0 && !__builtin_mul_overflow(count, size, &count);
    require(countable && count == numel(), "cannot reshape ", to_string(state.shape), " to ", to_string(shape));
    Value result(std::make_shared<State>());
    result.state_->type = state.type;
    result.state_->shape = shape;
    result.state_->strings = state.strings;
    std::lock_guard lock(state_->mutex);
    result.state_->host = state.host;
    if (state.tensor.defined()) {
        Tensor& tensor = result.state_->tensor;
        tensor = state.tensor;
        std::optional<Dims> strides = detail::view_strides(tensor, shape);
        if (!strides) {
            tensor = queue.context().empty(tensor.shape, tensor.dtype, queue);
            copy(queue, state.tensor, tensor);
            strides = contiguous_strides(shape);
        }
        tensor.shape = shape;
        tensor.strides = *strides;
    }
    return result;
}

}  // namespace clprim
