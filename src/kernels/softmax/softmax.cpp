#include <clprim/softmax.hpp>
#include <clprim/error_hook.hpp>

#include <bit>
#include <string>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// [outer, n, inner] around an axis.
struct Split {
    cl_ulong outer = 1;
    cl_uint n = 1, inner = 1;

    Split(const Tensor& x, int axis)
    {
        const int rank = static_cast<int>(x.dim());
        require(axis >= -std::max(rank, 1) && axis < std::max(rank, 1), "softmax: axis ", axis,
                " is out of range for shape ", to_string(x.shape));
        axis += axis < 0 ? rank : 0;
        std::int64_t sizes[3] = {1, 1, 1};
        for (int i = 0; i < rank; ++i)
            sizes[i < axis ? 0 : i == axis ? 1 : 2] *= x.size(i);
        require(sizes[1] < (std::int64_t(1) << 31) && sizes[2] < (std::int64_t(1) << 31),
                "softmax: axes of 2^31 elements or more are not supported");
        outer = sizes[0];
        n = sizes[1];
        inner = sizes[2];
    }
};

void require_fit(const Tensor& a, const Tensor& b)
{
    require(a.shape == b.shape && a.is_contiguous() && b.is_contiguous(),
            "softmax: tensors must be contiguous and of one shape, got ", to_string(a.shape), " and ",
            to_string(b.shape));
    detail::require_dtype(is_floating_point(a.dtype) && is_floating_point(b.dtype), "softmax: not implemented for ",
                          name_of(a.dtype), " and ", name_of(b.dtype));
}

// `direction` is forward or backward; x has the input's dtype, y the output's.
template <class... Tensors>
void run(Queue& queue, const std::string& direction, DataType x, DataType y, bool log, const Split& split,
         const Tensors&... tensors)
{
    const DataType acc = detail::accumulate_type(x);
    const bool cpu = queue.device().kind == DeviceKind::cpu, rows = split.inner == 1 && (cpu || split.n > 32);
    detail::Team team = detail::team_for_rows(queue.device(), rows ? split.n : split.inner, {&tensors...});
    if (!rows)
        team.size = 1;
    // A GPU's work-items keep up to four vectors each: the fewer they are, the fewer steps their sums take.
    constexpr std::int64_t most = 4;
    const bool kept = rows && !cpu && split.n <= most * team.size * team.vec;
    while (kept && team.size > 32 && split.n <= most * team.size / 2 * team.vec)
        team.size /= 2;
    const unsigned lanes = team.size * team.vec;
    std::string options = detail::define("X", x) + detail::define("Y", y) + detail::define_team(team, acc) +
                          (log ? " -DLOG" : "") + (acc == DataType::float64 ? " -DCLPRIM_WIDE" : "");
    if (kept)
        options += " -DKEPT=" + std::to_string(std::bit_ceil((split.n + lanes - 1) / lanes));
    const Program& program = queue.context().program("kernels/softmax/softmax.cl", options);
    if (rows) {
        const std::int64_t groups = cpu ? queue.device().compute_units * 16 : std::int64_t(split.outer);
        const cl_uint share = detail::divide_up(split.outer, groups);
        queue.launch(program.kernel(direction + "_rows"),
                     Range::groups(detail::divide_up(split.outer, share), team.size), tensors..., split.outer, split.n,
                     share);
        return;
    }
    const std::int64_t columns = split.outer * detail::divide_up(split.inner, cpu ? 4 * team.vec : team.vec);
    queue.launch(program.kernel(direction + "_columns"), cpu ? Range::groups(columns) : Range::linear(columns, 64),
                 tensors..., split.outer, split.n, split.inner);
}

}  // namespace

void softmax(Queue& queue, const Tensor& x, const Tensor& y, int axis, bool log)
{
    detail::check_operands("softmax", {{"x", x}, {"y", y}});
    require_fit(x, y);
    const Split split(x, axis);
    if (x.numel() != 0)
        run(queue, "forward", x.dtype, y.dtype, log, split, x, y);
}

void softmax_backward(Queue& queue, const SoftmaxBackward& p)
{
    detail::check_operands("softmax_backward", {{"grad_output", p.grad_output}, {"y", p.y},
                                                {"grad_input", p.grad_input}});
    require_fit(p.grad_output, p.y);
    require_fit(p.y, p.grad_input);
    require(p.grad_output.dtype == p.y.dtype, "softmax_backward: grad_output is ", name_of(p.grad_output.dtype),
            ", the result ", name_of(p.y.dtype));
    const Split split(p.y, p.axis);
    if (p.y.numel() != 0)
        run(queue, "backward", p.grad_input.dtype, p.y.dtype, p.log, split, p.grad_output, p.y, p.grad_input);
}

}  // namespace clprim
