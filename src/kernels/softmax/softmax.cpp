#include <clprim/softmax.hpp>
#include <clprim/error_hook.hpp>

#include <bit>
#include <string>

#include "kernels/gemm/gpu_tile.hpp"
#include "kernels/team.hpp"
#include "core/operands.hpp"
#include "core/gpu_rate.hpp"

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

// How a GPU's work-items share columns: `high` of them each one, all of whose elements they keep if that is few.
struct Columns {
    unsigned group = 64, high = 1, kept = 0;
    int sub_group = 0;   // SUB_GROUP where what is kept would be spilled

    // `most`: numbers that a work-item may keep.
    Columns(const Device& device, const Split& split, detail::Team team, unsigned most)
    {
        const unsigned largest = std::bit_floor(std::min<std::size_t>(256, device.max_work_group_size));
        const std::int64_t items = static_cast<std::int64_t>(split.outer) * split.inner / team.vec;
        const auto rows = [&] {
            const unsigned count = (split.n + high - 1) / high;
            return count <= 8 ? count : std::bit_ceil(count);
        };
        for (const unsigned next : {4u, team.vec == 1 ? 16u : 32u})
            if (split.n >= 2 * next && largest > next &&
                (items * high < detail::resident_items(device) || rows() * team.vec > most)) {
                high = next;
                group = largest;
            }
        kept = rows() * team.vec <= most ? rows() : 0;
        if (2 * kept * team.vec > most)
            sub_group = detail::spilling_sub_group(device);
    }
    std::string options() const
    {
        return " -DGROUP=" + std::to_string(group) + " -DHIGH=" + std::to_string(high) +
               (kept ? " -DKEPT_ROWS=" + std::to_string(kept) : "") +
               (sub_group ? " -DSUB_GROUP=" + std::to_string(sub_group) : "");
    }
};

// Elements of a part where so few rows leave a GPU idle that a second launch costs less; 0 where they do not.
std::int64_t part_of(const Device& device, const Split& split, detail::Team team)
{
    constexpr std::int64_t worth_a_launch = 32, least = 4;   // steps of a work-item
    const std::int64_t step = std::int64_t{team.size} * team.vec, rows = static_cast<std::int64_t>(split.outer);
    const std::int64_t groups = detail::resident_items(device) / team.size;
    if (device.kind == DeviceKind::cpu || 2 * rows > groups || split.n < worth_a_launch * step)
        return 0;
    const std::int64_t steps = std::max(detail::divide_up(std::int64_t{split.n}, groups / rows * step), least);
    return steps * step;
}

// Both launches; the last tensor is the result.
struct Parts {
    Queue& queue;
    const Program& program;
    Range range;
    const Tensor& partial;
    cl_uint n, part;

    void run(const Tensor& x, const Tensor& y) const
    {
        queue.launch(program.kernel("forward_parts"), range, x, partial, n, part);
        queue.launch(program.kernel("forward_rest"), range, x, y, partial, n, part);
    }
    void run(const Tensor& dy, const Tensor& y, const Tensor& dx) const
    {
        queue.launch(program.kernel("backward_parts"), range, dy, y, partial, n, part);
        queue.launch(program.kernel("backward_rest"), range, dy, y, dx, partial, n, part);
    }
};

// Rows so short, and so many, that a CPU's work-items turn sixteen of them (cpu_turned.cl): those that fill no vector,
// and those whose logarithm, or adding up of lanes, takes longer than turning.
constexpr std::int64_t most_turned = 64, rows_turned = 16;
bool turns(const Device& device, const Split& split, DataType acc, bool forward, bool log)
{
    const cl_uint most = !forward ? 15 : log ? most_turned : 48;
    return device.kind == DeviceKind::cpu && acc == DataType::float32 && split.inner == 1 && split.n <= most &&
           split.outer >= rows_turned;
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
    if (kept)
        detail::share_group(team, queue.device());
    const unsigned lanes = team.size * team.vec;
    std::string options = detail::define("X", x) + detail::define("Y", y) + detail::define_team(team, acc) +
                          (log ? " -DLOG" : "") + (acc == DataType::float64 ? " -DCLPRIM_WIDE" : "");
    if (const std::int64_t part = rows ? part_of(queue.device(), split, team) : 0) {
        const Program& program = queue.context().program("kernels/softmax/softmax.cl", options + " -DPARTS");
        const Range range = Range::groups({std::size_t(detail::divide_up(std::int64_t{split.n}, part)),
                                           std::size_t(split.outer), 1}, {team.size, 1, 1});
        const Tensor partial =
            queue.context().empty({2, std::int64_t(range.global[0] / team.size * split.outer)}, acc, queue);
        return Parts{queue, program, range, partial, split.n, cl_uint(part)}.run(tensors...);
    }
    if (turns(queue.device(), split, acc, direction == "forward", log)) {
        constexpr std::int64_t elements = 4096;   // of a work-item
        const cl_uint share = std::max<std::int64_t>(elements / split.n / rows_turned, 1) * rows_turned;
        const Program& program = queue.context().program("kernels/softmax/softmax.cl",
                                                         options + " -DMOST=" + std::to_string(most_turned));
        queue.launch(program.kernel(direction + "_turned"), Range::groups(detail::divide_up(split.outer, share), 1),
                     tensors..., split.outer, split.n, share);
        return;
    }
    constexpr unsigned most_short = 8;   // vectors of rows that registers of CPUs hold
    if (rows && cpu && team.vec == 16 && acc == DataType::float32 && direction == "backward" && split.n >= team.vec &&
        split.n <= most_short * team.vec)
        options += " -DSHORT=" + std::to_string((split.n + team.vec - 1) / team.vec);
    if (kept)
        options += " -DKEPT=" + std::to_string(std::bit_ceil((split.n + lanes - 1) / lanes));
    const unsigned numbers = acc == DataType::float64 ? 16 : 32;
    const Columns columns(queue.device(), split, team, direction == "forward" ? numbers : numbers / 2);
    if (!rows && !cpu)
        options += columns.options();
    const Program& program = queue.context().program("kernels/softmax/softmax.cl", options);
    if (rows) {
        const std::int64_t groups = cpu ? queue.device().compute_units * 16 : std::int64_t(split.outer);
        const cl_uint share = detail::divide_up(split.outer, groups);
        queue.launch(program.kernel(direction + "_rows"),
                     Range::groups({std::size_t(detail::divide_up(split.outer, share * team.teams)), 1, 1},
                                   {team.size, team.teams, 1}),
                     tensors..., split.outer, split.n, share);
        return;
    }
    const std::int64_t items = split.outer * detail::divide_up(split.inner, cpu ? 4 * team.vec : team.vec);
    queue.launch(program.kernel(direction + "_columns"),
                 cpu ? Range::groups(items)
                     : Range::groups(detail::divide_up(items * columns.high, columns.group), columns.group),
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
