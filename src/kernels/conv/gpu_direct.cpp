// Host side of gpu_direct.cl and gpu_direct_weight.cl.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <kernels/conv/gpu_implicit.hpp>
#include <kernels/gemm/gpu_tile.hpp>
#include <kernels/pointwise/iteration.hpp>

namespace clprim::conv {

#include <kernels/conv/gpu_direct_problem.cl>

namespace {

constexpr cl_long items = 64, pixels = 4;   // of a work-group, of a row of a work-item's block
// Taps whose sums or weights a work-item holds.
constexpr cl_long most_taps_of_few = 49, most_taps_of_many = 9;

// More channels fill the tiles of an implicit product, those of a matrix engine sooner.
cl_long most_channels(const Call& call, const Device& device)
{
    return rejects_gpu_matrix(call, device) ? 32 : 16;
}

bool channels_last(const Call& call)
{
    return call.problem.x_strides[1] == 1 && call.problem.y_strides[1] == 1 && call.problem.groups > 1;
}

bool in_fours(const cl_long* strides, const Tensor& t)
{
    return (strides[0] | strides[2] | strides[3] | static_cast<cl_long>(t.buffer_offset())) % 4 == 0;
}

// Whether channels are groups of their own and lie at multiples of four elements, as many. Four of float64 would fill
// the registers.
bool quads(const Call& call)
{
    const Problem& p = call.problem;
    return channels_last(call) && size_of(call.dtype) <= 4 && std::max(p.in_channels, p.out_channels) == 1 &&
           p.groups % 4 == 0 && in_fours(p.x_strides, call.x) && in_fours(p.y_strides, call.y) &&
           p.x_strides[4] % 4 == 0 && p.y_strides[4] % 4 == 0;
}

// Whether rows of a planar tensor begin at multiples of four elements and have as many.
bool rows_in_fours(const Call& call, const cl_long* strides, const cl_long* sizes, const Tensor& t)
{
    return !channels_last(call) && strides[4] == 1 && (sizes[2] | strides[1]) % 4 == 0 && in_fours(strides, t);
}

// How a launch is cut into work-items: options of gpu_direct_common.cl.
struct Cut {
    bool quads, flip, more, skip = false, uniform = false, result_quads = false;
    cl_long taps, taps_y = 0, scale, step, lines = 1, apart = 1, rows, phase = -1;
    cl_long last = 0;   // of gpu_direct_rows.cl, which it stands for; 0: not that

    Cut(const Call& call, const ImplicitProblem& p, const Device& device)
        : quads(conv::quads(call)), flip(p.step[2] < 0), taps(p.taps[2]),
          scale(p.scale[2] <= 2 && std::abs(p.step[2]) <= 2 ? p.scale[2] : 0),
          step(scale > 0 ? std::abs(p.step[2]) : 1),
          rows(quads || p.rows == 1 ? 1 : p.rows == 2 ? 2 : 4)
    {
        const cl_long most_taps = scale > 0 ? 7 : 3;
        more = taps > most_taps || taps == 0;
        if (more)
            taps = scale > 0 ? 4 : 2;
        const cl_long registers = filled(call, device);
        if (registers > 136)
            more = true, taps = 4;
        const bool many = quads || rows > 1, intel = !device.sub_group_sizes.empty();   // of 128 registers
        const cl_long held = taps * p.taps[1];
        const bool sums_fit = !intel || call.pass != ConvPass::backward_weight || held * words(call) <= 64;
        if (!more && scale > 0 && p.scale[1] == scale && std::abs(p.step[1]) == step && sums_fit &&
            held <= (many ? most_taps_of_many : most_taps_of_few))
            taps_y = p.taps[1];
        const cl_long first = p.shift[2] + (scale > 0 && flip ? (p.taps[2] - 1) * p.step[2] : 0);   // of a row's pixels
        const Tensor& source = call.pass == ConvPass::backward_data ? call.y : call.x;
        const Tensor& result = call.pass == ConvPass::backward_data ? call.x : call.y;
        if (rows_in_fours(call, p.source_strides, p.in, source) &&
            (scale > 0 || (p.scale[2] == 1 && (p.step[2] | first) % 4 == 0)))
            phase = (first % 4 + 4) % 4;
        result_quads = rows_in_fours(call, p.result_strides, p.out, result);
        if (taps_y > 0 && p.out[1] > 1 && !(quads && (intel || scale > 1)))
            lines = !many && scale == 1 && taps == 1 && held > 9 ? 8
                    : many || scale > 1 || (held > 9 && taps > 2)        ? 2
                                                                         : 4;
        if (lines > 1 && taps_y > 1 && scale < step)
            apart = step;
        skip = rows_crowded(call, device) || (!more && registers > 128);
    }

