#include <clprim/norm.hpp>

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/team.hpp"
#include "core/operands.hpp"
#include "core/gpu_rate.hpp"

namespace clprim {
namespace {

using detail::AccScalar;
using detail::divide_up;

// What the kernels call shape_t: x as [outer, channels, inner].
struct Shape {
    cl_uint outer = 1, channels = 1, inner = 1;
    std::int64_t count() const { return std::int64_t(outer) * inner; }   // elements per channel
};

bool channels_innermost(const Tensor& x)
{
    if (x.is_channels_last())
        return true;
    std::int64_t expected = x.size(1);   // any rank: C has stride 1 and the other axes follow row-major
    if (x.stride(1) != 1 && x.size(1) != 1)
        return false;
    for (std::size_t i = x.dim(); i-- > 0;) {
        if (i == 1 || x.size(i) == 1)
            continue;
        if (x.stride(i) != expected)
            return false;
        expected *= x.size(i);
    }
    return true;
}

Shape shape_of(const Tensor& x)
{
    require(x.dim() >= 2, "batch_norm: input must have at least 2 dimensions, got shape ", to_string(x.shape));
    const std::int64_t channels = x.size(1), inner = x.dim() == 2 ? 1 : x.numel() / (x.size(0) * channels);
    require(x.numel() / channels < (std::int64_t(1) << 31), "batch_norm: too many elements per channel in ",
            to_string(x.shape));
    if (x.is_contiguous())
        return {cl_uint(x.size(0)), cl_uint(channels), cl_uint(inner)};
    require(channels_innermost(x), "batch_norm: input must be contiguous or channels_last, got strides ",
            to_string(x.strides));
    return {cl_uint(x.size(0) * inner), cl_uint(channels), 1};
}

struct Parameters {
    DataType x, w, acc;
    const char* flags;
};

// `crossing`: vectors of a GPU's team end in another plane than they begin in.
const Program& program_for(Queue& queue, const Parameters& types, detail::Team team, const Shape& shape,
                           bool crossing = false)
{
    std::string options = detail::define("X", types.x) + detail::define("W", types.w) +
                          detail::define_team(team, types.acc) + types.flags;
    if (team.size > 1) {
        // Work-items count a few thousand vectors beyond the last, those of crossing ones in elements.
        const std::int64_t units = shape.count() * shape.channels / (crossing ? 1 : team.vec);
        const bool wide = units >= (std::int64_t{1} << 32) - 65536;
        options += detail::concat(" -DCOLUMNS=", shape.inner == 1 ? 1 : 0, " -DWIDE=", wide ? 1 : 0,
                                  crossing ? " -DCROSSING" : "");
    }
    return queue.context().program("kernels/norm/batch_norm.cl", options);
}

DataType parameter_type(std::initializer_list<const Tensor*> tensors, std::int64_t channels, DataType otherwise)
{
    const Tensor* first = nullptr;
    for (const Tensor* t : tensors) {
        if (!t->defined())
            continue;
        require(t->numel() == channels && t->is_contiguous(), "batch_norm: parameters must be contiguous with ",
                channels, " elements, got shape ", to_string(t->shape));
        require(!first || first->dtype == t->dtype, "batch_norm: parameters differ in dtype: ",
                name_of(first ? first->dtype : t->dtype), " and ", name_of(t->dtype));
        first = t;
    }
    return first ? first->dtype : otherwise;
}

// Of a training step, which writes them forward and reads them backward, or of evaluation where they are wanted.
void require_statistics(std::initializer_list<const Tensor*> tensors, std::int64_t channels, DataType acc)
{
    for (const Tensor* t : tensors)
        require(t->defined() && t->numel() == channels && t->is_contiguous() && t->dtype == acc,
                "batch_norm: saved statistics must be contiguous ", name_of(acc), " with ", channels,
                " elements, got shape ", to_string(t->shape), " of ", name_of(t->dtype));
}

// A GPU's teams cross rows, so that they are as large as there is work; rows of quads are read as quads.
detail::Team team_for_shape(const Device& device, const Shape& shape, std::initializer_list<const Tensor*> tensors)
{
    detail::Team team = detail::team_for(device);
    if (team.size > 1)
        team.vec = detail::team_for_rows(device, shape.inner > 1 ? shape.inner : shape.channels, tensors).vec;
    return team;
}

// Whether a GPU's teams of single elements can take the second pass, which knows no rows' ends, in quads.
bool crosses_in_quads(detail::Team team, const Shape& shape, std::initializer_list<const Tensor*> tensors)
{
    return team.size > 1 && team.vec == 1 && shape.inner >= 4 && shape.count() * shape.channels % 4 == 0 &&
           std::ranges::all_of(tensors, [](const Tensor* t) { return t->buffer_offset() % 4 == 0; });
}

// Runs both passes: fused per channel while there are enough channels to share out, else by parts. `channel` adds the
// per-channel arguments. Without statistics to take (evaluation, forward) the first pass is left out.
struct Passes {
    Queue& queue;
    Parameters types;
    detail::Team team;
    Shape shape;
    const Tensor &x, &dy, &out, &mean;
    bool reduces;

