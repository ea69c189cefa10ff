#include "onnx/old_forms.hpp"

#include <algorithm>
#include <cctype>

#include <clprim/error.hpp>
#include <clprim/value.hpp>

namespace clprim::onnx {

namespace {

// "FLOAT" and the like, names of TensorProto's types.
ElementType type_named(std::string name)
{
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == "float")
        return ElementType::float32;
    if (name == "double")
        return ElementType::float64;
    if (name == "bool")
        return ElementType::boolean;
    for (int type = 1; type <= static_cast<int>(ElementType::complex128); ++type)
        if (name_of(static_cast<ElementType>(type)) == name)
            return static_cast<ElementType>(type);
    throw InvalidArgument("Cast: '" + name + "' is no element type");
}

}  // namespace

void renew_attributes(Node& node)
{
    if (!node.domain.empty())
        return;
    Attributes& attributes = node.attributes;
    if (node.op_type == "Cast" && node.opset < 6) {
        if (const auto to = attributes.find("to"); to != attributes.end())
            if (const auto* name = std::get_if<std::string>(&to->second))
                to->second = static_cast<std::int64_t>(type_named(*name));
    } else if (node.op_type == "Concat" && node.opset < 4) {
        attributes.try_emplace("axis", std::int64_t{1});
    } else if (node.op_type == "Upsample" && node.opset < 7) {
        const auto scale = [&](const char* name) {
            const auto found = attributes.find(name);
            const auto* value = found == attributes.end() ? nullptr : std::get_if<float>(&found->second);
            require(value != nullptr, "Upsample '", node.name, "': attribute ", name, " is missing");
            return *value;
        };
        attributes["scales"] = std::vector<float>{1, 1, scale("height_scale"), scale("width_scale")};
        if (const auto mode = attributes.find("mode"); mode != attributes.end())
            if (auto* name = std::get_if<std::string>(&mode->second); name && *name == "bilinear")
                *name = "linear";
    }
}

}  // namespace clprim::onnx
