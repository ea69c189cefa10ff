#include <core/choose.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <core/environment.hpp>
#include <core/tuning_store.hpp>

namespace clprim {
namespace {

double steady_milliseconds()
{
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Settings {
    std::atomic<bool> tune{false};
    bool verbose = false;
    std::mutex mutex;                                        // guards what follows
    std::function<double()> clock = steady_milliseconds;
    std::map<std::string, std::string, std::less<>> preferred;   // family -> name
    std::atomic<bool> plain{true};

    Settings()
    {
        tune = environment("CLPRIM_TUNE") == "1";
        verbose = !environment("CLPRIM_VERBOSE").empty() && environment("CLPRIM_VERBOSE") != "0";
        const std::string text = environment("CLPRIM_IMPLEMENTATION");
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find(',', begin), text.size());
            const std::string item = text.substr(begin, end - begin);
            const std::size_t equals = item.find('=');
            require(equals != std::string::npos, "CLPRIM_IMPLEMENTATION: expected family=name, got \"", item, "\"");
            preferred[item.substr(0, equals)] = item.substr(equals + 1);
            begin = end + 1;
        }
        update();
    }
    void update() { plain = !tune && !verbose && preferred.empty(); }
};

Settings& settings()
{
    static Settings instance;
    return instance;
}

std::string preferred_name(std::string_view family)
{
    std::lock_guard lock(settings().mutex);
    const auto found = settings().preferred.find(family);
    return found == settings().preferred.end() ? std::string() : found->second;
}

std::optional<std::size_t> find_name(std::span<const Candidate> candidates, std::string_view name)
{
    const auto found = std::ranges::find(candidates, name, &Candidate::name);
    if (found == candidates.end())
        return std::nullopt;
    return static_cast<std::size_t>(found - candidates.begin());
}

std::string reasons(std::span<const Candidate> candidates)
{
    std::string text;
    for (const Candidate& one : candidates)
        if (const Rejection& reason = one.rejection ? one.rejection : one.advice)
            text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", one.name, *reason);
    return text;
}

// The best of a few runs after one that builds programs and warms caches.
double milliseconds(Queue& queue, const std::function<double()>& clock, const std::function<void()>& run)
{
    run();
    queue.finish();
    double best = std::numeric_limits<double>::infinity(), total = 0;
    for (int i = 0; i < 5 && total < 200; ++i) {
        const double start = clock();
        run();
        queue.finish();
        const double ms = clock() - start;
        best = std::min(best, ms);
        total += ms;
    }
    return best;
}

struct Choice {
    std::size_t index;
    std::string why;
};

Choice tuned(std::string_view family, const std::string& problem, std::span<const Candidate> candidates, Queue& queue,
             const std::function<void(std::size_t)>& trial)
{
    // A result holds while the same candidates compete.
    std::string entry = problem + " among";
    for (const Candidate& one : candidates)
        if (!one.rejection && one.tune)
            entry += fmt::format(" {}", one.name);
    TuningStore& store = TuningStore::of(queue.device());
    if (const auto name = store.find(family, entry))
        if (const auto index = find_name(candidates, *name); index && !candidates[*index].rejection)
            return {*index, "tuned before"};
    Choice best{candidates.size(), "tuned:"};
    double best_ms = std::numeric_limits<double>::infinity();
    std::function<double()> clock;
    {
        std::lock_guard lock(settings().mutex);
        clock = settings().clock;
    }
    queue.finish();   // work enqueued before is not a candidate's, nor are its errors
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (candidates[i].rejection || !candidates[i].tune)
            continue;
        double ms;
        try {
            ms = milliseconds(queue, clock, [&] { trial(i); });
        } catch (const Error& error) {   // no room for its workspace, say: it is out of the race
            best.why += fmt::format(" {} failed ({});", candidates[i].name, error.what());
            continue;
        }
        best.why += fmt::format(" {} {:.3f} ms", candidates[i].name, ms);
        if (ms < best_ms) {
            best_ms = ms;
            best.index = i;
        }
    }
    if (best.index < candidates.size())
        store.keep(family, entry, candidates[best.index].name);
    return best;
}

}  // namespace

bool choice_is_plain() noexcept
{
    return settings().plain.load(std::memory_order_relaxed);
}

void tune_choices(bool on, std::function<double()> clock)
{
    std::lock_guard lock(settings().mutex);
    settings().tune = on;
    settings().clock = clock ? std::move(clock) : steady_milliseconds;
    settings().update();
}

void prefer_implementation(std::string_view family, std::string_view name)
{
    std::lock_guard lock(settings().mutex);
    if (name.empty())
        settings().preferred.erase(std::string(family));
    else
        settings().preferred[std::string(family)] = name;
    settings().update();
}

std::size_t choose_among(std::string_view family, const std::string& problem, std::span<const Candidate> candidates,
                         Queue& queue, const std::function<void(std::size_t)>& trial)
{
    auto first = std::ranges::find_if(candidates, [](const Candidate& one) { return !one.rejection && !one.advice; });
    if (first == candidates.end())
        first = std::ranges::find_if(candidates, [](const Candidate& one) { return !one.rejection; });
    require<NotSupported>(first != candidates.end(), family, ": no implementation for ", problem, " (",
                          reasons(candidates), ")");
    Choice choice{static_cast<std::size_t>(first - candidates.begin()), "first that applies"};

    const std::string preferred = preferred_name(family);
    const auto preferred_index = find_name(candidates, preferred);
    if (!preferred.empty() && !preferred_index) {
        std::string names;
        for (const Candidate& one : candidates)
            names += fmt::format(" {}", one.name);
        throw InvalidArgument(fmt::format("{} has no implementation \"{}\"; it has:{}", family, preferred, names));
    }
    if (preferred_index && !candidates[*preferred_index].rejection) {
        choice = {*preferred_index, "asked for"};
    } else if (settings().tune) {
        if (Choice best = tuned(family, problem, candidates, queue, trial); best.index < candidates.size())
            choice = std::move(best);
    }
    if (settings().verbose) {
        const std::string rejected = reasons(candidates);
        fmt::print(stderr, "clprim: {} {} -> {} ({}){}{}\n", family, problem, candidates[choice.index].name, choice.why,
                   rejected.empty() ? "" : "; rejected: ", rejected);
    }
    return choice.index;
}

}  // namespace clprim
