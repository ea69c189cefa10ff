#include "images/formats.hpp"

namespace clprim {

namespace images {

Image sized(std::int64_t width, std::int64_t height)
{
    constexpr std::int64_t most_pixels = std::int64_t{1} << 28;
    require(width > 0 && height > 0 && width <= most_pixels / height, "an image of ", width, " x ", height,
            " pixels is not read");
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * width * height));
    return {static_cast<int>(width), static_cast<int>(height), std::move(pixels)};
}

namespace {

using Reader = Image (*)(Bytes);

#ifdef CLPRIM_WITH_JPEG
constexpr Reader jpeg = read_jpeg;
#else
constexpr Reader jpeg = nullptr;
#endif
#ifdef CLPRIM_WITH_PNG
constexpr Reader png = read_png;
#else
constexpr Reader png = nullptr;
#endif
#ifdef CLPRIM_WITH_WEBP
constexpr Reader webp = read_webp;
#else
constexpr Reader webp = nullptr;
#endif

struct Format {
    const char* name;
    bool (*recognises)(std::string_view file);
    Reader read;
};

constexpr Format formats[] = {
    {"PNG", [](std::string_view f) { return f.starts_with("\x89PNG"); }, png},
    {"JPEG", [](std::string_view f) { return f.starts_with("\xff\xd8\xff"); }, jpeg},
    {"WebP", [](std::string_view f) { return f.starts_with("RIFF") && f.substr(8).starts_with("WEBP"); }, webp},
    {"BMP", [](std::string_view f) { return f.starts_with("BM"); }, read_bmp},
    {"PNM", [](std::string_view f) { return f[0] == 'P' && f[1] >= '1' && f[1] <= '6'; }, read_pnm},
    {"TIFF", [](std::string_view f) { return f.starts_with("II*") || f.starts_with("MM"); }, nullptr},
    {"JPEG 2000",
     [](std::string_view f) { return f.substr(4).starts_with("jP  ") || f.starts_with("\xff\x4f\xff\x51"); }, nullptr},
};

}  // namespace

}  // namespace images

Image decode_image(std::span<const std::byte> file)
{
    const std::string_view text = images::text(file);
    require(text.size() > 8, "an image file of ", text.size(), " bytes is truncated");
    for (const images::Format& format : images::formats) {
        if (!format.recognises(text))
            continue;
        if (!format.read)
            throw NotSupported(std::string("images in the format ") + format.name + " are not read by this build");
        return format.read(file);
    }
    throw InvalidArgument("not an image file: neither BMP nor JPEG, PNG, WebP, PBM, PGM or PPM");
}

}  // namespace clprim
