#ifdef CLPRIM_WITH_WEBP

#include <webp/decode.h>

#include "images/formats.hpp"

namespace clprim::images {

Image read_webp(Bytes file)
{
    const auto* data = reinterpret_cast<const std::uint8_t*>(file.data());
    WebPBitstreamFeatures features{};
    require(WebPGetFeatures(data, file.size(), &features) == VP8_STATUS_OK, "WebP: the file is damaged");
    require(!features.has_animation, "WebP: the file is an animation");
    Image image = sized(features.width, features.height);
    require(WebPDecodeRGBInto(data, file.size(), image.pixels.data(), image.pixels.size(), 3 * image.width),
            "WebP: the file is damaged or truncated");
    return image;
}

}  // namespace clprim::images

#endif
