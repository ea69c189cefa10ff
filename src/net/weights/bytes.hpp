// Reading numbers out of untrusted bytes, and what the formats share.
#pragma once

#include <cstring>
#include <string_view>

#include <clprim/weights.hpp>

namespace clprim {

// A position in bytes that never leaves them.
class ByteReader {
public:
    ByteReader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

    std::size_t left() const { return bytes_.size() - at_; }
    std::size_t position() const { return at_; }
    void seek(std::size_t position, const char* what)
    {
        require(position <= bytes_.size(), name_, ": truncated at its ", what);
        at_ = position;
    }
    std::span<const std::byte> take(std::size_t count, const char* what)
    {
        require(count <= left(), name_, ": truncated: ", count, " bytes of its ", what, " expected, ", left(), " left");
        const auto part = bytes_.subspan(at_, count);
        at_ += count;
        return part;
    }
    std::string_view text(std::size_t count, const char* what)
    {
        const auto part = take(count, what);
        return {reinterpret_cast<const char*>(part.data()), part.size()};
    }
    template <class T>
    T number(const char* what)   // little-endian, like every host that clprim runs on
    {
        T value;
        std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
        return value;
    }

private:
    std::span<const std::byte> bytes_;
    const std::string& name_;
    std::size_t at_ = 0;
};

// Bytes of a tensor; throws InvalidArgument that begins with `what` for negative sizes or more bytes than 2^62.
std::size_t checked_bytes(const Dims& shape, DataType dtype, const std::string& what);
void check_bytes(const HostTensor& tensor, const std::string& what);   // data are as many as shape and dtype say

inline void append(std::vector<std::byte>& target, std::span<const std::byte> bytes)
{
    target.insert(target.end(), bytes.begin(), bytes.end());
}
inline void append(std::vector<std::byte>& target, std::string_view text)
{
    append(target, std::as_bytes(std::span(text.data(), text.size())));
}
template <class T>
void append_number(std::vector<std::byte>& target, T value)
{
    append(target, std::as_bytes(std::span(&value, 1)));
}

}  // namespace clprim
