#include <clprim/pointwise.hpp>

#include <algorithm>

#include <kernels/gemm/gpu_tile.hpp>
#include <kernels/pointwise/kernel_cache.hpp>
#include <kernels/pointwise/plan.hpp>
#include <kernels/pointwise/source.hpp>

namespace clprim {

using detail::concat;

namespace {

// `numbers`: how many scalars the caller gives; a row may be called with more than its code uses.
KernelKey key_of(const PointwiseCall& call, const void* code, DataType common, std::size_t numbers)
{
    KeyPacker dtypes, form;
    for (int k = 0; k < call.count; ++k) {
        dtypes.add(static_cast<unsigned>(call.dtype[k]), 4);
        form.add(static_cast<unsigned>(call.step[k]), 2);
    }
    form.add(static_cast<unsigned>(call.variant), 2).add(static_cast<unsigned>(call.rank), 5).add(call.wide, 1);
    form.add(call.quads, 1).add(call.fours, 1);
    form.add(static_cast<unsigned>(common), 4)
        .add(static_cast<unsigned>(call.count), 5)
        .add(static_cast<unsigned>(call.inputs), 5);
    form.add(static_cast<unsigned>(numbers), 4);
    return {code, dtypes.word(), form.word()};
}

// What the text of a program needs beyond the call.
struct TextRequest {
    const char* name;
    std::string_view code;
    std::vector<Number> numbers;
    DataType common;
    bool round_to_common;
    const char* library = nullptr;
};

bool may_wrap(DataType type, DataType stored, std::string_view code)
{
    return (type == DataType::int32 || type == DataType::int64) && stored != type &&
           (is_floating_point(stored) || is_complex(stored) || size_of(stored) > size_of(type)) &&
           code.find_first_of("+-*") != std::string_view::npos;
}

Kernel& build(Context& context, const PointwiseCall& call, const TextRequest& request)
{
    std::vector<Variable> operands;
    std::string call_text, steps, step_parameters;
    int slot = 0;
    for (int k = 0; k < call.count; ++k) {
        bool output = k >= call.inputs;
        Variable v{concat(output ? 'y' : 'x', output ? k - call.inputs : k), call.dtype[k], call.type[k],
                   output && request.round_to_common ? request.common : call.dtype[k], call.step[k], output,
                   output && request.round_to_common && may_wrap(call.type[k], call.dtype[k], request.code)};
        require_supported(v, context.device(), request.name);
        if (v.step == Step::value) {
            call_text += v.name + "_value, ";
        } else {
            std::string at = call.variant == PointwiseVariant::linear ? "" : concat("position[", slot, "]");
            if (v.step == Step::dense)
                at += at.empty() ? "(i)" : " + (i)";
            if (call.variant == PointwiseVariant::strided && v.step == Step::strided) {
                const std::string stride = concat("STRIDE(&all, 0, ", slot, ")");
                at += concat(" + (i) * ", stride);
                steps += concat("ahead * ", stride, ", ");
                step_parameters += concat("const offset_t ", v.name, "_step, ");
            }
            call_text += concat(v.name, "_data, ", at.empty() ? "0" : at, ", ");
            ++slot;
        }
        operands.push_back(std::move(v));
    }
    for (const Number& n : request.numbers)
        call_text += n.name + ", ";
    std::string element = inline_parameter_text(operands, request.numbers);
    std::string parameters = parameter_text(operands, request.numbers);
    if (call.quads) {
        call_text += "ahead, ";
        element += "const offset_t ahead, ";
    }
    if (call.fours) {
        call_text += "ahead, room, " + steps;
        element += "const offset_t ahead, const offset_t room, " + step_parameters;
    }
    if (call.reports) {
        call_text += "errors, operator_code, ";
        for (std::string* list : {&element, &parameters})
            *list += "__global int* errors, int operator_code, ";
    }
    call_text.resize(call_text.size() - 2);
    element.resize(element.size() - 2);

    std::string text = include_text("core/dtype.cl");
    if (call.quads)
        text += concat("#define QUADS ", call.quads_of_item(), "\n", include_text("core/quad.cl"));
    if (call.fours)
        text += "#define FOURS\n";
    // Four elements of so many operands are spilled in sub-groups of 32.
    if (const int sub_group = detail::spilling_sub_group(context.device()); call.fours && slot >= 8 && sub_group > 0)
        text += concat("#define SUB_GROUP ", sub_group, "\n");
    text += index_text(call.wide) + type_text(request.common) + math_text(request.code);
    if (request.library)
        text += include_text(request.library);
    text += typedef_text(operands, request.numbers);
    if (std::ranges::any_of(operands, &Variable::wraps))
        text += wrapping_text(request.common);
    text += concat("#define PARAMETERS ", parameters, "\n#define SHIFT ",
                   shift_text(operands), "\n#define ELEMENT(i) element(", call_text, ")\n");
    text += concat("static inline void element(", element, ")\n{\n");
    if (call.quads) {
        text += quads_text(operands, request.code, call.quads_of_item());
    } else if (call.fours) {
        text += fours_text(operands, request.code);
    } else {
        for (const Variable& v : operands)
            text += v.output ? concat("    typeof_", v.name, " ", v.name, ";\n") : load_text(v);
        text += concat("    ", request.code, "\n");
        for (const Variable& v : operands)
            if (v.output)
                text += store_text(v);
    }
    text += "}\n";
    if (call.variant != PointwiseVariant::linear)
        text += concat("#define RANK ", call.rank, "\n#define OPERANDS ", slot, "\n",
                       include_text("kernels/pointwise/geometry.cl"));
    text += call.variant == PointwiseVariant::linear    ? "#define VARIANT_LINEAR\n"
            : call.variant == PointwiseVariant::rows    ? "#define VARIANT_ROWS\n"
            : call.variant == PointwiseVariant::strided ? "#define VARIANT_STRIDED\n"
                                               : "";
    text += include_text("kernels/pointwise/pointwise.cl");
    return context.program_from_text(concat("pointwise ", request.name), text).kernel("pointwise");
}

Range range_of(const PointwiseCall& call, const Device& device, std::int64_t numel)
{
    const bool cpu = device.kind == DeviceKind::cpu;
    const std::size_t largest = std::min<std::size_t>(cpu ? 8192 : 256, device.max_work_group_size);
    if (call.variant == PointwiseVariant::rows || call.variant == PointwiseVariant::strided) {
        const std::int64_t inner = call.loops.size[0] / (call.quads ? 4 : 1);
        numel = call.quads ? numel / 4 : numel;
        std::size_t x = 16;
        // Strided inputs may lie along rows' neighbours: many of these, then.
        while (call.variant == PointwiseVariant::rows && x < largest &&
               static_cast<std::int64_t>(call.fours ? 4 * x : x) < inner)
            x *= 2;
        if (cpu) {                       // whole vectors, as few idle as there can be
            const std::int64_t most = static_cast<std::int64_t>(largest), groups = (inner + most - 1) / most;
            x = static_cast<std::size_t>(((inner + groups - 1) / groups + 15) / 16 * 16);
        }
        Range range;
        range.dims = 2;
        const std::size_t of_group = call.fours ? 4 * x : x;
        range.global = {(static_cast<std::size_t>(inner) + of_group - 1) / of_group * x,
                        static_cast<std::size_t>(numel / inner), 1};
        range.local = {x, 1, 1};
        if (cpu && call.rank > 2) {   // as pointwise.cl takes them apart
            const auto rows = static_cast<std::size_t>(call.loops.size[1]);
            range.dims = 3;
            range.global = {range.global[0], rows, range.global[1] / rows};
            range.local[1] = std::min(rows, std::max<std::size_t>(largest / x, 1));
            while (rows % range.local[1] != 0)   // neighbouring rows, before those that lie far apart
                --range.local[1];
        }
        const std::size_t last = range.dims - 1;
        for (std::size_t items = x * range.local[1]; 2 * items <= largest; items *= 2) {
            if (range.global[last] % (2 * range.local[last]) != 0)
                break;
            range.local[last] *= 2;
        }
        return range;
    }
    const std::int64_t elements = call.quads ? 4 * call.quads_of_item() : call.fours ? 4 : 1;   // of a work-item
    const std::int64_t items = (numel + elements - 1) / elements;
    std::size_t local = largest;     // smaller groups where one per compute unit would not come out
    while (local > 64 && static_cast<std::int64_t>(local * device.compute_units) > items)
        local /= 2;
    return Range::linear(static_cast<std::size_t>(items), local);
}

void enqueue(Queue& queue, Kernel& kernel, const PointwiseCall& call, std::span<const Input> inputs,
             std::span<const Scalar> scalars, std::span<const DataType> scalar_types)
{
    const std::int64_t numel = call.loops.numel();
    std::byte number[16];
    Launch launch(queue, kernel);
    for (int k = 0; k < call.count; ++k) {
        if (call.tensor[k])
            launch.arg(*call.tensor[k]);
        else
            launch.set(inputs[static_cast<std::size_t>(k)].value.write(call.type[k], number), number);
    }
    for (std::size_t k = 0; k < scalars.size(); ++k)
        launch.set(scalars[k].write(scalar_types[std::min(k, scalar_types.size() - 1)], number), number);
    if (call.reports)
        launch.arg(queue.error_buffer()).arg(Queue::error_code(call.reports));
    if (call.variant == PointwiseVariant::rows) {
        GeometryBytes bytes;
        launch.arg(static_cast<std::uint64_t>(call.loops.size[0]));
        launch.set(write_geometry(call.loops, 1, call.rank, call.wide, bytes), bytes.data());
    } else {
        launch.arg(static_cast<std::uint64_t>(call.variant == PointwiseVariant::strided ? call.loops.size[0] : numel));
        if (call.variant != PointwiseVariant::linear) {
            GeometryBytes bytes;
            launch.set(write_geometry(call.loops, 0, call.rank, call.wide, bytes), bytes.data());
        }
    }
    launch.run(range_of(call, queue.device(), numel));
    if (call.reports)
        queue.expect_errors();
}

}  // namespace

void pointwise(Queue& queue, const PointwiseRow& row, const PointwiseProblem& problem)
{
    require(!problem.outputs.empty(), row.name, ": at least one output is needed");
    PointwiseCall call;
    for (std::size_t k = 0; k < problem.inputs.size(); ++k) {
        const Input& input = problem.inputs[k];
        bool own = row.own_typed >> k & 1;
        if (!input.is_value())
            input.tensor.check(row.name, "an input");
        call.add(input.is_value() ? nullptr : &input.tensor, input.dtype, own ? input.dtype : problem.common);
    }
    call.inputs = call.count;
    const std::string_view library = row.library ? row.library : "";
    // Four Bessel functions, series or normal distributions with their densities in float64 at once would be spilled.
    call.heavy = library == "kernels/pointwise/incomplete_gamma.cl" ||
                 (problem.common == DataType::float64 &&
                  (library == "kernels/pointwise/bessel.cl" || library == "kernels/pointwise/special.cl" ||
                   std::string_view(row.name) == "gelu_backward"));
    if (library == "core/errors.cl")
        call.reports = row.reports ? row.reports : row.name;
    for (const Tensor& output : problem.outputs)
        output.check(row.name, "an output");
    for (const Tensor& output : problem.outputs)
        call.add(&output, output.dtype, variable_type(row.result, problem.common));
    if (problem.outputs[0].numel() == 0)
        return;
    plan(call, queue.device());
    const DenseCopies copies(queue, call);
    Kernel& kernel =
        cached_kernel(queue.context(), key_of(call, &row, problem.common, problem.scalars.size()), [&]() -> Kernel& {
            const char* code = is_complex(problem.common) ? row.complex_code : row.code;
            require<NotSupported>(code != nullptr &&
                                      (is_complex(problem.common) || row.accepts & class_of(problem.common)),
                                  '"', row.name, "\" not implemented for '", name_of(problem.common), '\'');
            TextRequest request{row.name, code, {}, problem.common, row.result == Result::common, row.library};
            for (std::size_t k = 0; k < problem.scalars.size(); ++k)
                request.numbers.push_back({concat("w", k), problem.common});
            return build(queue.context(), call, request);
        });
    enqueue(queue, kernel, call, problem.inputs, problem.scalars, {&problem.common, 1});
}

void pointwise(Queue& queue, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               std::span<const Scalar> scalars, std::string_view code, std::span<const DataType> scalar_types)
{
    require(!outputs.empty(), "pointwise: at least one output is needed");
    const DataType common = outputs[0].dtype;
    PointwiseCall call;
    for (const Tensor& input : inputs) {
        input.check("pointwise", "an input");
        call.add(&input, input.dtype, input.dtype);
    }
    call.inputs = call.count;
    for (const Tensor& output : outputs)
        output.check("pointwise", "an output");
    for (const Tensor& output : outputs)
        call.add(&output, output.dtype, output.dtype);
    if (outputs[0].numel() == 0)
        return;
    plan(call, queue.device());
    const DenseCopies copies(queue, call);
    std::vector<DataType> types(scalars.size(), common);
    std::copy_n(scalar_types.begin(), std::min(scalar_types.size(), types.size()), types.begin());
    std::string text(code);
    for (DataType type : types)
        text += concat("\n// ", name_of(type));
    const std::string& id = intern(std::move(text));
    Kernel& kernel = cached_kernel(queue.context(), key_of(call, &id, common, scalars.size()), [&]() -> Kernel& {
        TextRequest request{"expression", id, {}, common, false};
        for (std::size_t k = 0; k < types.size(); ++k)
            request.numbers.push_back({concat("w", k), types[k]});
        return build(queue.context(), call, request);
    });
    enqueue(queue, kernel, call, {}, scalars, types);
}

}  // namespace clprim
