#ifdef CLPRIM_WITH_JPEG

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include "images/formats.hpp"

namespace clprim::images {

namespace {

// libjpeg reports errors by a call that must not return.
struct JpegErrors {
    jpeg_error_mgr base;
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
};

void jpeg_failed(j_common_ptr info)
{
    auto* errors = reinterpret_cast<JpegErrors*>(info->err);
    errors->base.format_message(info, errors->message);
    std::longjmp(errors->jump, 1);
}

// Two halves, since the memory for pixels is the caller's: nothing with a destructor may live between setjmp and
// longjmp.
bool begin(jpeg_decompress_struct& decoder, JpegErrors& errors, Bytes file)
{
    if (setjmp(errors.jump))
        return false;
    jpeg_create_decompress(&decoder);
    jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&decoder, TRUE);
    const bool cmyk = decoder.jpeg_color_space == JCS_CMYK || decoder.jpeg_color_space == JCS_YCCK;
    decoder.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    return true;
}

bool decode(jpeg_decompress_struct& decoder, JpegErrors& errors, std::uint8_t* pixels)
{
    if (setjmp(errors.jump))
        return false;
    jpeg_start_decompress(&decoder);
    const std::size_t stride = std::size_t{decoder.output_width} * static_cast<std::size_t>(decoder.output_components);
    while (decoder.output_scanline < decoder.output_height) {
        JSAMPROW row = pixels + stride * decoder.output_scanline;
        jpeg_read_scanlines(&decoder, &row, 1);
    }
    jpeg_finish_decompress(&decoder);
    return true;
}

// Adobe's programs write inks inverted, and so does everybody.
void to_rgb(std::span<const std::uint8_t> cmyk, bool inverted, std::vector<std::uint8_t>& rgb)
{
    for (std::size_t i = 0; i < rgb.size(); ++i) {
        const unsigned ink = cmyk[i / 3 * 4 + i % 3], black = cmyk[i / 3 * 4 + 3];
        rgb[i] = static_cast<std::uint8_t>((inverted ? ink * black : (255 - ink) * (255 - black)) / 255);
    }
}

struct Decoder {
    Decoder()
    {
        info.err = jpeg_std_error(&errors.base);
        errors.base.error_exit = &jpeg_failed;
        errors.base.output_message = [](j_common_ptr) {};
    }
    ~Decoder() { jpeg_destroy_decompress(&info); }

    jpeg_decompress_struct info{};
    JpegErrors errors{};
};

}  // namespace

Image read_jpeg(Bytes file)
{
    Decoder decoder;
    require(begin(decoder.info, decoder.errors, file), "JPEG: ", decoder.errors.message);
    Image image = sized(decoder.info.image_width, decoder.info.image_height);
    if (decoder.info.out_color_space == JCS_RGB) {
        require(decode(decoder.info, decoder.errors, image.pixels.data()), "JPEG: ", decoder.errors.message);
        return image;
    }
    std::vector<std::uint8_t> inks(image.pixels.size() / 3 * 4);
    require(decode(decoder.info, decoder.errors, inks.data()), "JPEG: ", decoder.errors.message);
    to_rgb(inks, decoder.info.saw_Adobe_marker, image.pixels);
    return image;
}

}  // namespace clprim::images

#endif
