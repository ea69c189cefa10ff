// The command line: subcommands, their options and checks.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "options.hpp"

namespace clprim::command {

namespace {

// A subcommand with the common options.
CLI::App& subcommand(CLI::App& app, const char* name, const char* text, const std::shared_ptr<Common>& common)
{
    CLI::App& result = *app.add_subcommand(name, text);
    result.add_option("-d,--device", common->device, "OpenCL device: an index, \"0:1\", \"gpu\" or part of a name");
    result.add_flag("--json", common->json, "print one JSON document");
    return result;
}

// Checks of options that take a number.
CLI::Validator number_where(bool (*right)(double), const std::string& what)
{
    return CLI::Validator([right, what](std::string& text) {
        double number = 0;
        const bool good = CLI::detail::lexical_cast(text, number) && right(number);
        return good ? std::string() : "expected " + what + ", got " + text;
    }, "");
}
const CLI::Validator positive = number_where([](double x) { return x > 0; }, "a number above 0");
const CLI::Validator not_negative = number_where([](double x) { return x >= 0; }, "0 or a number above");

void add_model_options(CLI::App& command, ModelSource& source, bool required = true)
{
    command.add_option("model", source.model, "an ONNX model or a JSON net")->required(required)
        ->check(CLI::ExistingFile);
    command.add_option("-w,--weights", source.weights, "parameters of a JSON net: .safetensors, .npz or .dlp")
        ->check(CLI::ExistingFile);
    command.add_option("-b,--batch", source.batch, "images at a time")->check(positive);
    command.add_option("--shape", source.shapes, "size of an input with dynamic axes: NAME=1,3,224,224");
    command.add_option("--optimization", source.optimization, "what is done to an ONNX model's nodes (default: all)")
        ->check(CLI::IsMember({"none", "basic", "all"}));
}

void add_devices(CLI::App& app)
{
    CLI::App& command = *app.add_subcommand("devices", "lists OpenCL devices; the first one is the default");
    const auto json = std::make_shared<bool>(false);
    command.add_flag("--json", *json, "print one JSON document");
    command.callback([json] { list_devices(*json); });
}

void add_bench(CLI::App& app)
{
    const auto options = std::make_shared<BenchOptions>();
    CLI::App& command =
        subcommand(app, "bench", "speed of matrix products, convolutions, reductions and memory", options);
    command.add_option("groups", options->groups, "what to measure (default: everything)")
        ->check(CLI::IsMember({"gemm", "conv", "broadcast-reduce", "bandwidth"}));
    command.add_option("--dtype", options->dtype, "element type")->capture_default_str();
    command.add_option("--seconds", options->budget, "how long to measure each")
        ->capture_default_str()
        ->check(positive);
    command.add_option("--scale", options->scale, "size of the arrays of bandwidth, 1 is 2^24 elements")
        ->capture_default_str()->check(positive);
    command.callback([options] { bench(*options); });
}

void add_run(CLI::App& app)
{
    const auto options = std::make_shared<RunOptions>();
    CLI::App& command = subcommand(app, "run", "runs a model on images or NumPy arrays", options);
    add_model_options(command, options->source);
    command
        .add_option("inputs", options->files,
                    "images (PNG, JPEG, WebP, BMP, PPM), or .npy files (NAME=FILE.npy for one input of several)")
        ->required();
    command.add_option("-k,--top", options->top, "classes to print for an image")
        ->capture_default_str()
        ->check(positive);
    command.add_option("--labels", options->labels, "names of the classes, one a line")->check(CLI::ExistingFile);
    command.add_flag("--softmax", options->softmax, "turn scores into probabilities");
    const auto numbers = [&](const char* name, std::vector<float>& target, const char* text) {
        command.add_option(name, target, text)->delimiter(',')->allow_extra_args(false)->capture_default_str();
    };
    numbers("--mean", options->preparation.mean, "subtracted from colours of 0 to 1");
    numbers("--std", options->preparation.deviation, "what they are divided by then");
    command.add_flag("--stretch", options->stretch, "stretch images instead of cutting out the middle");
    command.add_option("-o,--output", options->output, "write the outputs for arrays to an .npz or .safetensors file");
    command.callback([options] { run(*options); });
}

void add_profile(CLI::App& app)
{
    const auto options = std::make_shared<ProfileOptions>();
    CLI::App& command = subcommand(app, "profile", "time of a model by operator, on made-up inputs", options);
    add_model_options(command, options->source);
    command.add_option("-n,--runs", options->runs, "runs to average")->capture_default_str()->check(positive);
    command.add_flag("--nodes", options->nodes, "every node, in the order of the graph");
    command.add_option("--trace", options->trace,
                       "file for a trace of nodes and kernels, for chrome://tracing and Perfetto");
    command.callback([options] { profile(*options); });
}

void add_tune(CLI::App& app)
{
    const auto options = std::make_shared<TuneOptions>();
    CLI::App& command = subcommand(app, "tune", "finds the fastest kernels for a model's problems on this device, once "
                                                "and for every later run", options);
    add_model_options(command, options->source, false);
    command.add_option("--seconds", options->seconds, "the most for one problem")->capture_default_str()
        ->check(CLI::PositiveNumber);
    command.add_option("--import", options->from, "results of a device like this one")->check(CLI::ExistingFile);
    command.add_option("--export", options->to, "file for all results of this device");
    command.callback([options] { tune(*options); });
}

void add_prepare(CLI::App& app)
{
    const auto options = std::make_shared<PrepareOptions>();
    CLI::App& command = subcommand(app, "prepare", "compiles a model's kernels ahead, into a folder that is shipped "
                                                   "with it", options);
    add_model_options(command, options->source, false);
    command.add_option("-o,--output", options->folder, "folder for the programs (default: MODEL.programs)");
    command.add_option("-j,--processes", options->processes, "default: as many as there are cores")->check(positive);
    command.add_flag("--list", options->list)->group("");
    command.add_option("--build", options->build)->group("");
    command.callback([options] { prepare(*options); });
}

void add_train(CLI::App& app)
{
    const auto options = std::make_shared<TrainOptions>();
    CLI::App& command = subcommand(app, "train", "trains a classifier of images", options);
    command
        .add_option("data", options->data,
                    "folder with idx files as MNIST has, or with a folder of images for each class")
        ->required()
        ->check(CLI::ExistingDirectory);
    command.add_option("--net", options->net, "JSON net with inputs for images and labels (default: a small one)")
        ->check(CLI::ExistingFile);
    command.add_option("-w,--weights", options->weights, "parameters to start from")->check(CLI::ExistingFile);
    command.add_option("-o,--save", options->save, "where to write the parameters: .safetensors, .npz or .dlp");
    command.add_option("-e,--epochs", options->epochs, "times through the images")
        ->capture_default_str()
        ->check(not_negative);
    command.add_option("-b,--batch", options->batch, "images a step, for the small net")
        ->capture_default_str()
        ->check(positive);
    command.add_option("--size", options->size, "height and width to which images of folders are resized")
        ->capture_default_str()->check(positive);
    command.add_option("--steps", options->limit, "at most that many steps an epoch");
    command.add_option("--solver", options->solver, "sgd, adam or adamw")->capture_default_str()
        ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
    command.add_option("--lr", options->lr, "learning rate")->capture_default_str();
    command.add_option("--momentum", options->momentum, "of sgd")->capture_default_str();
    command.add_option("--weight-decay", options->weight_decay)->capture_default_str();
    command.add_option("--seed", options->seed, "of parameters and order")->capture_default_str();
    command.callback([options] { train(*options); });
}

void add_convert(CLI::App& app)
{
    const auto options = std::make_shared<ConvertOptions>();
    CLI::App& command =
        *app.add_subcommand("convert", "an ONNX model to a JSON net or back, or weights to another format");
    command.add_option("from", options->from, "an ONNX model, a .json net, or weights: .safetensors, .npz, .npy, .dlp")
        ->required()->check(CLI::ExistingFile);
    command.add_option("to", options->to, "a .json net, an .onnx model, or weights; the extension chooses")->required();
    command.add_option("-w,--weights", options->weights, "the net's weights (default: beside it, .safetensors)");
    command.add_option("-d,--device", options->device, "where a net is set up");
    command.add_flag("--json", options->json, "print one JSON document");
    command.footer("With --int8, --int4 or --fp16 an ONNX model of shorter numbers is written, in Python "
                   "(CLPRIM_PYTHON): `clprim convert --int8 --help` lists the options.");
    command.callback([options] { convert(*options); });
}

void add_info(CLI::App& app)
{
    CLI::App& command =
        *app.add_subcommand("info", "ports, operator sets, operators and constants of an ONNX model, and "
                                    "what of it is not supported; needs no device");
    const auto options = std::make_shared<InfoOptions>();
    command.add_option("model", options->model, "an ONNX model")->required();
    command.add_flag("--json", options->json, "print one JSON document");
    command.callback([options] { info(*options); });
}

void add_validate(CLI::App& app)
{
    const auto options = std::make_shared<ValidateOptions>();
    CLI::App& command = *app.add_subcommand("validate", "compares ONNX models with ONNX Runtime (in Python)");
    command.prefix_command();
    command.footer("Arguments go to `python3 -m clprim validate`; CLPRIM_PYTHON names another Python.");
    command.callback([options, &command] {
        options->arguments = command.remaining();
        validate(*options);
    });
}

}  // namespace

}  // namespace clprim::command

int main(int argc, char** argv)
{
    using namespace clprim::command;
    CLI::App app("Runs, measures and trains neural networks on OpenCL devices.", "clprim");
    app.require_subcommand(1);
    app.set_help_all_flag("--help-all", "help of all subcommands");
    for (const auto add :
         {add_devices, add_bench, add_run, add_profile, add_tune, add_prepare, add_train, add_convert, add_info,
          add_validate})
        add(app);
    const auto all = app.get_subcommands([](const CLI::App*) { return true; });
    const auto known = [&](const std::string& name) {
        return std::ranges::any_of(all, [&](const CLI::App* command) { return command->get_name() == name; });
    };
    if (argc > 1 && argv[1][0] != '-' && !known(argv[1])) {
        std::fprintf(stderr, "clprim: there is no subcommand '%s'; `clprim --help` lists them\n", argv[1]);
        return 1;
    }
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto is_short = [](const std::string& word) {
        return word == "--int8" || word == "--int4" || word == "--fp16";
    };
    try {
        if (!words.empty() && words[0] == "convert" && std::ranges::any_of(words, is_short))
            run_in_python("convert", {words.begin() + 1, words.end()});
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "clprim: %s\n", error.what());
        return 1;
    }
}
