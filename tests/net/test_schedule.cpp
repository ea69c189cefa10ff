// Learning rates at chosen steps against torch.optim.lr_scheduler's.
#include <gtest/gtest.h>

#include <clprim/schedule.hpp>

namespace {

namespace schedule = clprim::schedule;

TEST(Schedule, FollowsPyTorch)
{
    // StepLR(lr=0.5, step_size=3, gamma=0.1), ExponentialLR(gamma=0.9)
    EXPECT_DOUBLE_EQ(schedule::step_decay(0.5, 2, 3), 0.5);
    EXPECT_DOUBLE_EQ(schedule::step_decay(0.5, 7, 3), 0.005);
    EXPECT_NEAR(schedule::exponential(0.5, 4, 0.9), 0.32805, 1e-12);
    // CosineAnnealingLR(T_max=10, eta_min=0.1)
    EXPECT_DOUBLE_EQ(schedule::cosine(0.5, 0, 10, 0.1), 0.5);
    EXPECT_NEAR(schedule::cosine(0.5, 5, 10, 0.1), 0.3, 1e-12);
    EXPECT_NEAR(schedule::cosine(0.5, 2, 10, 0.1), 0.46180339887498947, 1e-12);
    EXPECT_DOUBLE_EQ(schedule::cosine(0.5, 12, 10, 0.1), 0.1);
    // PolynomialLR(total_iters=4, power=2)
    EXPECT_DOUBLE_EQ(schedule::polynomial(0.5, 2, 4, 2), 0.125);
    EXPECT_DOUBLE_EQ(schedule::polynomial(0.5, 9, 4), 0);
    // LinearLR(start_factor=1/4, total_iters=3), which counts the step after
    EXPECT_DOUBLE_EQ(schedule::warm_up(0, 4), 0.25);
    EXPECT_DOUBLE_EQ(schedule::warm_up(3, 4), 1);
    EXPECT_DOUBLE_EQ(schedule::warm_up(9, 4), 1);
}

}  // namespace
