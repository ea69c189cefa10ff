// clprim info: what a model is and needs, before it runs.
#include <clprim/onnx.hpp>

#include "command.hpp"
#include "options.hpp"

namespace clprim::command {

namespace {

Json described(const ModelPort& port)
{
    Json shape = nullptr;
    if (port.has_shape) {
        shape = Json::array();
        for (const auto& size : port.shape)
            std::visit([&](const auto& s) { shape.push_back(s); }, size);
    }
    return {{"name", port.name}, {"tensor", port.is_tensor}, {"type", name_of(port.type)}, {"shape", shape}};
}

std::string shape_text(const Json& shape)
{
    if (shape.is_null())
        return "";
    std::string text = " [";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const std::string size = shape[i].is_string() ? shape[i].get<std::string>() : shape[i].dump();
        text += (i ? ", " : "") + (size.empty() ? "?" : size);
    }
    return text + "]";
}

Json document(const OnnxModel& model)
{
    Json result{{"producer", model.producer()}, {"opsets", Json::object()}, {"metadata", model.metadata()},
                {"inputs", Json::array()}, {"outputs", Json::array()}, {"operators", model.operators()},
                {"constant_bytes", model.constant_bytes()}, {"unsupported", Json::object()}};
    for (const auto& [domain, version] : model.opsets())
        result["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
    for (const ModelPort& port : model.inputs())
        result["inputs"].push_back(described(port));
    for (const ModelPort& port : model.outputs())
        result["outputs"].push_back(described(port));
    for (const auto& [name, count] : model.unsupported())
        result["unsupported"][name] = {{"nodes", count}, {"reason", model.unsupported_reason(name)}};
    return result;
}

void show(const Json& info)
{
    std::printf("producer    %s\nopsets     ", info["producer"].get<std::string>().c_str());
    for (const auto& [domain, version] : info["opsets"].items())
        std::printf(" %s %d", domain.c_str(), version.get<int>());
    std::printf("\nconstants   %.1f MiB\n", info["constant_bytes"].get<double>() / (1 << 20));
    for (const char* side : {"inputs", "outputs"})
        for (const Json& port : info[side])
            std::printf("%-11s %s: %s%s%s\n", side, port["name"].get<std::string>().c_str(),
                        port["type"].get<std::string>().c_str(), shape_text(port["shape"]).c_str(),
                        port["tensor"].get<bool>() ? "" : ", a sequence, map or optional");
    std::printf("operators  ");
    for (const auto& [name, count] : info["operators"].items())
        std::printf(" %s (%d)", name.c_str(), count.get<int>());
    std::printf("\n");
    for (const auto& [name, entry] : info["unsupported"].items())
        std::printf("unsupported %s (%d): %s\n", name.c_str(), entry["nodes"].get<int>(),
                    entry["reason"].get<std::string>().c_str());
    if (info["unsupported"].empty())
        std::printf("every operator is supported\n");
}

}  // namespace

void info(const InfoOptions& options)
{
    const Json description = document(OnnxModel(std::filesystem::path(options.model)));
    options.json ? print(description) : show(description);
}

}  // namespace clprim::command
