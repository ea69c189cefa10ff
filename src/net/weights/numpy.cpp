// NumPy's .npy (format 1.0 to 3.0) and .npz (a zip archive of them, stored or deflated).
#include <zlib.h>

#include <charconv>

#include "net/weights/bytes.hpp"

namespace clprim {
namespace {

constexpr std::pair<std::string_view, DataType> numpy_types[] = {
    {"<f4", DataType::float32}, {"<f8", DataType::float64},   {"<f2", DataType::float16},    {"|i1", DataType::int8},
    {"<i2", DataType::int16},   {"<i4", DataType::int32},     {"<i8", DataType::int64},      {"|u1", DataType::uint8},
    {"<u2", DataType::uint16},  {"<u4", DataType::uint32},    {"<u8", DataType::uint64},     {"|b1", DataType::boolean},
    {"<c8", DataType::complex64}, {"<c16", DataType::complex128},
    {"|V2", DataType::bfloat16},   // how ml_dtypes' bfloat16 is saved
};

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. What follows a key.
std::string_view after_key(std::string_view header, std::string_view key, const std::string& name)
{
    const std::size_t at = header.find(detail::concat('\'', key, '\''));
    require(at != header.npos, name, ": the header lacks '", key, "'");
    std::size_t colon = header.find(':', at + key.size() + 2);
    require(colon != header.npos, name, ": the header's '", key, "' has no value");
    colon = header.find_first_not_of(' ', colon + 1);
    require(colon != header.npos, name, ": the header's '", key, "' has no value");
    return header.substr(colon);
}

Dims parse_shape(std::string_view text, const std::string& name)
{
    const std::size_t end = text.find(')');
    require(!text.empty() && text[0] == '(' && end != text.npos, name, ": the header's shape is no tuple");
    text = text.substr(1, end - 1);
    Dims shape;
    while (true) {
        const std::size_t start = text.find_first_not_of(" ,");
        if (start == text.npos)
            return shape;
        text.remove_prefix(start);
        std::int64_t size = 0;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), size);
        require(error == std::errc() && size >= 0 && shape.size() < 64, name, ": the header's shape is wrong: ",
                text.substr(0, 40));
        text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
        if (!text.empty() && text[0] == 'L')   // Python 2's long integers
            text.remove_prefix(1);
        shape.push_back(size);
    }
}

// The elements in row-major order, from column-major order.
std::vector<std::byte> from_fortran(std::span<const std::byte> data, const Dims& shape, std::size_t size)
{
    std::vector<std::byte> rows(data.size());
    Dims index(shape.size(), 0);
    for (std::size_t to = 0; to < rows.size(); to += size) {
        std::size_t from = 0;
        for (std::size_t axis = shape.size(); axis-- > 0;)
            from = from * static_cast<std::size_t>(shape[axis]) + static_cast<std::size_t>(index[axis]);
        std::memcpy(&rows[to], &data[from * size], size);
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            if (++index[axis] < shape[axis])
                break;
            index[axis] = 0;
        }
    }
    return rows;
}

HostTensor parse_array(std::span<const std::byte> bytes, const Bytes& owner, const std::string& name)
{
    ByteReader reader(bytes, name);
    require(reader.text(6, "magic") == "\x93NUMPY", name, ": not a .npy array");
    const auto major = reader.number<std::uint8_t>("version");
    reader.number<std::uint8_t>("version");
    require(major >= 1 && major <= 3, name, ": version ", int(major), " of the format is unknown");
    const std::size_t length = major == 1 ? reader.number<std::uint16_t>("header length")
                                          : reader.number<std::uint32_t>("header length");
    const std::string_view header = reader.text(length, "header");
    const std::string_view descr = after_key(header, "descr", name);
    const std::size_t quote = descr.find('\'', 1);
    require(descr[0] == '\'' && quote != descr.npos, name, ": its dtype is structured, which is not supported");
    std::string type(descr.substr(1, quote - 1));
    if (type.size() > 1 && (type[0] == '=' || type[0] == '|') && type.back() != '1' && type[1] != 'V')
        type[0] = '<';
    const DataType* dtype = nullptr;
    for (const auto& [known, value] : numpy_types)
        if (known == type)
            dtype = &value;
    require(dtype != nullptr, name, ": dtype \"", type, "\" is not supported");
    const Dims shape = parse_shape(after_key(header, "shape", name), name);
    const std::size_t size = checked_bytes(shape, *dtype, name);
    require(size <= reader.left(), name, ": truncated: shape ", to_string(shape), " (", name_of(*dtype), ") needs ",
            size, " bytes, ", reader.left(), " left");
    const auto data = reader.take(size, "data");
    if (after_key(header, "fortran_order", name).starts_with("True") && shape.size() > 1)
        return host_tensor(*dtype, shape, from_fortran(data, shape, size_of(*dtype)));
    return {*dtype, shape, data, owner};
}

