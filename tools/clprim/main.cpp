// clprim: OpenCL deep-learning primitives from the command line.
#include "command.hpp"

int main(int argc, char** argv)
{
    using namespace clprim::command;
    CLI::App app("Runs, measures and trains neural networks on OpenCL devices.", "clprim");
    app.require_subcommand(1);
    app.set_help_all_flag("--help-all", "help of all subcommands");
    for (const auto add : {add_devices, add_bench, add_run, add_profile, add_train, add_convert, add_validate})
        add(app);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "clprim: %s\n", error.what());
        return 1;
    }
}
