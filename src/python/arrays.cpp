// Values as NumPy arrays and back. Types that NumPy lacks are those of the package ml_dtypes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include <clprim/interop.hpp>

#include "bindings.hpp"

namespace clprim::python {

namespace {

// Arrays with more elements go to the device when they come in; smaller ones may be sizes and axes, which the host
// reads.
constexpr std::int64_t host_limit = 4096;

struct NamedType {
    std::string_view name;     // of the NumPy dtype
    ElementType type;
};

constexpr std::array<NamedType, 25> named_types{{
    {"float32", ElementType::float32}, {"float64", ElementType::float64}, {"float16", ElementType::float16},
    {"int8", ElementType::int8}, {"int16", ElementType::int16}, {"int32", ElementType::int32},
    {"int64", ElementType::int64}, {"uint8", ElementType::uint8}, {"uint16", ElementType::uint16},
    {"uint32", ElementType::uint32}, {"uint64", ElementType::uint64}, {"bool", ElementType::boolean},
    {"complex64", ElementType::complex64}, {"complex128", ElementType::complex128},
    {"bfloat16", ElementType::bfloat16}, {"float8_e4m3fn", ElementType::float8e4m3fn},
    {"float8_e4m3fnuz", ElementType::float8e4m3fnuz}, {"float8_e5m2", ElementType::float8e5m2},
    {"float8_e5m2fnuz", ElementType::float8e5m2fnuz}, {"float4_e2m1fn", ElementType::float4e2m1},
    {"float8_e8m0fnu", ElementType::float8e8m0}, {"uint4", ElementType::uint4}, {"int4", ElementType::int4},
    {"uint2", ElementType::uint2}, {"int2", ElementType::int2},
}};

bool is_narrow_integer(ElementType type)
{
    return type == ElementType::uint4 || type == ElementType::int4 || type == ElementType::uint2 ||
           type == ElementType::int2;
}

std::string_view numpy_name(ElementType type)
{
    for (const NamedType& row : named_types)
        if (row.type == type)
            return row.name;
    throw NotSupported("NumPy has no type for " + std::string(name_of(type)));
}

Dims shape_of(const py::array& array)
{
    Dims shape;
    for (py::ssize_t i = 0; i < array.ndim(); ++i)
        shape.push_back(array.shape(i));
    return shape;
}

// NumPy's own types of numbers, by what NumPy calls their kind and their bytes.
struct NumberType {
    char kind;
    py::ssize_t bytes;
    DataType type;
    int number;                // NPY_TYPES
};

using Npy = py::detail::npy_api::constants;
constexpr int npy_half = 23;
constexpr std::array<NumberType, 14> number_types{{
    {'f', 4, DataType::float32, Npy::NPY_FLOAT_}, {'f', 8, DataType::float64, Npy::NPY_DOUBLE_},
    {'f', 2, DataType::float16, npy_half}, {'i', 1, DataType::int8, Npy::NPY_INT8_},
    {'i', 2, DataType::int16, Npy::NPY_INT16_}, {'i', 4, DataType::int32, Npy::NPY_INT32_},
    {'i', 8, DataType::int64, Npy::NPY_INT64_}, {'u', 1, DataType::uint8, Npy::NPY_UINT8_},
    {'u', 2, DataType::uint16, Npy::NPY_UINT16_}, {'u', 4, DataType::uint32, Npy::NPY_UINT32_},
    {'u', 8, DataType::uint64, Npy::NPY_UINT64_}, {'b', 1, DataType::boolean, Npy::NPY_BOOL_},
    {'c', 8, DataType::complex64, Npy::NPY_CFLOAT_}, {'c', 16, DataType::complex128, Npy::NPY_CDOUBLE_},
}};

// Of an array that needs no conversion, the same as below without a call of Python's.
std::optional<HostArray> plain_array(const py::handle& object)
{
    if (!py::isinstance<py::array>(object))
        return std::nullopt;
    const auto array = py::reinterpret_borrow<py::array>(object);
    const py::dtype dtype = array.dtype();
    if (dtype.num() > npy_half || !(array.flags() & py::array::c_style) || (dtype.byteorder() != '=' &&
                                                                             dtype.byteorder() != '|'))
        return std::nullopt;
    for (const NumberType& row : number_types)
        if (row.kind == dtype.kind() && row.bytes == dtype.itemsize())
            return HostArray{array, element_type(row.type), shape_of(array)};
    return std::nullopt;
}

// NumPy's type of the same size that holds the bytes: unsigned integers for bfloat16 and the 8-bit floats.
py::dtype storage_dtype(DataType type)
{
    for (const NumberType& row : number_types)
        if (row.type == type)
            return py::dtype(row.number);
    return py::dtype(type == DataType::bfloat16 ? "uint16" : std::string(name_of(type)));
}

py::module_ numpy() { return py::module_::import("numpy"); }

bool is_text(char kind) { return kind == 'O' || kind == 'U' || kind == 'S' || kind == 'T'; }

ElementType element_type_of(const py::dtype& dtype)
{
    if (is_text(dtype.kind()))
        return ElementType::string;
    const auto name = dtype.attr("name").cast<std::string>();
    for (const NamedType& row : named_types)
        if (row.name == name)
            return row.type;
    throw InvalidArgument("arrays of dtype " + name + " are not supported");
}

std::vector<std::string> strings_of(const HostArray& host)
{
    std::vector<std::string> result;
    for (const py::handle item : host.array.attr("ravel")().attr("tolist")()) {
        require(py::isinstance<py::bytes>(item) || py::isinstance<py::str>(item),
                "an array of objects must hold strings");
        result.push_back(string_of(item));
    }
    return result;
}

// An array that `make` makes of a shape that a model or a file chose. NumPy refuses some that clprim has: the product
// of all sizes but zeros must fit into its counts of bytes, and axes are few.
template <class Make>
auto array_of_shape(const Dims& shape, Make&& make)
{
    try {
        return make();
    } catch (const py::error_already_set& error) {
        if (!error.matches(PyExc_ValueError))
            throw;
        throw NotSupported("NumPy has no arrays of shape " + to_string(shape) + ": " +
                           std::string(py::str(error.value())));
    }
}

py::object strings_to_python(const Value& value)
{
    const std::vector<std::string>& strings = value.strings();
    py::list items;
    for (const std::string& text : strings)
        items.append(text_of(text));
    // Filled flat: NumPy would take a list of lists apart.
    py::object flat = numpy().attr("empty")(items.size(), "object");
    flat[py::slice(0, static_cast<py::ssize_t>(items.size()), 1)] = items;
    return array_of_shape(value.shape(), [&] { return flat.attr("reshape")(shape_tuple(value.shape())); });
}

Value host_value(const HostArray& host)
{
    return host.type == ElementType::string ? Value::strings(host.shape, strings_of(host))
                                            : Value::copy_of(host.type, host.shape, host.array.data());
}

Value tensor_from(const HostArray& host, Context& context)
{
    if (host.type == ElementType::string || host.shape.product() <= host_limit)
        return host_value(host);
    const void* data = host.array.data();
    const Released released;
    Queue& queue = context.queue();
    const Tensor tensor = context.empty(host.shape, storage_type(host.type), queue);
    queue.write(*tensor.memory, 0, data, tensor.nbytes());
    return Value(tensor, host.type);
}

// Refers to the array's memory, which it keeps alive.
Value tensor_within(const HostArray& host, Context& context)
{
    const auto* const address = static_cast<const std::byte*>(host.array.data());
    if (host.type == ElementType::string || host.shape.product() <= host_limit ||
        reinterpret_cast<std::uintptr_t>(address) % size_of(storage_type(host.type)) != 0)
        return tensor_from(host, context);
    const auto release = [](py::array* array) {
        const py::gil_scoped_acquire held;
        delete array;
    };
    const std::shared_ptr<py::array> owner(new py::array(host.array), release);
    return Value::holding(host.type, host.shape,
                          std::shared_ptr<std::byte[]>(owner, const_cast<std::byte*>(address)));
}

py::object tensor_to_python(const Value& value)
{
    if (value.type() == ElementType::string)
        return strings_to_python(value);
    py::array array = empty_array(value.shape(), storage_type(value.type()));
    void* target = array.mutable_data();
    const auto bytes = static_cast<std::size_t>(array.nbytes());
    {
        const Released released;
        if (value.on_host()) {
            if (bytes)
                std::memcpy(target, value.host_bytes(), bytes);
        } else if (bytes) {
            // A value on a device answers without the queue that it is given.
            Tensor tensor = value.device(Context::get(0).queue());
            Queue& queue = tensor.memory->context->queue(tensor.memory->queue);
            if (tensor.is_contiguous())
                queue.read(*tensor.memory, static_cast<std::size_t>(tensor.offset) * size_of(tensor.dtype), target,
                           bytes);
            else
                std::memcpy(target, value.bytes(queue), bytes);
        }
    }
    return typed_array(std::move(array), value.type());
}

}  // namespace

HostArray host_array(const py::handle& object, ElementType expected)
{
    if (auto plain = plain_array(object))
        return std::move(*plain);
    const bool has_dtype = py::hasattr(object, "dtype");
    const py::object array_of = numpy().attr("asarray");
    py::object array;
    try {
        array = array_of(object);
    } catch (py::error_already_set& error) {
        if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError))
            throw;
        throw InvalidArgument("no array can be made of it: " + std::string(py::str(error.value())));
    }
    ElementType type = element_type_of(array.attr("dtype"));
    if (!has_dtype && expected != ElementType::undefined && expected != type &&
        (expected == ElementType::string) == (type == ElementType::string)) {
        array = array.attr("astype")(typed_array(empty_array({0}, storage_type(expected)), expected).attr("dtype"));
        type = expected;
    }
    const Dims shape = shape_of(array);
    if (type != ElementType::string) {
        const py::dtype storage = storage_dtype(storage_type(type));
        if (is_narrow_integer(type))
            array = array.attr("astype")(storage);
        // Native byte order and C order; a view where the array is so already.
        const py::dtype own = array.attr("dtype").attr("newbyteorder")("=");
        array = numpy().attr("asarray")(array, own, "C").attr("view")(storage);
    }
    return {py::array(array), type, shape};
}

