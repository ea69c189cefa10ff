#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include <clprim/clprim.hpp>
#include <core/choose.hpp>
#include <core/program_cache.hpp>
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

const Implementation list[] = {
    {"small", [](const Problem& p, const Device&) -> Rejection {
         return p.size > 10 ? Rejection("more than 10") : std::nullopt;
     }, [](Queue&, const Problem&, int& out) { out = 1; }, true,
     [](const Problem& p, const Device&) -> Rejection { return p.size == 7 ? Rejection("slow for 7") : std::nullopt; }},
    {"large", [](const Problem& p, const Device&) -> Rejection {
         return p.size > 1000 ? Rejection("more than 1000") : std::nullopt;
     }, [](Queue&, const Problem&, int& out) { out = 2; }},
};

}  // namespace toy

using namespace clprim;

namespace {

std::string chosen(int size)
{
    const toy::Problem problem{size};
    return std::string(choose("toy", std::span(toy::list), problem, Context::get(0).queue(0), [](const auto&) {}).name);
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

namespace {

// A family whose candidates say how long they take, on a clock that only they move.
struct Race {
    std::vector<double> costs;   // negative: the run fails
    std::vector<Candidate> candidates;
    std::string problem = "race " + std::to_string(std::random_device{}());
    double now = 0;
    std::vector<int> runs = std::vector<int>(costs.size());

    std::size_t choose()
    {
        return choose_among("toy", problem, candidates, Context::get(0).queue(0), [this](std::size_t i) {
            ++runs[i];
            if (costs[i] < 0)
                throw NotSupported("no room");
            now += costs[i];
        });
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

    // A process that finds the result on disk does not measure: here another store wrote it.
    Race next{{1, 2}, {{"a", {}}, {"b", {}}}};
    TuningStore(Context::get(0).device()).keep("toy", next.problem + " among a b", "b");
    if (!cache_folder().empty()) {
        EXPECT_EQ(next.choose(), 1u);
        EXPECT_EQ(next.runs, (std::vector<int>{0, 0}));
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

    const std::string key = "tuning\n" + device.platform_name + "\n" + device.name + "\n" + device.driver_version +
                            "\n" + (device.kind == DeviceKind::cpu ? "cpu" : "gpu") + "\ntoy\n" + problem;
    const auto file = cache_folder() / (cache_hash(key) + ".tune");
    ASSERT_TRUE(std::filesystem::exists(file));
    std::ofstream(file, std::ios::binary) << "damaged";
    EXPECT_EQ(TuningStore(device).find("toy", problem), std::nullopt);
    std::filesystem::remove(file);
}
