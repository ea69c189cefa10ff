#include <clprim/concat.hpp>

#include <algorithm>
#include <optional>
#include <vector>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <kernels/index/move.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

constexpr std::size_t most_joined = 32;    // joined_t of cpu_concat.cl
constexpr std::int64_t chunk = 16384;      // CHUNK there

// Elements of a row: along `axis` and the dimensions behind it.
std::int64_t row_of(const Tensor& tensor, std::size_t axis)
{
    std::int64_t elements = 1;
    for (std::size_t d = axis; d < tensor.dim(); ++d)
        elements *= tensor.size(d);
    return elements;
}

// How many elements rows without gaps begin after each other; 0 where there is no such number.
std::int64_t rows_apart(const Tensor& tensor, std::size_t axis)
{
    if (tensor.numel() == 0)
        return 16;    // no matter; runs of up to as many elements are copied as one
    std::int64_t expected = 1;
    std::optional<std::int64_t> apart;
    for (std::size_t d = tensor.dim(); d-- > 0;) {
        if (tensor.size(d) == 1)
            continue;
        if (d < axis && !apart)
            expected = apart.emplace(tensor.stride(d));
        if (tensor.stride(d) != expected)
            return 0;
        expected *= tensor.size(d);
    }
    return apart.value_or(row_of(tensor, axis));
}

// Whether the tensors are better joined by one launch for many of them: several, in runs.
bool joins(Queue& queue, std::span<const Tensor> inputs, std::size_t axis, const Tensor& out)
{
    const auto shortest = static_cast<std::int64_t>(64 / size_of(out.dtype));   // elements of a run
    return queue.device().kind == DeviceKind::cpu && inputs.size() >= 4 && out.is_contiguous() && out.numel() != 0 &&
           row_of(out, axis) >= shortest * static_cast<std::int64_t>(inputs.size()) &&
           std::ranges::all_of(inputs, [&](const Tensor& input) {
               return input.dtype == out.dtype && input.dim() == out.dim() && rows_apart(input, axis) > 0;
           });
}

// One launch: `inputs` stand from element `begin` of each row on.
void join(Queue& queue, std::span<const Tensor> inputs, std::size_t axis, const Tensor& out, std::int64_t begin)
{
    struct {
        cl_ulong begin[most_joined]{}, size[most_joined]{}, apart[most_joined]{};
    } joined;
    const std::int64_t width = row_of(out, axis);
    std::int64_t largest = 0, factor = 16 / static_cast<std::int64_t>(size_of(out.dtype));
    const auto fits = [&](std::int64_t number) {
        while (number % factor != 0)
            factor /= 2;
    };
    fits(width);
    fits(out.buffer_offset());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::int64_t size = row_of(inputs[i], axis), apart = rows_apart(inputs[i], axis);
        for (const std::int64_t number : {begin, size, apart, static_cast<std::int64_t>(inputs[i].buffer_offset())})
            fits(number);
        joined.begin[i] = static_cast<cl_ulong>(begin);
        joined.size[i] = static_cast<cl_ulong>(size);
        joined.apart[i] = static_cast<cl_ulong>(apart);
        begin += size;
        largest = std::max(largest, inputs[i].numel());
    }
    const detail::RawType raw = detail::raw_type(size_of(out.dtype) * static_cast<std::size_t>(factor));
    const auto widened = [&](Tensor tensor) {
        tensor.offset /= factor;
        tensor.dtype = raw.dtype;
        return tensor;
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        joined.begin[i] /= static_cast<cl_ulong>(factor);
        joined.size[i] /= static_cast<cl_ulong>(factor);
        joined.apart[i] /= static_cast<cl_ulong>(factor);
    }
    Launch launch(queue, queue.context()
                             .program("kernels/concat/cpu_concat.cl",
                                      detail::concat("-DELEMENT=", raw.name, " -DCHUNK=", chunk))
                             .kernel("concat"));
    for (std::size_t i = 0; i < most_joined; ++i)
        launch.arg(widened(inputs[std::min(i, inputs.size() - 1)]));
    launch.arg(widened(out)).arg(joined).arg(cl_ulong(out.numel() / width)).arg(cl_ulong(width / factor));
    const std::int64_t chunks = (largest / factor + chunk - 1) / chunk;
    launch.run(Range::groups({static_cast<std::size_t>(chunks), inputs.size(), 1}, {1, 1, 1}));
}

// Whether one launch with a table joins them: more tensors than a launch has arguments for, in runs of one buffer.
bool joins_by_table(Queue& queue, std::span<const Tensor> inputs, std::size_t axis, const Tensor& out)
{
    return queue.device().kind == DeviceKind::cpu && inputs.size() > most_joined && out.is_contiguous() &&
           out.numel() != 0 && std::ranges::all_of(inputs, [&](const Tensor& input) {
               return input.dtype == out.dtype && input.dim() == out.dim() && rows_apart(input, axis) > 0 &&
                      input.memory->buffer == inputs[0].memory->buffer;
           });
}

