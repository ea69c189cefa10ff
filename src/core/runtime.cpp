#include <core/runtime.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include <clprim/error.hpp>
#include <core/environment.hpp>

namespace clprim {

namespace {

namespace fs = std::filesystem;

// Never destroyed: threads may have something to say at exit.
struct Runtime {
    std::mutex log_mutex, mutex;
    std::shared_ptr<const std::function<void(LogLevel, std::string_view)>> log;
    std::vector<fs::path> folders;
};

std::vector<fs::path> folders_of_environment()
{
    std::vector<fs::path> result;
    const std::string text = environment("CLPRIM_PROGRAMS");
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(':', begin), text.size());
        if (end > begin)
            result.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return result;
}

Runtime& runtime()
{
    static auto* const all = new Runtime{.log_mutex = {}, .mutex = {}, .log = {}, .folders = folders_of_environment()};
    return *all;
}

}  // namespace

namespace detail {

void log(LogLevel level, std::string_view line)
{
    Runtime& all = runtime();
    std::unique_lock lock(all.log_mutex);
    if (const auto function = all.log) {         // which may wait for what another thread with a line to say holds
        lock.unlock();
        return (*function)(level, line);
    }
    fmt::print(stderr, "clprim: {}{}\n", level == LogLevel::warning ? "warning: " : "", line);
    std::fflush(stderr);
}

std::vector<fs::path> program_folders()
{
    Runtime& all = runtime();
    const std::lock_guard lock(all.mutex);
    return all.folders;
}

}  // namespace detail

void set_log(std::function<void(LogLevel, std::string_view)> function)
{
    Runtime& all = runtime();
    const std::lock_guard lock(all.log_mutex);
    all.log = function ? std::make_shared<const std::function<void(LogLevel, std::string_view)>>(std::move(function))
                       : nullptr;
}

void use_programs(const fs::path& folder)
{
    std::error_code error;
    require(fs::is_directory(folder, error), "use_programs: ", folder.string(), " is not a folder");
    const fs::path whole = fs::absolute(folder);
    Runtime& all = runtime();
    const std::lock_guard lock(all.mutex);
    if (std::find(all.folders.begin(), all.folders.end(), whole) == all.folders.end())
        all.folders.push_back(whole);
}

}  // namespace clprim