    // For gpu_direct_rows.cl, if it is for the launch: depthwise, with taps that do not fit registers at once, or that
    // leave what is read of a row to few of them.
    void take_rows(const ImplicitProblem& p)
    {
        const bool depthwise = p.rows == 1 && p.depth == 1 && !quads;
        const bool flat = p.taps[0] == 1 && p.in[0] == 1 && p.out[0] == 1 && p.shift[0] == 0;
        const bool even = p.scale[1] == 1 && scale == 1 && std::abs(p.step[1]) == step;
        const bool many = p.taps[2] > 7 || p.taps[1] > 7;
        if (!depthwise || !flat || !even || !many || taps_y > 0 || p.taps[1] == 0 || p.taps[2] == 0)
            return;
        const cl_long most = step == 1 ? 8 : 4, all = p.taps[2], pieces = ceil_div(all, most);
        taps = pieces == 1 ? all : phase >= 0 ? most : ceil_div(all, pieces);   // fours stay fours
        last = all - (ceil_div(all, taps) - 1) * taps;
        more = all > taps;
        taps_y = 0;
        lines = p.taps[1] == 1 || p.out[1] == 1 ? 1 : taps == 1 ? 8 : 4;
        apart = lines > 1 ? step : 1;
        skip = false;
    }

    // Blocks of `lines` rows.
    cl_long blocks_of(cl_long out) const
    {
        return apart == 1 ? ceil_div(out, lines)
                          : out / (lines * apart) * apart + std::min(out % (lines * apart), apart);
    }

    // Values of a row that four pixels read, of a lane.
    cl_long values_of_row() const
    {
        if (scale == 0)
            return pixels * taps;
        return scale % step == 0 && step > 1 ? pixels - 1 + taps : (pixels - 1) * scale + (taps - 1) * step + 1;
    }

    // Registers of a value as it is computed.
    static cl_long words(const Call& call) { return static_cast<cl_long>(size_of(real_type(call.dtype))) / 4; }

    // Whether an address fills two of Intel's registers, which are short in sub-groups of 8, as beside float64. Halves
    // leave enough of them.
    static bool wide_addresses(const Call& call, const Device& device)
    {
        return detail::has_eights(device) && device.fp64 && size_of(call.dtype) >= 4;
    }

    // Whether all rows of the source at once fill too many registers: fours beside weights, or values beside places and
    // what each row needs. Those of Intel's GPUs are few beside many sums and factors or weights.
    bool rows_crowded(const Call& call, const Device& device) const
    {
        const cl_long rows_read = (lines - 1) * std::max<cl_long>(scale / step, 1) + taps_y;
        const cl_long values = rows_read * values_of_row();
        if (quads)
            return size_of(call.dtype) >= 4 && 4 * (values + taps * taps_y) > 160;
        const cl_long with_places = words(call) * values * (phase < 0 ? 2 : 1);
        const cl_long others = words(call) * rows * (taps * taps_y + lines * pixels);
        const cl_long all = words(call) * values + others;
        if (call.pass != ConvPass::backward_weight)
            return with_places + 4 * words(call) * rows_read > 240 ||
                   (!device.sub_group_sizes.empty() && phase < 0 && with_places + others > 180) ||
                   (wide_addresses(call, device) && phase < 0 && others > 64 && all > 90);
        return with_places > 230 || (!device.sub_group_sizes.empty() && others > 64 && all > 110);
    }

    // How many of Intel's 128 registers all taps of a row fill if they are many: values with their places, four sums or
    // factors, weights, or sums that are kept beside what replaces them. As compilers were seen to spill.
    cl_long filled(const Call& call, const Device& device) const
    {
        if (!quads || more || taps <= 4 || device.sub_group_sizes.empty())
            return 0;
        const cl_long sums = call.pass == ConvPass::backward_weight ? 2 : 1;
        const cl_long addresses = detail::spilling_sub_group(device) ? -24 : wide_addresses(call, device) ? 8 : 0;
        return 4 * (values_of_row() * 3 / 2 + pixels + sums * taps) + addresses;
    }

