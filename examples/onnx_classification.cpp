// Classification with an ONNX model from C++:
//
//     onnx_classification model.onnx image.ppm [device]
//
// Prints the five best classes. Without arguments it shows the calls on a model of one node that it holds itself.
// Reading PNG and JPEG, batches and more: the command `clprim run`.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <vector>

#include <clprim/onnx.hpp>

namespace {

using namespace clprim;

// A binary PPM file as 1 x 3 x 224 x 224: the middle of the image by the nearest pixels, with ImageNet's mean and
// deviation.
Value read_image(const char* path)
{
    std::ifstream stream(path, std::ios::binary);
    std::string magic;
    int width = 0, height = 0, largest = 0;
    stream >> magic >> width >> height >> largest;
    stream.get();
    require(stream.good() && magic == "P6" && largest == 255 && width > 0 && height > 0 && width < 20000 &&
                height < 20000,
            path, " is no binary PPM file");
    std::vector<unsigned char> pixels(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
    stream.read(reinterpret_cast<char*>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
    require(stream.good(), path, " is truncated");

    constexpr int size = 224;
    const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
    const int side = std::min(width, height), left = (width - side) / 2, top = (height - side) / 2;
    Value image = Value::zeros(ElementType::float32, {1, 3, size, size});
    const auto target = image.mutable_host<float>();
    for (int c = 0; c < 3; ++c)
        for (int y = 0; y < size; ++y)
            for (int x = 0; x < size; ++x) {
                const int at = ((top + y * side / size) * width + left + x * side / size) * 3 + c;
                target[static_cast<std::size_t>((c * size + y) * size + x)] =
                    (static_cast<float>(pixels[static_cast<std::size_t>(at)]) / 255 - mean[c]) / deviation[c];
            }
    return image;
}

void classify(const char* model_path, const char* image_path, Context& context)
{
    const OnnxModel model(model_path);
    Session session(model, context);
    const auto outputs = session.run({{session.inputs().at(0).name, read_image(image_path)}});
    // Reading waits for the device; everything before only enqueued.
    const auto scores = outputs.at(session.outputs().at(0).name).host<float>(session.queue());

    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t count = std::min<std::size_t>(5, order.size());
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    for (std::size_t i = 0; i < count; ++i)
        std::printf("class %4zu  %8.4f\n", order[i], static_cast<double>(scores[order[i]]));
}

// ModelProto written out: y = Relu(x) for float x [n], operator set 17.
const unsigned char relu_model[] = {
    0x08, 8, 0x42, 2, 0x10, 17, 0x3a, 51,
    0x0a, 12, 0x0a, 1, 'x', 0x12, 1, 'y', 0x22, 4, 'R', 'e', 'l', 'u',
    0x12, 1, 'g',
    0x5a, 15, 0x0a, 1, 'x', 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x12, 0,
    0x62, 15, 0x0a, 1, 'y', 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x12, 0};

bool demonstrate()
{
    const OnnxModel model = OnnxModel::from_bytes(std::as_bytes(std::span(relu_model)));
    Session session(model);
    const float x[] = {-1, 0.5f, 2};
    const auto outputs = session.run({{"x", Value::copy_of(ElementType::float32, {3}, x)}});
    const auto y = outputs.at("y").host<float>(session.queue());
    std::printf("Relu of -1 0.5 2: %g %g %g\n", static_cast<double>(y[0]), static_cast<double>(y[1]),
                static_cast<double>(y[2]));
    return y[0] == 0 && y[1] == 0.5f && y[2] == 2;
}

}  // namespace

int main(int argc, char** argv)
try {
    if (argc < 3)
        return demonstrate() ? 0 : 1;
    classify(argv[1], argv[2], argc > 3 ? Context::get(std::string_view(argv[3])) : Context::get(0));
} catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
