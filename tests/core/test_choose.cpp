#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

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
     }, [](Queue&, const Problem&, int& out) { out = 1; }},
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

    const std::string key = "tuning\n" + device.platform_name + "\n" + device.name + "\n" + device.driver_version + "\n" +
                            (device.kind == DeviceKind::cpu ? "cpu" : "gpu") + "\ntoy\n" + problem;
    const auto file = cache_folder() / (cache_hash(key) + ".tune");
    ASSERT_TRUE(std::filesystem::exists(file));
    std::ofstream(file, std::ios::binary) << "damaged";
    EXPECT_EQ(TuningStore(device).find("toy", problem), std::nullopt);
    std::filesystem::remove(file);
}
