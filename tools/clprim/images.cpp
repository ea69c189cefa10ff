#include "images.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <jpeglib.h>
#include <png.h>

#include <clprim/error.hpp>

namespace clprim::command {

namespace {

constexpr std::int64_t most_pixels = std::int64_t{1} << 28;

void check_size(std::int64_t width, std::int64_t height)
{
    require(width > 0 && height > 0 && width <= most_pixels / height, "an image of ", width, " x ", height,
            " pixels is not read");
}

std::string file_bytes(const std::string& path)
{
    std::ifstream stream(path, std::ios::binary);
    require(stream.good() && std::filesystem::is_regular_file(path), "no such file: ", path);
    std::ostringstream bytes;
    bytes << stream.rdbuf();
    return std::move(bytes).str();
}

Image read_png(const std::string& bytes)
{
    png_image png{};
    png.version = PNG_IMAGE_VERSION;
    const std::unique_ptr<png_image, void (*)(png_image*)> guard(&png, &png_image_free);
    require(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()), png.message);
    check_size(png.width, png.height);
    png.format = PNG_FORMAT_RGB;
    Image image{static_cast<int>(png.width), static_cast<int>(png.height), std::vector<std::uint8_t>(PNG_IMAGE_SIZE(png))};
    const png_color black{};
    require(png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr), png.message);
    return image;
}

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

// Nothing with a destructor may live between setjmp and longjmp: the image and the decoder belong to the caller.
bool decode_jpeg(jpeg_decompress_struct& decoder, JpegErrors& errors, const std::string& bytes, Image& image)
{
    if (setjmp(errors.jump))
        return false;
    jpeg_create_decompress(&decoder);
    jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&decoder, TRUE);
    decoder.out_color_space = JCS_RGB;
    if (static_cast<std::int64_t>(decoder.image_width) * decoder.image_height > most_pixels) {
        std::strcpy(errors.message, "the image is too large");
        return false;
    }
    jpeg_start_decompress(&decoder);
    image.width = static_cast<int>(decoder.output_width);
    image.height = static_cast<int>(decoder.output_height);
    image.pixels.resize(3 * static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height));
    while (decoder.output_scanline < decoder.output_height) {
        JSAMPROW row = image.pixels.data() + 3 * static_cast<std::size_t>(decoder.output_scanline) * decoder.output_width;
        jpeg_read_scanlines(&decoder, &row, 1);
    }
    jpeg_finish_decompress(&decoder);
    return true;
}

Image read_jpeg(const std::string& bytes)
{
    Image image;
    jpeg_decompress_struct decoder{};
    JpegErrors errors{};
    decoder.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = &jpeg_failed;
    errors.base.output_message = [](j_common_ptr) {};
    const bool right = decode_jpeg(decoder, errors, bytes, image);
    jpeg_destroy_decompress(&decoder);
    require(right, errors.message);
    return image;
}

Image read_ppm(const std::string& bytes)
{
    std::istringstream stream(bytes);
    std::string magic;
    std::int64_t sizes[3] = {};      // width, height, largest value
    stream >> magic;
    for (std::int64_t& size : sizes) {
        while ((stream >> std::ws).peek() == '#')
            stream.ignore(1 << 20, '\n');
        stream >> size;
    }
    stream.get();
    require(stream.good() && sizes[2] == 255, "a PPM file with other than 8 bits");
    check_size(sizes[0], sizes[1]);
    Image image{static_cast<int>(sizes[0]), static_cast<int>(sizes[1]), {}};
    const auto wanted = static_cast<std::size_t>(3 * sizes[0] * sizes[1]), begin = static_cast<std::size_t>(stream.tellg());
    require(bytes.size() - begin >= wanted, "the file is truncated");
    image.pixels.assign(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                        bytes.begin() + static_cast<std::ptrdiff_t>(begin + wanted));
    return image;
}

// Which source pixels make one target pixel, and how much of each.
struct Window {
    int first = 0;
    std::vector<float> weights;
};