    template <class... Channel>
    void run(const Channel&... channel) const
    {
        const Program& program = program_for(queue, types, team, shape);
        const Device& device = queue.device();
        const bool cpu = team.size == 1;
        // Groups that fill the device.
        const std::int64_t wanted = cpu ? std::int64_t(device.compute_units) * 4
                                        : std::max<std::int64_t>(detail::resident_items(device) / team.size, 1);
        const bool columns = shape.inner == 1 && shape.channels >= team.vec;
        if (reduces && !columns && (shape.channels >= wanted / 2 || shape.count() <= 4096)) {
            detail::launch(queue, program.kernel("fused_rows"), Range::groups(shape.channels, team.size), x, dy, out,
                           shape, channel...);
            return;
        }
        cl_uint parts = 0;
        Tensor partial;
        if (reduces) {
            const unsigned wide = std::min(std::bit_ceil((shape.channels + team.vec - 1) / team.vec), team.size);
            const std::int64_t blocks = divide_up(shape.channels, !columns ? 1 : cpu ? team.vec : team.vec * wide);
            const std::int64_t count = columns ? shape.outer : shape.count();
            const std::int64_t least = !columns ? 4096 : cpu ? 64 : 16 * team.size / wide;
            std::int64_t part = std::max(least, divide_up(count, std::max<std::int64_t>(1, wanted / blocks)));
            part = divide_up(part, std::int64_t(team.vec)) * team.vec;   // a GPU's teams read whole vectors
            parts = divide_up(count, part);
            partial = queue.context().empty({3, parts, shape.channels}, types.acc, queue);
            const Range range = Range::groups({std::size_t(blocks), parts, 1}, {team.size, 1, 1});
            Kernel& kernel = program.kernel(columns ? "reduce_columns" : "reduce_rows");
            if (columns && !cpu)
                detail::launch(queue, kernel, range, x, dy, partial, shape, mean, cl_ulong(part), cl_uint(wide));
            else
                detail::launch(queue, kernel, range, x, dy, partial, shape, mean, cl_ulong(part));
        }
        Tensor coefficients;
        if (out.defined())
            coefficients = queue.context().empty({4, shape.channels}, types.acc, queue);
        const Range channels = cpu ? Range::linear(shape.channels, 64)
                                   : detail::column_range(device, shape.channels, parts);
        detail::launch(queue, program.kernel("finish"), channels, partial, parts, shape.channels, coefficients,
                       channel...);
        if (!out.defined())
            return;
        transform(wanted, coefficients);
    }

