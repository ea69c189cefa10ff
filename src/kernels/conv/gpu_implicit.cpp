// Host side of gpu_implicit.cl and gpu_implicit_weight.cl.
#include <algorithm>

#include <fmt/format.h>

#include <kernels/conv/gpu_implicit.hpp>
#include <kernels/conv/gpu_tables.hpp>
#include <kernels/gemm/gpu_tile.hpp>
#include <kernels/gemm/problem.hpp>
#include <kernels/pointwise/iteration.hpp>
#include <kernels/team.hpp>

namespace clprim::conv {
namespace {

bool in_fours(std::initializer_list<cl_long> numbers)
{
    return std::all_of(numbers.begin(), numbers.end(), [](cl_long number) { return number % 4 == 0; });
}

// Whether channels are what neighbouring work-items take, and k runs over (tap, channel).
bool channels_last(const Call& call)
{
    return call.problem.x_strides[1] == 1 && call.problem.groups * call.problem.in_channels > 1;
}

// Before Xe2 every address of a slab takes a register of its own, which the sums of a large tile need, unless it
// changes from step to step. Xe-HPC has sub-groups of 16 as Xe2 does, but splits matrix products.
int slab_pairs(const Device& device, const detail::GpuTile& tile)
{
    return tile.lines == 128 && (detail::has_eights(device) ||
                                 device.has_extension("cl_intel_subgroup_split_matrix_multiply_accumulate"))
               ? 2 : 1;
}

// The options by which both kernels read a launch's tensors; `farthest` bounds distances of what else they read.
std::string options_for(const Device& device, const Call& call, const ImplicitProblem& p, const detail::GpuTile& tile,
                        cl_long farthest)
{
    const bool last = channels_last(call);
    const auto quads = [](const Tensor& tensor, const cl_long* strides) {
        return strides[1] == 1 && in_fours({static_cast<cl_long>(tensor.buffer_offset()), strides[0], strides[2],
                                            strides[3], strides[4]});
    };
    const Problem& q = call.problem;
    const bool in_quads =
        last && in_fours({p.rows, p.depth}) && quads(call.x, q.x_strides) && quads(call.y, q.y_strides);
    farthest = std::max({farthest, span_of(call.x), span_of(call.y)});
    return detail::gemm_options(call.dtype) + tile.options() +
           fmt::format(" -DOFFSET={} -DCHANNELS_LAST={:d} -DQUADS_OF_CHANNELS={:d} -DONE_TAP={:d} -DINSIDE={:d} "
                       "-DPLANES={:d} -DSLAB_PAIRS={}",
                       farthest < cl_long{1} << 31 ? "int" : "long", last, in_quads,
                       p.taps[0] * p.taps[1] * p.taps[2] == 1, always_inside(p), has_planes(p),
                       slab_pairs(device, tile));
}

// Sums of one launch: rows are channels of the result, columns its pixels or the weights of a row.
struct Sums {
    cl_long rows, columns, groups;
};

// Places of pixels take registers too.
void adapt_tile(const Device& device, const Call& call, detail::GpuTile& tile)
{
    const bool places = !channels_last(call) || call.problem.taps() > 1;
    const bool on_nvidia = detail::on_nvidia(device);
    if (tile.lines == 128 && (!device.sub_group_sizes.empty() || on_nvidia))   // Intel, NVIDIA
        tile.slab_k = 8;
    if (tile.lines == 128)   // interleaved work-items take a few registers more, with which a second group has no room
        tile.interleaved = false;
    if (places)   // what finds them would be spilled
        tile.registers = 0;
    if (on_nvidia && tile.lines == 128 && places && channels_last(call))   // 150 registers of 256 work-items
        tile.resident = 1;
}

// `depth`: products of a sum. By `most_parts` the weight gradient's are cut, whose parts are added up.
detail::TiledCut usual_cut(const Device& device, const Call& call, const Sums& sums, cl_long depth, cl_long most_parts)
{
    const DataType real = real_type(call.dtype);
    return detail::best_tiled_cut(device, real,
                                  {sums.rows, sums.columns, sums.groups, depth,
                                   static_cast<double>(call.w.numel()), most_parts,
                                   most_parts > 1 && real != call.dtype},
                                  [&](detail::GpuTile& tile) { adapt_tile(device, call, tile); });
}

cl_long most_parts(const Call& call)
{
    return std::max<cl_long>(call.problem.batch * call.problem.out_pixels() / 128, 1);
}

// Undefined for a single tap, whose kernels need none.
Tensor table_for(Queue& queue, const gpu_conv_problem& p)
{
    return p.taps[0] * p.taps[1] * p.taps[2] == 1 ? Tensor() : tap_table(queue, p);
}

void launch(Queue& queue, const Call& call, ImplicitProblem p, cl_long result_first, const Point& point)
{
    if (p.pixels() == 0)
        return;
    p.taps_inner = !channels_last(call);
    p.weight_stride = p.total_depth();
    detail::GpuTile tile =
        point.empty() ? usual_cut(queue.device(), call, {p.rows, p.pixels(), p.groups}, p.total_depth(), 1).tile
                      : detail::gpu_tile_at(point, queue.device(), real_type(call.dtype));
    if (p.taps[0] * p.taps[1] * p.taps[2] != 1)   // a strided gradient has launches without any
        tile.registers = 0;
    const Tensor weights = weight_rows(queue, call, p);
    const bool aligned = in_fours({p.weight_stride, static_cast<cl_long>(weights.buffer_offset())});
    const std::string options =
        options_for(queue.device(), call, p, tile, tile.lines * p.weight_stride) +
        fmt::format(" -DWEIGHTS_ALIGNED={:d} -DACTIVATION={} -DENDS_WAIT={:d}", aligned, p.epilogue.activation,
                    !queue.device().sub_group_sizes.empty());
    const gpu_conv_problem problem = gpu_problem(p);
    const Tensor table = table_for(queue, problem);
    Tensor result = call.result();
    result.offset += result_first;
    const auto groups = Range::groups({static_cast<std::size_t>(ceil_div(p.pixels(), tile.lines)),
                                       static_cast<std::size_t>(ceil_div(p.rows, tile.lines) * p.groups), 1},
                                      {static_cast<std::size_t>(tile.items()), 1, 1});
    queue.launch(queue.context().program("kernels/conv/gpu_implicit.cl", options).kernel("conv_tiled"), groups,
                 call.pass == ConvPass::forward ? call.x : call.y, weights, call.bias, result, table, problem);
}

}  // namespace

static_assert(sizeof(gpu_conv_problem) == 4 * 8 + 42 * 4, "as OpenCL C lays it out");

gpu_conv_problem gpu_problem(const ImplicitProblem& p)
{
    gpu_conv_problem q{};
    q.source_image = p.source_strides[0];
    q.source_group = p.depth * p.source_strides[1];
    q.result_image = p.result_strides[0];
    q.result_group = p.rows * p.result_strides[1];
    q.source_channel = static_cast<int>(p.source_strides[1]);
    q.result_channel = static_cast<int>(p.result_strides[1]);
    for (int i = 0; i < 3; ++i) {
        q.source_axis[i] = static_cast<int>(p.source_strides[2 + i]);
        q.result_axis[i] = static_cast<int>(p.result_strides[2 + i]);
        q.in[i] = static_cast<int>(p.in[i]);
        q.out[i] = static_cast<int>(p.out[i]);
        q.taps[i] = static_cast<int>(p.taps[i]);
        q.scale[i] = static_cast<int>(p.scale[i]);
        q.shift[i] = static_cast<int>(p.shift[i]);
        q.step[i] = static_cast<int>(p.step[i]);
        const Divider divider(static_cast<std::uint32_t>(p.out[i]));
        q.magic[i] = divider.magic;
        q.magic_shift[i] = divider.shift;
    }
    q.rows = static_cast<int>(p.rows);
    q.depth = static_cast<int>(p.depth);
    q.total = static_cast<int>(p.total_depth());
    q.pixels = static_cast<int>(p.pixels());
    q.part_pixels = static_cast<int>(ceil_div(p.pixels(), std::max<cl_long>(p.parts, 1)));
    q.taps_inner = static_cast<int>(p.taps_inner);
    q.has_bias = static_cast<int>(p.epilogue.has_bias);
    q.accumulate = static_cast<int>(p.epilogue.accumulate);
    q.alpha = p.epilogue.alpha;
    q.beta = p.epilogue.beta;
    return q;
}

bool always_inside(const ImplicitProblem& p)
{
    for (int i = 0; i < 3; ++i) {
        const cl_long reach = (p.taps[i] - 1) * p.step[i];
        if (p.shift[i] + std::min<cl_long>(reach, 0) < 0 ||
            (p.out[i] - 1) * p.scale[i] + p.shift[i] + std::max<cl_long>(reach, 0) >= p.in[i])
            return false;
    }
    return true;
}

bool has_planes(const ImplicitProblem& p)
{
    return std::max({p.in[0], p.out[0], p.taps[0]}) > 1 || p.shift[0] != 0;
}

const Program& weights_program(Queue& queue, DataType dtype)
{
    return queue.context().program("kernels/conv/gpu_weights.cl", detail::gemm_options(dtype));
}

Tensor weight_rows(Queue& queue, const Call& call, const ImplicitProblem& p)
{
    const bool as_forward = call.pass == ConvPass::forward ||   // depthwise: rows and channels are one and the same
                            (std::max(p.rows, p.depth) == 1 && p.weight_stride == call.problem.taps());
    if (as_forward && weights_in_order(call.problem, p.taps_inner))
        return call.w;
    const auto gather = [&] {
        const cl_long size = p.groups * p.rows * p.weight_stride;
        const Tensor rows = queue.context().empty({std::max<cl_long>(size, 1)}, call.dtype, queue);
        const auto depth = static_cast<std::size_t>(p.depth);
        const auto lines = static_cast<std::size_t>(p.groups * p.rows);
        if (size > 0)
            queue.launch(weights_program(queue, call.dtype).kernel("conv_gather_weights"),
                         detail::plane_range(queue.device(), depth, lines, 1), call.w, rows, p,
                         pack_problem(call, p.taps_inner));
        return rows;
    };
    if (!call.prepared)
        return gather();
    const cl_long* first = p.tap_first;
    return call.prepared->get(queue, fmt::format("conv gpu rows {} {} {} {}:{}:{}", static_cast<int>(call.pass),
                                                 p.groups, p.taps_inner, first[0], first[1], first[2]), gather,
                              Prepared::Keeps::all);
}

Rejection rejects_gpu_implicit(const Call& call, const Device& device)
{
    const Problem& q = call.problem;
    if (device.kind != DeviceKind::gpu)
        return "is made for GPUs";
    if (!is_floating_point(call.dtype))
        return "computes floating point dtypes only";
    if (device.max_work_group_size < detail::smallest_tile_items)
        return "needs work-groups of 64";
    const cl_long most = cl_long{1} << 31;
    if (q.batch * std::max(q.in_pixels(), q.out_pixels()) >= most)
        return "takes less than 2^31 positions only";
    if (std::max(q.in_channels, q.out_channels) * q.taps() >= most / 4)
        return "takes sums of less than 2^29 products only";
    for (const auto& [sizes, strides] : {std::pair{q.in, q.x_strides}, std::pair{q.out, q.y_strides}}) {
        cl_long extent = std::max(q.in_channels, q.out_channels) * strides[1];
        for (int i = 0; i < 3; ++i)
            extent += sizes[i] * strides[2 + i] + q.kernel[i] * q.dilation[i] * strides[2 + i];
        if (extent >= most)
            return "takes images below 2^31 elements only";
    }
    return {};
}

void run_gpu_implicit_at(Queue& queue, const Call& call, const Point& point)
{
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) { launch(queue, call, p, first, point); });
}