py::array empty_array(const Dims& shape, DataType storage)
{
    constexpr std::size_t numpy_axes = 64;   // NPY_MAXDIMS of NumPy 2; NumPy 1 refuses by itself beyond 32
    require<NotSupported>(shape.size() <= numpy_axes, "NumPy's arrays have at most ", numpy_axes,
                          " axes, the result has ", shape.size());
    return array_of_shape(shape, [&] {
        return py::array(storage_dtype(storage), std::vector<py::ssize_t>(shape.begin(), shape.end()));
    });
}

py::object typed_array(py::array storage, ElementType type)
{
    if (!is_narrow(type) && type != ElementType::bfloat16)
        return storage;
    py::object dtype;
    try {
        dtype = py::module_::import("ml_dtypes").attr(std::string(numpy_name(type)).c_str());
    } catch (const py::error_already_set&) {
        throw NotSupported("arrays of " + std::string(name_of(type)) +
                           " need the Python package ml_dtypes in a version that has them");
    }
    return storage.attr(is_narrow_integer(type) ? "astype" : "view")(dtype);
}

namespace {

using FromArray = Value(const HostArray& host, Context& context);

// Keys are all text or all integers; values numbers, or text.
Value map_from(const py::dict& map, ElementType type)
{
    std::vector<std::string> names;
    std::vector<std::int64_t> numbers;
    py::list values;
    for (const auto& [key, value] : map) {
        if (py::isinstance<py::str>(key))
            names.push_back(key.cast<std::string>());
        else if (PyIndex_Check(key.ptr()))
            numbers.push_back(py::reinterpret_steal<py::object>(PyNumber_Index(key.ptr())).cast<std::int64_t>());
        if (names.size() + numbers.size() != values.size() + 1 || (!names.empty() && !numbers.empty()))
            throw py::type_error("keys of a map are all texts, or all integers");
        values.append(value);
    }
    const auto count = static_cast<std::int64_t>(values.size());
    return Value::map(names.empty() ? Value::ints(numbers) : Value::strings({count}, std::move(names)),
                      host_value(host_array(values, type)));
}

Value converted(const py::handle& object, Context& context, const Expected& expected, FromArray& from_array)
{
    if (object.is_none())
        return {};
    if (py::isinstance<Value>(object))
        return object.cast<Value>();
    if (py::isinstance<Tensor>(object)) {
        const auto tensor = object.cast<Tensor>();
        if (expected.type == ElementType::undefined || expected.type == element_type(tensor.dtype))
            return tensor;                           // as it lies on its device, without a wait
    }
    if (!expected.is_tensor && (py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object))) {
        std::vector<Value> items;
        for (const py::handle item : object)
            items.push_back(converted(item, context, expected, from_array));
        return Value::sequence(std::move(items), expected.type);
    }
    if (!expected.is_tensor && py::isinstance<py::dict>(object))
        return map_from(object.cast<py::dict>(), expected.type);
    return from_array(host_array(object, expected.type), context);
}

}  // namespace

