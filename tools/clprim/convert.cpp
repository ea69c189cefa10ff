// clprim convert: ONNX models to JSON nets with weights, and weights from one format to another.
#include <filesystem>
#include <fstream>

#include <clprim/onnx.hpp>

#include "command.hpp"

namespace clprim::command {

namespace {

struct ConvertOptions {
    std::string from, to, weights;
    bool json = false;
};

void write_text(const std::string& path, const std::string& text)
{
    std::ofstream stream(path, std::ios::binary);
    stream << text;
    stream.flush();
    require(stream.good(), "cannot write ", path);
}

void convert(const ConvertOptions& options)
{
    namespace fs = std::filesystem;
    Json report{{"from", options.from}, {"to", options.to}};
    if (fs::path(options.to).extension() == ".json") {
        const ConvertedNet net = convert_to_net(OnnxModel(options.from));
        const std::string weights =
            options.weights.empty() ? fs::path(options.to).replace_extension(".safetensors").string() : options.weights;
        save_weights(weights, net.weights);
        write_text(options.to, net.json);
        report["weights"] = weights;
        report["parameters"] = net.weights.size();
    } else {
        const WeightMap weights = load_weights(options.from);
        save_weights(options.to, weights);
        report["parameters"] = weights.size();
    }
    if (options.json)
        return print(report);
    std::printf("%s: %d arrays%s\n", options.to.c_str(), report["parameters"].get<int>(),
                report.contains("weights") ? (" in " + report["weights"].get<std::string>()).c_str() : "");
}

}  // namespace

void add_convert(CLI::App& app)
{
    const auto options = std::make_shared<ConvertOptions>();
    CLI::App& command = *app.add_subcommand("convert", "an ONNX model to a JSON net, or weights to another format");
    command.add_option("from", options->from, "an ONNX model, or weights: .safetensors, .npz, .npy, .dlp")
        ->required()->check(CLI::ExistingFile);
    command.add_option("to", options->to, "a .json net, or weights; the extension chooses the format")->required();
    command.add_option("-w,--weights", options->weights, "where the net's weights go (default: beside it, .safetensors)");
    command.add_flag("--json", options->json, "print one JSON document");
    command.callback([options] { convert(*options); });
}

}  // namespace clprim::command
