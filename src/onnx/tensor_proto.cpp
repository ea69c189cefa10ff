#include "onnx/tensor_proto.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <clprim/error.hpp>

namespace clprim::onnx {

namespace {

constexpr std::int64_t largest_numel = std::int64_t{1} << 40;

// Bits that one element takes in raw_data.
int packed_bits(ElementType type)
{
    switch (type) {
    case ElementType::uint2: case ElementType::int2: return 2;
    case ElementType::uint4: case ElementType::int4: case ElementType::float4e2m1: return 4;
    default: return 8 * static_cast<int>(size_of(storage_type(type)));
    }
}

// Elements narrower than a byte, the first in the low bits, to one byte each.
void unpack(ElementType type, const std::byte* packed, std::span<std::byte> target)
{
    const int bits = packed_bits(type), per_byte = 8 / bits, sign = 1 << (bits - 1);
    const bool is_signed = type == ElementType::int4 || type == ElementType::int2;
    for (std::size_t i = 0; i < target.size(); ++i) {
        const int shift = bits * static_cast<int>(i % static_cast<std::size_t>(per_byte));
        int element = (static_cast<int>(packed[i / static_cast<std::size_t>(per_byte)]) >> shift) & ((1 << bits) - 1);
        if (is_signed && (element & sign))
            element -= 1 << bits;
        target[i] = static_cast<std::byte>(element);
    }
}

void require_raw(const std::string& name, ElementType type, const Dims& shape, std::size_t size)
{
    const std::int64_t count = checked_numel(shape, name);
    const auto needed = static_cast<std::size_t>((count * packed_bits(type) + 7) / 8);
    require(size == needed, "tensor '", name, "' of shape ", to_string(shape), " and type ", name_of(type), " needs ",
            needed, " bytes, has ", size);
}

Value from_raw(const std::string& name, ElementType type, const Dims& shape, std::span<const std::byte> raw)
{
    require_raw(name, type, shape, raw.size());
    if (packed_bits(type) >= 8)
        return Value::copy_of(type, shape, raw.data());
    Value result = Value::zeros(type, shape);
    unpack(type, raw.data(), {result.mutable_bytes(), static_cast<std::size_t>(checked_numel(shape, name))});
    return result;
}

template <class T, class Field>
Value from_field(const std::string& name, ElementType type, const Dims& shape, const Field& field)
{
    const std::int64_t count = checked_numel(shape, name);
    require(field.size() == count, "tensor '", name, "' of shape ", to_string(shape), " needs ", count,
            " elements, has ", field.size());
    Value result = Value::zeros(type, shape);
    // The bits of the element's type, which T may not be: of float16, say.
    require(sizeof(T) == size_of(storage_type(type)), "tensor '", name, "': ", name_of(type),
            " in a field of another size");
    T* elements = reinterpret_cast<T*>(result.mutable_bytes());
    for (int i = 0; i < field.size(); ++i)
        elements[static_cast<std::size_t>(i)] = static_cast<T>(field.Get(i));
    return result;
}

// Complex numbers come as pairs of reals, types below a byte as packed bytes in integers.
template <class Field>
Value from_pieces(const std::string& name, ElementType type, const Dims& shape, const Field& field)
{
    using T = std::remove_cvref_t<decltype(field.Get(0))>;
    if constexpr (std::is_same_v<T, std::int32_t>) {
        std::vector<std::byte> raw;
        for (const T piece : field)
            raw.push_back(static_cast<std::byte>(piece));
        return from_raw(name, type, shape, raw);
    }
    return from_raw(name, type, shape, std::as_bytes(std::span(field.data(), static_cast<std::size_t>(field.size()))));
}

Value from_typed_fields(const pb::TensorProto& tensor, ElementType type, const Dims& shape)
{
    const std::string& name = tensor.name();
    switch (type) {
    case ElementType::float32: return from_field<float>(name, type, shape, tensor.float_data());
    case ElementType::float64: return from_field<double>(name, type, shape, tensor.double_data());
    case ElementType::int64: return from_field<std::int64_t>(name, type, shape, tensor.int64_data());
    case ElementType::uint64: return from_field<std::uint64_t>(name, type, shape, tensor.uint64_data());
    case ElementType::uint32: return from_field<std::uint32_t>(name, type, shape, tensor.uint64_data());
    case ElementType::int32: return from_field<std::int32_t>(name, type, shape, tensor.int32_data());
    case ElementType::complex64: return from_pieces(name, type, shape, tensor.float_data());
    case ElementType::complex128: return from_pieces(name, type, shape, tensor.double_data());
    default: break;
    }
    if (packed_bits(type) < 8)
        return from_pieces(name, type, shape, tensor.int32_data());
    if (size_of(storage_type(type)) == 2)
        return from_field<std::uint16_t>(name, type, shape, tensor.int32_data());
    return from_field<std::uint8_t>(name, type, shape, tensor.int32_data());
}

std::uint64_t number(const std::string& text, const std::string& name)
{
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc() && end == text.data() + text.size(), "tensor '", name,
            "': external data: bad number '", text, "'");
    return value;
}

// The bytes without a copy where they are as the host has them.
Value holding(const std::string& name, ElementType type, const Dims& shape, std::shared_ptr<std::byte[]> bytes,
              std::size_t size)
{
    if (packed_bits(type) < 8)
        return from_raw(name, type, shape, {bytes.get(), size});
    require_raw(name, type, shape, size);
    return Value::holding(type, shape, std::move(bytes));
}

struct External {
    std::shared_ptr<std::byte[]> bytes;
    std::size_t size;
};

// A model must not reach files outside of its folder, not by links either. The next call may move the file.
ModelFile& external_file(const std::string& name, const std::string& location, const ModelFolder& folder)
{
    namespace fs = std::filesystem;
    constexpr std::size_t most_open = 16;
    if (!location.empty())
        if (const auto known = std::ranges::find(*folder.files, location, &ModelFile::location);
            known != folder.files->end())
            return *known;
    std::error_code error;
    const fs::path root = fs::weakly_canonical(folder.path->empty() ? fs::path(".") : *folder.path, error);
    const fs::path path = fs::weakly_canonical(root / location, error);
    const fs::path relative = path.lexically_relative(root);
    require(!error && !location.empty() && !fs::path(location).is_absolute() && !relative.empty() &&
                *relative.begin() != "..",
            "tensor '", name, "': external data '", location, "' lie outside of the model's folder");
    require(fs::is_regular_file(path, error), "tensor '", name, "': external data file '", location, "' is missing");
    ModelFile& file = folder.files->emplace_back(path, location);
    if (folder.files->size() > most_open)
        file.close();
    return file;
}

External read_external(const pb::TensorProto& tensor, ElementType type, const ModelFolder& folder)
{
    const std::string& name = tensor.name();
    std::string location;
    std::uint64_t offset = 0, length = 0;
    bool has_length = false;
    for (const auto& entry : tensor.external_data()) {
        if (entry.key() == "location")
            location = entry.value();
        else if (entry.key() == "offset")
            offset = number(entry.value(), name);
        else if (entry.key() == "length")
            length = number(entry.value(), name), has_length = true;
    }
    require(folder.path.has_value(), "tensor '", name, "' has its data in file '", location,
            "'; models from memory need the folder of such files");
    ModelFile& file = external_file(name, location, folder);
    require(offset <= file.bytes() && (!has_length || length <= file.bytes() - offset), "tensor '", name,
            "': external data file '", location, "' is too short: ", file.bytes(), " bytes");
    const std::size_t wanted = has_length ? length : file.bytes() - offset;
    // Pages and their granularity are multiples of what elements are aligned to.
    constexpr std::size_t large = std::size_t{1} << 16;
    const auto width = static_cast<std::uint64_t>(std::max(8, packed_bits(type)) / 8);
    if (wanted >= large && offset % width == 0)
        if (auto mapped = file.map(offset, wanted))
            return {std::move(mapped), wanted};
    const auto bytes = std::make_shared_for_overwrite<std::byte[]>(std::max<std::size_t>(wanted, 1));
    require(file.read(offset, {bytes.get(), wanted}), "tensor '", name, "': external data file '", location,
            "' cannot be read");
    return {bytes, wanted};
}

Dims shape_of(const pb::TensorProto& tensor)
{
    return Dims(std::span<const std::int64_t>(tensor.dims().data(), static_cast<std::size_t>(tensor.dims_size())));
}

ElementType element_type_of(const pb::TensorProto& tensor)
{
    const auto type = static_cast<ElementType>(tensor.data_type());
    require(type != ElementType::undefined && name_of(type) != "undefined", "tensor '", tensor.name(),
            "' has unknown element type ", tensor.data_type());
    return type;
}

}  // namespace

