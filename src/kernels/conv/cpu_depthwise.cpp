// Host side of cpu_depthwise.cl.
#include <algorithm>

#include <clprim/copy.hpp>

#include <kernels/conv/cpu_depthwise.hpp>

namespace clprim::conv {

DepthwiseProblem depthwise_from_implicit(const ImplicitProblem& q, const Problem& problem)
{
    DepthwiseProblem p{};
    p.batch = q.batch;
    p.groups = q.groups;
    p.rows = q.rows;
    p.depth = q.depth;
    for (int i = 0; i < 2; ++i) {
        p.taps[i] = q.taps[1 + i];
        p.in[i] = q.in[1 + i];
        p.out[i] = q.out[1 + i];
        p.tap_first[i] = q.tap_first[1 + i];
        p.tap_period[i] = q.tap_period[1 + i];
        p.scale[i] = q.scale[1 + i];
        p.shift[i] = q.shift[1 + i];
        p.step[i] = q.step[1 + i];
        p.source_strides[i] = q.source_strides[i];
        p.result_strides[i] = q.result_strides[i];
        p.w_strides[i] = problem.w_strides[i];
        p.source_strides[2 + i] = q.source_strides[3 + i];
        p.result_strides[2 + i] = q.result_strides[3 + i];
        p.w_strides[2 + i] = problem.w_strides[3 + i];
    }
    p.source_size = q.source_size;
    p.epilogue = q.epilogue;
    return p;
}

bool has_channels_last(const Call& call)
{
    const Problem& q = call.problem;
    return q.groups > 1 && q.x_strides[1] == 1 && q.y_strides[1] == 1 && q.groups >= depthwise_lanes &&
           q.out_channels == 1;
}

bool has_same_positions(const DepthwiseProblem& p)
{
    bool same = p.rows == 1 && p.depth == 1 && p.out[0] * p.out[1] < (1 << 20);
    for (int i = 0; i < 2; ++i)
        same &= p.scale[i] == 1 && p.in[i] == p.out[i];
    for (const cl_long* strides : {p.source_strides, p.result_strides})
        same &= strides[3] == 1 && strides[2] == p.out[1];
    return same;
}

namespace {

struct FieldBytes {
    std::size_t field, sums;
};

FieldBytes field_bytes(const DepthwiseProblem& p, cl_long band, std::size_t real_size)
{
    const cl_long pitch = p.extent(1, p.out[1]), rows = p.extent(0, band);
    const cl_long slack = 4 * depthwise_lanes + pitch;
    return {static_cast<std::size_t>(p.scale[0] * p.scale[1] * rows * pitch + slack) * real_size,
            static_cast<std::size_t>(2 * (band * pitch + slack)) * real_size};
}

// The most rows of a band whose field stays in the fast caches; 0 if not even one row fits local memory.
cl_long choose_band(const DepthwiseProblem& p, const Device& device, std::size_t real_size, cl_long most)
{
    const std::size_t local = std::min(device.local_memory, local_memory_wanted);
    cl_long band = most;
    const auto bytes = [&](cl_long rows) {
        const FieldBytes b = field_bytes(p, rows, real_size);
        return b.field + b.sums;
    };
    while (band > 1 && bytes(band) > std::min<std::size_t>(local, 128 * 1024))
        band = ceil_div(band, 2);
    return bytes(band) <= local ? band : 0;
}

// channels_last with several outputs per group: passes that read the source repeat its channels.
bool repeats(const Call& call)
{
    const Problem& q = call.problem;
    return call.pass != ConvPass::backward_data && q.groups > 1 && q.out_channels > 1 && q.in_channels == 1 &&
           q.x_strides[1] == 1 && q.y_strides[1] == 1 && q.groups * q.out_channels >= depthwise_lanes;
}

// The call with a source that has a channel of its own for each output, or the call itself.
Call with_own_channels(Queue& queue, const Call& call)
{
    if (!repeats(call))
        return call;
    Call own = call;
    Problem& q = own.problem;
    const cl_long times = q.out_channels, channels = q.groups * times;
    q.groups = channels;
    q.out_channels = 1;
    cl_long stride = channels;
    for (int axis = 4; axis >= 2; stride *= q.in[axis-- - 2])
        q.x_strides[axis] = stride;
    q.x_strides[0] = stride;
    own.x = queue.context().empty({q.batch, q.in[0], q.in[1], q.in[2], channels}, call.dtype, queue);
    const auto& from = call.problem.x_strides;
    const Dims shape = {q.batch, q.in[0], q.in[1], q.in[2], call.problem.groups, times};
    copy(queue, Tensor(call.x.memory, call.x.offset, call.dtype, shape, {from[0], from[2], from[3], from[4], 1, 0}),
         Tensor(own.x.memory, own.x.offset, call.dtype, shape,
                {stride, q.x_strides[2], q.x_strides[3], q.x_strides[4], times, 1}));
    return own;
}

// Whether cpu_depthwise_rows.cl takes it: rows of one output per channel, every or every second column of the source.
bool plain_rows(const DepthwiseProblem& p)
{
    return p.rows == 1 && p.depth == 1 && p.scale[1] <= 2 && p.source_strides[3] == 1 && p.result_strides[3] == 1;
}

// The field of cpu_depthwise_field.cl: rows, and the columns that its vectors load.
struct Field {
    static constexpr cl_long together = 7;   // ROWS there
    cl_long rows, pitch;
    bool pairs;                              // of planes, which share vectors and have a field each

