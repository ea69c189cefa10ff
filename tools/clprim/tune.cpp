// clprim tune: finds the fastest kernels for a model's problems, and carries what was found to other machines.
#include <clprim/tuning.hpp>

#include "model.hpp"

namespace clprim::command {

void tune(const TuneOptions& options)
{
    const Device& device = options.context().device();
    require(!options.source.model.empty() || !options.from.empty() || !options.to.empty(),
            "tune: expected a model, --import or --export");
    Json report{{"device", device.name}};
    if (!options.from.empty())
        report["imported"] = import_tuning(device, options.from);
    if (!options.source.model.empty()) {
        const auto time = [&] { return Model(options.source, options.context()).milliseconds(10); };
        report["before_milliseconds"] = time();
        limit_tuning(options.seconds);
        tune_choices(true);
        time();
        tune_choices(false);
        report["after_milliseconds"] = time();
    }
    if (!options.to.empty())
        report["exported"] = export_tuning(device, options.to);
    report["results"] = tuning_results(device).size();
    if (options.json)
        return print(report);
    std::printf("%s\n", device.name.c_str());
    if (report.contains("before_milliseconds"))
        std::printf("a run took %.3f ms, now %.3f ms\n", report["before_milliseconds"].get<double>(),
                    report["after_milliseconds"].get<double>());
    std::printf("%zu results are known of this device\n", report["results"].get<std::size_t>());
}

}  // namespace clprim::command