void run_gpu_implicit(Queue& queue, const Call& call) { run_gpu_implicit_at(queue, call, {}); }

namespace {

detail::TiledCut usual_cut(const Device& device, const Call& call)
{
    const Problem& q = call.problem;
    const bool forward = call.pass == ConvPass::forward;
    const Sums sums{forward ? q.out_channels : q.in_channels, q.batch * (forward ? q.out_pixels() : q.in_pixels()),
                    q.groups};
    const cl_long depth = (forward ? q.in_channels : q.out_channels) * q.taps();
    return usual_cut(device, call, sums, depth, 1);
}

}  // namespace

double gpu_implicit_clocks(const Call& call, const Device& device) { return usual_cut(device, call).clocks; }

Space gpu_implicit_space(const Call& call, const Device& device)
{
    return detail::gpu_tile_space(usual_cut(device, call).tile, device);
}

namespace {

detail::TiledCut usual_weight_cut(const Device& device, const Call& call)
{
    const Problem& q = call.problem;
    const Sums sums{q.out_channels, q.in_channels * q.taps(), q.groups};
    return usual_cut(device, call, sums, q.batch * q.out_pixels(), most_parts(call));
}

}  // namespace

double gpu_implicit_weight_clocks(const Call& call, const Device& device)
{
    return usual_weight_cut(device, call).clocks;
}

