#include <core/program_dump.hpp>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include <clprim/error.hpp>
#include <core/environment.hpp>
#include <core/program_cache.hpp>
#include <core/system.hpp>

namespace clprim {
namespace {

namespace fs = std::filesystem;

// Whether this process is the one to build a text.
bool claim(fs::path text) { return detail::create_file(text.replace_extension(".taken")); }

void build(Context& context, const fs::path& file, const std::string& base_options)
{
    std::ifstream in(file, std::ios::binary);
    std::string options;
    std::getline(in, options);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::string start = "// " + base_options;
    require(in.good() || in.eof(), "cannot read ", file.string());
    require(options.starts_with(start), file.string(), " is a program of another device: ", options, " against ",
            start);
    options.erase(0, std::min(options.size(), start.size() + 1));
    context.program_from_text(file.stem().string(), text, options);
}

}  // namespace

std::string dump_program(std::string_view name, const std::string& text, const std::string& options)
{
    std::string stem(name);
    for (char& c : stem)
        if (!std::isalnum(static_cast<unsigned char>(c)))
            c = '_';
    stem += '-' + cache_hash(options + text).substr(0, 8);
    if (const std::string folder = environment("CLPRIM_DUMP_PROGRAMS"); !folder.empty()) {
        std::error_code ignored;
        fs::create_directories(folder, ignored);
        std::ofstream out(fmt::format("{}/{}.cl", folder, stem));
        out << "// " << options << '\n' << text;
    }
    return stem;
}

std::size_t build_dumped_programs(Context& context, const fs::path& folder)
{
    require(fs::is_directory(folder), folder.string(), " is not a folder");
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".cl")
            files.push_back(entry.path());
    keep_all_binaries();
    std::ranges::sort(files, [](auto& a, auto& b) { return fs::file_size(a) > fs::file_size(b); });
    const std::string base = program_base_options(context.device());
    std::size_t built = 0;
    for (const fs::path& file : files) {
        if (!claim(file))
            continue;
        build(context, file, base);
        const std::ofstream mark(fs::path(file).replace_extension(".built"));   // for those who watch
        ++built;
    }
    return built;
}

}  // namespace clprim
