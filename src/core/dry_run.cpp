#include <core/dry_run.hpp>

#include <fstream>
#include <unordered_map>

#include <fmt/format.h>

#include <clprim/error.hpp>
#include <core/environment.hpp>

namespace clprim::detail {
namespace {

struct Names {
    std::string program;
    std::size_t local_bytes = 0;   // of the launch being prepared
};

// Beside Program and Kernel, which are public and know nothing of this.
struct Log {
    std::mutex mutex;
    std::unordered_map<const Program*, std::string> programs;
    std::unordered_map<const Kernel*, Names> kernels;
    std::ofstream file;
};

Log& log()
{
    static auto* const all = new Log;   // never destroyed: as contexts
    return *all;
}

std::string size(const std::array<std::size_t, 3>& n) { return fmt::format("{}x{}x{}", n[0], n[1], n[2]); }

}  // namespace

bool dry_run()
{
    static const bool value = !environment("CLPRIM_DRY_RUN").empty();
    return value;
}

void name_program(const Program& program, const std::string& stem)
{
    std::lock_guard lock(log().mutex);
    log().programs[&program] = stem;
}

void name_kernel(const Kernel& kernel, const Program& program)
{
    std::lock_guard lock(log().mutex);
    const auto found = log().programs.find(&program);
    // A program that a caller built himself has no dump.
    log().kernels[&kernel] = {found == log().programs.end() ? "-" : found->second};
}

void add_local_argument(const Kernel& kernel, std::size_t bytes)
{
    std::lock_guard lock(log().mutex);
    log().kernels[&kernel].local_bytes += bytes;
}

void log_launch(const Kernel& kernel, const Range& range)
{
    std::lock_guard lock(log().mutex);
    std::ofstream& file = log().file;
    const std::string name = environment("CLPRIM_DRY_RUN");
    if (!file.is_open())
        file.open(name, std::ios::app);
    Names& names = log().kernels[&kernel];
    file << fmt::format("{} {} {} {} {}\n", names.program, kernel.name, size(range.global), size(range.local),
                        names.local_bytes)
         << std::flush;
    names.local_bytes = 0;
    require<Error>(file.good(), "CLPRIM_DRY_RUN: ", name, " cannot be written");
}

}  // namespace clprim::detail