// A triangle as wide as the step between target pixels: bilinear when enlarging, an average when shrinking.
std::vector<Window> windows(double begin, double extent, int source, int target)
{
    std::vector<Window> result(static_cast<std::size_t>(target));
    const double step = extent / target, radius = std::max(step, 1.0);
    for (int i = 0; i < target; ++i) {
        const double center = begin + (i + 0.5) * step;
        const int first = std::max(0, static_cast<int>(std::floor(center - radius)));
        const int last = std::min(source - 1, static_cast<int>(std::ceil(center + radius)));
        Window& window = result[static_cast<std::size_t>(i)];
        window.first = first;
        double sum = 0;
        for (int at = first; at <= last; ++at)
            sum += std::max(0.0, 1 - std::abs(at + 0.5 - center) / radius);
        for (int at = first; at <= last; ++at)
            window.weights.push_back(static_cast<float>(std::max(0.0, 1 - std::abs(at + 0.5 - center) / radius) / sum));
    }
    return result;
}

// Rows first, then columns; three channels of floats from 0 to 255.
std::vector<float> resized(const Image& image, int height, int width, bool crop)
{
    double w = image.width, h = image.height;
    if (crop && w * height > h * width)
        w = h * width / height;
    else if (crop)
        h = w * height / width;
    const auto across = windows((image.width - w) / 2, w, image.width, width);
    const auto down = windows((image.height - h) / 2, h, image.height, height);
    std::vector<float> rows(static_cast<std::size_t>(image.height) * across.size() * 3), result(down.size() * across.size() * 3);
    for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y)
        for (std::size_t x = 0; x < across.size(); ++x)
            for (std::size_t c = 0; c < 3; ++c) {
                float sum = 0;
                for (std::size_t k = 0; k < across[x].weights.size(); ++k)
                    sum += across[x].weights[k] *
                           image.pixels[(y * static_cast<std::size_t>(image.width) + static_cast<std::size_t>(across[x].first) + k) * 3 + c];
                rows[(y * across.size() + x) * 3 + c] = sum;
            }
    const std::size_t stride = across.size() * 3;
    for (std::size_t y = 0; y < down.size(); ++y)
        for (std::size_t k = 0; k < down[y].weights.size(); ++k)
            for (std::size_t x = 0; x < stride; ++x)
                result[y * stride + x] += down[y].weights[k] * rows[(static_cast<std::size_t>(down[y].first) + k) * stride + x];
    return result;
}

}  // namespace

Image read_image(const std::string& path)
{
    const std::string bytes = file_bytes(path);
    try {
        if (bytes.starts_with("\x89PNG"))
            return read_png(bytes);
        if (bytes.starts_with("\xff\xd8"))
            return read_jpeg(bytes);
        require(bytes.starts_with("P6"), "neither PNG nor JPEG nor PPM");
        return read_ppm(bytes);
    } catch (const InvalidArgument& error) {
        throw InvalidArgument(path + ": " + error.what());
    }
}

bool is_image_path(const std::string& path)
{
    std::string extension = std::filesystem::path(path).extension().string();
    std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
    return extension == ".png" || extension == ".jpg" || extension == ".jpeg" || extension == ".ppm";
}

std::vector<float> prepare_image(const Image& image, int channels, int height, int width, const Preparation& how)
{
    require(channels == 1 || channels == 3, "images have 3 or 1 channels, the model wants ", channels);
    const std::vector<float> rgb = resized(image, height, width, how.crop);
    const std::size_t plane = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    const auto depth = static_cast<std::size_t>(channels);
    std::vector<float> result(depth * plane);
    for (std::size_t c = 0; c < depth; ++c) {
        const float mean = how.mean[std::min(c, how.mean.size() - 1)];
        const float deviation = how.deviation[std::min(c, how.deviation.size() - 1)];
        for (std::size_t i = 0; i < plane; ++i) {
            const float* p = rgb.data() + i * 3;
            const float value = channels == 3 ? p[c] : 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
            result[how.channels_last ? i * depth + c : c * plane + i] = (value / 255 - mean) / deviation;
        }
    }
    return result;
}

}  // namespace clprim::command
