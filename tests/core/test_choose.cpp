#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <clprim/clprim.hpp>
#include <core/choose.hpp>
#include <core/program_cache.hpp>
#include <core/tuner.hpp>
#include <core/tuning_store.hpp>

namespace toy {   // a family of its own, to show that choose needs nothing but describe()

struct Problem {
    int size = 0;
};
std::string describe(const Problem& problem) { return "size=" + std::to_string(problem.size); }

using Implementation = clprim::Implementation<Problem, int&>;
using clprim::Device;
using clprim::Queue;
using clprim::Rejection;

void large_at(Queue&, const Problem&, const clprim::Point& point, int& out)
{
    out = static_cast<int>(point.at("tile"));
}

const Implementation list[] = {
    {"small", [](const Problem& p, const Device&) -> Rejection {
         return p.size > 10 ? Rejection("more than 10") : std::nullopt;
     }, [](Queue&, const Problem&, int& out) { out = 1; }, true,
     [](const Problem& p, const Device&) -> Rejection { return p.size == 7 ? Rejection("slow for 7") : std::nullopt; }},
    {"large", [](const Problem& p, const Device&) -> Rejection {
         return p.size > 1000 ? Rejection("more than 1000") : std::nullopt;
     }, [](Queue&, const Problem&, int& out) { out = 2; }, true, nullptr,
     [](const Problem&, const Device&) -> clprim::Space { return {{"tile", {32, 64, 128}, 64}}; }, large_at},
};

}  // namespace toy

using namespace clprim;

namespace {

// What these tests find is theirs: other processes would use it.
const bool own_folder = [] {
    const auto folder =
        std::filesystem::temp_directory_path() / ("clprim-choose-" + std::to_string(std::random_device{}()));
    setenv("CLPRIM_CACHE_DIR", folder.c_str(), 1);
    std::atexit([] { std::filesystem::remove_all(std::getenv("CLPRIM_CACHE_DIR")); });
    setenv("CLPRIM_PROGRESS", "0", 1);
    return true;
}();

std::string chosen(int size)
{
    const toy::Problem problem{size};
    return std::string(
        choose("toy", std::span(toy::list), problem, Context::get(0).queue(0), [](const auto&) {})->name);
}

// Removes a preference also when an expectation throws.
struct Preference {
    explicit Preference(std::string_view name) { prefer_implementation("toy", name); }
    ~Preference() { prefer_implementation("toy", ""); }
};

}  // namespace

TEST(Choose, TakesTheFirstThatDoesNotReject)
{
    EXPECT_EQ(chosen(5), "small");
    EXPECT_EQ(chosen(50), "large");
}

TEST(Choose, SkipsWhatIsAdvisedAgainstUnlessAskedForIt)
{
    EXPECT_EQ(chosen(7), "large");
    const Preference preference("small");
    EXPECT_EQ(chosen(7), "small");
    EXPECT_EQ(chosen(50), "large");   // asked for, but unable
}

TEST(Choose, SaysEveryReasonWhenAllReject)
{
    try {
        chosen(5000);
        FAIL() << "expected NotSupported";
    } catch (const NotSupported& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("size=5000"), std::string::npos) << text;
        EXPECT_NE(text.find("small: more than 10"), std::string::npos) << text;
        EXPECT_NE(text.find("large: more than 1000"), std::string::npos) << text;
    }
}

TEST(Choose, PreferenceWinsWhereItApplies)
{
    {
        Preference large("large");
        EXPECT_EQ(chosen(5), "large");
    }
    {
        Preference small("small");
        EXPECT_EQ(chosen(50), "large");
    }
    EXPECT_EQ(chosen(5), "small");
}

TEST(Choose, WhatWasChosenBeforeIsForgottenWithItsReason)
{
    for (int turn = 0; turn < 2; ++turn) {
        const Preference large("large:tile=32");
        EXPECT_EQ(chosen(5), "large");
        EXPECT_EQ(chosen(5), "large");      // remembered
        prefer_implementation("toy", "small");
        EXPECT_EQ(chosen(5), "small");
        EXPECT_EQ(chosen(11), "large");
    }
    EXPECT_EQ(chosen(5), "small");
}

TEST(Choose, UnknownPreferenceNamesWhatThereIs)
{
    Preference unknown("fastest");
    try {
        chosen(5);
        FAIL() << "expected InvalidArgument";
    } catch (const InvalidArgument& error) {
        EXPECT_NE(std::string(error.what()).find("small large"), std::string::npos) << error.what();
    }
}

