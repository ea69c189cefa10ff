#include <core/choose.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <core/environment.hpp>
#include <core/lru_cache.hpp>
#include <core/runtime.hpp>
#include <core/tuner.hpp>
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
    std::map<std::string, std::string, std::less<>> preferred;   // family -> name, with parameters
    double seconds = 10;
    bool progress = true;
    std::atomic<bool> plain{true};
    std::atomic<std::uint64_t> version{0};                   // of all that choices depend on
    LruCache<std::string, Choice> made{1024};                // by version, device, family and problem

    Settings()
    {
        tune = environment("CLPRIM_TUNE") == "1";
        verbose = !environment("CLPRIM_VERBOSE").empty() && environment("CLPRIM_VERBOSE") != "0";
        progress = environment("CLPRIM_PROGRESS") != "0";
        if (const std::string limit = environment("CLPRIM_TUNE_SECONDS"); !limit.empty()) {
            char* end = nullptr;
            seconds = std::strtod(limit.c_str(), &end);
            require(*end == '\0' && seconds > 0, "CLPRIM_TUNE_SECONDS: expected a positive number of seconds, got \"",
                    limit, "\"");
        }
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
    void update()
    {
        plain = !tune && !verbose && preferred.empty() && !TuningStore::any_kept();
        ++version;
    }
    // Tuning measures a problem anew, and what is printed names reasons.
    bool remembers() const { return !tune && !verbose; }
    void show(const std::string& line) const
    {
        if (progress)
            fmt::print(stderr, "{}", line);
    }
};

Settings& settings()
{
    static Settings instance;
    return instance;
}

std::string key_of_choice(std::uint64_t version, const Device& device, std::string_view family,
                          std::string_view problem)
{
    std::array<char, 48> numbers{};
    char* end = std::to_chars(numbers.data(), numbers.data() + 24, version).ptr;
    *end++ = ' ';
    end = std::to_chars(end, numbers.data() + numbers.size(), device.index).ptr;
    std::string key;
    key.reserve(numbers.size() + family.size() + problem.size() + 2);
    return key.append(numbers.data(), end).append(1, ' ').append(family).append(1, ' ').append(problem);
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

// "gpu_tiled:tile=64" as the choice that it names among the candidates, if it still can be made.
std::optional<Choice> known(std::string_view kept, std::span<const Candidate> candidates)
{
    const std::size_t end = std::min(kept.find(':'), kept.size());
    const auto index = find_name(candidates, kept.substr(0, end));
    if (!index || candidates[*index].rejection)
        return std::nullopt;
    if (end == kept.size())
        return Choice{*index, {}};
    try {
        return Choice{*index, Point::parse(kept.substr(end + 1), candidates[*index].space)};
    } catch (const InvalidArgument&) {   // of another version
        return std::nullopt;
    }
}

// Sizes by their power of two, so that what was found for one serves those like it.
std::string class_of(const std::string& problem)
{
    std::string text = "~";
    for (std::size_t i = 0; i < problem.size();) {
        if (!std::isdigit(static_cast<unsigned char>(problem[i]))) {
            text += problem[i++];
            continue;
        }
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(problem.data() + i, problem.data() + problem.size(), number);
        i = static_cast<std::size_t>(end - problem.data());
        text += fmt::format("{}", number < 8 || error != std::errc() ? number : std::bit_ceil(number - number / 4));
    }
    return text;
}

struct Explained {
    Choice choice;
    std::string why;
};

// What tuning found before, or finds now if it is on.
std::optional<Explained> tuned(std::string_view family, const std::string& problem,
                               std::span<const Candidate> candidates, Queue& queue, const Trial& trial)
{
    // A result holds while the same candidates compete.
    std::string competitors = " among";
    for (const Candidate& one : candidates)
        if (!one.rejection && one.tune)
            competitors += fmt::format(" {}", one.name);
    TuningStore& store = TuningStore::of(queue.device());
    const bool tune = settings().tune;
    if (const auto kept = store.find(family, problem + competitors))
        if (auto choice = known(*kept, candidates))
            return Explained{std::move(*choice), "tuned before"};
    if (!tune) {
        if (const auto kept = store.find(family, class_of(problem) + competitors))
            // Parameters fit the problem that they were found for, maybe not this one's layout.
            if (auto choice = known(std::string_view(*kept).substr(0, kept->find(':')), candidates))
                return Explained{std::move(*choice), "tuned for its class"};
        return std::nullopt;
    }
    TuningLimits limits;
    {
        std::lock_guard lock(settings().mutex);
        limits.clock = settings().clock;
        limits.seconds = settings().seconds;
    }
    TuningOutcome outcome = tune_among(candidates, queue, trial, limits);
    if (!outcome.best)
        return std::nullopt;
    const Candidate& best = candidates[outcome.best->index];
    const std::string name = fmt::format("{}{}{}", best.name, outcome.best->point.empty() ? "" : ":",
                                         outcome.best->point.text());
    store.keep(family, problem + competitors, name);
    store.keep(family, class_of(problem) + competitors, name);
    settings().show(fmt::format("clprim: tuned {} {}: {}, {:.3f} ms ({} tried, as usual {:.3f} ms)\n", family, problem,
                                name, outcome.milliseconds, outcome.tried, outcome.usual_milliseconds));
    return Explained{std::move(*outcome.best), "tuned:" + outcome.report};
}

}  // namespace