Value value_from(const py::handle& object, Context& context, const Expected& expected)
{
    return converted(object, context, expected, tensor_from);
}

Value borrowed_value(const py::handle& object, Context& context, const Expected& expected)
{
    return converted(object, context, expected, tensor_within);
}

py::object array_in_place(const Value& value)
{
    const Tensor tensor = value.device(Context::get(0).queue());
    void* const address = host_address(tensor);
    const py::capsule owner(new Value(value), [](void* held) { delete static_cast<Value*>(held); });
    const std::vector<py::ssize_t> shape(tensor.shape.begin(), tensor.shape.end());
    return typed_array(array_of_shape(tensor.shape,
                                      [&] { return py::array(storage_dtype(tensor.dtype), shape, address, owner); }),
                       value.type());
}

py::object value_to_python(const Value& value)
{
    if (value.is_none())
        return py::none();
    if (value.is_map()) {
        const py::list keys = tensor_to_python(value.keys()).attr("tolist")(),
                       values = tensor_to_python(value.values()).attr("tolist")();
        py::dict map;
        for (std::size_t i = 0; i < keys.size(); ++i)
            map[keys[i]] = values[i];
        return std::move(map);
    }
    if (!value.is_sequence())
        return tensor_to_python(value);
    py::list result;
    for (const Value& item : value.items())
        result.append(value_to_python(item));
    return result;
}

}  // namespace clprim::python