    Field(const DepthwiseProblem& p, DataType dtype)
    {
        const cl_long vector = depthwise_vector(dtype);
        rows = std::max(p.out[0], together) + p.taps[0] - 1;
        pitch = ceil_div(std::max(p.out[1], vector) + p.taps[1] - 1, vector) * vector;
        pairs = vector == depthwise_lanes && p.out[1] <= depthwise_lanes / 2 && p.result_strides[2] == p.out[1];
    }
    std::size_t bytes(std::size_t real_size) const
    {
        return static_cast<std::size_t>((pairs ? 2 : 1) * rows * pitch) * real_size;
    }
};

// Whether cpu_depthwise_field.cl takes it: neighbouring taps of neighbouring positions, planes that stay in near
// caches. Copying short rows takes longer than it saves where taps are few and cpu_depthwise_same.cl does without.
bool fits_field(const DepthwiseProblem& p, const Call& call, const Device& device, const Field& field)
{
    const std::size_t real_size = size_of(real_type(call.dtype));
    const cl_long taps = p.taps[0], wide = taps == 7 ? 0 : taps == 5 ? 9 : size_of(call.dtype) < 4 ? 1 << 20 : 25;
    bool fits = p.rows == 1 && p.depth == 1 && taps == p.taps[1] && (taps == 3 || taps == 5 || taps == 7) &&
                p.source_strides[3] == 1 && p.result_strides[3] == 1 && (p.out[1] >= wide || !has_same_positions(p));
    for (int i = 0; i < 2; ++i)
        fits &= p.scale[i] == 1 && std::abs(p.step[i]) == 1;
    return fits && field.bytes(real_size) <= std::min<std::size_t>(device.local_memory, 128 * 1024);
}

// How cpu_depthwise_planes.cl takes a launch with channels innermost, whose planes stay in near caches.
struct Planes {
    static constexpr cl_long together = 7;   // TOGETHER there
    cl_long blocks, pitch, each;
    std::size_t bytes;