    std::string options() const
    {
        return fmt::format(" -DQUADS={:d} -DFLIP={:d} -DMORE={:d} -DTAPS={} -DTAPS_Y={} -DSCALE={} -DSTEP={} "
                           "-DLINES={} -DAPART={} -DSKIP={:d} -DROWS={} -DPHASE={} -DRESULT_QUADS={:d}",
                           quads, flip, more, taps, taps_y, scale, step, lines, apart, skip, rows, phase, result_quads);
    }
};

void count(gpu_direct_problem& q, int axis, cl_long number)
{
    const Divider divider(static_cast<std::uint32_t>(std::max<cl_long>(number, 1)));
    q.counts[axis] = static_cast<int>(number);
    q.magic[axis] = divider.magic;
    q.magic_shift[axis] = divider.shift;
}

gpu_direct_problem direct_problem(const ImplicitProblem& p, const Cut& cut)
{
    gpu_direct_problem q{};
    q.conv = gpu_problem(p);
    const cl_long row_blocks = ceil_div(p.rows, cut.rows);
    count(q, COUNT_X, ceil_div(p.out[2], pixels));
    count(q, COUNT_Y, cut.blocks_of(p.out[1]));
    count(q, COUNT_Z, p.out[0]);
    count(q, COUNT_C, cut.quads ? p.groups / 4 : p.groups * row_blocks);
    count(q, COUNT_ROWS, row_blocks);
    return q;
}

const Program& direct_program(Queue& queue, const char* file, const Call& call, const Tensor& weights,
                              const std::string& options)
{
    const auto near = [](const Tensor& t) {   // counted from the beginning of its buffer
        return (static_cast<cl_long>(t.buffer_offset()) + span_of(t)) * static_cast<cl_long>(size_of(t.dtype)) <
               cl_long{1} << 31;
    };
    const char* offset = near(call.x) && near(weights) && near(call.y) ? "uint" : "long";
    const int sub_group = detail::spilling_sub_group(queue.device());
    return queue.context().program(file, fmt::format("{} -DOFFSET={} -DCHANNELS_LAST={:d}{}{}",
                                                     dtype_options(call), offset, channels_last(call), options,
                                                     sub_group ? fmt::format(" -DSUB_GROUP={}", sub_group) : ""));
}

void launch(Queue& queue, const Call& call, ImplicitProblem p, cl_long first)
{
    if (p.pixels() == 0)
        return;
    p.taps_inner = 1;
    p.weight_stride = p.total_depth();
    Tensor result = call.result();
    result.offset += first;
    Cut cut(call, p, queue.device());
    cut.take_rows(p);
    gpu_direct_problem q = direct_problem(p, cut);
    const cl_long plane = cl_long{q.counts[COUNT_X]} * q.counts[COUNT_Y] * q.counts[COUNT_Z];
    const cl_long others = q.counts[COUNT_C] * p.batch, plane_groups = ceil_div(plane, items);
    cut.uniform = !channels_last(call) && plane_groups * items * 4 <= plane * 5;   // a fifth idles at most
    cut.result_quads = rows_in_fours(call, p.result_strides, p.out, result);
    count(q, COUNT_INNER, plane_groups);
    q.items = static_cast<int>(cut.uniform ? plane : plane * others);
    const cl_long groups = cut.uniform ? plane_groups * others : ceil_div(plane * others, items);
    const Tensor weights = weight_rows(queue, call, p);
    // Wide ones held beside the values of a stride leave too few registers, but for NVIDIA's compiler.
    const bool nvidia = detail::on_nvidia(queue.device());
    const bool held = cut.scale == 1 || size_of(call.dtype) < 4 || nvidia;
    const bool weight_quads = cut.quads && cut.taps_y > 0 && held && p.taps[0] == 1 &&
                              weights.buffer_offset() % 4 == 0;
    const std::string options = cut.options() + fmt::format(" -DWEIGHT_QUADS={:d} -DACTIVATION={} -DUNIFORM={:d}",
                                                            weight_quads, call.epilogue.activation, cut.uniform);
    const Program& program =
        cut.last > 0 ? direct_program(queue, "kernels/conv/gpu_direct_rows.cl", call, weights,
                                      options + fmt::format(" -DLAST={}", cut.last))
                     : direct_program(queue, "kernels/conv/gpu_direct.cl", call, weights, options);
    queue.launch(program.kernel(cut.last > 0 ? "conv_direct_rows" : "conv_direct"),
                 Range::groups({static_cast<std::size_t>(groups), 1, 1}, {static_cast<std::size_t>(items), 1, 1}),
                 call.pass == ConvPass::forward ? call.x : call.y, weights, call.bias, result, q);
}

}  // namespace

Rejection rejects_gpu_direct(const Call& call, const Device& device)
{
    if (Rejection reason = rejects_gpu_implicit(call, device))
        return reason;
    const Problem& p = call.problem;
    const cl_long channels = std::max(p.in_channels, p.out_channels);
    if (p.groups == 1 || channels > most_channels(call, device))
        return "needs groups of at most 16 or, without a matrix engine, 32 channels";
    if (p.batch * p.groups * channels * std::max(p.in_pixels(), p.out_pixels()) / pixels >= cl_long{1} << 31)
        return "takes less than 2^33 elements only";
    return {};
}

void run_gpu_direct(Queue& queue, const Call& call)
{
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) { launch(queue, call, p, first); });
}

