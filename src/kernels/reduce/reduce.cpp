#include <clprim/reduce.hpp>

#include <algorithm>
#include <bit>

#include <core/gpu_rate.hpp>
#include <kernels/pointwise/kernel_cache.hpp>
#include <kernels/reduce/source.hpp>
#include <kernels/team.hpp>

namespace clprim {

using namespace reduction;
using detail::concat;

namespace {

Dims full_shape(const Call& call)
{
    Dims shape;
    for (const Tensor* t : call.operands) {
        while (shape.size() < t->dim()) {
            Dims longer(shape.size() + 1, 1);
            std::copy(shape.begin(), shape.end(), longer.begin() + 1);
            shape = longer;
        }
        for (std::size_t d = 0; d < t->dim(); ++d) {
            std::int64_t& size = shape[shape.size() - t->dim() + d];
            if (size == 1)
                size = t->shape[d];
        }
    }
    return shape;
}

void plan_loops(Call& call)
{
    const Dims shape = full_shape(call), &kept_shape = call.operands[call.inputs]->shape;
    const std::size_t count = call.operands.size(), dims = shape.size();
    require<NotSupported>(dims <= 64, "tensors have at most 64 dimensions");
    std::int64_t strides[max_operands][64];
    for (std::size_t k = 0; k < count; ++k) {
        if (k > call.inputs && !(call.operands[k]->shape == kept_shape)) [[unlikely]]
            throw InvalidArgument(concat("outputs of a reduction must have one shape, got ", to_string(kept_shape),
                                         " and ", to_string(call.operands[k]->shape)));
        broadcast_strides(*call.operands[k], shape, k < call.inputs ? "an input" : "an output", strides[k]);
    }
    call.kept.operands = call.reduced.operands = static_cast<int>(count);
    for (std::size_t d = dims; d-- > 0;) {
        std::int64_t step[max_operands];
        for (std::size_t k = 0; k < count; ++k)
            step[k] = strides[k][d];
        std::size_t missing = dims - kept_shape.size();
        bool kept = d >= missing && kept_shape[d - missing] == shape[d];
        Iteration& nest = kept ? call.kept : call.reduced;
        (kept ? call.kept_count : call.reduced_count) *= shape[d];
        if (shape[d] != 1)
            nest.append(shape[d], {step, count});
    }
    call.kept.sort(0);
    call.kept.collapse();
    if (!call.ordered)
        call.reduced.sort(0);
    call.reduced.collapse();
    call.kept_rank = rank_bucket(call.kept.rank);
    call.reduced_rank = rank_bucket(call.reduced.rank);
    constexpr std::int64_t limit = (std::int64_t{1} << 31) - 65536;
    call.wide =
        call.kept.reach() + call.reduced.reach() >= limit || call.kept_count >= limit || call.reduced_count >= limit;
    for (std::size_t k = 0; k < count; ++k) {
        call.unit_reduced |= (call.reduced.rank > 0 && call.reduced.stride[0][k] == 1 ? 1u : 0u) << k;
        call.unit_kept |= (call.kept.rank > 0 && call.kept.stride[0][k] == 1 ? 1u : 0u) << k;
    }
}

// Blocks of outputs that lie side by side.
std::int64_t column_blocks(const Call& call)
{
    const std::int64_t row = call.kept.size[0];
    return call.kept_count / row * ((row + call.columns - 1) / call.columns);
}

// Accumulators of one number are folded in few vectors, of several types one after the other.
std::int64_t short_row_of(std::string_view state, DataType input)
{
    if (std::ranges::count(state, ';') > 1)
        return 128;
    return state.find(',') != state.npos ? 47 : size_of(input) < 4 ? 31 : 23;
}

// Rows side by side have one vector of accumulators each: long rows wait for it, those that look for NaN the most,
// while float32 that is read as it lies leaves little else to wait for.
std::int64_t longest_row_of(const ReduceCode& accumulators, const ReduceCode& rows, DataType common, DataType input)
{
    if (is_floating_point(common) && accumulators.state != rows.state)
        return 256;
    return input == DataType::float32 && std::ranges::count(rows.state, ';') == 1 ? 512 : 1024;
}

// Segments of one length, which leaves none empty.
void cut(Call& call)
{
    call.segment = (call.reduced_count + call.segments - 1) / call.segments;
    call.segments = call.segment ? (call.reduced_count + call.segment - 1) / call.segment : 1;
}

// Neighbouring outputs lie closer together than the elements of one reduction: work-items side by side read them.
bool lies_across(const Call& call)
{
    return call.kept.rank > 0 && call.reduced.rank > 0 && call.kept.size[0] >= 16 && call.kept.stride[0][0] != 0 &&
           call.kept.stride[0][0] < call.reduced.stride[0][0];
}

// Work-items of a GPU step side by side through a reduction: as many as leave each of them a few loads that are under
// way at once, more where outputs alone fill little of the device. Where steps are still many, segments fill it: the
// launch that merges them takes as long as some thirty steps.
void plan_gpu_work(Call& call, const Device& device)
{
    constexpr std::int64_t few_steps = 16, worth_a_launch = 32, most_segments = 1024;
    const std::int64_t outputs = call.kept_count, length = call.reduced_count;
    const std::int64_t resident = detail::resident_items(device), work = outputs * (length / few_steps + 1);
    const std::int64_t wanted = std::min(resident, work);
    call.group = static_cast<unsigned>(std::bit_floor(std::min<std::size_t>(256, device.max_work_group_size)));
    if (length > few_steps && lies_across(call)) {
        call.across = outputs < wanted;
        call.beside = call.across ? std::min(call.kept.size[0] >= 64 ? 64u : 16u, call.group / 2) : 1;
        call.lanes = call.across ? call.group / call.beside : 1;
    } else if (length > few_steps) {
        const std::int64_t lanes = length <= 64 ? 8 : length <= 2048 && outputs * 32 >= wanted ? 32 : call.group;
        call.lanes = std::min(static_cast<unsigned>(lanes), call.group);
        call.beside = call.group / call.lanes;
    }
    const std::int64_t items = outputs * call.lanes, most = length / (call.lanes * worth_a_launch);
    if (4 * items < 3 * wanted)
        call.segments = std::clamp<std::int64_t>(std::min(2 * resident, work) / items, 1,
                                                 std::clamp<std::int64_t>(most, 1, most_segments));
    cut(call);
}

// Who owns an output, and into how many segments the reduction is cut.
void plan_cpu_work(Call& call, const Device& device)
{
    // Accumulators of a work-item: more of eight bytes each no longer stay in registers from step to step.
    const std::int64_t group = call.own_lanes && size_of(call.operands[0]->dtype) < 8 ? 32 : 16;
    const std::int64_t outputs = call.kept_count, length = call.reduced_count;
    const bool across = lies_across(call);
    if (call.own_lanes && across && (call.unit_kept & 1)) {
        call.columns = call.kept.size[0] >= 64 ? 64 : call.kept.size[0] >= 32 ? 32 : 16;
        const std::int64_t wanted = device.compute_units * 16 / std::max<std::int64_t>(column_blocks(call), 1);
        call.segments = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(length / 64, 1));
        call.rows = 0;
        return cut(call);
    }
    // Long ones only where every compute unit has several blocks of them.
    const std::int64_t least = length > 128 ? 4 * std::int64_t{device.compute_units} * call.rows : 256;
    if (call.rows && !across && call.kept.rank == 1 && call.reduced.rank == 1 && (call.unit_reduced & 1) &&
        outputs >= std::max<std::int64_t>(least, 256) && length > 8 && length <= call.longest_row && !call.wide) {
        call.lanes = call.rows;
        call.segments = 1;
        return cut(call);
    }
    call.rows = 0;
    const std::int64_t short_row = !call.own_lanes ? 1024 : call.unit_reduced & 1 ? call.short_row : 128;
    const bool short_rows = length <= short_row && outputs >= 256;
    call.lanes = across || short_rows || length <= 4
                     ? 1
                     : static_cast<unsigned>(
                           std::min<std::int64_t>(group, static_cast<std::int64_t>(device.max_work_group_size)));

