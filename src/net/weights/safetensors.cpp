// safetensors (8 bytes of header length, a JSON header, raw data) and DLPW, dlprimitives' format ("DLPW", big-endian
// header length, a JSON header, raw data), which differ in the words of their headers.
#include <algorithm>

#include "net/json.hpp"
#include "net/weights/bytes.hpp"

#include <clprim/operator.hpp>

namespace clprim {
namespace {

constexpr std::uint64_t largest_header = std::uint64_t(100) << 20;   // safetensors' own limit

constexpr std::pair<std::string_view, DataType> safetensors_types[] = {
    {"F64", DataType::float64}, {"F32", DataType::float32}, {"F16", DataType::float16}, {"BF16", DataType::bfloat16},
    {"I8", DataType::int8},     {"I16", DataType::int16},   {"I32", DataType::int32},   {"I64", DataType::int64},
    {"U8", DataType::uint8},    {"U16", DataType::uint16},  {"U32", DataType::uint32},  {"U64", DataType::uint64},
    {"BOOL", DataType::boolean},
};

DataType safetensors_type(std::string_view name)
{
    for (const auto& [known, type] : safetensors_types)
        if (known == name)
            return type;
    throw InvalidArgument(detail::concat("unknown dtype \"", name, "\""));
}

std::string_view dlpw_name(DataType type)
{
    return type == DataType::float32   ? "float"
           : type == DataType::float64 ? "double"
           : type == DataType::float16 ? "half"
                                       : name_of(type);
}

std::uint64_t unsigned_number(const Json& value, const std::string& what)
{
    require(value.is_number_integer() && (value.is_number_unsigned() || value.get<std::int64_t>() >= 0), what,
            ": sizes and offsets must be integers that are not negative");
    const auto number = value.get<std::uint64_t>();
    require(number <= std::uint64_t(INT64_MAX), what, ": ", number, " is out of range");
    return number;
}

struct Entry {
    DataType dtype;
    Dims shape;
    std::uint64_t begin, end;
};

// The tensor that an entry names, as a part of `data`.
HostTensor tensor_of(const Entry& entry, std::span<const std::byte> data, const Bytes& owner, const std::string& what)
{
    const std::size_t needed = checked_bytes(entry.shape, entry.dtype, what);
    require(entry.begin <= entry.end && entry.end <= data.size(), what, ": its data [", entry.begin, ", ", entry.end,
            ") lies outside of the file's ", data.size(), " bytes of data");
    require(entry.end - entry.begin == needed, what, ": shape ", to_string(entry.shape), " (", name_of(entry.dtype),
            ") needs ", needed, " bytes, its data has ", entry.end - entry.begin);
    return {entry.dtype, entry.shape, data.subspan(entry.begin, needed), owner};
}

const Json& member(const Json& object, const char* name, const std::string& what)
{
    require(object.is_object(), what, " must be an object");
    const auto found = object.find(name);
    require(found != object.end(), what, ": \"", name, "\" is missing");
    return *found;
}

std::string text_of(const Json& value, const std::string& what)
{
    require(value.is_string(), what, ": dtype must be a string");
    return value.get<std::string>();
}

Dims shape_of(const Json& list, const std::string& what)
{
    require(list.is_array() && list.size() <= 64, what, ": shape must be a list of sizes");
    Dims shape;
    for (const Json& size : list)
        shape.push_back(static_cast<std::int64_t>(unsigned_number(size, what)));
    return shape;
}

template <class Rethrown>
auto about(const std::string& what, const Rethrown& f)
{
    try {
        return f();
    } catch (const InvalidArgument& error) {
        throw InvalidArgument(what + ": " + error.what());
    }
}

}  // namespace

WeightMap parse_safetensors(const Bytes& bytes, const std::string& name)
{
    require(bytes != nullptr, name, ": there are no bytes");
    ByteReader reader(*bytes, name);
    const auto length = reader.number<std::uint64_t>("header length");
    require(length <= largest_header && length <= reader.left(), name, ": a header of ", length,
            " bytes does not fit a file of ", bytes->size());
    const Json header = parse_json(reader.text(length, "header"), name);
    require(header.is_object(), name, ": the header must be an object");
    const auto data = reader.take(reader.left(), "data");
    WeightMap weights;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (const auto& [key, value] : header.items()) {
        if (key == "__metadata__")
            continue;
        const std::string what = name + ": tensor \"" + key + "\"";
        const Json& offsets = member(value, "data_offsets", what);
        require(offsets.is_array() && offsets.size() == 2, what, ": data_offsets must be two numbers");
        const std::string type = text_of(member(value, "dtype", what), what);
        const Entry entry{about(what, [&] { return safetensors_type(type); }),
                          shape_of(member(value, "shape", what), what), unsigned_number(offsets[0], what),
                          unsigned_number(offsets[1], what)};
        weights[key] = tensor_of(entry, data, bytes, what);
        ranges.emplace_back(entry.begin, entry.end);
    }
    // The format allows neither holes nor overlaps: a polyglot file would hide in them.
    std::ranges::sort(ranges);
    std::uint64_t expected = 0;
    for (const auto& [begin, end] : ranges) {
        require(begin == expected, name, ": its tensors leave holes or overlap at byte ", begin, " of the data");
        expected = end;
    }
    require(expected == data.size(), name, ": ", data.size() - expected, " bytes after the last tensor");
    return weights;
}

std::vector<std::byte> safetensors_bytes(const WeightMap& weights)
{
    Json header = Json::object();
    std::uint64_t at = 0;
    for (const auto& [name, tensor] : weights) {
        check_bytes(tensor, name);
        const auto type =
            std::ranges::find(safetensors_types, tensor.dtype, [](const auto& row) { return row.second; });
        require<NotSupported>(type != std::end(safetensors_types), "safetensors: tensor \"", name, "\" is ",
                              name_of(tensor.dtype), ", which the format lacks");
        header[name] = {{"dtype", type->first},
                        {"shape", std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())},
                        {"data_offsets", {at, at + tensor.data.size()}}};
        at += tensor.data.size();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::vector<std::byte> bytes;
    bytes.reserve(8 + text.size() + at);
    append_number(bytes, static_cast<std::uint64_t>(text.size()));
    append(bytes, text);
    for (const auto& [name, tensor] : weights)
        append(bytes, tensor.data);
    return bytes;
}

WeightMap parse_dlpw(const Bytes& bytes, const std::string& name)
{
    require(bytes != nullptr, name, ": there are no bytes");
    ByteReader reader(*bytes, name);
    require(reader.text(4, "magic") == "DLPW", name, ": not a DLPW file");
    std::uint32_t length = 0;
    for (int i = 0; i < 4; ++i)
        length = length << 8 | reader.number<std::uint8_t>("header length");
    require(length <= largest_header && length <= reader.left(), name, ": a header of ", length,
            " bytes does not fit a file of ", bytes->size());
    const Json header = parse_json(reader.text(length, "header"), name);
    const Json& tensors = member(header, "tensors", name);
    require(tensors.is_object(), name, ": \"tensors\" must be an object");
    const auto data = reader.take(reader.left(), "data");
    WeightMap weights;
    for (const auto& [key, value] : tensors.items()) {
        const std::string what = name + ": tensor \"" + key + "\"";
        const std::uint64_t begin = unsigned_number(member(value, "start", what), what);
        const std::uint64_t size = unsigned_number(member(value, "size", what), what);
        const std::string type = text_of(member(value, "dtype", what), what);
        const Dims shape =
            value.contains("shape") && !value["shape"].is_null() ? shape_of(value["shape"], what) : Dims();
        weights[key] = tensor_of({about(what, [&] { return net_data_type(type); }), shape, begin, begin + size}, data,
                                 bytes, what);
    }
    return weights;
}

std::vector<std::byte> dlpw_bytes(const WeightMap& weights)
{
    Json tensors = Json::object();
    std::uint64_t at = 0;
    for (const auto& [name, tensor] : weights) {
        check_bytes(tensor, name);
        tensors[name] = {{"dtype", dlpw_name(tensor.dtype)},
                         {"shape", std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())},
                         {"size", tensor.data.size()},
                         {"start", at}};
        at += tensor.data.size();
    }
    const std::string text = Json{{"tensors", tensors}}.dump();
    std::vector<std::byte> bytes;
    bytes.reserve(8 + text.size() + at);
    append(bytes, "DLPW");
    for (int shift = 24; shift >= 0; shift -= 8)
        append_number(bytes, static_cast<std::uint8_t>(text.size() >> shift));
    append(bytes, text);
    for (const auto& [name, tensor] : weights)
        append(bytes, tensor.data);
    return bytes;
}

}  // namespace clprim
