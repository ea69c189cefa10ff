// clprim run: a model on images or arrays.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "images.hpp"
#include "model.hpp"

namespace clprim::command {

namespace {

std::vector<std::string> read_lines(const std::string& path)
{
    std::vector<std::string> lines;
    std::ifstream stream(path);
    for (std::string line; std::getline(stream, line);)
        lines.push_back(line);
    return lines;
}

// The k largest of one row, best first.
Json best_classes(std::vector<float> row, const RunOptions& options, const std::vector<std::string>& labels)
{
    if (options.softmax) {
        const float largest = *std::ranges::max_element(row);
        float sum = 0;
        for (float& x : row)
            sum += x = std::exp(x - largest);
        for (float& x : row)
            x /= sum;
    }
    std::vector<std::size_t> order(row.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t count = std::min(row.size(), static_cast<std::size_t>(options.top));
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](std::size_t a, std::size_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    Json result = Json::array();
    for (std::size_t i = 0; i < count; ++i) {
        Json entry{{"class", order[i]}, {"score", row[order[i]]}};
        if (order[i] < labels.size())
            entry["label"] = labels[order[i]];
        result.push_back(entry);
    }
    return result;
}

void print_classes(const Json& entry)
{
    std::printf("%s\n", entry["file"].get<std::string>().c_str());
    for (const Json& best : entry["top"])
        std::printf("  %10.5f  class %-5d %s\n", best["score"].get<double>(), best["class"].get<int>(),
                    best.value("label", "").c_str());
}

Value image_batch(std::span<const std::string> files, Dims shape, const Preparation& preparation)
{
    shape[0] = static_cast<std::int64_t>(files.size());
    const std::size_t first = preparation.channels_last ? 1 : 2;
    const auto channels = static_cast<int>(shape[preparation.channels_last ? 3 : 1]);
    Value batch = Value::zeros(ElementType::float32, shape);
    auto target = batch.mutable_host<float>().begin();
    for (const std::string& file : files)
        target = std::ranges::copy(prepare_image(read_image(file), channels, static_cast<int>(shape[first]),
                                                 static_cast<int>(shape[first + 1]), preparation), target).out;
    return batch;
}

Json classify(Model& model, const RunOptions& options)
{
    const std::vector<std::string> inputs = model.input_names();
    require(inputs.size() == 1, "the model has ", inputs.size(), " inputs; images need one");
    Preparation preparation = options.preparation;
    preparation.crop = !options.stretch;
    const Dims shape = model.input_shape(inputs[0]);
    require(shape.size() == 4 && model.input_type(inputs[0]) == ElementType::float32, "input '", inputs[0],
            "' of type ", name_of(model.input_type(inputs[0])), " and shape ", to_string(shape), " takes no images");
    preparation.channels_last = shape[1] != 3 && shape[1] != 1 && (shape[3] == 3 || shape[3] == 1);
    const std::vector<std::string> labels =
        options.labels.empty() ? std::vector<std::string>() : read_lines(options.labels);
    for (const auto& [option, numbers] :
         {std::pair("--mean", preparation.mean), std::pair("--std", preparation.deviation)})
        require(numbers.size() == 1 || numbers.size() == 3, option, " holds ", numbers.size(),
                " numbers, expected 1 or 3");
    for (const float deviation : preparation.deviation)
        require(deviation > 0, "--std is ", deviation, ", expected numbers above 0");
    const auto batch = static_cast<std::size_t>(shape[0]);
    Json results = Json::array();
    Progress progress("images", (options.files.size() + batch - 1) / batch);
    for (std::size_t begin = 0; begin < options.files.size(); begin += batch) {
        const std::size_t count = std::min(batch, options.files.size() - begin);
        // A model of a fixed batch takes the last image again where too few are left.
        std::vector<std::string> files(options.files.begin() + static_cast<std::ptrdiff_t>(begin),
                                       options.files.begin() + static_cast<std::ptrdiff_t>(begin + count));
        files.resize(batch, files.back());
        const auto outputs = model.run({{inputs[0], image_batch(files, shape, preparation)}});
        const std::vector<float> scores = to_floats(outputs.at(0), model.queue());
        const std::size_t width = scores.size() / batch;
        require(labels.empty() || labels.size() >= width, options.labels, " holds ", labels.size(),
                " names, the model has ", width, " classes");
        require(width > 0 && outputs[0].dim() >= 2 && outputs[0].shape()[0] == shape[0], "output 0 of shape ",
                to_string(outputs[0].shape()), " holds no scores of classes; use --output with .npy inputs");
        for (std::size_t i = 0; i < count; ++i)
            results.push_back({{"file", files[i]},
                               {"top", best_classes({scores.begin() + static_cast<std::ptrdiff_t>(i * width),
                                                     scores.begin() + static_cast<std::ptrdiff_t>((i + 1) * width)},
                                                    options, labels)}});
        progress.step();
    }
    return results;
}

// "name=file.npy", or files in the order of the inputs.
std::map<std::string, Value> read_arrays(const Model& model, const std::vector<std::string>& files)
{
    const std::vector<std::string> names = model.input_names();
    std::map<std::string, Value> inputs;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const std::size_t equals = files[i].find('=');
        const bool named = equals != std::string::npos && !std::filesystem::exists(files[i]);
        require(named || i < names.size(), "the model has ", names.size(), " inputs, got ", files.size(), " files");
        const WeightMap arrays = load_weights(named ? files[i].substr(equals + 1) : files[i]);
        require(arrays.size() == 1, files[i], " holds ", arrays.size(), " arrays");
        const HostTensor& array = arrays.begin()->second;
        inputs[named ? files[i].substr(0, equals) : names[i]] =
            Value::copy_of(element_type(array.dtype), array.shape, array.data.data());
    }
    return inputs;
}

Json run_arrays(Model& model, const RunOptions& options)
{
    const auto outputs = model.run(read_arrays(model, options.files));
    const auto names = model.output_names();
    WeightMap saved;
    Json results = Json::array();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        require<NotSupported>(outputs[i].is_tensor(), "output '", names[i], "' is no tensor");
        results.push_back({{"output", names[i]}, {"type", name_of(outputs[i].type())},
                           {"shape", std::vector<std::int64_t>(outputs[i].shape().begin(), outputs[i].shape().end())}});
        if (!options.output.empty())
            saved[names[i]] = to_host(model.queue(), outputs[i].device(model.queue()));
    }
    if (!options.output.empty())
        save_weights(options.output, saved);
    return results;
}

}  // namespace

void run(const RunOptions& options)
{
    const bool images = std::ranges::all_of(options.files, is_image_path);
    require(images || std::ranges::none_of(options.files, is_image_path), "give images or arrays, not both");
    Model model(options.source, options.context());
    const Json results = images ? classify(model, options) : run_arrays(model, options);
    if (options.json)
        return print(results);
    for (const Json& entry : results) {
        if (images)
            print_classes(entry);
        else
            std::printf("%s: %s %s\n", entry["output"].get<std::string>().c_str(),
                        entry["type"].get<std::string>().c_str(), entry["shape"].dump().c_str());
    }
}

}  // namespace clprim::command