    const std::int64_t wanted = device.compute_units * 64;   // work-items in flight
    const std::int64_t shortest = call.lanes == 1 ? 256 : 256 * call.lanes;
    std::int64_t segments = wanted / std::max<std::int64_t>(outputs * call.lanes, 1);
    // A CPU walks down distant rows: short walks of several columns each stay within its caches and page tables.
    if (across && call.reduced.stride[0][0] >= 1024)
        segments = std::max(segments, length / 64);
    call.segments = std::clamp<std::int64_t>(
        segments, 1, std::clamp<std::int64_t>(length / (segments > length / 128 ? 64 : shortest), 1, 1024));
    cut(call);
}

// How outputs lie side by side in a work-item (CPUs) or a work-group (GPUs), in three bits.
unsigned form_of(const Call& call)
{
    if (call.columns > 0 || call.beside == 1)
        return call.columns / 16;
    return call.across ? (call.beside == 16 ? 3 : 4) : call.lanes == 8 ? 2 : 1;
}

// `numbers`: how many scalars the caller gives; a row may be called with more than its code uses.
KernelKey key_of(const Call& call, const void* code, DataType common, bool merge, std::size_t numbers)
{
    KeyPacker dtypes, form;
    for (const Tensor* t : call.operands)
        dtypes.add(static_cast<unsigned>(t->dtype), 4);
    const auto count = static_cast<unsigned>(call.operands.size());
    form.add(call.unit_reduced, count)
        .add(call.unit_kept, count)
        .add(call.lanes > 1, 1)
        .add(call.own_lanes, 1)
        .add(call.rows > 0, 1)
        .add(form_of(call), 3)
        .add(merge, 1)
        .add(call.wide, 1);
    form.add(static_cast<unsigned>(call.kept_rank), 5).add(static_cast<unsigned>(call.reduced_rank), 5);
    form.add(static_cast<unsigned>(common), 4).add(count, 5).add(static_cast<unsigned>(call.inputs), 5);
    form.add(static_cast<unsigned>(numbers), 4);
    return {code, dtypes.word(), form.word()};
}

void enqueue(Queue& queue, Kernel& kernel, const Call& call, std::span<const Scalar> scalars, DataType scalar_type,
             const Memory& partial, bool merge)
{
    Iteration loops = call.reduced;
    loops.operands = static_cast<int>(call.operands.size());
    loops.pad(call.reduced_rank);
    for (int d = 0; d < call.kept.rank; ++d, ++loops.rank) {
        loops.size[loops.rank] = call.kept.size[d];
        loops.stride[loops.rank] = call.kept.stride[d];
    }
    Launch launch(queue, kernel);
    for (const Tensor* t : call.operands)
        launch.arg(*t);
    std::byte number[16];
    for (const Scalar& scalar : scalars)
        launch.set(scalar.write(scalar_type, number), number);
    if (call.reports)
        launch.arg(queue.error_buffer()).arg(Queue::error_code(call.reports));
    launch.arg(static_cast<std::uint64_t>(call.kept_count)).arg(static_cast<std::uint64_t>(call.reduced_count));
    launch.arg(static_cast<std::uint64_t>(merge ? call.segments : call.segment));
    partial ? launch.arg(partial) : launch.arg(NoTensor{});
    GeometryBytes bytes;
    launch.set(write_geometry(loops, 0, call.reduced_rank + call.kept_rank, call.wide, bytes), bytes.data());

    const bool cpu = queue.device().kind == DeviceKind::cpu;
    const auto outputs = static_cast<std::size_t>(call.kept_count);
    Range range;
    range.dims = 2;
    if ((call.own_lanes || call.columns) && !merge) {
        // A work-item takes several in turn where there are many.
        const std::int64_t items = call.columns ? column_blocks(call)
                                   : call.rows  ? (call.kept_count + call.rows - 1) / call.rows
                                                : call.kept_count;
        const std::int64_t most = std::max<std::int64_t>(queue.device().compute_units * 16 / call.segments, 1);
        range.local = {1, 1, 1};
        range.global = {static_cast<std::size_t>(std::min(items, most)), static_cast<std::size_t>(call.segments), 1};
    } else if (call.lanes > 1 && !merge) {
        const std::size_t local = std::size_t{call.lanes} * call.beside;
        range.local = {local, 1, 1};
        range.global = {(outputs + call.beside - 1) / call.beside * local, static_cast<std::size_t>(call.segments), 1};
    } else if (merge && !cpu) {
        range = detail::column_range(queue.device(), outputs, static_cast<std::size_t>(call.segments));
    } else {
        std::size_t local = outputs <= 16 ? 16 : 64;
        if (!cpu && outputs >= 65536)
            local = 256;
        range.local = {local, 1, 1};
        range.global = {(outputs + local - 1) / local * local, merge ? 1 : static_cast<std::size_t>(call.segments), 1};
    }
    launch.run(range);
    if (call.reports)
        queue.expect_errors();
}

// What a launch needs to know about the code; the text is asked for (`request`) only when a kernel must be built.
struct Identity {
    const void* key;
    const ReduceCode& code;
    DataType common, scalar_type;
    const ReduceCode& rows_code;   // for short rows side by side
};

template <class Request>
void run(Queue& queue, Call& call, const Identity& identity, std::span<const Scalar> scalars, const Request& request)
{
    require(call.inputs < call.operands.size() && call.inputs > 0, "a reduction has at least one input and one output");
    require(call.operands.size() <= max_operands, "a reduction takes at most ", max_operands, " operands");
    plan_loops(call);
    if (call.kept_count == 0)
        return;
    call.own_lanes = queue.device().kind == DeviceKind::cpu && fits_lanes(identity.code);
    call.rows = call.own_lanes && call.inputs == 1 ? rows_together(identity.rows_code, identity.common) : 0;
    call.longest_row =
        longest_row_of(identity.code, identity.rows_code, identity.common, call.operands[0]->dtype);
    call.short_row = short_row_of(identity.code.state, call.operands[0]->dtype);
    queue.device().kind == DeviceKind::cpu ? plan_cpu_work(call, queue.device()) : plan_gpu_work(call, queue.device());
    call.own_lanes = call.own_lanes && call.lanes > 1;
    Context& context = queue.context();
    auto kernel = [&](bool merge) -> Kernel& {
        return cached_kernel(context, key_of(call, identity.key, identity.common, merge, scalars.size()),
                             [&]() -> Kernel& {
                                 TextRequest text = request();
                                 if (call.rows)
                                     text.code = identity.rows_code;
                                 for (const Variable& v : text.operands)
                                     require_supported(v, context.device(), text.name);
                                 const Program& program =
                                     context.program_from_text(concat("reduce ", text.name), program_text(call, text));
                                 return program.kernel(merge ? "merge" : "reduce");
                             });
    };
    Memory partial;
    if (call.segments > 1)
        partial = context.allocate(
            state_bytes(identity.code.state) * static_cast<std::size_t>(call.segments * call.kept_count), queue);
    enqueue(queue, kernel(false), call, scalars, identity.scalar_type, partial, false);
    if (call.segments > 1)
        enqueue(queue, kernel(true), call, scalars, identity.scalar_type, partial, true);
}

TextRequest describe(const Call& call, const char* name, const ReduceCode& code, DataType common)
{
    TextRequest request{name, code, {}, {}, common};
    for (std::size_t k = 0; k < call.operands.size(); ++k) {
        bool output = k >= call.inputs;
        DataType dtype = call.operands[k]->dtype;
        request.operands.push_back(
            {concat(output ? 'y' : 'x', output ? k - call.inputs : k), dtype, dtype, dtype, Step::strided, output});
    }
    return request;
}

}  // namespace

