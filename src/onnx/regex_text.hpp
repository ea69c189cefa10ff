// Characters of text, as the compiler and the matcher of regular expressions see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace clprim::onnx {

// The next character of UTF-8; a byte that begins none is its own.
inline std::uint32_t decode(std::string_view text, std::size_t& at)
{
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const std::uint32_t first = byte(at);
    const std::size_t extra = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    std::uint32_t value = extra ? first & (0x3fu >> extra) : first;
    for (std::size_t i = 1; i <= extra; ++i) {
        if ((byte(at + i) & 0xc0) != 0x80)
            return ++at, first;
        value = value << 6 | (byte(at + i) & 0x3f);
    }
    at += extra + 1;
    return value;
}

inline bool is_word(std::uint32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

}  // namespace clprim::onnx