bool choice_is_plain() noexcept
try {
    return settings().plain.load(std::memory_order_relaxed);
} catch (const std::exception&) {
    return false;   // a variable of the environment is wrong: choosing says which
}

void tune_choices(bool on, std::function<double()> clock)
{
    std::lock_guard lock(settings().mutex);
    settings().tune = on;
    settings().clock = clock ? std::move(clock) : steady_milliseconds;
    settings().update();
}

bool choices_are_tuned()
{
    return settings().tune;
}

void limit_tuning(double seconds)
{
    require(seconds > 0, "limit_tuning: expected a positive number of seconds, got ", seconds);
    std::lock_guard lock(settings().mutex);
    settings().seconds = seconds;
}

double tuning_limit()
{
    std::lock_guard lock(settings().mutex);
    return settings().seconds;
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

void reconsider_choices()
{
    std::lock_guard lock(settings().mutex);
    settings().update();
}

Choice choose_among(std::string_view family, const std::string& problem, std::span<const Candidate> candidates,
                    Queue& queue, const Trial& trial)
{
    const std::uint64_t version = settings().version;
    auto first = std::ranges::find_if(candidates, [](const Candidate& one) { return !one.rejection && !one.advice; });
    if (first == candidates.end())
        first = std::ranges::find_if(candidates, [](const Candidate& one) { return !one.rejection; });
    require<NotSupported>(first != candidates.end(), family, ": no implementation for ", problem, " (",
                          reasons(candidates), ")");
    Explained result{{static_cast<std::size_t>(first - candidates.begin()), {}}, "first that applies"};

    const std::string preferred = preferred_name(family);
    const std::size_t name_end = std::min(preferred.find(':'), preferred.size());
    const auto preferred_index = find_name(candidates, std::string_view(preferred).substr(0, name_end));
    if (!preferred.empty() && !preferred_index) {
        std::string names;
        for (const Candidate& one : candidates)
            names += fmt::format(" {}", one.name);
        throw InvalidArgument(
            fmt::format("{} has no implementation \"{}\"; it has:{}", family, preferred.substr(0, name_end), names));
    }
    if (preferred_index && !candidates[*preferred_index].rejection) {
        result = {{*preferred_index, {}}, "asked for"};
        if (name_end != preferred.size())
            try {
                result.choice.point =
                    Point::parse(std::string_view(preferred).substr(name_end + 1), candidates[*preferred_index].space);
            } catch (const InvalidArgument& error) {
                throw InvalidArgument(fmt::format("{} by {}: {}", family, preferred.substr(0, name_end), error.what()));
            }
    } else if (auto best = tuned(family, problem, candidates, queue, trial)) {
        result = std::move(*best);
    }
    if (settings().verbose) {
        const std::string rejected = reasons(candidates), point = result.choice.point.text();
        detail::log(LogLevel::information,
                    fmt::format("{} {} -> {}{}{} ({}){}{}", family, problem, candidates[result.choice.index].name,
                                point.empty() ? "" : ":", point, result.why, rejected.empty() ? "" : "; rejected: ",
                                rejected));
    }
    if (settings().remembers())
        settings().made.keep(key_of_choice(version, queue.device(), family, problem), result.choice);
    return result.choice;
}

std::optional<Choice> remembered_choice(std::string_view family, std::string_view problem, const Device& device)
{
    if (!settings().remembers())
        return std::nullopt;
    return settings().made.find(key_of_choice(settings().version, device, family, problem));
}

}  // namespace clprim