    Planes(const DepthwiseProblem& p, DataType dtype, const Device& device)
    {
        const cl_long vector = depthwise_vector(dtype);
        const cl_long items = 8 * static_cast<cl_long>(device.compute_units);
        blocks = ceil_div(p.groups, vector);
        pitch = std::max(p.out[1], together) + p.taps[1] - 1;
        each = std::clamp<cl_long>(blocks * p.batch / items, 1, p.batch);
        bytes = static_cast<std::size_t>(p.in[0] * pitch * vector) * size_of(real_type(dtype));
    }
    std::size_t items(const DepthwiseProblem& p) const
    {
        return static_cast<std::size_t>(blocks * ceil_div(p.batch, each));
    }
    bool fits(const DepthwiseProblem& p, const Device& device) const
    {
        const cl_long taps = p.taps[0];
        bool fits = taps == p.taps[1] && (taps == 3 || taps == 5 || taps == 7) && p.in[0] > 0;
        for (int i = 0; i < 2; ++i)
            fits &= p.scale[i] == 1 && std::abs(p.step[i]) == 1;
        return fits && bytes <= std::min<std::size_t>(device.local_memory, 128 * 1024) &&
               items(p) >= 4 * std::size_t{device.compute_units};
    }
};

void launch(Queue& queue, const Call& call, const ImplicitProblem& implicit, cl_long result_first)
{
    DepthwiseProblem p = depthwise_from_implicit(implicit, call.problem);
    if (p.batch * p.out[0] * p.out[1] == 0)
        return;
    const std::size_t real_size = size_of(real_type(call.dtype));
    const Program& program = queue.context().program("kernels/conv/cpu_depthwise.cl", dtype_options(call));
    const Tensor& source = call.pass == ConvPass::forward ? call.x : call.y;
    Tensor result = call.result();
    result.offset += result_first;
    if (has_channels_last(call)) {
        if (const Planes cut(p, call.dtype, queue.device()); cut.fits(p, queue.device())) {
            const Program& by_planes =
                queue.context().program("kernels/conv/cpu_depthwise_planes.cl",
                                        dtype_options(call) + " -DTAPS=" + std::to_string(p.taps[0]));
            queue.launch(by_planes.kernel("conv_depthwise_planes"), Range::groups(cut.items(p)), source, call.w,
                         call.bias, result, LocalMemory{cut.bytes}, cl_int(cut.pitch), cl_int(cut.each), p);
            return;
        }
        const cl_long taps = std::max<cl_long>(p.taps[0] * p.taps[1], 1);
        const auto pack = [&] {
            const Tensor packed = queue.context().empty({taps * p.groups}, real_type(call.dtype), queue);
            queue.launch(program.kernel("conv_depthwise_pack"),
                         Range::linear(static_cast<std::size_t>(taps * p.groups), 64), call.w, packed, p);
            return packed;
        };
        const bool keep = call.prepared && call.pass == ConvPass::forward;   // a data pass has other taps each time
        const Tensor packed =
            keep ? call.prepared->get(queue, "depthwise taps", pack, Prepared::Keeps::all) : pack();
        queue.launch(program.kernel("conv_depthwise_channels"),
                     Range::groups(static_cast<std::size_t>(p.batch * p.out[0])), source, packed, call.bias, result, p);
        return;
    }
    if (const Field field(p, call.dtype); fits_field(p, call, queue.device(), field)) {
        const cl_long items = 16 * static_cast<cl_long>(queue.device().compute_units);
        const cl_long each = std::clamp<cl_long>(p.groups * p.batch / items / 2 * 2, 2, depthwise_planes);
        const Program& by_field =
            queue.context().program("kernels/conv/cpu_depthwise_field.cl",
                                    dtype_options(call) + " -DTAPS=" + std::to_string(p.taps[0]) +
                                        (field.pairs ? " -DPAIRS" : ""));
        queue.launch(by_field.kernel("conv_depthwise_field"),
                     Range::groups(static_cast<std::size_t>(ceil_div(p.groups, each) * p.batch)), source, call.w,
                     call.bias, result, LocalMemory{field.bytes(real_size)}, cl_int(field.rows), cl_int(field.pitch),
                     cl_int(each), p);
        return;
    }
    if (has_same_positions(p) || plain_rows(p)) {
        const std::string name = has_same_positions(p) ? "same" : "rows";
        const Program& by_planes =
            queue.context().program("kernels/conv/cpu_depthwise_" + name + ".cl", dtype_options(call));
        queue.launch(by_planes.kernel("conv_depthwise_" + name),
                     Range::groups(static_cast<std::size_t>(ceil_div(p.groups, depthwise_planes) * p.batch)), source,
                     call.w, call.bias, result, p);
        return;
    }
    // Several bands a plane where there are few planes.
    const cl_long wanted = ceil_div(8 * static_cast<cl_long>(queue.device().compute_units), p.batch * p.groups);
    p.band = choose_band(p, queue.device(), real_size, std::max<cl_long>(ceil_div(p.out[0], wanted), 1));
    const FieldBytes bytes = field_bytes(p, p.band, real_size);
    const cl_long items = ceil_div(p.out[0], p.band) * p.groups * p.batch;
    queue.launch(program.kernel("conv_depthwise_planar"), Range::groups(static_cast<std::size_t>(items)), source,
                 call.w, call.bias, result, LocalMemory{bytes.field}, LocalMemory{bytes.sums}, p);
}

}  // namespace

Rejection rejects_cpu_depthwise(const Call& call, const Device& device)
{
    if (call.epilogue.accumulate)
        return "does not add to its result";
    const Problem& q = call.problem;
    if (Rejection reason = rejects_cpu_implicit(call, device))
        return reason;
    if (q.in_channels != 1)
        return "needs one input channel per group";
    if (q.groups * q.out_channels == 1 && call.pass == ConvPass::backward_weight)
        return "would sum up a single plane in one work-item";
    if (q.in[0] * q.out[0] * q.kernel[0] != 1 || q.pad[0] != 0)
        return "works in two dimensions";
    if (q.taps() > 128)
        return "takes kernels of 128 taps at most";
    if (!has_channels_last(call) && !repeats(call)) {
        bool fits = true;
        const auto check = [&](const ImplicitProblem& p, cl_long) {
            fits &= choose_band(depthwise_from_implicit(p, q), device, size_of(real_type(call.dtype)), 1) > 0;
        };
        if (call.pass == ConvPass::backward_weight)
            check(forward_problem(call), 0);
        else
            for_each_launch(call, check);
        if (!fits)
            return "takes rows that fit local memory only";
        if (q.x_strides[1] == 1 && q.groups > 1)
            return "takes channels_last with 16 or more channels, for data gradients with one output per group, only";
    }
    return {};
}

Rejection cpu_depthwise_advises_against(const Call& call, const Device& device)
{
    const Problem& q = call.problem;
    if (q.groups == 1 && q.y_strides[1] == 1 && q.out_channels >= 8 && !rejects_cpu_channels(call, device) &&
        !cpu_channels_advises_against(call, device))
        return "would take channels that lie together one by one";
    return {};
}

void run_cpu_depthwise(Queue& queue, const Call& problem)
{
    const Call call = with_own_channels(queue, problem);
    if (run_depthwise_pairs(queue, call))
        return;
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) { launch(queue, call, p, first); });
}

