// What runs in the Python package clprim: validate, a model's outputs against ONNX Runtime's, and conversions to
// shorter numbers.

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "command.hpp"
#include "options.hpp"
#include "processes.hpp"

namespace clprim::command {

void validate(const ValidateOptions& options)
{
    run_in_python("validate", options.arguments);
}

void run_in_python(const std::string& subcommand, const std::vector<std::string>& arguments)
{
    const char* chosen = std::getenv("CLPRIM_PYTHON");
    std::vector<std::string> words{chosen ? chosen : "python3", "-m", "clprim", subcommand};
    words.insert(words.end(), arguments.begin(), arguments.end());
    become(words);
    throw NotSupported(words[0] + " cannot be started (" + std::strerror(errno) +
                       "); CLPRIM_PYTHON names a Python that has the packages clprim, onnx and onnxruntime");
}

}  // namespace clprim::command
