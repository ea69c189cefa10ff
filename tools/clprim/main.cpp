// clprim: OpenCL deep-learning primitives from the command line.
#include <algorithm>

#include "command.hpp"

int main(int argc, char** argv)
{
    using namespace clprim::command;
    CLI::App app("Runs, measures and trains neural networks on OpenCL devices.", "clprim");
    app.require_subcommand(1);
    app.set_help_all_flag("--help-all", "help of all subcommands");
    for (const auto add : {add_devices, add_bench, add_run, add_profile, add_train, add_convert, add_validate})
        add(app);
    const auto all = app.get_subcommands([](const CLI::App*) { return true; });
    const auto known = [&](const std::string& name) {
        return std::ranges::any_of(all, [&](const CLI::App* command) { return command->get_name() == name; });
    };
    if (argc > 1 && argv[1][0] != '-' && !known(argv[1])) {
        std::fprintf(stderr, "clprim: there is no subcommand '%s'; `clprim --help` lists them\n", argv[1]);
        return 1;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "clprim: %s\n", error.what());
        return 1;
    }
}