std::vector<std::byte> inflate_member(std::span<const std::byte> packed, std::size_t size, const std::string& name)
{
    // Deflate shrinks at most 1032 to 1: a larger claim is a lie, and must not be allocated.
    require(size / 1032 <= packed.size() + 1 && packed.size() <= UINT32_MAX && size <= UINT32_MAX, name, ": claims ",
            size, " bytes from ", packed.size(), " compressed ones");
    std::vector<std::byte> bytes(size);
    z_stream stream{};
    require(inflateInit2(&stream, -MAX_WBITS) == Z_OK, name, ": zlib cannot start");
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream.avail_out = static_cast<uInt>(size);
    const int code = inflate(&stream, Z_FINISH);
    const bool done = code == Z_STREAM_END && stream.total_out == size;
    inflateEnd(&stream);
    require(done, name, ": its compressed data is corrupt");
    return bytes;
}

std::uint32_t crc_of(std::span<const std::byte> bytes)
{
    return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Sizes that do not fit 32 bits stand in the zip64 field, in this order.
void read_zip64(ByteReader extra, std::uint64_t* (&values)[3])
{
    while (extra.left() >= 4) {
        const auto id = extra.number<std::uint16_t>("extra field");
        const auto length = extra.number<std::uint16_t>("extra field");
        if (id != 1) {
            extra.take(length, "extra field");
            continue;
        }
        for (std::uint64_t* value : values)
            if (*value == UINT32_MAX)
                *value = extra.number<std::uint64_t>("zip64 field");
        return;
    }
}

}  // namespace

HostTensor parse_npy(const Bytes& bytes, const std::string& name)
{
    require(bytes != nullptr, name, ": there are no bytes");
    return parse_array(*bytes, bytes, name);
}