void join_by_table(Queue& queue, std::span<const Tensor> inputs, std::size_t axis, const Tensor& out)
{
    constexpr std::int64_t fields = 4, elements = 4096;   // of cpu_concat_table.cl; about so many of a work-item
    const std::int64_t width = row_of(out, axis), rows = out.numel() / width,
                       count = static_cast<std::int64_t>(inputs.size());
    std::vector<std::int64_t> table;
    table.reserve(inputs.size() * fields);
    std::int64_t begin = 0;
    for (const Tensor& input : inputs) {
        const std::int64_t size = row_of(input, axis);
        table.insert(table.end(), {static_cast<std::int64_t>(input.buffer_offset()), begin, size,
                                   rows_apart(input, axis)});
        begin += size;
    }
    const Tensor entries = queue.context().empty({count * fields}, DataType::int64, queue);
    queue.write(entries, std::span<const std::int64_t>(table));
    const detail::RawType raw = detail::raw_type(size_of(out.dtype));
    Tensor whole(inputs[0].memory, 0, raw.dtype, {1}, {1}), target = out;
    whole.offset = -static_cast<std::int64_t>(whole.buffer_offset());   // from the buffer's start
    target.dtype = raw.dtype;
    const std::int64_t average = std::max<std::int64_t>(out.numel() / rows / count, 1),
                       tensors = std::clamp<std::int64_t>(elements / average, 1, count),
                       each = std::clamp<std::int64_t>(elements / (average * tensors), 1, rows);
    const auto groups = [](std::int64_t all, std::int64_t part) {
        return static_cast<std::size_t>((all + part - 1) / part);
    };
    queue.launch(queue.context()
                     .program("kernels/concat/cpu_concat_table.cl", detail::concat("-DELEMENT=", raw.name))
                     .kernel("concat"),
                 Range::groups({groups(count, tensors), groups(rows, each), 1}, {1, 1, 1}), whole, target, entries,
                 cl_ulong(count), cl_ulong(tensors), cl_ulong(rows), cl_ulong(each), cl_ulong(width));
}

// Inputs that lie behind each other as they will in `out`, such as the numbers that one launch has written, as one.
std::vector<Tensor> merged(std::span<const Tensor> inputs, std::size_t axis)
{
    std::vector<Tensor> result;
    for (const Tensor& input : inputs) {
        Tensor* last = result.empty() ? nullptr : &result.back();
        if (last && last->memory == input.memory && last->dtype == input.dtype && last->is_contiguous() &&
            input.is_contiguous() && row_of(input, axis) == input.numel() &&
            last->buffer_offset() + static_cast<std::uint64_t>(last->numel()) == input.buffer_offset())
            last->shape[axis] += input.size(axis);
        else
            result.push_back(input);
    }
    return result;
}

// Whether an input runs along another axis than the output: a copy turns it by tiles, where elements moved one by one
// would each touch a cache line of their own.
bool is_turned(const Tensor& input, const Tensor& out)
{
    constexpr std::int64_t fewest = 8192;
    std::optional<std::size_t> fastest;
    for (std::size_t d = 0; d < out.dim(); ++d)
        if (out.stride(d) == 1 && out.size(d) > 1)
            fastest = d;
    if (!fastest || input.numel() < fewest || input.stride(*fastest) <= 1)
        return false;
    for (std::size_t d = 0; d < input.dim(); ++d)
        if (input.stride(d) == 1 && input.size(d) >= 8)
            return true;
    return false;
}

}  // namespace

void concat(Queue& queue, std::span<const Tensor> inputs, std::size_t axis, const Tensor& out)
{
    detail::check_operands("concat", {{"out", out}});
    require(axis < out.dim(), "concat: axis ", axis, " of a tensor with ", out.dim(), " dimensions");
    std::int64_t begin = 0;
    for (const Tensor& input : inputs) {
        input.check("concat", "an input");
        Dims expected = out.shape;
        expected[axis] = input.dim() == out.dim() ? input.size(axis) : 0;
        require(input.shape == expected, "concat: input of shape ", to_string(input.shape), " does not fit ",
                to_string(out.shape), " along axis ", axis);
        begin += input.size(axis);
    }
    require(begin == out.size(axis), "concat: inputs add up to ", begin, " along axis ", axis, ", output has ",
            out.size(axis));
    begin = 0;
    const std::vector<Tensor> neighbours = merged(inputs, axis);
    inputs = neighbours;
    if (joins_by_table(queue, inputs, axis, out))
        return join_by_table(queue, inputs, axis, out);
    if (joins(queue, inputs, axis, out)) {
        for (; !inputs.empty(); inputs = inputs.subspan(std::min(inputs.size(), most_joined))) {
            const std::span<const Tensor> some = inputs.first(std::min(inputs.size(), most_joined));
            join(queue, some, axis, out, begin);
            for (const Tensor& input : some)
                begin += row_of(input, axis);
        }
        return;
    }
    for (const Tensor& input : inputs) {
        const Tensor place = out.slice(axis, begin, begin + input.size(axis));
        if (is_turned(input, out))
            copy(queue, input, place);
        else
            move_elements(queue, place, input);
        begin += input.size(axis);
    }
}

}  // namespace clprim
