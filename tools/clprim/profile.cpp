// clprim profile: where the time of a model goes.
#include <algorithm>
#include <fstream>
#include <map>

#include "model.hpp"

namespace clprim::command {

namespace {

// Milliseconds of a run that is waited for at its end only, the median.
double whole_run(Model& model, int runs)
{
    std::mt19937 random(0);
    std::map<std::string, Value> inputs;
    for (const std::string& name : model.input_names())
        inputs[name] = model.random_input(name, random);
    model.run(inputs);
    model.queue().finish();
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        model.run(inputs);
        model.queue().finish();
        times.push_back(seconds_since(begin) * 1e3);
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
}

}  // namespace

void profile(const ProfileOptions& options)
{
    const double whole = [&] {
        Model plain(options.source, options.context());
        return whole_run(plain, options.runs);
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
