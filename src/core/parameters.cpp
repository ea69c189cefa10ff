#include <core/parameters.hpp>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <clprim/error.hpp>

namespace clprim {
namespace {

std::int64_t number_in(std::string_view text)
{
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc() && end == text.data() + text.size(), "\"", text, "\" is not a whole number");
    return value;
}

std::string names_of(const Space& space)
{
    std::string names;
    for (const Parameter& one : space)
        names += (names.empty() ? "" : ", ") + one.name;
    return names.empty() ? "none" : names;
}

}  // namespace

Point Point::usual(const Space& space)
{
    Point point;
    for (const Parameter& one : space)
        point.values_.emplace_back(one.name, one.usual);
    return point;
}

Point Point::parse(std::string_view text, const Space& space)
{
    Point point = usual(space);
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(':'), text.size());
        const std::string_view item = text.substr(0, end);
        const std::size_t equals = item.find('=');
        require(equals != std::string_view::npos, "expected parameter=value, got \"", item, "\"");
        const std::string_view name = item.substr(0, equals);
        const auto found = std::ranges::find(space, name, &Parameter::name);
        require(found != space.end(), "there is no parameter \"", name, "\", only: ", names_of(space));
        const std::int64_t value = number_in(item.substr(equals + 1));
        require(value == found->usual || std::ranges::find(found->values, value) != found->values.end(), name,
                " cannot be ", value, ", only ", fmt::format("{}", fmt::join(found->values, ", ")));
        point.set(name, value);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return point;
}

std::int64_t Point::at(std::string_view name) const
{
    for (const auto& [one, value] : values_)
        if (one == name)
            return value;
    throw InvalidArgument(fmt::format("no parameter \"{}\" in \"{}\"", name, text()));
}

void Point::set(std::string_view name, std::int64_t value)
{
    for (auto& [one, old] : values_)
        if (one == name) {
            old = value;
            return;
        }
    values_.emplace_back(name, value);
}

std::string Point::text() const
{
    std::string text;
    for (const auto& [name, value] : values_)
        text += fmt::format("{}{}={}", text.empty() ? "" : ":", name, value);
    return text;
}

std::int64_t count_points(const Space& space)
{
    std::int64_t count = 1;
    for (const Parameter& one : space)
        count *= static_cast<std::int64_t>(one.values.size());
    return count;
}

std::vector<Point> every_point(const Space& space)
{
    std::vector<Point> points{Point()};
    for (const Parameter& one : space) {
        std::vector<Point> longer;
        for (const Point& point : points)
            for (const std::int64_t value : one.values) {
                longer.push_back(point);
                longer.back().set(one.name, value);
            }
        points = std::move(longer);
    }
    return points;
}

std::vector<Point> neighbours(const Point& point, const Space& space)
{
    std::vector<Point> near;
    for (const Parameter& one : space) {
        const auto& values = one.values;
        const std::int64_t value = point.at(one.name);
        const auto above = std::ranges::upper_bound(values, value), from = std::ranges::lower_bound(values, value);
        for (const bool up : {false, true}) {
            if (up ? above == values.end() : from == values.begin())
                continue;
            near.push_back(point);
            near.back().set(one.name, up ? *above : *std::prev(from));
        }
    }
    return near;
}

}  // namespace clprim
