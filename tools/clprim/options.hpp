// What the command line says, as each subcommand gets it. The parser's headers are read by options.cpp alone: they take
// longer to compile than everything else here together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <clprim/context.hpp>

#include "images.hpp"

namespace clprim::command {

// Options that every subcommand has.
struct Common {
    std::string device;      // empty: the default one
    bool json = false;       // print one JSON document instead of text
    Context& context() const { return device.empty() ? Context::get(0) : Context::get(std::string_view(device)); }
};

struct ModelSource {
    std::string model, weights;   // weights: of JSON nets
    std::vector<std::string> shapes;   // "name=1,3,224,224"
    std::int64_t batch = 0;       // the first size where it is dynamic (of nets: in any case); 0: 1, or as the net says
    std::string optimization;     // of an ONNX model's nodes; empty: all
};

struct BenchOptions : Common {
    std::vector<std::string> groups;
    std::string dtype = "float32";
    double budget = 0.5, scale = 1;
};

struct RunOptions : Common {
    ModelSource source;
    std::vector<std::string> files;
    std::string labels, output;
    int top = 5;
    bool softmax = false, stretch = false;
    Preparation preparation;
};

struct ProfileOptions : Common {
    ModelSource source;
    int runs = 10;
    bool nodes = false;
    std::string trace;
};

struct TuneOptions : Common {
    ModelSource source;
    double seconds = 10;
    std::string to, from;   // files of results
};

struct PrepareOptions : Common {
    ModelSource source;
    std::string folder;           // where the programs go; empty: MODEL.programs
    int processes = 0;            // 0: as many as there are cores
    bool list = false;            // in the process that runs dry
    std::string build;            // texts to build, in one of the processes that do
};

struct TrainOptions : Common {
    std::string data, net, weights, save, solver = "adam";
    int epochs = 3, batch = 64, size = 64, limit = 0;
    double lr = 1e-3, momentum = 0.9, weight_decay = 0;
    std::uint64_t seed = 0;
};

struct ConvertOptions {
    std::string from, to, weights, device;
    bool json = false;
};

struct InfoOptions {
    std::string model;
    bool json = false;
};

struct ValidateOptions {
    std::vector<std::string> arguments;
};

void list_devices(bool json);
void bench(const BenchOptions& options);
void run(const RunOptions& options);
void profile(const ProfileOptions& options);
void tune(const TuneOptions& options);
void prepare(const PrepareOptions& options);
void train(const TrainOptions& options);
void convert(const ConvertOptions& options);
void info(const InfoOptions& options);
[[noreturn]] void validate(const ValidateOptions& options);
[[noreturn]] void run_in_python(const std::string& subcommand, const std::vector<std::string>& arguments);

}  // namespace clprim::command
