#include <core/tuner.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include <fmt/format.h>

namespace clprim {
namespace {

constexpr std::int64_t few_points = 32, random_points = 16;

class Search {
public:
    Search(std::span<const Candidate> candidates, Queue& queue, const Trial& trial, const TuningLimits& limits)
        : candidates_(candidates), queue_(queue), trial_(trial), limits_(limits), begin_(limits.clock())
    {
    }

    TuningOutcome run()
    {
        queue_.finish();   // work enqueued before is not a candidate's, nor are its errors
        std::vector<std::pair<double, std::size_t>> usual;
        for (std::size_t i = 0; i < candidates_.size(); ++i) {
            if (candidates_[i].rejection || !candidates_[i].tune)
                continue;
            outcome_.report += fmt::format(" {}", candidates_[i].name);
            if (const auto ms = time({i, {}})) {
                usual.emplace_back(*ms, i);
                if (outcome_.usual_milliseconds == 0)
                    outcome_.usual_milliseconds = *ms;
            }
        }
        std::ranges::sort(usual);
        for (const auto& [ms, i] : usual)
            if (!candidates_[i].space.empty() && ms < 2 * outcome_.milliseconds)
                search_space(i);
        return std::move(outcome_);
    }

private:
    bool time_is_up() const { return limits_.clock() - begin_ > 1e3 * limits_.seconds; }

    // Keeps the best; nothing where it fails, for want of memory, say.
    std::optional<double> time(const Choice& choice)
    {
        ++outcome_.tried;
        try {
            const double ms = milliseconds(choice);
            outcome_.report += fmt::format(" {:.3f} ms;", ms);
            if (!outcome_.best || ms < outcome_.milliseconds) {
                outcome_.best = choice;
                outcome_.milliseconds = ms;
            }
            return ms;
        } catch (const Error& error) {
            outcome_.report += fmt::format(" failed ({});", error.what());
            return std::nullopt;
        }
    }

    // The best of a few runs after one that builds programs and warms caches; of one where that is far behind.
    double milliseconds(const Choice& choice)
    {
        trial_(choice);
        queue_.finish();
        double best = std::numeric_limits<double>::infinity(), total = 0;
        for (int i = 0; i < 5 && total < 200; ++i) {
            const double start = limits_.clock();
            trial_(choice);
            queue_.finish();
            const double ms = limits_.clock() - start;
            best = std::min(best, ms);
            total += ms;
            if (outcome_.best && best > 3 * outcome_.milliseconds)
                break;
        }
        return best;
    }

    void search_space(std::size_t index)
    {
        const Space& space = candidates_[index].space;
        std::map<std::string, double> known;
        const auto at = [&](const Point& point) {
            const auto [place, fresh] = known.try_emplace(point.text(), std::numeric_limits<double>::infinity());
            if (fresh && !time_is_up()) {
                outcome_.report += ' ' + point.text();
                place->second = time({index, point}).value_or(place->second);
            }
            return place->second;
        };
        std::vector<Point> points;
        if (count_points(space) <= few_points) {
            points = every_point(space);
        } else {
            std::mt19937 random(1);   // the same search for the same problem
            for (std::int64_t i = 0; i < random_points; ++i) {
                Point point;
                for (const Parameter& one : space)
                    point.set(one.name, one.values[random() % one.values.size()]);
                points.push_back(std::move(point));
            }
        }
        Point best = Point::usual(space);
        double best_ms = at(best);
        for (const Point& point : points)
            if (const double ms = at(point); ms < best_ms)
                best = point, best_ms = ms;
        for (bool better = count_points(space) > few_points; better && !time_is_up();) {
            better = false;
            for (const Point& point : neighbours(Point(best), space))
                if (const double ms = at(point); ms < best_ms)
                    best = point, best_ms = ms, better = true;
        }
    }

    std::span<const Candidate> candidates_;
    Queue& queue_;
    const Trial& trial_;
    const TuningLimits& limits_;
    double begin_;
    TuningOutcome outcome_;
};

}  // namespace

TuningOutcome tune_among(std::span<const Candidate> candidates, Queue& queue, const Trial& trial,
                         const TuningLimits& limits)
{
    return Search(candidates, queue, trial, limits).run();
}

}  // namespace clprim
