#ifdef CLPRIM_WITH_PNG

#include <memory>

#include <png.h>

#include "images/formats.hpp"

namespace clprim::images {

Image read_png(Bytes file)
{
    png_image png{};
    png.version = PNG_IMAGE_VERSION;
    const std::unique_ptr<png_image, void (*)(png_image*)> guard(&png, &png_image_free);
    require(png_image_begin_read_from_memory(&png, file.data(), file.size()), "PNG: ", png.message);
    Image image = sized(png.width, png.height);
    png.format = PNG_FORMAT_RGBA;
    std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png));
    require(png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr), "PNG: ", png.message);
    for (std::size_t from = 0, to = 0; to < image.pixels.size(); from += 4, to += 3)
        std::memcpy(image.pixels.data() + to, pixels.data() + from, 3);
    return image;
}

}  // namespace clprim::images

#endif
