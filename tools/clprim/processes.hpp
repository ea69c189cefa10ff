// What the command asks of the operating system: further processes of itself, terminals, folders that go away.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace clprim::command {

bool is_terminal(std::FILE* stream);

// This command again, with other arguments and these environment variables more. Throws Error if it cannot be started.
class Process {
public:
    using Variables = std::vector<std::pair<std::string, std::string>>;

    Process(std::vector<std::string> arguments, const Variables& variables);
    bool succeeds();   // waits for its end, once

private:
    std::intptr_t id_ = 0;
};

// Goes on as another program, which is looked for in PATH; returns, with errno set, only if it cannot be started.
void become(std::vector<std::string> command);

// A folder of temporary files, gone with this.
class ScratchFolder {
public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    std::filesystem::path path;
};

}  // namespace clprim::command
