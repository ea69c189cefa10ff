// What a program tells the library as a whole. Every function may be called from any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class LogLevel { information = 1, warning = 2 };

// Lines that the library has to say (long compilations, CLPRIM_VERBOSE, doubtful models) go to `function` in place of
// stderr, without a newline, from whichever thread has them. An empty function: stderr again.
void set_log(std::function<void(LogLevel, std::string_view line)> function);

// Adds a folder that `clprim prepare` wrote. Its programs are used as they are, on the device and driver that they were
// made for, and nothing is written there. They are machine code: a folder deserves the trust that a library does.
// Throws InvalidArgument where there is none.
void use_programs(const std::filesystem::path& folder);

}  // namespace clprim
CLPRIM_API_END
