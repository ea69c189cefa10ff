#include <runtime/forms.hpp>

namespace torch_ocl::detail {

std::optional<std::string> overload_beside(const std::string& name, const std::string& out_overload)
{
    const auto exists = [&](const std::string& overload) {
        return c10::Dispatcher::singleton().findSchema({"aten::" + name, overload}).has_value();
    };
    constexpr std::string_view ending = "_out";
    const bool named = out_overload.size() > ending.size() && out_overload.ends_with(ending);
    const std::string of_tensors = named ? out_overload.substr(0, out_overload.size() - ending.size()) : "Tensor";
    if (exists(of_tensors))
        return name + "." + of_tensors;
    if (!named && exists(""))
        return name;
    return std::nullopt;
}

}  // namespace torch_ocl::detail
