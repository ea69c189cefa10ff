#include "processes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <random>

#ifdef _WIN32
#include <io.h>
#include <process.h>
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif
extern char** environ;
#endif

#include <clprim/error.hpp>

namespace clprim::command {

namespace fs = std::filesystem;

namespace {

// The environment, with some variables set anew, as NAME=value.
std::vector<std::string> environment_with(const Process::Variables& variables)
{
#ifdef _WIN32
    char** const all = _environ;
#else
    char** const all = environ;
#endif
    std::vector<std::string> result;
    for (const auto& [name, value] : variables)
        result.push_back(name + "=" + value);
    for (char** entry = all; *entry; ++entry) {
        const std::string text = *entry;
        if (std::ranges::none_of(variables, [&](const auto& v) { return text.starts_with(v.first + "="); }))
            result.push_back(text);
    }
    return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts)
{
    std::vector<char*> result;
    for (std::string& text : texts)
        result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

std::string this_program()
{
#ifdef _WIN32
    std::string path(32768, '\0');
    path.resize(GetModuleFileNameA(nullptr, path.data(), static_cast<DWORD>(path.size())));
    return path;
#elif defined(__APPLE__)
    std::string path(4096, '\0');
    auto size = static_cast<std::uint32_t>(path.size());
    require<Error>(_NSGetExecutablePath(path.data(), &size) == 0, "cannot find this command's file");
    return path.c_str();
#else
    return "/proc/self/exe";
#endif
}

#ifdef _WIN32
// A process gets one line, which its C library takes apart: quotation marks keep spaces, backslashes before them count
// twice (Microsoft's "Parsing C command-line arguments").
std::string quoted(const std::string& argument)
{
    std::string result = "\"";
    std::size_t backslashes = 0;
    for (const char c : argument) {
        backslashes = c == '\\' ? backslashes + 1 : 0;
        if (c == '"')
            result += std::string(std::exchange(backslashes, 0) + 1, '\\');
        result += c;
    }
    return result + std::string(backslashes, '\\') + "\"";
}
#endif

}  // namespace

bool is_terminal(std::FILE* stream)
{
#ifdef _WIN32
    return _isatty(_fileno(stream));
#else
    return isatty(fileno(stream));
#endif
}

Process::Process(std::vector<std::string> arguments, const Variables& variables)
{
    std::vector<std::string> settings = environment_with(variables);
    const std::string program = this_program();
    arguments.insert(arguments.begin(), "clprim");
#ifdef _WIN32
    std::ranges::transform(arguments, arguments.begin(), quoted);
    id_ = _spawnve(_P_NOWAIT, program.c_str(), pointers_to(arguments).data(), pointers_to(settings).data());
    const bool started = id_ != -1;
#else
    pid_t process = 0;
    const bool started = ::posix_spawn(&process, program.c_str(), nullptr, nullptr, pointers_to(arguments).data(),
                                       pointers_to(settings).data()) == 0;
    id_ = process;
#endif
    require<Error>(started, "cannot start another process of this command");
}

bool Process::succeeds()
{
    int status = 0;
#ifdef _WIN32
    return _cwait(&status, id_, 0) != -1 && status == 0;
#else
    while (::waitpid(static_cast<pid_t>(id_), &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
#endif
}

void become(std::vector<std::string> command)
{
    const std::string program = command[0];
#ifdef _WIN32
    std::ranges::transform(command, command.begin(), quoted);
    if (const auto status = _spawnvp(_P_WAIT, program.c_str(), pointers_to(command).data()); status != -1)
        std::exit(static_cast<int>(status));
#else
    execvp(program.c_str(), pointers_to(command).data());
#endif
}

ScratchFolder::ScratchFolder()
{
    std::random_device random;
    bool made = false;
    for (int tries = 0; tries < 100 && !made; ++tries) {
        path = fs::temp_directory_path() / ("clprim-" + std::to_string(random()));
        made = fs::create_directory(path);
    }
    require<Error>(made, "cannot make a folder like ", path.string());
    fs::permissions(path, fs::perms::owner_all);
}

ScratchFolder::~ScratchFolder()
{
    std::error_code ignored;
    fs::remove_all(path, ignored);
}

}  // namespace clprim::command