TEST(Choose, PreferenceWithParameters)
{
    const auto result_of = [](std::string_view name) {
        const Preference preference(name);
        int out = 0;
        const toy::Problem problem{50};
        choose("toy", std::span(toy::list), problem, Context::get(0).queue(0), [](const auto&) {})
            .run(Context::get(0).queue(0), problem, out);
        return out;
    };
    EXPECT_EQ(result_of("large"), 2);
    EXPECT_EQ(result_of("large:tile=128"), 128);
    const auto text_of = [&](std::string_view name) {
        try {
            result_of(name);
        } catch (const InvalidArgument& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_NE(text_of("large:til=64").find("toy by large: there is no parameter \"til\", only: tile"),
              std::string::npos);
    EXPECT_NE(text_of("large:tile=65").find("tile cannot be 65, only 32, 64, 128"), std::string::npos);
    EXPECT_NE(text_of("large:tile").find("expected parameter=value"), std::string::npos);
    EXPECT_NE(text_of("large:tile=6x").find("\"6x\" is not a whole number"), std::string::npos);
}

TEST(Parameters, PointsAndNeighbours)
{
    const Space space{{"tile", {64, 128}, 64}, {"splits", {1, 2, 4}, 3}};
    EXPECT_EQ(count_points(space), 6);
    EXPECT_EQ(every_point(space).size(), 6u);
    EXPECT_EQ(Point::usual(space).text(), "tile=64:splits=3");
    EXPECT_EQ(Point::parse("splits=4", space).text(), "tile=64:splits=4");
    std::vector<std::string> near;
    for (const Point& point : neighbours(Point::usual(space), space))
        near.push_back(point.text());
    EXPECT_EQ(near, (std::vector<std::string>{"tile=128:splits=3", "tile=64:splits=2", "tile=64:splits=4"}));
    EXPECT_EQ(neighbours(Point{{"tile", 128}, {"splits", 1}}, space).size(), 2u);
    EXPECT_THROW(Point::usual(space).at("depth"), InvalidArgument);
}

namespace {

// A family whose candidates say how long they take, on a clock that only they move.
struct Race {
    std::vector<double> costs;   // negative: the run fails
    std::vector<Candidate> candidates;
    std::string problem = "race " + std::to_string(std::random_device{}());
    double now = 0;
    std::vector<int> runs = std::vector<int>(costs.size());
    std::function<double(const Point&)> cost_at{};   // of points
    Point point{};                                   // chosen last

    std::size_t choose()
    {
        const Choice choice =
            choose_among("toy", problem, candidates, Context::get(0).queue(0), [this](const Choice& one) {
                const std::size_t i = one.index;
                ++runs[i];
                const double cost = one.point.empty() ? costs[i] : cost_at(one.point);
                if (cost < 0)
                    throw NotSupported("no room");
                now += cost;
            });
        point = choice.point;
        return choice.index;
    }
};

struct Tuning {
    explicit Tuning(Race& race) { tune_choices(true, [&race] { return race.now; }); }
    ~Tuning() { tune_choices(false); }
};

}  // namespace

TEST(Tuning, TakesTheFastestOfThoseThatRun)
{
    Race race{{9, -1, 3, 1, 1},
              {{"a", {}}, {"fails", {}}, {"fast", {}}, {"rejected", "too small"}, {"slow", {}, false}}};
    Tuning tuning(race);
    EXPECT_EQ(race.choose(), 2u);
    EXPECT_GT(race.runs[0], 1);
    EXPECT_EQ(race.runs[1], 1);   // failed once, and was out
    EXPECT_EQ(race.runs[3], 0);
    EXPECT_EQ(race.runs[4], 0);   // never timed
}

TEST(Tuning, RunsOnceAndIsReadFromDiskByTheNext)
{
    Race race{{2, 1}, {{"a", {}}, {"b", {}}}};
    Tuning tuning(race);
    ASSERT_EQ(race.choose(), 1u);
    const std::vector<int> runs = race.runs;
    race.costs = {1, 2};
    EXPECT_EQ(race.choose(), 1u);   // as measured before
    EXPECT_EQ(race.runs, runs);
    if (!cache_folder().empty()) {
        EXPECT_EQ(TuningStore(Context::get(0).device()).find("toy", race.problem + " among a b"), "b");
    }
}

TEST(Tuning, MeasuresAgainWhenOthersCompete)
{
    Race race{{2, 1, 0.5}, {{"a", {}}, {"b", {}}, {"new", "not yet"}}};
    Tuning tuning(race);
    ASSERT_EQ(race.choose(), 1u);
    race.candidates[2].rejection.reset();
    EXPECT_EQ(race.choose(), 2u);
    race.candidates[2].rejection = "gone";
    EXPECT_EQ(race.choose(), 1u);
}

TEST(Tuning, PreferenceAndFailureOfAll)
{
    Race race{{2, 1}, {{"a", {}}, {"b", {}}}};
    Tuning tuning(race);
    {
        Preference a("a");
        EXPECT_EQ(race.choose(), 0u);
        EXPECT_EQ(race.runs, (std::vector<int>{0, 0}));
    }
    Race failing{{-1, -1}, {{"a", {}}, {"b", {}}}};
    EXPECT_EQ(failing.choose(), 0u);   // the first that does not reject; its own run will tell
}

TEST(TuningStore, KeepsAcrossStoresAndIgnoresDamage)
{
    if (cache_folder().empty())
        GTEST_SKIP() << "no cache folder";
    const Device& device = Context::get(0).device();
    const std::string problem = "size=" + std::to_string(std::rand());
    TuningStore(device).keep("toy", problem, "large");
    EXPECT_EQ(TuningStore(device).find("toy", problem), "large");
    EXPECT_EQ(TuningStore(device).find("toy", problem + "0"), std::nullopt);

    Device other = device;
    other.driver_version += "x";
    EXPECT_EQ(TuningStore(other).find("toy", problem), std::nullopt);

    for (const auto& file : std::filesystem::directory_iterator(cache_folder() / "tuning"))
        std::ofstream(file.path(), std::ios::binary) << "damaged";
    EXPECT_EQ(TuningStore(device).find("toy", problem), std::nullopt);
}

namespace {

double quadratic(const Point& point)   // the least at tile 32, depth 256
{
    const double tile = std::log2(static_cast<double>(point.at("tile"))) - 5;
    const double depth = std::log2(static_cast<double>(point.at("depth"))) - 8;
    return 0.25 + 0.1 * tile * tile + 0.05 * depth * depth;
}

const Space wide{{"tile", {4, 8, 16, 32, 64, 128, 256}, 4}, {"depth", {2, 4, 8, 16, 32, 64, 128, 256}, 2}};

}  // namespace

TEST(Tuning, FindsTheBestPointOfASpaceByNeighbours)
{
    Race race{{2, 3}, {{"small", {}}, {"large", {}, true, {}, wide}}};
    race.cost_at = quadratic;
    Tuning tuning(race);
    EXPECT_EQ(race.choose(), 1u);
    EXPECT_EQ(race.point.text(), "tile=32:depth=256");
    EXPECT_LT(race.runs[1], 56 * 6);   // fewer than all
}

TEST(Tuning, SearchesOnlyWhatCanWinAndWithinItsTime)
{
    Race behind{{1, 4}, {{"small", {}}, {"large", {}, true, {}, wide}}};
    behind.cost_at = [](const Point&) { return 0.1; };
    {
        Tuning tuning(behind);
        EXPECT_EQ(behind.choose(), 0u);   // four times as slow as it is: not searched
    }
    Race slow{{4000, 5000}, {{"small", {}}, {"large", {}, true, {}, wide}}};
    slow.cost_at = [](const Point&) { return 3000.; };
    Tuning tuning(slow);
    EXPECT_EQ(slow.choose(), 0u);        // the time was up before any point
    EXPECT_LT(slow.runs[1], 4);
}

TEST(Tuning, PointsThatDoNotFitAreOut)
{
    Race race{{2}, {{"large", {}, true, {}, {{"tile", {32, 64, 128}, 64}}}}};
    race.cost_at = [](const Point& point) { return point.at("tile") == 32 ? -1. : point.at("tile") == 128 ? 1. : 2.; };
    Tuning tuning(race);
    EXPECT_EQ(race.choose(), 0u);
    EXPECT_EQ(race.point.text(), "tile=128");
}

TEST(Tuning, ServesLaterUseAndProblemsOfTheSameClass)
{
    Race race{{2, 1}, {{"a", {}}, {"b", {}}}};
    race.problem = "m=1000 n=64 serves";
    {
        Tuning tuning(race);
        ASSERT_EQ(race.choose(), 1u);
    }
    Race same{{1, 2}, race.candidates, race.problem}, like{{1, 2}, race.candidates, "m=960 n=64 serves"},
        other{{1, 2}, race.candidates, "m=100 n=64 serves"};
    EXPECT_EQ(same.choose(), 1u);
    EXPECT_EQ(like.choose(), 1u);
    EXPECT_EQ(other.choose(), 0u);
    EXPECT_EQ(same.runs[0] + same.runs[1] + like.runs[0] + like.runs[1], 0);
}

TEST(TuningFile, GoesToAnotherMachineAndIsCheckedThere)
{
    const Device& device = Context::get(0).device();
    const auto file = cache_folder() / "results.json";
    TuningStore::of(device).keep("toy", "exported", "large:tile=32");
    EXPECT_GE(export_tuning(device, file), 1u);
    TuningStore::of(device).keep("toy", "exported", "small");
    EXPECT_GE(import_tuning(device, file, true), 1u);
    EXPECT_EQ(TuningStore::of(device).find("toy", "exported"), "large:tile=32");

    const auto text_of = [&](const Device& where, bool exact = false) {
        try {
            import_tuning(where, file, exact);
        } catch (const InvalidArgument& error) {
            return std::string(error.what());
        }
        return std::string("taken");
    };
    Device other = device;
    other.driver_version += "x";
    EXPECT_EQ(text_of(other), "taken");
    EXPECT_NE(text_of(other, true).find("its driver is"), std::string::npos);
    other.name += "x";
    EXPECT_NE(text_of(other).find("was made on another device: its name is"), std::string::npos);
    for (const char* damaged :
         {"", "{", "[1]", "{\"format\": 1}",
          "{\"format\": \"clprim tuning results\", \"version\": 2, \"device\": 1, \"results\": []}"}) {
        std::ofstream(file) << damaged;
        EXPECT_NE(text_of(device).find("is not a file of them"), std::string::npos) << damaged;
    }
    std::filesystem::remove(file);
    EXPECT_NE(text_of(device).find("cannot read"), std::string::npos);
    EXPECT_THROW(export_tuning(device, "/nonexistent/results.json"), Error);
}
