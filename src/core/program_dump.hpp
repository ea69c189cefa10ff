// Texts of programs as files: CLPRIM_DUMP_PROGRAMS writes them, and what was written can be built ahead of need.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <clprim/context.hpp>

namespace clprim {

// Keeps the text in CLPRIM_DUMP_PROGRAMS, where that is set, with its options in the first line. Returns the file's
// stem, which other texts or options do not share.
std::string dump_program(std::string_view name, const std::string& text, const std::string& options);

// Builds the programs of a folder that dump_program wrote for this device, the longest first, unless the cache on disk
// has them. Processes with the same folder share the work by files beside the texts. Returns how many this one took on.
std::size_t build_dumped_programs(Context& context, const std::filesystem::path& folder);

}  // namespace clprim
