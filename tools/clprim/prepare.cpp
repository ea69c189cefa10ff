// clprim prepare: a folder of compiled programs that is shipped with a model. Drivers compile one program at a time
// in a process, so one process says what the model needs, without building anything, and several others build that.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include <clprim.h>

#include "model.hpp"
#include "processes.hpp"

namespace clprim::command {

namespace {

namespace fs = std::filesystem;

// `clprim prepare` again, with other arguments.
Process start(std::vector<std::string> arguments, const Process::Variables& variables)
{
    arguments.insert(arguments.begin(), "prepare");
    return {std::move(arguments), variables};
}

std::vector<fs::path> files_with(const fs::path& folder, const char* extension)
{
    std::vector<fs::path> result;
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == extension)
            result.push_back(entry.path());
    return result;
}

// Runs that come one after another may use other kernels: recordings copy what they are given.
void run_often(const PrepareOptions& options)
{
    Model model(options.source, options.context());
    std::mt19937 random(1);
    std::map<std::string, Value> inputs;
    for (const std::string& name : model.input_names())
        inputs[name] = model.random_input(name, random);
    for (int i = 0; i < 3; ++i)
        model.run(inputs);
    model.queue().finish();
}

std::vector<std::string> model_arguments(const PrepareOptions& options)
{
    std::vector<std::string> result{options.source.model};
    if (!options.source.weights.empty())
        result.insert(result.end(), {"--weights", options.source.weights});
    if (options.source.batch)
        result.insert(result.end(), {"--batch", std::to_string(options.source.batch)});
    if (!options.source.optimization.empty())
        result.insert(result.end(), {"--optimization", options.source.optimization});
    for (const std::string& shape : options.source.shapes)
        result.insert(result.end(), {"--shape", shape});
    if (!options.device.empty())
        result.insert(result.end(), {"--device", options.device});
    result.push_back("--list");
    return result;
}

// Has several processes build what `texts` holds, or says that none could.
void build(const PrepareOptions& options, const fs::path& texts, const fs::path& folder)
{
    const std::size_t count = files_with(texts, ".cl").size();
    std::size_t processes = options.processes > 0 ? static_cast<std::size_t>(options.processes)
                                                  : std::max(1u, std::thread::hardware_concurrency());
    processes = std::min(processes, std::max<std::size_t>(count, 1));
    std::vector<std::string> arguments{"--build", texts.string()};
    if (!options.device.empty())
        arguments.insert(arguments.end(), {"--device", options.device});
    std::vector<Process> workers;
    for (std::size_t i = 0; i < processes; ++i)
        workers.push_back(start(arguments, {{"CLPRIM_CACHE_DIR", folder.string()}, {"CLPRIM_PROGRESS", "0"}}));
    bool all = true;
    for (Process& worker : workers)
        all = worker.succeeds() && all;
    require<Error>(all, "building failed; the error is above");
}

}  // namespace

void prepare(const PrepareOptions& options)
{
    if (!options.build.empty()) {
        const std::string device = options.context().device().id;
        std::size_t built = 0;
        require<Error>(clprim_build_programs(device.c_str(), options.build.c_str(), &built) == CLPRIM_OK,
                       clprim_last_error());
        return;
    }
    require(!options.source.model.empty(), "a model is missing");
    if (options.list)
        return run_often(options);
    const fs::path folder =
        fs::absolute(options.folder.empty() ? options.source.model + ".programs" : options.folder);
    fs::create_directories(folder);
    const auto begin = std::chrono::steady_clock::now();
    const ScratchFolder scratch;
    const std::vector<std::string> arguments = model_arguments(options);
    const bool listed = start(arguments, {{"CLPRIM_DRY_RUN", (scratch.path / "launches").string()},
                                          {"CLPRIM_DUMP_PROGRAMS", scratch.path.string()}}).succeeds();
    if (listed)
        build(options, scratch.path, folder);
    // A run that counts also finds what a dry one cannot: shapes that depend on data.
    require<Error>(start(arguments, {{"CLPRIM_CACHE_DIR", folder.string()},
                                     {"CLPRIM_KEEP_BINARIES", "1"},
                                     {"CLPRIM_PROGRESS", "0"}}).succeeds(),
                   "the model does not run; the error is above");
    for (const fs::path& lock : files_with(folder, ".lock"))
        fs::remove(lock);
    std::uintmax_t bytes = 0;
    const std::vector<fs::path> programs = files_with(folder, ".bin");
    for (const fs::path& file : programs)
        bytes += fs::file_size(file);
    const double seconds = seconds_since(begin);
    if (options.json)
        return print({{"folder", folder.string()}, {"programs", programs.size()}, {"bytes", bytes},
                      {"seconds", seconds}});
    std::printf("%zu programs, %.1f MiB, in %s after %.1f s\n", programs.size(), static_cast<double>(bytes) / (1 << 20),
                folder.string().c_str(), seconds);
}

}  // namespace clprim::command
