// Results of tuning (CLPRIM_TUNE=1): which implementation, with which parameters, was the fastest for a problem on a
// device. They are kept on disk and used by every later process; here they go to other machines and come from them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <clprim/device.hpp>
#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// From here on, or until it is turned off, problems that are new are tuned at their first use, as by CLPRIM_TUNE=1.
// `clock` gives milliseconds; without it the system's. Safe from any thread.
void tune_choices(bool on, std::function<double()> clock = {});

bool choices_are_tuned();
// The most that tuning spends on one problem beyond its first look at each implementation; 10 s unless
// CLPRIM_TUNE_SECONDS says otherwise. Throws InvalidArgument unless it is positive.
void limit_tuning(double seconds);
double tuning_limit();

// family ("gemm"), problem (all that decides speed, in words), choice ("gpu_tiled:tile=64:slab=16:splits=1"). Problems
// that begin with "~" are classes: sizes of the same power of two.
struct TuningResult {
    std::string family, problem, choice;
};
std::vector<TuningResult> tuning_results(const Device& device);

// Writes all results of a device as JSON, with what identifies the device; returns how many. Throws Error where the
// file cannot be written.
std::size_t export_tuning(const Device& device, const std::filesystem::path& file);

// Keeps the results of a file for a device; returns how many. Throws InvalidArgument, with the file's name, where it
// cannot be read, is no such file, or was made on another device (platform, name and kind must be the same; another
// driver's version is taken unless `exact`).
std::size_t import_tuning(const Device& device, const std::filesystem::path& file, bool exact = false);

}  // namespace clprim
CLPRIM_API_END
