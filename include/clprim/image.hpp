// Pictures from files in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Rows of RGB bytes from the top, `height` times `width` times 3.
struct Image {
    int width = 0, height = 0;
    std::vector<std::uint8_t> pixels;
};

// Decodes a file, told by its first bytes: BMP, JPEG, PNG, WebP, or PBM, PGM and PPM. Grey becomes three equal
// channels, 16 bits 8, CMYK RGB; transparency is dropped, and of several pictures the first is taken. Throws
// InvalidArgument for a file of no known format, damaged, or of more than 2^28 pixels, NotSupported for one that this
// build has no decoder for (TIFF and JPEG 2000; JPEG, PNG and WebP where their libraries were missing).
Image decode_image(std::span<const std::byte> file);

}  // namespace clprim
CLPRIM_API_END
