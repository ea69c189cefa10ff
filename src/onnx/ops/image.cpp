// ImageDecoder: files of images to arrays of bytes, on the host.
#include <clprim/image.hpp>

#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

// ITU-R 601's luma in 16-bit fixed point, as JPEG's libraries compute it.
std::uint8_t luma(const std::uint8_t* rgb)
{
    return static_cast<std::uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

// A file that cannot be decoded gives an empty image, as the operator's definition asks for; a format that this build
// does not read is an error.
Image decoded(Call& call)
{
    try {
        return decode_image({call.input(0).bytes(call.queue()), static_cast<std::size_t>(call.input(0).numel())});
    } catch (const InvalidArgument&) {
        return {};
    }
}

void image_decoder(Call& call)
{
    call.check(call.type(0) == ElementType::uint8 && call.shape(0).size() == 1, "input 0 is ", name_of(call.type(0)),
               " ", to_string(call.shape(0)), ", expected the bytes of a file, uint8 [n]");
    const std::string format = call.string_attribute("pixel_format", "RGB");
    call.check(format == "RGB" || format == "BGR" || format == "Grayscale", "pixel_format is ", format,
               ", expected RGB, BGR or Grayscale");
    const std::int64_t channels = format == "Grayscale" ? 1 : 3;
    const Image image = decoded(call);
    Value result = Value::zeros(ElementType::uint8, {image.height, image.width, channels});
    const auto to = result.mutable_host<std::uint8_t>();
    for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
        const std::uint8_t* rgb = image.pixels.data() + i;
        if (channels == 1)
            to[i / 3] = luma(rgb);
        for (std::size_t c = 0; channels == 3 && c < 3; ++c)
            to[i + c] = rgb[format == "RGB" ? c : 2 - c];
    }
    call.output(0, std::move(result));
}

const OperatorRow image_rows[] = {{"ImageDecoder", 20, image_decoder}};

}  // namespace

std::span<const OperatorRow> image_operators() { return image_rows; }

}  // namespace clprim::onnx
