// clprim validate: a model's outputs against ONNX Runtime's, through the Python package clprim.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "command.hpp"
#include "options.hpp"

namespace clprim::command {

void validate(const ValidateOptions& options)
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

}  // namespace clprim::command
