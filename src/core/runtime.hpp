// What clprim/runtime.hpp was told, for those who heed it.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include <clprim/runtime.hpp>

namespace clprim::detail {

void log(LogLevel level, std::string_view line);

// Folders of programs made ahead: those of use_programs, before them those of CLPRIM_PROGRAMS.
std::vector<std::filesystem::path> program_folders();

}  // namespace clprim::detail
