// What the subcommands share: how they join the command line, how they print, progress.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <clprim/context.hpp>

namespace clprim::command {

using Json = nlohmann::ordered_json;

// Options that every subcommand has.
struct Common {
    std::string device;      // empty: the default one
    bool json = false;       // print one JSON document instead of text
    Context& context() const { return device.empty() ? Context::get(0) : Context::get(std::string_view(device)); }
};

// Each adds its options to a subcommand and what to do when it is chosen.
void add_devices(CLI::App& app);
void add_bench(CLI::App& app);
void add_run(CLI::App& app);
void add_profile(CLI::App& app);
void add_train(CLI::App& app);
void add_convert(CLI::App& app);
void add_validate(CLI::App& app);

// A subcommand with the common options; `body` runs after parsing.
CLI::App& subcommand(CLI::App& app, const char* name, const char* text, const std::shared_ptr<Common>& common);

// Checks of options that take a number.
inline CLI::Validator number_where(bool (*right)(double), const std::string& what)
{
    return CLI::Validator([right, what](std::string& text) {
        double number = 0;
        const bool good = CLI::detail::lexical_cast(text, number) && right(number);
        return good ? std::string() : "expected " + what + ", got " + text;
    }, "");
}
inline const CLI::Validator positive = number_where([](double x) { return x > 0; }, "a number above 0");
inline const CLI::Validator not_negative = number_where([](double x) { return x >= 0; }, "0 or a number above");

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