    // The second pass over x: of coefficients, or of the parameters that they follow from.
    template <class... Source>
    void transform(std::int64_t wanted, const Source&... source) const
    {
        const bool crossing = crosses_in_quads(team, shape, {&x, &dy, &out});
        const std::int64_t vec = crossing ? 4 : team.vec;
        std::int64_t share = 1;
        const std::int64_t owned = std::max<std::int64_t>(16, 4 * vec);   // elements
        Range range = Range::groups(divide_up(x.numel(), std::int64_t(team.size) * owned), team.size);
        if (team.size == 1) {
            const std::int64_t rows = shape.inner > 1 ? std::int64_t(shape.outer) * shape.channels : shape.outer;
            const std::int64_t row = shape.inner > 1 ? shape.inner : shape.channels;
            share = std::max(divide_up(rows, wanted * 4), divide_up(8192, row));
            range = Range::groups(divide_up(rows, share));
        }
        const detail::Team second = crossing ? detail::Team{4, team.size} : team;
        const Program& program = program_for(queue, types, second, shape, crossing);
        detail::launch(queue, program.kernel("transform_all"), range, x, dy, out, shape, source..., cl_ulong(share));
    }
};

// Narrow columns (a few channels, channels_last) leave lanes empty, which is slow but right.
void require_like(const Tensor& x, const Tensor& other, const char* name)
{
    bool same = other.dtype == x.dtype && other.shape == x.shape;
    for (std::size_t i = 0; same && i < x.dim(); ++i)
        same = x.size(i) == 1 || other.stride(i) == x.stride(i);   // the stride of a single element means nothing
    require(same, "batch_norm: ", name, " must have the input's dtype, shape and strides");
}

}  // namespace

void batch_norm(Queue& queue, const BatchNorm& p)
{
    detail::check_operands("batch_norm", {{"x", p.x}, {"y", p.y}, {"weight", p.weight, detail::optional},
                                          {"bias", p.bias, detail::optional},
                                          {"running_mean", p.running_mean, detail::optional},
                                          {"running_var", p.running_var, detail::optional},
                                          {"save_mean", p.save_mean, detail::optional},
                                          {"save_invstd", p.save_invstd, detail::optional}});
    const bool empty = p.x.numel() == 0, saves = p.save_mean.defined() || p.save_invstd.defined();
    if (empty && (p.training || !saves || p.save_mean.numel() == 0))
        return;
    const Shape shape = empty ? Shape{0, cl_uint(p.save_mean.numel()), 1} : shape_of(p.x);
    if (!empty)
        require_like(p.x, p.y, "output");
    require(p.training || (p.running_mean.defined() && p.running_var.defined()),
            "batch_norm: evaluation needs running_mean and running_var");
    const DataType acc = detail::accumulate_type(p.x.dtype);
    if (p.training || saves)
        require_statistics({&p.save_mean, &p.save_invstd}, shape.channels, acc);
    const detail::Team team = team_for_shape(queue.device(), shape, {&p.x, &p.y});
    const DataType w = parameter_type({&p.weight, &p.bias, &p.running_mean, &p.running_var}, shape.channels, acc);
    // In evaluation a GPU finds coefficients where it uses them: a launch less.
    const auto in_vectors = [&](const Tensor* t) { return !t->defined() || t->buffer_offset() % team.vec == 0; };
    const bool direct = team.size > 1 && !p.training && !empty && detail::accumulate_type(w) == acc &&
                        std::ranges::all_of(std::array{&p.weight, &p.bias, &p.running_mean, &p.running_var},
                                            in_vectors);
    const Parameters types{p.x.dtype, w, acc, p.training ? " -DTRAINING" : direct ? " -DDIRECT" : ""};
    const Tensor none;
    const Passes passes{queue, types, team, shape, p.x, p.x, empty ? none : p.y, p.x, p.training};
    if (direct)
        return passes.transform(1, p.weight, p.bias, p.running_mean, p.running_var, p.save_mean, p.save_invstd,
                                AccScalar{p.eps, acc});
    passes.run(p.weight, p.bias, p.running_mean, p.running_var, p.save_mean, p.save_invstd, AccScalar{p.eps, acc},
               AccScalar{p.momentum, acc});
}

void batch_norm_backward(Queue& queue, const BatchNormBackward& p)
{
    detail::check_operands("batch_norm_backward", {{"grad_output", p.grad_output}, {"x", p.x},
                                                   {"weight", p.weight, detail::optional}, {"mean", p.mean},
                                                   {"statistic", p.statistic},
                                                   {"grad_input", p.grad_input, detail::optional},
                                                   {"grad_weight", p.grad_weight, detail::optional},
                                                   {"grad_bias", p.grad_bias, detail::optional}});
    if (p.x.numel() == 0)
        return;
    const Shape shape = shape_of(p.x);
    require_like(p.x, p.grad_output, "grad_output");
    if (p.grad_input.defined())
        require_like(p.x, p.grad_input, "grad_input");
    const DataType acc = detail::accumulate_type(p.x.dtype);
    if (p.training)
        require_statistics({&p.mean, &p.statistic}, shape.channels, acc);
    const detail::Team team = team_for_shape(queue.device(), shape, {&p.x, &p.grad_output, &p.grad_input});
    const Tensor none;
    const Tensor &m = p.training ? none : p.mean, &s = p.training ? none : p.statistic;
    const DataType w = parameter_type({&p.weight, &p.grad_weight, &p.grad_bias, &m, &s}, shape.channels, acc);
    const Parameters types{p.x.dtype, w, acc, p.training ? " -DBACKWARD -DTRAINING" : " -DBACKWARD"};
    const bool reduces = p.training || p.grad_weight.defined() || p.grad_bias.defined();
    const Passes passes{queue, types, team, shape, p.x, p.grad_output, p.grad_input, p.mean, reduces};
    passes.run(p.weight, p.mean, p.statistic, p.grad_weight, p.grad_bias, AccScalar{p.eps, acc});
}

}  // namespace clprim
