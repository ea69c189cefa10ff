#include <cmath>

#include <clprim/operator.hpp>

#include "core/alive.hpp"
#include "net/json.hpp"

namespace clprim {

Json parse_json(std::string_view text, std::string_view what)
{
    // Brackets first: the parser itself copes with any depth, but what handles the value afterwards recurses.
    constexpr int deepest = 200;
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted && c == '\\')
            ++i;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{'))
            require(++depth <= deepest, what, ": JSON nested deeper than ", deepest, " levels");
        else if (!quoted && (c == ']' || c == '}'))
            --depth;
    }
    try {
        return Json::parse(text);
    } catch (const nlohmann::json::exception& error) {
        throw InvalidArgument(detail::concat(what, ": ", error.what()));
    }
}

struct Options::State {
    Json json = Json::object();
    std::vector<std::string>* unknown = nullptr;

    const Json& at(std::string_view name) const
    {
        const auto found = json.find(std::string(name));
        require(found != json.end(), "option \"", name, "\" is required");
        return *found;
    }
};

namespace {

std::int64_t to_integer(const Json& value, std::string_view name)
{
    if (value.is_number_unsigned()) {
        require(value.get<std::uint64_t>() <= std::uint64_t(INT64_MAX), "option \"", name, "\" is out of range: ",
                value.dump());
        return value.get<std::int64_t>();
    }
    if (value.is_number_float()) {
        const double number = value.get<double>();
        if (number == std::floor(number) && std::abs(number) < 1e15)
            return static_cast<std::int64_t>(number);
    }
    require(value.is_number_integer(), "option \"", name, "\" must be an integer, got ", value.dump());
    return value.get<std::int64_t>();
}

}  // namespace

namespace {

template <class State>
State& alive(const std::unique_ptr<State>& state)
{
    return detail::alive(state, "Options");
}

}  // namespace

Options::Options() : state_(std::make_unique<State>()) {}
Options::Options(std::string_view json) : Options()
{
    if (json.empty())
        return;
    alive(state_).json = parse_json(json, "options");
    require(alive(state_).json.is_object(), "options must be a JSON object, got ", alive(state_).json.dump());
}
Options::Options(const Options& other) : state_(std::make_unique<State>(alive(other.state_))) {}
Options::Options(Options&& other) noexcept = default;
Options& Options::operator=(Options other) noexcept
{
    state_.swap(other.state_);
    return *this;
}
Options::~Options() = default;

bool Options::has(std::string_view name) const { return alive(state_).json.contains(std::string(name)); }

std::vector<std::string> Options::names() const
{
    std::vector<std::string> names;
    for (const auto& item : alive(state_).json.items())
        names.push_back(item.key());
    return names;
}

std::int64_t Options::integer(std::string_view name) const { return to_integer(alive(state_).at(name), name); }

double Options::number(std::string_view name) const
{
    const Json& value = alive(state_).at(name);
    require(value.is_number(), "option \"", name, "\" must be a number, got ", value.dump());
    return value.get<double>();
}

bool Options::boolean(std::string_view name) const
{
    const Json& value = alive(state_).at(name);
    if (value.is_number_integer())
        return to_integer(value, name) != 0;
    require(value.is_boolean(), "option \"", name, "\" must be true or false, got ", value.dump());
    return value.get<bool>();
}

std::string Options::text(std::string_view name) const
{
    const Json& value = alive(state_).at(name);
    require(value.is_string(), "option \"", name, "\" must be a string, got ", value.dump());
    return value.get<std::string>();
}

Dims Options::dims(std::string_view name) const
{
    const Json& value = alive(state_).at(name);
    if (!value.is_array())
        return Dims{to_integer(value, name)};
    Dims dims;
    for (const Json& entry : value)
        dims.push_back(to_integer(entry, name));
    return dims;
}

std::vector<double> Options::numbers(std::string_view name) const
{
    const Json& value = alive(state_).at(name);
    require(value.is_array(), "option \"", name, "\" must be a list of numbers, got ", value.dump());
    std::vector<double> numbers;
    for (const Json& entry : value) {
        require(entry.is_number(), "option \"", name, "\" must be a list of numbers, got ", value.dump());
        numbers.push_back(entry.get<double>());
    }
    return numbers;
}

Options& Options::set(std::string_view name, std::int64_t value)
{
    alive(state_).json[std::string(name)] = value;
    return *this;
}
Options& Options::set(std::string_view name, double value)
{
    alive(state_).json[std::string(name)] = value;
    return *this;
}
Options& Options::set(std::string_view name, bool value)
{
    alive(state_).json[std::string(name)] = value;
    return *this;
}
Options& Options::set(std::string_view name, std::string_view value)
{
    alive(state_).json[std::string(name)] = std::string(value);
    return *this;
}
Options& Options::set(std::string_view name, const Dims& value)
{
    alive(state_).json[std::string(name)] = std::vector<std::int64_t>(value.begin(), value.end());
    return *this;
}
Options& Options::set(std::string_view name, std::span<const double> value)
{
    alive(state_).json[std::string(name)] = std::vector<double>(value.begin(), value.end());
    return *this;
}

std::string Options::json() const { return alive(state_).json.dump(); }

void Options::collect_unknown(std::vector<std::string>* names) { alive(state_).unknown = names; }

void Options::report_unknown(const std::string& name) const
{
    require(alive(state_).unknown != nullptr, "there is no option \"", name, "\"");
    alive(state_).unknown->push_back(name);
}

}  // namespace clprim