std::int64_t checked_numel(const Dims& shape, std::string_view name)
{
    std::int64_t count = 1;
    bool empty = false;
    for (const std::int64_t size : shape) {
        require(size >= 0, "tensor '", name, "' has a negative size: ", to_string(shape));
        empty |= size == 0;
        require(empty || size <= largest_numel / count, "tensor '", name, "' is too large: ", to_string(shape));
        count = empty ? 1 : count * size;
    }
    return empty ? 0 : count;
}

Value read_tensor(const pb::TensorProto& tensor, const ModelFolder& folder)
{
    const Dims shape = shape_of(tensor);
    const ElementType type = element_type_of(tensor);
    if (type == ElementType::string) {
        require(tensor.string_data_size() == checked_numel(shape, tensor.name()), "tensor '", tensor.name(),
                "' of shape ", to_string(shape), " has ", tensor.string_data_size(), " strings");
        return Value::strings(shape, {tensor.string_data().begin(), tensor.string_data().end()});
    }
    if (tensor.data_location() == pb::TensorProto::EXTERNAL) {
        External external = read_external(tensor, type, folder);
        return holding(tensor.name(), type, shape, std::move(external.bytes), external.size);
    }
    if (tensor.has_raw_data())
        return from_raw(tensor.name(), type, shape, std::as_bytes(std::span(tensor.raw_data())));
    return from_typed_fields(tensor, type, shape);
}

