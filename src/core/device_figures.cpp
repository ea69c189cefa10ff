#include <core/device_figures.hpp>

#include <charconv>
#include <map>

#include <fmt/format.h>

#include <clprim/error.hpp>

namespace clprim::detail {
namespace {

[[noreturn]] void refuse(std::string_view what)
{
    throw InvalidArgument(fmt::format("CLPRIM_DEVICE_FIGURES: {}", what));
}

std::vector<std::string_view> parts(std::string_view text, char separator)
{
    std::vector<std::string_view> result;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(separator, at), text.size());
        result.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return result;
}

std::size_t number(std::string_view key, std::string_view value)
{
    std::size_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result == 0)
        refuse(fmt::format("{} takes a positive whole number, got '{}'", key, value));
    return result;
}

bool flag(std::string_view key, std::string_view value)
{
    if (value != "0" && value != "1")
        refuse(fmt::format("{} takes 0 or 1, got '{}'", key, value));
    return value == "1";
}

using Setter = void (*)(Device&, std::string_view key, std::string_view value);

template <auto Member>
void set_number(Device& device, std::string_view key, std::string_view value)
{
    device.*Member = static_cast<std::remove_reference_t<decltype(device.*Member)>>(number(key, value));
}

template <bool Device::*Member>
void set_flag(Device& device, std::string_view key, std::string_view value)
{
    device.*Member = flag(key, value);
}

template <std::string Device::*Member>
void set_text(Device& device, std::string_view, std::string_view value)
{
    device.*Member = value;
}

void set_sub_group_sizes(Device& device, std::string_view key, std::string_view value)
{
    device.sub_group_sizes.clear();
    if (!value.empty())
        for (const std::string_view size : parts(value, ':'))
            device.sub_group_sizes.push_back(number(key, size));
}

// All of them: what the driver's own device has says nothing about another one.
void set_extensions(Device& device, std::string_view, std::string_view value)
{
    device.extensions.clear();
    if (!value.empty())
        for (const std::string_view name : parts(value, ':'))
            device.extensions.emplace_back(name);
}

void set_c_standard(Device& device, std::string_view key, std::string_view value)
{
    if (value != "CL1.2" && value != "CL2.0" && value != "CL3.0")
        refuse(fmt::format("{} takes CL1.2, CL2.0 or CL3.0, got '{}'", key, value));
    device.c_standard = value;
}

const std::map<std::string_view, Setter>& setters()
{
    static const auto* const all = new std::map<std::string_view, Setter>{
        {"vendor", set_text<&Device::vendor>},
        {"name", set_text<&Device::name>},
        {"c_standard", set_c_standard},
        {"compute_units", set_number<&Device::compute_units>},
        {"local_memory", set_number<&Device::local_memory>},
        {"global_cache", set_number<&Device::global_cache>},
        {"max_work_group_size", set_number<&Device::max_work_group_size>},
        {"native_float_lanes", set_number<&Device::native_float_lanes>},
        {"sub_groups", set_flag<&Device::sub_groups>},
        {"sub_group_sizes", set_sub_group_sizes},
        {"fp64", set_flag<&Device::fp64>},
        {"fp16", set_flag<&Device::fp16>},
        {"int64_atomics", set_flag<&Device::int64_atomics>},
        {"extensions", set_extensions},
    };
    return *all;
}

}  // namespace

void apply_device_figures(Device& device, std::string_view text)
{
    if (text.empty())
        return;
    Device result = device;
    for (const std::string_view figure : parts(text, ',')) {
        const std::size_t equals = figure.find('=');
        if (equals == std::string_view::npos)
            refuse(fmt::format("expected figures as compute_units=60, separated by commas, got '{}'", figure));
        const std::string_view key = figure.substr(0, equals);
        const auto found = setters().find(key);
        if (found == setters().end()) {
            std::string known;
            for (const auto& [name, setter] : setters())
                known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
            refuse(fmt::format("there is no figure '{}'; there are {}", key, known));
        }
        found->second(result, key, figure.substr(equals + 1));
    }
    device = std::move(result);
}

}  // namespace clprim::detail
