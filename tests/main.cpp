// Every test runs with poisoned memory (docs/environment_variables.md), unless CLPRIM_POISON=0 is set.
#include <cstdlib>

#include <gtest/gtest.h>

int main(int argc, char** argv)
{
    ::setenv("CLPRIM_POISON", "1", 0);
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
