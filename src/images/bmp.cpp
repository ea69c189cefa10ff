// Windows' and OS/2's bitmaps without compression: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits.
#include <algorithm>
#include <bit>

#include "images/formats.hpp"

namespace clprim::images {

namespace {

// Little-endian numbers at any place of a file.
struct Fields {
    Bytes file;

    std::uint32_t get(std::size_t at, std::size_t bytes) const
    {
        require(at <= file.size() && bytes <= file.size() - at, "BMP: the file is truncated");
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < bytes; ++i)
            value |= std::to_integer<std::uint32_t>(file[at + i]) << (8 * i);
        return value;
    }
    std::int32_t signed_get(std::size_t at) const { return static_cast<std::int32_t>(get(at, 4)); }
};

// The bits of a pixel that hold a channel, scaled to a byte.
std::uint8_t channel(std::uint32_t pixel, std::uint32_t mask)
{
    if (!mask)
        return 0;
    const std::uint64_t value = (pixel & mask) >> std::countr_zero(mask), largest = mask >> std::countr_zero(mask);
    return static_cast<std::uint8_t>((value * 255 + largest / 2) / largest);
}

struct Layout {
    std::int64_t width, height;      // a negative height counts rows from the top
    std::size_t pixels, palette, entry;      // where they begin, bytes of an entry
    std::uint32_t bits, colors;
    std::uint32_t masks[3];          // red, green, blue
};

Layout layout_of(const Fields& fields)
{
    const std::uint32_t header = fields.get(14, 4);
    const bool old = header == 12;
    require(old || header >= 40, "BMP: a header of ", header, " bytes is not known");
    Layout layout{};
    layout.width = old ? std::int64_t{fields.get(18, 2)} : fields.signed_get(18);
    layout.height = old ? std::int64_t{fields.get(20, 2)} : fields.signed_get(22);
    layout.bits = fields.get(old ? 24 : 28, 2);
    layout.pixels = fields.get(10, 4);
    layout.palette = 14 + header;
    layout.entry = old ? 3 : 4;
    const std::uint32_t compression = old ? 0 : fields.get(30, 4);
    require(compression == 0 || compression == 3 || compression == 6, "BMP: compression ", compression, " is not read");
    const bool given = compression != 0;
    const std::uint32_t usual[2][3] = {{0x7c00, 0x3e0, 0x1f}, {0xff0000, 0xff00, 0xff}};
    for (std::size_t i = 0; i < 3; ++i)
        layout.masks[i] = given ? fields.get(54 + 4 * i, 4) : usual[layout.bits == 16 ? 0 : 1][i];
    layout.colors = old ? 0 : fields.get(46, 4);
    if (!layout.colors && layout.bits <= 8)
        layout.colors = 1u << layout.bits;
    static constexpr std::uint32_t known[] = {1, 4, 8, 16, 24, 32};
    require(std::ranges::find(known, layout.bits) != std::end(known), "BMP: ", layout.bits,
            " bits for each pixel are not read");
    return layout;
}

}  // namespace

Image read_bmp(Bytes file)
{
    const Fields fields{file};
    const Layout layout = layout_of(fields);
    const std::int64_t height = layout.height < 0 ? -layout.height : layout.height;
    Image image = sized(layout.width, height);
    const std::size_t row = static_cast<std::size_t>((layout.width * layout.bits + 31) / 32 * 4);
    require(layout.pixels <= file.size() && static_cast<std::size_t>(height - 1) * row <= file.size() - layout.pixels,
            "BMP: the file is truncated");
    std::size_t to = 0;
    for (std::int64_t y = 0; y < height; ++y) {
        const std::size_t line = layout.pixels + row * static_cast<std::size_t>(layout.height < 0 ? y : height - 1 - y);
        for (std::size_t x = 0; x < static_cast<std::size_t>(layout.width); ++x) {
            if (layout.bits > 8) {
                const std::uint32_t pixel = fields.get(line + x * layout.bits / 8, layout.bits / 8);
                for (const std::uint32_t mask : layout.masks)
                    image.pixels[to++] = channel(pixel, mask);
                continue;
            }
            const std::size_t bit = x * layout.bits;
            const std::uint32_t packed = fields.get(line + bit / 8, 1) >> (8 - layout.bits - bit % 8);
            const std::uint32_t index = packed & ((1u << layout.bits) - 1);
            require(index < layout.colors, "BMP: color ", index, " of ", layout.colors);
            const std::size_t color = layout.palette + layout.entry * index;
            for (std::size_t c = 0; c < 3; ++c)
                image.pixels[to++] = static_cast<std::uint8_t>(fields.get(color + 2 - c, 1));
        }
    }
    return image;
}

}  // namespace clprim::images
