// clprim validate: a model's outputs against ONNX Runtime's, through the Python package clprim.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "command.hpp"

namespace clprim::command {

namespace {

struct ValidateOptions {
    std::vector<std::string> arguments;
};

[[noreturn]] void start_python(const ValidateOptions& options)
{
    const char* chosen = std::getenv("CLPRIM_PYTHON");
    std::vector<std::string> words{chosen ? chosen : "python3", "-m", "clprim", "validate"};
    words.insert(words.end(), options.arguments.begin(), options.arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    throw NotSupported(words[0] + " cannot be started (" + std::strerror(errno) +
                       "); CLPRIM_PYTHON names a Python that has the packages clprim and onnxruntime");
}

}  // namespace

void add_validate(CLI::App& app)
{
    const auto options = std::make_shared<ValidateOptions>();
    CLI::App& command = *app.add_subcommand("validate", "compares ONNX models with ONNX Runtime (in Python)");
    command.prefix_command();
    command.footer("Arguments go to `python3 -m clprim validate`; CLPRIM_PYTHON names another Python.");
    command.callback([options, &command] {
        options->arguments = command.remaining();
        start_python(*options);
    });
}

}  // namespace clprim::command