void reduce(Queue& queue, const ReduceRow& row, const PointwiseProblem& problem)
{
    Call call;
    for (const Input& input : problem.inputs) {
        require(!input.is_value(), row.name, ": the inputs of a reduction are tensors");
        input.tensor.check(row.name, "an input");
        call.operands.push_back(&input.tensor);
    }
    call.inputs = call.operands.size();
    for (const Tensor& output : problem.outputs) {
        output.check(row.name, "an output");
        call.operands.push_back(&output);
    }
    call.ordered = row.ordered;
    call.reports = row.reports;
    require<NotSupported>(row.accepts & class_of(problem.common), '"', row.name, "\" not implemented for '",
                          name_of(problem.common), '\'');
    const bool for_cpus = queue.device().kind == DeviceKind::cpu && !row.cpu_code.step.empty();
    const ReduceCode& code = for_cpus ? row.cpu_code : row.code;
    run(queue, call, {&row, code, problem.common, real_type(problem.common), row.code}, problem.scalars, [&] {
        TextRequest request = describe(call, row.name, code, problem.common);
        for (std::size_t k = 0; k < request.operands.size(); ++k) {
            Variable& v = request.operands[k];
            v.type = v.output ? variable_type(row.result[k - call.inputs], problem.common) : problem.common;
            if (v.output && row.result[k - call.inputs] == Result::common)
                v.rounded = v.dtype;
        }
        for (std::size_t k = 0; k < problem.scalars.size(); ++k)
            request.numbers.push_back({concat("w", k), real_type(problem.common)});
        return request;
    });
}

void pointwise_reduce(Queue& queue, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                      std::span<const Scalar> scalars, const ReduceCode& code)
{
    Call call;
    for (const Tensor& input : inputs) {
        input.check("pointwise_reduce", "an input");
        call.operands.push_back(&input);
    }
    call.inputs = inputs.size();
    for (const Tensor& output : outputs) {
        output.check("pointwise_reduce", "an output");
        call.operands.push_back(&output);
    }
    require(!outputs.empty(), "pointwise_reduce: at least one output is needed");
    call.ordered = code.step.find("index") != std::string_view::npos;
    const std::string& identity = intern(concat(code.state, '\n', code.init, '\n', code.step, '\n', code.combine, '\n',
                                                code.finish, "\n// ", scalars.size()));
    run(queue, call, {&identity, code, outputs[0].dtype, outputs[0].dtype, code}, scalars, [&] {
        TextRequest request = describe(call, "expression", code, outputs[0].dtype);
        for (std::size_t k = 0; k < scalars.size(); ++k)
            request.numbers.push_back({concat("w", k), outputs[0].dtype});
        return request;
    });
}

}  // namespace clprim
