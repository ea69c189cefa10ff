#include "kernels/integer/dynamic.hpp"

#include "core/lie_alike.hpp"
#include "core/operands.hpp"
#include "kernels/team.hpp"

namespace clprim {

namespace {

// So many numbers cost about what a launch does. Every team reads what all the others found.
constexpr std::int64_t alone = 16384, least_share = 4096, most_teams = 64;

}  // namespace

void quantize_dynamically(Queue& queue, const Tensor& x, const Tensor& y, const Tensor& scale, const Tensor& zero)
{
    detail::check_operands("quantize_dynamically", {{"x", x}, {"y", y}, {"scale", scale}, {"zero", zero}});
    require(x.dtype == DataType::float32 && y.dtype == DataType::uint8 && scale.dtype == DataType::float32 &&
                zero.dtype == DataType::uint8,
            "quantize_dynamically: expected float32, uint8, float32 and uint8, got ", name_of(x.dtype), ", ",
            name_of(y.dtype), ", ", name_of(scale.dtype), " and ", name_of(zero.dtype));
    require(detail::lie_alike(x, y) && x.is_non_overlapping_and_dense(),
            "quantize_dynamically: x and y must lie alike and dense, got shapes ", to_string(x.shape), " and ",
            to_string(y.shape));
    require(scale.numel() == 1 && zero.numel() == 1, "quantize_dynamically: scale and zero must be one element, got ",
            to_string(scale.shape), " and ", to_string(zero.shape));
    const std::int64_t count = x.numel();
    const std::int64_t teams = count <= alone ? 1 : std::min(detail::divide_up(count, least_share), most_teams);
    // Shares begin where vectors do.
    const auto share = static_cast<cl_ulong>(detail::round_up(detail::divide_up(count, teams), 64));
    const detail::Team team = detail::team_for_rows(queue.device(), count, {&x, &y});
    const Program& program = queue.context().program(
        "kernels/integer/dynamic.cl",
        detail::concat(detail::define_team(team, DataType::float32), teams == 1 ? " -DALONE" : ""));
    const Range range = Range::groups(static_cast<std::size_t>(teams), team.size);
    const auto numbers = static_cast<cl_ulong>(count);
    Tensor partial = scale;                  // one team reads none
    if (teams > 1) {
        partial = queue.context().empty({2 * teams}, DataType::float32, queue);
        queue.launch(program.kernel("bounds"), range, x, partial, numbers, share);
    }
    queue.launch(program.kernel("quantise"), range, x, partial, y, scale, zero, numbers, share);
}

}  // namespace clprim
