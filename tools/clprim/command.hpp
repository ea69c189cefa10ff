// What the subcommands share: how they print, progress.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include <clprim/context.hpp>

namespace clprim::command {

using Json = nlohmann::ordered_json;

inline void print(const Json& document) { std::printf("%s\n", document.dump(2).c_str()); }

double seconds_since(std::chrono::steady_clock::time_point begin);

// A bar on the terminal; silent where stderr is none.
class Progress {
public:
    Progress(std::string title, std::size_t total);
    ~Progress();
    void step(const std::string& note = {});

private:
    std::string title_;
    std::size_t total_, done_ = 0;
    bool visible_;
};

}  // namespace clprim::command
