#include <fstream>
#include <set>
#include <sstream>

#include <clprim/error.hpp>
#include <clprim/program.hpp>
#include <core/embedded_sources.hpp>
#include <core/environment.hpp>
#include <core/program_cache.hpp>

namespace clprim {
namespace {

std::string read_source(const std::string& path)
{
    if (const std::string folder = environment("CLPRIM_KERNEL_PATH"); !folder.empty()) {
        std::ifstream in(folder + "/" + path, std::ios::binary);
        require(in.good(), "kernel source '", path, "' is not in CLPRIM_KERNEL_PATH=", folder);
        std::ostringstream text;
        text << in.rdbuf();
        return text.str();
    }
    for (const auto* source = detail::embedded_sources; source->path; ++source)
        if (path == source->path)
            return source->text;
    throw InvalidArgument("there is no kernel source named '" + path + "'");
}

// The path in a line `#include "path"`, else empty.
std::string included_path(const std::string& line)
{
    constexpr std::string_view directive = "#include \"";
    if (line.rfind(directive, 0) != 0)
        return {};
    const auto end = line.find('"', directive.size());
    return end == std::string::npos ? std::string() : line.substr(directive.size(), end - directive.size());
}

void append_text(const std::string& text, std::set<std::string>& seen, std::string& result)
{
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        if (const std::string other = included_path(line); other.empty())
            result += line + '\n';
        else if (seen.insert(other).second)
            append_text(read_source(other), seen, result);
    }
}

}  // namespace

std::string kernel_source(std::string_view path)
{
    std::string result;
    std::set<std::string> seen{std::string(path)};
    append_text(read_source(std::string(path)), seen, result);
    return result;
}

std::string expanded_source(std::string_view text)
{
    std::string result;
    std::set<std::string> seen;
    append_text(std::string(text), seen, result);
    return result;
}

}  // namespace clprim
