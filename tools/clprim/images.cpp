#include "images.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>

#include <clprim/error.hpp>

namespace clprim::command {

namespace {

std::string file_bytes(const std::string& path)
{
    std::ifstream stream(path, std::ios::binary);
    require(stream.good() && std::filesystem::is_regular_file(path), "no such file: ", path);
    std::ostringstream bytes;
    bytes << stream.rdbuf();
    return std::move(bytes).str();
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
    std::vector<float> rows(static_cast<std::size_t>(image.height) * across.size() * 3),
        result(down.size() * across.size() * 3);
    for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y)
        for (std::size_t x = 0; x < across.size(); ++x)
            for (std::size_t c = 0; c < 3; ++c) {
                float sum = 0;
                for (std::size_t k = 0; k < across[x].weights.size(); ++k)
                    sum += across[x].weights[k] * image.pixels[(y * static_cast<std::size_t>(image.width) +
                                                                static_cast<std::size_t>(across[x].first) + k) *
                                                                   3 +
                                                               c];
                rows[(y * across.size() + x) * 3 + c] = sum;
            }
    const std::size_t stride = across.size() * 3;
    for (std::size_t y = 0; y < down.size(); ++y)
        for (std::size_t k = 0; k < down[y].weights.size(); ++k)
            for (std::size_t x = 0; x < stride; ++x)
                result[y * stride + x] +=
                    down[y].weights[k] * rows[(static_cast<std::size_t>(down[y].first) + k) * stride + x];
    return result;
}

}  // namespace

Image read_image(const std::string& path)
{
    const std::string bytes = file_bytes(path);
    try {
        return decode_image(std::as_bytes(std::span(bytes)));
    } catch (const InvalidArgument& error) {
        throw InvalidArgument(path + ": " + error.what());
    } catch (const NotSupported& error) {
        throw NotSupported(path + ": " + error.what());
    }
}

bool is_image_path(const std::string& path)
{
    std::string extension = std::filesystem::path(path).extension().string();
    std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
    static constexpr std::string_view known[] = {".png", ".jpg", ".jpeg", ".bmp", ".webp",
                                                 ".pbm", ".pgm", ".ppm",  ".pnm"};
    return std::ranges::find(known, extension) != std::end(known);
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
