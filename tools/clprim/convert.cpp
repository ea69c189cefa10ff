// clprim convert: ONNX models to JSON nets with weights and back, and weights from one format to another.
#include <filesystem>
#include <fstream>

#include <clprim/net.hpp>
#include <clprim/onnx.hpp>

#include "command.hpp"
#include "options.hpp"

namespace clprim::command {

namespace {

std::string beside(const std::string& path, const ConvertOptions& options)
{
    return options.weights.empty() ? std::filesystem::path(path).replace_extension(".safetensors").string()
                                   : options.weights;
}

void write_text(const std::string& path, const std::string& text)
{
    std::ofstream stream(path, std::ios::binary);
    stream << text;
    stream.flush();
    require(stream.good(), "cannot write ", path);
}

// The parameters of the net that was written.
std::size_t write_model(const ConvertOptions& options, const std::string& weights)
{
    Net net(options.device.empty() ? Context::get(0) : Context::get(std::string_view(options.device)));
    net.load_json_file(options.from);
    net.setup();
    if (!net.parameter_names().empty())
        net.load_parameters(weights);
    write_text(options.to, convert_to_onnx(net));
    return net.parameter_names().size();
}

}  // namespace

void convert(const ConvertOptions& options)
{
    namespace fs = std::filesystem;
    Json report{{"from", options.from}, {"to", options.to}};
    if (fs::path(options.to).extension() == ".json") {
        const ConvertedNet net = convert_to_net(OnnxModel(options.from));
        const std::string weights = beside(options.to, options);
        save_weights(weights, net.weights);
        write_text(options.to, net.json);
        report["weights"] = weights;
        report["parameters"] = net.weights.size();
    } else if (fs::path(options.to).extension() == ".onnx") {
        const std::string weights = beside(options.from, options);
        report["parameters"] = write_model(options, weights);
        report["weights"] = weights;
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

}  // namespace clprim::command
