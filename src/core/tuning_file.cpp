#include <clprim/tuning.hpp>

#include <fstream>

#include <nlohmann/json.hpp>

#include <clprim/error.hpp>
#include <core/choose.hpp>
#include <core/tuning_store.hpp>

namespace clprim {
namespace {

using Json = nlohmann::json;
constexpr const char* format = "clprim tuning results";

Json description(const Device& device)
{
    return {{"platform", device.platform_name},
            {"name", device.name},
            {"driver", device.driver_version},
            {"kind", device.kind == DeviceKind::cpu ? "cpu" : "gpu"}};
}

}  // namespace

std::vector<TuningResult> tuning_results(const Device& device)
{
    std::vector<TuningResult> results;
    for (const auto& [key, choice] : TuningStore::of(device).results())
        results.push_back({key.first, key.second, choice});
    return results;
}

std::size_t export_tuning(const Device& device, const std::filesystem::path& file)
{
    Json results = Json::array();
    for (const TuningResult& one : tuning_results(device))
        results.push_back({{"family", one.family}, {"problem", one.problem}, {"choice", one.choice}});
    const std::size_t count = results.size();
    std::ofstream out(file);
    out << Json{{"format", format}, {"version", 1}, {"device", description(device)}, {"results", std::move(results)}}
               .dump(1)
        << '\n';
    require<Error>(static_cast<bool>(out.flush()), "tuning results: cannot write ", file.string());
    return count;
}

std::size_t import_tuning(const Device& device, const std::filesystem::path& file, bool exact)
{
    std::ifstream in(file);
    require(static_cast<bool>(in), "tuning results: cannot read ", file.string());
    const Json content = Json::parse(in, nullptr, false);
    const auto text = [](const Json& object, const char* name) {
        return object.is_object() && object.contains(name) && object[name].is_string()
                   ? object[name].get<std::string>()
                   : std::string();
    };
    require(!content.is_discarded() && text(content, "format") == format && content.contains("device") &&
                content.contains("results") && content["results"].is_array() && content.value("version", Json()) == 1,
            "tuning results: ", file.string(), " is not a file of them, or is damaged");
    const Json here = description(device);
    for (const char* name : {"platform", "name", "kind", "driver"}) {
        if (!exact && std::string_view(name) == "driver")
            continue;
        require(text(content["device"], name) == text(here, name), "tuning results: ", file.string(),
                " was made on another device: its ", name, " is \"", text(content["device"], name), "\", here it is \"",
                text(here, name), "\"");
    }
    for (const Json& result : content["results"])   // all or nothing
        require(!text(result, "family").empty() && !text(result, "problem").empty() && !text(result, "choice").empty(),
                "tuning results: ", file.string(), " is damaged: an entry lacks family, problem or choice");
    for (const Json& result : content["results"])
        TuningStore::of(device).keep(text(result, "family"), text(result, "problem"), text(result, "choice"));
    reconsider_choices();
    return content["results"].size();
}

}  // namespace clprim