void run_cpu_depthwise_weight(Queue& queue, const Call& problem)
{
    const Call call = with_own_channels(queue, problem);
    DepthwiseProblem p = depthwise_from_implicit(forward_problem(call), call.problem);
    p.result_size = span_of(call.y);
    const std::size_t real_size = size_of(real_type(call.dtype));
    const Program& program = queue.context().program("kernels/conv/cpu_depthwise.cl", dtype_options(call));
    if (has_channels_last(call)) {
        const cl_long lanes_of_dtype = depthwise_vector(call.dtype);
        const cl_long blocks = ceil_div(p.groups, lanes_of_dtype), rows = p.batch * p.out[0];
        p.parts = std::clamp<cl_long>(ceil_div(8 * static_cast<cl_long>(queue.device().compute_units), blocks), 1,
                                      std::max<cl_long>(rows, 1));
        const cl_long size = p.taps[0] * p.taps[1] * p.groups;
        const Tensor sums = queue.context().empty({p.parts * size}, real_type(call.dtype), queue);
        queue.launch(program.kernel("conv_depthwise_channels_weight"),
                     Range::groups(static_cast<std::size_t>(blocks * p.parts)), call.x, call.y, sums, p);
        queue.launch(program.kernel("conv_depthwise_add"), Range::linear(static_cast<std::size_t>(size), 64), sums,
                     call.w, p);
        return;
    }
    if (run_depthwise_weight_field(queue, call, p))
        return;
    if (has_same_positions(p)) {
        const Program& same = queue.context().program("kernels/conv/cpu_depthwise_same.cl", dtype_options(call));
        queue.launch(same.kernel("conv_depthwise_same_weight"),
                     Range::groups(static_cast<std::size_t>(ceil_div(p.groups, depthwise_planes))), call.x, call.y,
                     call.w, p);
        return;
    }
    p.band = choose_band(p, queue.device(), real_size, std::max<cl_long>(p.out[0], 1));
    const FieldBytes bytes = field_bytes(p, p.band, real_size);
    queue.launch(program.kernel("conv_depthwise_planar_weight"),
                 Range::groups(static_cast<std::size_t>(p.groups * p.rows)), call.x, call.y, call.w,
                 LocalMemory{bytes.field}, LocalMemory{bytes.sums}, p);
}

}  // namespace clprim::conv