WeightMap parse_npz(const Bytes& bytes, const std::string& name)
{
    require(bytes != nullptr, name, ": there are no bytes");
    // The end record, of 22 bytes and a comment, leads to the directory.
    const std::string_view all(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    const std::size_t end = all.rfind("PK\5\6");
    require(end != all.npos, name, ": truncated: a zip archive without its end record");
    ByteReader reader(*bytes, name);
    reader.seek(end + 10, "end record");
    std::uint64_t count = reader.number<std::uint16_t>("end record");
    reader.number<std::uint32_t>("end record");
    std::uint64_t directory = reader.number<std::uint32_t>("end record");
    reader.take(reader.number<std::uint16_t>("end record"), "comment");
    if (directory == UINT32_MAX || count == UINT16_MAX) {
        const std::size_t wide = all.rfind("PK\6\6", end);
        require(wide != all.npos, name, ": truncated: a zip archive without its zip64 end record");
        reader.seek(wide + 32, "zip64 end record");
        count = reader.number<std::uint64_t>("zip64 end record");
        reader.number<std::uint64_t>("zip64 end record");
        directory = reader.number<std::uint64_t>("zip64 end record");
    }
    WeightMap weights;
    reader.seek(directory, "directory");
    for (std::uint64_t i = 0; i < count; ++i) {
        require(reader.text(4, "directory") == "PK\1\2", name, ": its directory is corrupt");
        reader.take(4, "directory");
        const auto flags = reader.number<std::uint16_t>("directory"),
                   method = reader.number<std::uint16_t>("directory");
        reader.take(4, "directory");
        const auto crc = reader.number<std::uint32_t>("directory");
        std::uint64_t packed_size = reader.number<std::uint32_t>("directory");
        std::uint64_t size = reader.number<std::uint32_t>("directory");
        const auto name_length = reader.number<std::uint16_t>("directory"),
                   extra_length = reader.number<std::uint16_t>("directory"),
                   comment_length = reader.number<std::uint16_t>("directory");
        reader.take(8, "directory");
        std::uint64_t local = reader.number<std::uint32_t>("directory");
        std::string member(reader.text(name_length, "directory"));
        const auto extra = reader.take(extra_length, "directory");
        reader.take(comment_length, "directory");
        std::uint64_t* values[3] = {&size, &packed_size, &local};
        read_zip64(ByteReader(extra, name), values);

        const std::string what = name + ": \"" + member + "\"";
        require((flags & 1) == 0, what, " is encrypted");
        require(method == 0 || method == 8, what, ": compression method ", method, " is not supported");
        ByteReader at(*bytes, what);
        at.seek(local, "member");
        require(at.text(4, "member") == "PK\3\4", what, ": its local header is corrupt");
        at.take(22, "member");
        const auto local_name = at.number<std::uint16_t>("member"), local_extra = at.number<std::uint16_t>("member");
        at.take(std::size_t(local_name) + local_extra, "member");
        const auto packed = at.take(packed_size, "member");
        require(method == 8 || packed_size == size, what, ": its sizes disagree");
        if (member.ends_with(".npy"))
            member.resize(member.size() - 4);
        std::span<const std::byte> data = packed;
        Bytes owner = bytes;
        if (method == 8) {
            owner = std::make_shared<const std::vector<std::byte>>(inflate_member(packed, size, what));
            data = *owner;
        }
        require(crc_of(data) == crc, what, ": its checksum is wrong");
        weights[member] = parse_array(data, owner, what);
    }
    return weights;
}

std::vector<std::byte> npy_bytes(const HostTensor& tensor)
{
    check_bytes(tensor, "npy");
    std::string_view type;
    for (const auto& [known, value] : numpy_types)
        if (value == tensor.dtype)
            type = known;
    require<NotSupported>(!type.empty(), "npy: NumPy has no dtype ", name_of(tensor.dtype));
    std::string header = detail::concat("{'descr': '", type, "', 'fortran_order': False, 'shape': (");
    for (const std::int64_t size : tensor.shape)
        header += std::to_string(size) + ",";
    header += "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');   // data begins at a multiple of 64
    header += '\n';
    std::vector<std::byte> bytes;
    append(bytes, std::string_view("\x93NUMPY\1\0", 8));
    append_number(bytes, static_cast<std::uint16_t>(header.size()));
    append(bytes, header);
    append(bytes, tensor.data);
    return bytes;
}

std::vector<std::byte> npz_bytes(const WeightMap& weights)
{
    std::vector<std::byte> bytes, directory;
    for (const auto& [name, tensor] : weights) {
        const std::string member = name + ".npy";
        const std::vector<std::byte> data = npy_bytes(tensor);
        require<NotSupported>(data.size() < UINT32_MAX && bytes.size() + data.size() < UINT32_MAX &&
                                  member.size() < UINT16_MAX && weights.size() < UINT16_MAX,
                              "npz: archives of 4 GiB and more are not written; use safetensors");
        const auto local = static_cast<std::uint32_t>(bytes.size()), size = static_cast<std::uint32_t>(data.size());
        // Version 2.0, no flags, stored, 1 January 1980; sizes; lengths of name and extra field.
        const auto common = [&](std::vector<std::byte>& target) {
            for (const std::uint16_t word : {20, 0, 0, 0, 33})
                append_number(target, word);
            append_number(target, crc_of(data));
            append_number(target, size);
            append_number(target, size);
            append_number(target, static_cast<std::uint16_t>(member.size()));
            append_number(target, std::uint16_t(0));
        };
        append(bytes, "PK\3\4");
        common(bytes);
        append(bytes, member);
        append(bytes, data);
        append(directory, "PK\1\2");
        append_number(directory, std::uint16_t(20));
        common(directory);
        for (int i = 0; i < 3; ++i)   // comment, disk, attributes
            append_number(directory, std::uint16_t(0));
        append_number(directory, std::uint32_t(0));
        append_number(directory, local);
        append(directory, member);
    }
    const auto begin = static_cast<std::uint32_t>(bytes.size());
    append(bytes, directory);
    append(bytes, std::string_view("PK\5\6\0\0\0\0", 8));
    append_number(bytes, static_cast<std::uint16_t>(weights.size()));
    append_number(bytes, static_cast<std::uint16_t>(weights.size()));
    append_number(bytes, static_cast<std::uint32_t>(directory.size()));
    append_number(bytes, begin);
    append_number(bytes, std::uint16_t(0));
    return bytes;
}

}  // namespace clprim