Value take_tensor(pb::TensorProto& tensor, const ModelFolder& folder)
{
    constexpr std::size_t large = std::size_t{1} << 16;
    Value result;
    const bool plain = tensor.data_location() != pb::TensorProto::EXTERNAL && tensor.raw_data().size() >= large;
    if (plain && tensor.data_type() != static_cast<int>(ElementType::string)) {
        const auto raw = std::shared_ptr<std::string>(tensor.release_raw_data());
        tensor.mutable_raw_data();
        result = holding(tensor.name(), element_type_of(tensor), shape_of(tensor),
                         {raw, reinterpret_cast<std::byte*>(raw->data())}, raw->size());
    } else {
        result = read_tensor(tensor, folder);
    }
    std::string name = tensor.name();
    tensor.Clear();
    tensor.set_name(std::move(name));
    return result;
}

Value read_sparse_tensor(const pb::SparseTensorProto& tensor, const ModelFolder& folder)
{
    const std::string& name = tensor.values().name();
    const Dims shape(std::span<const std::int64_t>(tensor.dims().data(), static_cast<std::size_t>(tensor.dims_size())));
    const std::int64_t count = checked_numel(shape, name);
    const Value values = read_tensor(tensor.values(), folder), indices = read_tensor(tensor.indices(), folder);
    require(count <= std::int64_t{1} << 28, "sparse tensor '", name,
            "' is too large to be made dense: ", to_string(shape));
    require(values.dim() == 1 && indices.type() == ElementType::int64 && indices.dim() >= 1 &&
                indices.shape()[0] == values.shape()[0] &&
                (indices.dim() == 1 ||
                 (indices.dim() == 2 && indices.shape()[1] == static_cast<std::int64_t>(shape.size()))),
            "sparse tensor '", name, "': indices do not fit its values");
    Value dense = Value::zeros(values.type(), shape);
    const std::size_t width = size_of(storage_type(values.type()));
    // The values are on the host already, so no queue is needed to read them.
    const auto* from = values.host_bytes();
    const auto* index = reinterpret_cast<const std::int64_t*>(indices.host_bytes());
    const Dims strides = contiguous_strides(shape);
    for (std::int64_t i = 0; i < values.numel(); ++i) {
        std::int64_t position = indices.dim() == 1 ? index[i] : 0;
        if (indices.dim() == 2)
            for (std::size_t d = 0; d < shape.size(); ++d) {
                const std::int64_t at =
                    index[i * static_cast<std::int64_t>(shape.size()) + static_cast<std::int64_t>(d)];
                require(at >= 0 && at < shape[d], "sparse tensor '", name, "': index ", at, " is out of range");
                position += at * strides[d];
            }
        require(position >= 0 && position < count, "sparse tensor '", name, "': index ", position, " is out of range");
        std::memcpy(dense.mutable_bytes() + static_cast<std::size_t>(position) * width,
                    from + static_cast<std::size_t>(i) * width, width);
    }
    return dense;
}

}  // namespace clprim::onnx
