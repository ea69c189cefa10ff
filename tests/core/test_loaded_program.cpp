#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <core/loaded_program.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace clprim;

namespace {

// Programs of one kernel each, which count how often they are loaded.
class Programs {
public:
    Programs(int count, std::size_t usual, std::size_t limit) : all_(usual, limit), loads_(count, 0)
    {
        const Context& context = Context::get(0);
        for (int i = 0; i < count; ++i)
            programs_.push_back(std::make_unique<detail::LoadedProgram>(context.device(), all_, [this, i, &context] {
                ++loads_[i];
                const std::string value = std::to_string(i);
                cl::Program program(context.handle(),
                                    "__kernel void set(__global int* x, ulong offset) { x[offset] = " + value + "; }");
                program.build(std::vector<cl::Device>{context.device().handle}, "");
                return program;
            }));
    }

    // What a launch of the program writes.
    int run(int i)
    {
        Context& context = Context::get(0);
        const Tensor x = context.empty({1}, DataType::int32, context.queue());
        context.queue().launch(programs_[i]->kernel("set"), Range::groups(1), x);
        return context.queue().read<std::int32_t>(x)[0];
    }

    int loads(int i) const { return loads_[i]; }
    int loads() const
    {
        int sum = 0;
        for (const int n : loads_)
            sum += n;
        return sum;
    }

private:
    detail::LoadedPrograms all_;
    std::vector<int> loads_;
    std::vector<std::unique_ptr<detail::LoadedProgram>> programs_;
};

// How many loads a round of launches of every program takes.
int loads_in_a_round(Programs& programs, int count)
{
    const int before = programs.loads();
    for (int i = 0; i < count; ++i)
        EXPECT_EQ(programs.run(i), i);
    return programs.loads() - before;
}

TEST(LoadedPrograms, BeyondTheBoundOneIsReleasedAndComesBack)
{
    Programs programs(3, 2, 2);
    for (int round = 0; round < 3; ++round)
        loads_in_a_round(programs, 3);
    EXPECT_GT(programs.loads(), 3);
}

TEST(LoadedPrograms, TheBoundRisesToWhatIsUsedOverAndOver)
{
    Programs programs(9, 4, 16);
    for (int round = 0; round < 9; ++round)
        loads_in_a_round(programs, 9);
    EXPECT_EQ(loads_in_a_round(programs, 9), 0);
}

TEST(LoadedPrograms, TheBoundStopsAtItsLimit)
{
    Programs programs(9, 2, 4);
    for (int round = 0; round < 9; ++round)
        loads_in_a_round(programs, 9);
    EXPECT_GE(loads_in_a_round(programs, 9), 9 - 4);
}

TEST(LoadedPrograms, WhatIsLaunchedAgainAndAgainStays)
{
    Programs programs(12, 4, 4);
    programs.run(0);
    const int before = programs.loads(0);
    for (int i = 1; i < 12; ++i) {
        EXPECT_EQ(programs.run(i), i);
        EXPECT_EQ(programs.run(0), 0);
    }
    EXPECT_EQ(programs.loads(0), before);
}

}  // namespace
