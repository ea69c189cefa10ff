#include <clprim/reduce.hpp>

#include <algorithm>

#include <kernels/pointwise/iteration.hpp>
#include <kernels/pointwise/kernel_cache.hpp>
#include <kernels/pointwise/source.hpp>

namespace clprim {

using detail::concat;

namespace {

// One launch while it is prepared. Operands are the inputs, then the outputs.
struct Call {
    std::vector<const Tensor*> operands;
    std::size_t inputs = 0;
    bool ordered = false;
    Iteration kept, reduced;
    std::int64_t kept_count = 1, reduced_count = 1;
    int kept_rank = 1, reduced_rank = 1;      // that the kernel is built for
    unsigned lanes = 1;                       // accumulators of each output
    bool own_lanes = false;                   // one work-item has them all
    std::int64_t segments = 1, segment = 0;   // cuts of the reduction, and how long they are
    unsigned unit_reduced = 0, unit_kept = 0; // bit k: operand k moves by 1 along the fastest reduced or kept dimension
    bool wide = false;
    const char* reports = nullptr;            // what errors found by the kernel say
};

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

// Who owns an output, and into how many segments the reduction is cut.
void plan_work(Call& call, const Device& device)
{
    const bool cpu = device.kind == DeviceKind::cpu;
    const std::int64_t group = cpu ? (call.own_lanes ? 32 : 16) : 256;
    const std::int64_t outputs = call.kept_count, length = call.reduced_count;
    // Neighbouring outputs lie closer together than the elements of one reduction: work-items side by side read them.
    const bool across = call.kept.rank > 0 && call.reduced.rank > 0 && call.kept.size[0] >= 16 &&
                        call.kept.stride[0][0] != 0 && call.kept.stride[0][0] < call.reduced.stride[0][0];
    const bool short_rows = cpu ? length <= (call.own_lanes ? 128 : 1024) && outputs >= 256 : length <= 64;
    call.lanes = across || short_rows || length <= 4
                     ? 1
                     : static_cast<unsigned>(
                           std::min<std::int64_t>(group, static_cast<std::int64_t>(device.max_work_group_size)));

    const std::int64_t wanted = cpu ? device.compute_units * 64 : device.compute_units * 1024;   // work-items in flight
    const std::int64_t shortest = call.lanes == 1 ? 256 : 256 * call.lanes;
    std::int64_t segments = wanted / std::max<std::int64_t>(outputs * call.lanes, 1);
    // A CPU walks down distant rows: short walks of several columns each stay within its caches and page tables.
    if (cpu && across && call.reduced.stride[0][0] >= 1024)
        segments = std::max(segments, length / 64);
    call.segments = std::clamp<std::int64_t>(
        segments, 1, std::clamp<std::int64_t>(length / (segments > length / 128 ? 64 : shortest), 1, 1024));
    call.segment = (length + call.segments - 1) / call.segments;
    call.segments = call.segment ? (length + call.segment - 1) / call.segment : 1;
}

// What the text of the program needs beyond the call.
struct TextRequest {
    const char* name;
    ReduceCode code;
    std::vector<Variable> operands;
    std::vector<Number> numbers;
    DataType common;
};

std::string program_text(const Call& call, const TextRequest& request)
{
    const std::vector<Variable> inputs(request.operands.begin(),
                                       request.operands.begin() + static_cast<std::ptrdiff_t>(call.inputs));
    const std::vector<Variable> outputs(request.operands.begin() + static_cast<std::ptrdiff_t>(call.inputs),
                                        request.operands.end());
    std::string numbers, forwarded, step_call, finish_call;
    const char* reported = call.reports ? "__global int* errors, int operator_code, " : "";
    const char* reporting = call.reports ? "errors, operator_code, " : "";
    for (const Number& n : request.numbers)
        numbers += n.name + ", ";
    for (std::size_t k = 0; k < request.operands.size(); ++k) {
        const Variable& v = request.operands[k];
        forwarded += concat(v.name, "_data, ", v.name, "_offset, ");
        if (v.output)
            finish_call += concat(v.name, "_data, base[", k, "], ");
        else
            step_call += concat(v.name, "_data, position[", k, "] + (i) * STRIDE(g, 0, ", k, "), ");
    }
    std::string text = include_text("core/dtype.cl") + index_text(call.wide) + type_text(request.common);
    text += include_text("kernels/pointwise/math.cl") + typedef_text(request.operands, request.numbers);
    if (call.reports)
        text += include_text("core/errors.cl");
    text += concat("#define RANK ", call.reduced_rank + call.kept_rank, "\n#define REDUCED_RANK ", call.reduced_rank,
                   "\n#define OPERANDS ", request.operands.size(), "\n#define LANES ", call.lanes,
                   call.own_lanes ? "\n#define OWN_LANES" : "", "\n#define STRIDE(g, d, k) (((d) == 0 && (",
                   call.unit_reduced, " >> (k) & 1)) || ((d) == REDUCED_RANK && (", call.unit_kept,
                   " >> (k) & 1)) ? 1 : (g)->stride[d][k])\n");
    text += include_text("kernels/pointwise/geometry.cl");
    text += concat("typedef struct { ", request.code.state,
                   " } state_t;\nstatic inline state_t init()\n{\n    state_t s;\n    ", request.code.init,
                   "\n    return s;\n}\nstatic inline state_t combine(state_t s, state_t other)\n{\n    ",
                   request.code.combine, "\n    return s;\n}\n");
    text += concat("static inline state_t step(state_t s, ", inline_parameter_text(inputs, request.numbers),
                   "index_t index)\n{\n");
    for (const Variable& v : inputs)
        text += load_text(v);
    text += concat("    ", request.code.step, "\n    return s;\n}\nstatic inline void finish(state_t s, ",
                   inline_parameter_text(outputs, request.numbers), reported, "ulong count)\n{\n");
    for (const Variable& v : outputs)
        text += concat("    typeof_", v.name, " ", v.name, ";\n");
    text += concat("    ", request.code.finish, "\n");
    for (const Variable& v : outputs)
        text += store_text(v);
    text += concat("}\n#define PARAMETERS ", parameter_text(request.operands, request.numbers), reported,
                   "\n#define ARGUMENTS ", forwarded, numbers, reporting, "\n#define SHIFT ",
                   shift_text(request.operands), "\n#define STEP(s, i, index) step(s, ", step_call, numbers,
                   "index)\n#define FINISH(s, count) finish(s, ", finish_call, numbers, reporting, "count)\n");
    return text + include_text("kernels/reduce/reduce.cl");
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
    if (call.lanes > 1 && !merge) {
        const std::size_t local = call.own_lanes ? 1 : call.lanes;
        range.local = {local, 1, 1};
        range.global = {outputs * local, static_cast<std::size_t>(call.segments), 1};
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

// An upper bound of sizeof(state_t): every field has at most 16 bytes.
std::size_t state_bytes(std::string_view state)
{
    return 16 * static_cast<std::size_t>(
                    1 + std::count_if(state.begin(), state.end(), [](char c) { return c == ',' || c == ';'; }));
}

// What a launch needs to know about the code; the text is asked for (`request`) only when a kernel must be built.
struct Identity {
    const void* code;
    std::string_view state;
    DataType common, scalar_type;
};

template <class Request>
void run(Queue& queue, Call& call, const Identity& identity, std::span<const Scalar> scalars, const Request& request)
{
    require(call.inputs < call.operands.size() && call.inputs > 0, "a reduction has at least one input and one output");
    require(call.operands.size() <= max_operands, "a reduction takes at most ", max_operands, " operands");
    plan_loops(call);
    if (call.kept_count == 0)
        return;
    // Compilers for CPUs put accumulators of one number side by side; of more, they do better with work-items.
    call.own_lanes = queue.device().kind == DeviceKind::cpu && !call.ordered &&
                     std::count(identity.state.begin(), identity.state.end(), ';') == 1 &&
                     identity.state.find(',') == std::string_view::npos;
    plan_work(call, queue.device());
    call.own_lanes = call.own_lanes && call.lanes > 1;
    Context& context = queue.context();
    auto kernel = [&](bool merge) -> Kernel& {
        return cached_kernel(context, key_of(call, identity.code, identity.common, merge, scalars.size()),
                             [&]() -> Kernel& {
                                 const TextRequest text = request();
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
            state_bytes(identity.state) * static_cast<std::size_t>(call.segments * call.kept_count), queue);
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
    run(queue, call, {&row, row.code.state, problem.common, real_type(problem.common)}, problem.scalars, [&] {
        TextRequest request = describe(call, row.name, row.code, problem.common);
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
    run(queue, call, {&identity, code.state, outputs[0].dtype, outputs[0].dtype}, scalars, [&] {
        TextRequest request = describe(call, "expression", code, outputs[0].dtype);
        for (std::size_t k = 0; k < scalars.size(); ++k)
            request.numbers.push_back({concat("w", k), outputs[0].dtype});
        return request;
    });
}

}  // namespace clprim