void run_gpu_implicit_weight(Queue& queue, const Call& call) { run_gpu_implicit_weight_at(queue, call, {}); }

Space gpu_implicit_weight_space(const Call& call, const Device& device)
{
    const detail::TiledCut cut = usual_weight_cut(device, call);
    Space space = detail::gpu_tile_space(cut.tile, device);
    space.push_back({"parts", {1, 2, 4, 8, 16, 32}, cut.parts});
    return space;
}

void run_gpu_implicit_weight_at(Queue& queue, const Call& call, const Point& point)
{
    const Problem& q = call.problem;
    ImplicitProblem p = forward_problem(call);
    if (p.pixels() == 0)
        return fill_zero(queue, call.w);
    p.taps_inner = !channels_last(call);
    p.weight_stride = p.total_depth();
    const Device& device = queue.device();
    const detail::TiledCut cut =
        point.empty()
            ? usual_cut(device, call, {p.rows, p.weight_stride, p.groups}, p.pixels(), most_parts(call))
            : detail::TiledCut{detail::gpu_tile_at(point, device, real_type(call.dtype)), point.at("parts")};
    const detail::GpuTile& tile = cut.tile;
    p.parts = std::clamp<cl_long>(cut.parts, 1, most_parts(call));
    p.parts = ceil_div(p.pixels(), ceil_div(p.pixels(), p.parts));   // none is empty
    const DataType real = real_type(call.dtype);
    const bool in_place = p.parts == 1 && real == call.dtype && weights_in_order(q, p.taps_inner);
    const Tensor sums = in_place ? call.w : queue.context().empty({p.parts * call.w.numel()}, real, queue);
    const gpu_conv_problem problem = gpu_problem(p);
    const Tensor table = table_for(queue, problem);
    const auto groups = Range::groups({static_cast<std::size_t>(ceil_div(p.weight_stride, tile.lines)),
                                       static_cast<std::size_t>(ceil_div(p.rows, tile.lines) * p.groups),
                                       static_cast<std::size_t>(p.parts)},
                                      {static_cast<std::size_t>(tile.items()), 1, 1});
    const Program& program = queue.context().program("kernels/conv/gpu_implicit_weight.cl",
                                                     options_for(queue.device(), call, p, tile, 0));
    queue.launch(program.kernel("conv_tiled_weight"), groups, call.x, call.y, sums, table, problem);
    if (!in_place)
        add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
