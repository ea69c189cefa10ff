// clprim profile: where the time of a model goes.
#include <algorithm>
#include <fstream>
#include <map>

#include "model.hpp"

namespace clprim::command {

void profile(const ProfileOptions& options)
{
    const double whole = [&] {
        Model plain(options.source, options.context());
        return plain.milliseconds(options.runs);
    }();
    Model model(options.source, options.context(), true);
    std::vector<ModelTime> times = model.profile(options.runs);
    if (!options.trace.empty()) {
        std::ofstream file(options.trace);
        file << model.trace();
        require(static_cast<bool>(file.flush()), "cannot write '", options.trace, "'");
    }
    double total = 0;
    for (const ModelTime& time : times)
        total += time.milliseconds;
    if (!options.nodes) {        // nodes of one operator together
        std::map<std::string, std::pair<double, int>> by_type;
        for (const ModelTime& time : times) {
            by_type[time.type].first += time.milliseconds;
            ++by_type[time.type].second;
        }
        times.clear();
        for (const auto& [type, sum] : by_type)
            times.push_back({std::to_string(sum.second) + (sum.second == 1 ? " node" : " nodes"), type, sum.first});
        std::ranges::sort(times, std::greater(), &ModelTime::milliseconds);
    }
    if (options.json) {
        Json rows = Json::array();
        for (const ModelTime& time : times)
            rows.push_back({{"operator", time.type}, {options.nodes ? "node" : "nodes", time.name},
                            {"milliseconds", time.milliseconds}});
        return print({{"device", model.queue().device().name}, {"run_milliseconds", whole},
                      {"sum_milliseconds", total}, {"operators", rows}});
    }
    std::printf("%s\none run: %.3f ms; sum of its operators: %.3f ms\n", model.queue().device().name.c_str(), whole,
                total);
    for (const ModelTime& time : times)
        std::printf("%10.3f ms %5.1f %%  %-24s %s\n", time.milliseconds,
                    total > 0 ? 100 * time.milliseconds / total : 0.0, time.type.c_str(), time.name.c_str());
}

}  // namespace clprim::command
