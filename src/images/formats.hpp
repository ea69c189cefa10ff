// One reader for each format; they throw InvalidArgument. Those of libraries exist where CMake found the library.
#pragma once

#include <cstring>
#include <string_view>

#include <clprim/error.hpp>
#include <clprim/image.hpp>

namespace clprim::images {

using Bytes = std::span<const std::byte>;

Image read_bmp(Bytes file);
Image read_jpeg(Bytes file);
Image read_png(Bytes file);
Image read_pnm(Bytes file);
Image read_webp(Bytes file);

// An image of this size with room for its pixels. Throws for one that is empty or larger than 2^28 pixels.
Image sized(std::int64_t width, std::int64_t height);

inline std::string_view text(Bytes file) { return {reinterpret_cast<const char*>(file.data()), file.size()}; }

}  // namespace clprim::images