namespace {

// A weight gradient's work-groups, and the parts into which each may be cut.
struct WeightWork {
    ImplicitProblem p;
    Cut cut;
    gpu_direct_problem q;
    cl_long groups, tap_rows, blocks, most;

    WeightWork(const Call& call, const Device& device)
        : p(problem_of(call)), cut(call, p, device), q(direct_problem(p, cut))
    {
        const bool by_channel = channels_last(call);
        blocks = cl_long{q.counts[COUNT_X]} * q.counts[COUNT_Y] * q.counts[COUNT_Z] * p.batch;
        groups = by_channel ? ceil_div(q.counts[COUNT_C], items) : q.counts[COUNT_C];
        tap_rows = p.depth * p.taps[0] * (cut.taps_y > 0 ? 1 : p.taps[1]) * ceil_div(p.taps[2], cut.taps);
        most = std::max<cl_long>(blocks / (by_channel ? 16 : items * 4), 1);
    }

    static ImplicitProblem problem_of(const Call& call)
    {
        ImplicitProblem p = forward_problem(call);
        p.taps_inner = 1;
        return p;
    }

    // Each reads its channels of both tensors, and does little else.
    cl_long usual_parts(const Call& call, const Device& device) const
    {
        const Problem& problem = call.problem;
        const cl_long channels = channels_last(call) ? std::min(problem.groups * problem.out_channels, items) : 1;
        const double bytes = static_cast<double>(channels) * static_cast<double>(size_of(call.dtype)) *
                             static_cast<double>(problem.batch * (problem.in_pixels() + problem.out_pixels()));
        constexpr double engines = 4;   // a sub-group on each, as sub-groups of 16 lanes are
        const detail::GpuRate rate = detail::gpu_rate(device);
        const detail::Workload work{static_cast<double>(groups * tap_rows), engines, bytes / (rate.bytes * engines), 1,
                                    true};
        return detail::best_parts(rate, work, static_cast<double>(call.w.numel()), most, true).count;
    }
};

}  // namespace

Space gpu_direct_weight_space(const Call& call, const Device& device)
{
    return {{"parts", {1, 4, 16, 64, 256}, WeightWork(call, device).usual_parts(call, device)}};
}

void run_gpu_direct_weight(Queue& queue, const Call& call) { run_gpu_direct_weight_at(queue, call, {}); }

void run_gpu_direct_weight_at(Queue& queue, const Call& call, const Point& point)
{
    if (forward_problem(call).pixels() == 0)
        return fill_zero(queue, call.w);
    WeightWork work(call, queue.device());
    ImplicitProblem& p = work.p;
    gpu_direct_problem& q = work.q;
    p.parts = std::min(point.empty() ? work.usual_parts(call, queue.device()) : point.at("parts"), work.most);
    q.items = static_cast<int>(work.blocks);
    q.parts = static_cast<int>(p.parts);
    q.outputs = static_cast<int>(p.groups * p.rows);
    const Tensor sums = queue.context().empty({p.parts * call.w.numel()}, real_type(call.dtype), queue);
    const Program& program =
        direct_program(queue, "kernels/conv/gpu_direct_weight.cl", call, call.w, work.cut.options());
    queue.launch(program.kernel("conv_direct_weight"),
                 Range::groups({static_cast<std::size_t>(work.groups), static_cast<std::size_t>(work.tap_rows),
                                static_cast<std::size_t>(p.parts)}, {static_cast<std::size_t>(items), 1, 1}),
                 call.x, call.y, sums, q);
    add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
