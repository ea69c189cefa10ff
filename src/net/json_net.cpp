// Nets from and to JSON; docs/net.md describes the format.
#include <filesystem>
#include <fstream>
#include <set>

#include "net/graph.hpp"
#include "net/json.hpp"

namespace clprim {
namespace {

constexpr std::uintmax_t largest_file = std::uintmax_t(256) << 20;

// Fields of an object, with errors that say where it is.
class Fields {
public:
    Fields(const Json& object, std::string where) : object_(object), where_(std::move(where))
    {
        require(object.is_object(), where_, " must be an object");
    }

    const Json* find(const char* name)
    {
        known_.insert(name);
        const auto found = object_.find(name);
        return found == object_.end() || found->is_null() ? nullptr : &*found;
    }
    const Json& at(const char* name)
    {
        const Json* value = find(name);
        require(value != nullptr, where_, ": \"", name, "\" is required");
        return *value;
    }
    std::string text(const char* name, const char* fallback = nullptr)
    {
        const Json* value = fallback ? find(name) : &at(name);
        if (!value)
            return fallback;
        require(value->is_string(), where_, ": \"", name, "\" must be a string");
        return value->get<std::string>();
    }
    std::vector<std::string> texts(const char* name)
    {
        std::vector<std::string> texts;
        if (const Json* value = find(name)) {
            require(value->is_array(), where_, ": \"", name, "\" must be a list of strings");
            for (const Json& entry : *value) {
                require(entry.is_string(), where_, ": \"", name, "\" must be a list of strings");
                texts.push_back(entry.get<std::string>());
            }
        }
        return texts;
    }
    bool boolean(const char* name)
    {
        const Json* value = find(name);
        require(!value || value->is_boolean(), where_, ": \"", name, "\" must be true or false");
        return value && value->get<bool>();
    }
    void finish(std::vector<std::string>& warnings) const
    {
        for (const auto& item : object_.items())
            if (!known_.contains(item.key()))
                warnings.push_back(detail::concat(where_, ": there is no field \"", item.key(), '"'));
    }

private:
    const Json& object_;
    std::string where_;
    std::set<std::string> known_;
};

const Json& list(const Json& value, const char* name)
{
    require(value.is_array(), "net: \"", name, "\" must be a list");
    return value;
}

}  // namespace

void Net::load_json(std::string_view text)
{
    const State& own = alive(state_);
    require(own.values.empty() && own.nodes.empty(), "load_json: the net is not empty");
    const Json json = parse_json(text, "net");
    Net net(queue());   // an invalid description leaves this one empty
    std::vector<std::string>& warnings = net.state_->json_warnings;
    Fields top(json, "net");
    for (const Json& entry : list(top.at("inputs"), "inputs")) {
        Fields input(entry, "net input");
        const std::string name = input.text("name", "data");
        Options shape;
        const Dims dims = Options("{\"shape\":" + input.at("shape").dump() + "}").dims("shape");
        net.add_input(name, {dims, net_data_type(input.text("dtype", "float"))});
        input.finish(warnings);
    }
    for (const Json& entry : list(top.at("operators"), "operators")) {
        Fields node(entry, "net operator");
        const std::string name = node.text("name"), type = node.text("type");
        const Json* options = node.find("options");
        const auto label = [&] { return detail::concat("operator \"", name, "\" (", type, ")"); };
        std::vector<std::string> unknown;
        auto op = with_label(label, [&] {
            Options parsed(options ? options->dump() : "");
            parsed.collect_unknown(&unknown);
            return make_operator(type, parsed);
        });
        for (const std::string& option : unknown)
            warnings.push_back(detail::concat(label(), ": there is no option \"", option, '"'));
        net.add_operator(std::move(op), name, node.texts("inputs"), node.texts("outputs"), node.texts("params"),
                         node.boolean("frozen"));
        node.finish(warnings);
    }
    for (const Json& entry : list(top.at("outputs"), "outputs")) {
        if (entry.is_string()) {
            net.mark_output(entry.get<std::string>());
            continue;
        }
        Fields output(entry, "net output");
        const std::string name = output.text("name");
        net.mark_output(name);
        if (const Json* weight = output.find("loss_weight")) {
            require(weight->is_number(), "net output \"", name, "\": \"loss_weight\" must be a number");
            net.set_loss_weight(name, weight->get<double>());
        }
        output.finish(warnings);
    }
    top.finish(warnings);
    State& s = *net.state_;
    s.mode = alive(state_).mode;
    s.keep_intermediates = alive(state_).keep_intermediates;
    s.fusion = alive(state_).fusion;
    s.lanes = alive(state_).lanes;
    *this = std::move(net);
}

void Net::load_json_file(const std::string& path)
{
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    require(!error, path, ": ", error.message());
    require(size <= largest_file, path, ": ", size, " bytes are too many for a net");
    std::string text(size, '\0');
    std::ifstream file(path, std::ios::binary);
    require(file.read(text.data(), static_cast<std::streamsize>(size)).good(), path, ": cannot be read");
    try {
        load_json(text);
    } catch (const InvalidArgument& invalid) {
        throw InvalidArgument(path + ": " + invalid.what());
    }
}

const std::vector<std::string>& Net::json_warnings() const { return alive(state_).json_warnings; }

std::string Net::to_json() const
{
    const State& s = alive(state_);
    Json json{{"inputs", Json::array()}, {"outputs", Json::array()}, {"operators", Json::array()}};
    for (const NetValue& value : s.values)
        if (value.producer < 0)
            json["inputs"].push_back(
                {{"name", value.name},
                 {"shape", std::vector<std::int64_t>(value.spec.shape.begin(), value.spec.shape.end())},
                 {"dtype", name_of(value.spec.dtype)}});
    for (const std::string& name : s.output_names) {
        const auto weight = s.loss_weights.find(name);
        if (weight == s.loss_weights.end() || weight->second == 0)
            json["outputs"].push_back(name);
        else
            json["outputs"].push_back({{"name", name}, {"loss_weight", weight->second}});
    }
    const auto names = [](const auto& ids, const auto& named) {
        Json list = Json::array();
        for (const int id : ids)
            list.push_back(named[id].name);
        return list;
    };
    for (const NetNode& node : s.nodes) {
        Json entry{{"name", node.name},
                   {"type", node.op->type()},
                   {"inputs", names(node.inputs, s.values)},
                   {"outputs", names(node.outputs, s.values)},
                   {"options", Json::parse(node.op->options().json())}};
        if (!node.parameters.empty())
            entry["params"] = names(node.parameters, s.parameters);
        if (node.frozen)
            entry["frozen"] = true;
        json["operators"].push_back(std::move(entry));
    }
    return json.dump(2);
}

}  // namespace clprim
