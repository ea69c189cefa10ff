#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/index.hpp>
#include <clprim/sort.hpp>
#include <kernels/bins/bins.hpp>
#include <kernels/index/axis.hpp>
#include <kernels/index/geometry.hpp>
#include <kernels/sort/digits.hpp>
#include <kernels/team.hpp>
#include <core/gpu_rate.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

constexpr std::int64_t compared_entries = 16;   // at most: accumulate_groups looks at each pair of them

// Sums and products that a dtype would round after every update.
bool is_rounded(DataType dtype, IndexReduce reduce)
{
    return (reduce == IndexReduce::sum || reduce == IndexReduce::product) &&
           (dtype == DataType::float16 || dtype == DataType::bfloat16 || dtype == DataType::complex32 ||
            dtype == DataType::bcomplex32);
}

constexpr const char* reduce_names[] = {"assign", "sum", "product", "minimum", "maximum"};

// The lines of a tensor: all axes but the last.
Tensor lines_of(Tensor tensor)
{
    tensor.shape.resize(tensor.dim() - 1);
    tensor.strides.resize(tensor.strides.size() - 1);
    return tensor;
}

// What both ways need: lines as operands self, source, index, and the kernels for them.
struct Accumulation {
    const Tensor &self, &source, &index;
    Geometry lines;
    cl_long entries;
    IndexReduce reduce;

    static Geometry make_lines(const Tensor& self, const Tensor& source, const Tensor& index)
    {
        const Tensor a = lines_of(self), b = lines_of(source), c = lines_of(index);
        return Geometry({&a, &b, &c});
    }
    Accumulation(const Tensor& self_, const Tensor& source_, const Tensor& index_, IndexReduce reduce_)
        : self(self_), source(source_), index(index_), lines(make_lines(self, source, index)),
          entries(source.shape.back()), reduce(reduce_)
    {
    }
    Kernel& kernel(Queue& queue, const char* name) const
    {
        return queue.context().program("kernels/index/accumulate.cl", options()).kernel(name);
    }
    std::string options() const
    {
        return "-DT=" + std::string(name_of(self.dtype)) + " -DINDEX=" + std::string(name_of(index.dtype)) +
               " -DREDUCE_" + reduce_names[static_cast<int>(reduce)] + (is_complex(self.dtype) ? " -DCOMPLEX" : "") +
               lines.options();
    }
};

void by_lines(Queue& queue, const Accumulation& work, const IndexedAxis& axis, const char* kernel)
{
    Launch launch(queue, work.kernel(queue, kernel));
    launch.arg(work.self).arg(work.source).arg(work.index).arg(work.entries).arg(cl_long(work.source.strides.back()))
        .arg(cl_long(work.index.strides.back())).arg(AxisArgument(axis)).arg(queue.error_buffer())
        .arg(Queue::error_code(axis.name));
    work.lines.set_argument(launch);
    launch.run(Range::linear(work.lines.numel(), 64));
    queue.expect_errors();
}

constexpr std::int64_t most_lines = 256;   // side by side, of a CPU's work-item

std::int64_t blocks_of(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// On CPUs: lines side by side are updated together, and where they are few for all threads, what they reach is split.
void on_cpu(Queue& queue, const Accumulation& work, const IndexedAxis& axis)
{
    const Geometry& g = work.lines;
    const std::int64_t columns = g.dims() > 0 ? g.size(0) : 1, rows = g.numel() / columns,
                       units = std::max<std::int64_t>(queue.device().compute_units, 1);
    const auto step = [&](int operand) { return columns > 1 ? g.stride(operand, 0) : 0; };
    const std::int64_t index_stride = work.index.strides.back();
    const bool still = step(2) == 0, nearer = std::abs(work.source.strides.back()) < std::abs(step(1)) &&
                                              std::abs(axis.stride) < std::abs(step(0));
    const bool along = columns == 1 || nearer || std::abs(index_stride) < std::abs(step(2));
    // Blocks of whole cache lines, and of no more than give each thread some. Lines that are walked alone need no
    // company.
    const std::int64_t company = along ? std::clamp<std::int64_t>(2048 / work.entries, 1, 16) : 16,
                       width = std::clamp<std::int64_t>(blocks_of(columns * rows, 16 * units) * company, company,
                                                        most_lines),
                       each = std::clamp<std::int64_t>(4096 / (columns * work.entries), 1,
                                                       std::max<std::int64_t>(rows / (4 * units), 1)),
                       wide = blocks_of(columns, width), high = blocks_of(rows, each);
    const bool split = !along && still && columns >= 8 && work.entries >= 1024;
    const auto parts = std::bit_ceil(static_cast<std::uint64_t>(split ? blocks_of(units, wide * high) : 1));

    std::string options = work.options() + detail::define("SOURCE", work.source.dtype);
    options += along ? " -DALONG" : still ? " -DSTILL" : "";
    if (along && index_stride == 1 && work.source.strides.back() == 1 && axis.stride == 1)
        options += " -DDENSE";
    if (step(0) == 1)
        options += " -DSELF_STEP=1";
    if (step(1) == 0 || step(1) == 1)
        options += detail::concat(" -DSOURCE_STEP=", step(1));
    Launch launch(queue, queue.context().program("kernels/index/cpu_accumulate.cl", options).kernel("accumulate"));
    launch.arg(work.self).arg(work.source).arg(work.index).arg(work.entries).arg(cl_long(work.source.strides.back()))
        .arg(cl_long(index_stride)).arg(AxisArgument(axis)).arg(queue.error_buffer())
        .arg(Queue::error_code(axis.name)).arg(cl_uint(width)).arg(cl_uint(each));
    g.set_argument(launch);
    launch.run(Range::groups({static_cast<std::size_t>(wide), static_cast<std::size_t>(high), parts}, {1, 1, 1}));
    queue.expect_errors();
}

// Whether what lines reach is no more than a few times their entries, all of 16 bits.
bool suits_wider(const Accumulation& work, const IndexedAxis& axis)
{
    constexpr std::int64_t least_lines = 32;   // fewer are sorted: entries of different elements run side by side
    const std::int64_t lines = work.source.numel() / work.entries;
    for (std::size_t d = 0; d + 1 < work.self.dim(); ++d)
        if (work.self.strides[d] == 0 && work.self.size(d) > 1)
            return false;
    return (work.self.dtype == DataType::float16 || work.self.dtype == DataType::bfloat16) &&
           axis.size != index_is_key && lines >= least_lines && axis.size / 2 <= work.entries;
}

// Updates in float32 of what lines reach, which is rounded when all have been applied.
void wider_on_cpu(Queue& queue, const Accumulation& work, const IndexedAxis& axis)
{
    Tensor reached = work.self;
    const std::size_t last = reached.dim() - 1;
    reached.shape[last] = axis.size;
    reached.strides[last] = axis.stride;
    // Axes lie in the same order in both.
    std::vector<std::size_t> order(reached.dim());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::less(), [&](std::size_t i) { return std::abs(reached.strides[i]); });
    Tensor wide = queue.context().empty(reached.shape, DataType::float32, queue);
    std::int64_t step = 1;
    for (const std::size_t i : order) {
        wide.strides[i] = step;
        step *= reached.size(i);
    }
    copy(queue, reached, wide);
    Tensor self = wide;
    self.shape = work.self.shape;
    IndexedAxis of_wide = axis;
    of_wide.stride = wide.strides.back();
    on_cpu(queue, Accumulation(self, work.source, work.index, work.reduce), of_wide);
    copy(queue, wide, reached);
}

// Of sorted entries on CPUs, lines side by side together.
void by_runs(Queue& queue, const Accumulation& work, const Tensor& keys, const Tensor& order)
{
    const Geometry& g = work.lines;
    const std::int64_t columns = g.dims() > 0 ? g.size(0) : 1, rows = g.numel() / columns,
                       units = std::max<std::int64_t>(queue.device().compute_units, 1);
    const std::int64_t width = std::min(columns, most_lines), wide = blocks_of(columns, width);
    const std::int64_t each = std::clamp<std::int64_t>(rows / (4 * units), 1, 64), high = blocks_of(rows, each);
    const std::int64_t parts = std::clamp<std::int64_t>(4 * units / (wide * high), 1, blocks_of(work.entries, 64));
    std::string options = work.options() + detail::define("SOURCE", work.source.dtype) + " -DSTILL";
    const auto step = [&](int operand) { return columns > 1 ? g.stride(operand, 0) : 1; };
    if (step(0) == 1)
        options += " -DSELF_STEP=1";
    if (step(1) == 1)
        options += " -DSOURCE_STEP=1";
    Launch launch(queue, queue.context().program("kernels/index/cpu_accumulate.cl", options).kernel("accumulate_runs"));
    launch.arg(work.self).arg(work.source).arg(keys).arg(order).arg(work.entries)
        .arg(cl_long(work.source.strides.back())).arg(cl_uint(width)).arg(cl_uint(each));
    g.set_argument(launch);
    launch.run(Range::groups({static_cast<std::size_t>(wide), static_cast<std::size_t>(high),
                              static_cast<std::size_t>(parts)}, {1, 1, 1}));
}

// Few lines and many entries, the same for all lines: sorted by where they go, entries of different elements run side
// by side.
void by_segments(Queue& queue, const Accumulation& work, const IndexedAxis& axis)
{
    Tensor index = work.index;
    index.shape = {work.entries};
    index.strides = {work.index.strides.back()};
    Tensor keys = index;
    if (axis.size != index_is_key) {
        keys = queue.context().empty({work.entries}, DataType::int64, queue);
        add_keys(queue, keys, {axis.name, index, axis.size, axis.stride, axis.negative}, true);
    }
    const Tensor sorted = queue.context().empty({work.entries}, DataType::int64, queue);
    const Tensor order = queue.context().empty({work.entries}, DataType::int64, queue);
    sort(queue, keys, 0, false, sorted, order);

    if (queue.device().kind == DeviceKind::cpu)
        return by_runs(queue, work, sorted, order);
    Launch launch(queue, work.kernel(queue, "accumulate_segments"));
    launch.arg(work.self).arg(work.source).arg(sorted).arg(order).arg(work.entries)
        .arg(cl_long(work.source.strides.back()));
    work.lines.set_argument(launch);
    const std::size_t lines = work.lines.numel();
    const std::size_t width = lines >= 64 ? 64 : 1, height = 64 / width;   // of a work-group: lines by entries
    Range range = Range::groups({(lines + width - 1) / width, (work.entries + height - 1) / height, 1},
                                {width, height, 1});
    range.dims = 2;
    launch.run(range);
}

// pieces_t of segments.cl
struct Pieces {
    cl_long self_step, source_step;
    cl_uint entries, each;
};

constexpr std::int64_t few_entries = 4096;   // that merging sorts in fewer launches

// What numbers of entries stay below: elements along the axis, or all that a key may reach.
std::int64_t bound_of(const Accumulation& work, const IndexedAxis& axis)
{
    return axis.size != index_is_key ? axis.size
                                     : static_cast<std::int64_t>(work.self.memory->size / size_of(work.self.dtype));
}

bool suit_pieces(const Accumulation& work, const IndexedAxis& axis, const Device& device)
{
    return work.entries > few_entries && work.entries < (cl_long{1} << 31) &&
           bound_of(work, axis) < (std::int64_t{1} << 31) && detail::can_sort_numbers(device, work.entries);
}

DataType computed_type(DataType dtype)
{
    switch (dtype) {
    case DataType::float16:
    case DataType::bfloat16: return DataType::float32;
    case DataType::complex32:
    case DataType::bcomplex32: return DataType::complex64;
    default: return dtype;
    }
}

// The same with many entries on a GPU, each of whose elements may get most of them.
void by_pieces(Queue& queue, const Accumulation& work, const IndexedAxis& axis)
{
    const auto line = [&](const Tensor& tensor) {
        Tensor result = tensor;
        result.shape = {work.entries};
        result.strides = {tensor.strides.back()};
        return result;
    };
    const Tensor self = line(work.self), source = line(work.source), index = line(work.index);
    const Accumulation one(self, source, index, work.reduce);
    const Tensor numbers = queue.context().empty({work.entries}, DataType::int32, queue);
    const auto entries = static_cast<cl_uint>(work.entries);
    Launch number(queue, one.kernel(queue, "number_bins"));
    number.arg(index).arg(numbers).arg(entries).arg(cl_long(index.strides.back())).arg(AxisArgument(axis))
        .arg(queue.error_buffer()).arg(Queue::error_code(axis.name));
    one.lines.set_argument(number);
    number.run(Range::linear(work.entries, 64));
    queue.expect_errors();
    const detail::SortedNumbers sorted = detail::sort_numbers(queue, numbers, bound_of(work, axis));

    const std::int64_t lines = work.lines.numel(),
                       each = std::clamp<std::int64_t>(
                           work.entries * lines / (2 * detail::resident_items(queue.device())), 16, 256),
                       pieces = blocks_of(work.entries, each);
    const DataType computed = computed_type(work.self.dtype);
    const Tensor heads = queue.context().empty({pieces * lines}, computed, queue),
                 tails = queue.context().empty({pieces * lines}, computed, queue);
    const Pieces argument{cl_long(axis.stride), cl_long(work.source.strides.back()), entries, cl_uint(each)};
    const std::size_t width = std::min<std::size_t>(64, std::bit_ceil(static_cast<std::size_t>(lines))),
                      height = 64 / width;   // of a work-group: lines by pieces
    Range range = Range::groups({(lines + width - 1) / width, (pieces + height - 1) / height, 1}, {width, height, 1});
    range.dims = 2;
    const Program& program = queue.context().program("kernels/index/segments.cl", work.options());
    Launch accumulate(queue, program.kernel("accumulate_pieces"));
    accumulate.arg(work.self).arg(work.source).arg(sorted.numbers).arg(sorted.order).arg(heads).arg(tails)
        .arg(argument);
    work.lines.set_argument(accumulate);
    accumulate.run(range);
    Launch join(queue, program.kernel("join_pieces"));
    join.arg(work.self).arg(sorted.numbers).arg(heads).arg(tails).arg(argument);
    work.lines.set_argument(join);
    join.run(range);
}

// Whether a GPU has better to do than to walk lines, each by a work-item.
bool walks_too_long(const Accumulation& work, const Device& device)
{
    return device.kind != DeviceKind::cpu && work.entries >= 32 &&
           work.lines.numel() < detail::resident_items(device) / 8;
}

// Whether entries of lines that have an index each are worth sorting into bins: neither much fewer nor much more than
// the elements that they can reach.
bool suit_bins(const Accumulation& work, const IndexedAxis& axis, const Device& device)
{
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    const std::int64_t lines = work.lines.numel();
    if (!walks_too_long(work, device) || axis.size == index_is_key || axis.size >= limit / lines ||
        work.entries >= limit / lines)
        return false;
    const std::int64_t entries = lines * work.entries, elements = lines * axis.size;
    return entries >= 4096 && elements <= 64 * entries && entries <= 8 * elements;
}

void by_bins(Queue& queue, const Accumulation& work, const IndexedAxis& axis)
{
    const std::int64_t lines = work.lines.numel();
    const bool across = work.lines.dims() > 0 && lines > 1 &&
                        std::abs(work.lines.stride(2, 0)) < std::abs(work.index.strides.back());
    const Program& program =
        queue.context().program("kernels/index/accumulate.cl", work.options() + (across ? " -DACROSS" : ""));
    const auto range = [&](std::int64_t others) {
        const std::int64_t inner = across ? lines : others, outer = across ? others : lines;
        Range result = Range::groups({static_cast<std::size_t>((inner + 63) / 64), static_cast<std::size_t>(outer), 1},
                                     {64, 1, 1});
        result.dims = 2;
        return result;
    };
    const auto entries = static_cast<cl_uint>(work.entries);
    const Tensor numbers = queue.context().empty({lines * work.entries}, DataType::int32, queue);
    Launch number(queue, program.kernel("number_bins"));
    number.arg(work.index).arg(numbers).arg(entries).arg(cl_long(work.index.strides.back())).arg(AxisArgument(axis))
        .arg(queue.error_buffer()).arg(Queue::error_code(axis.name));
    work.lines.set_argument(number);
    number.run(range(work.entries));
    queue.expect_errors();
    const detail::Bins bins = detail::sort_into_bins(queue, numbers, lines * axis.size);
    Launch launch(queue, program.kernel("accumulate_bins"));
    launch.arg(work.self).arg(work.source).arg(bins.begins).arg(bins.list).arg(entries)
        .arg(cl_long(work.source.strides.back())).arg(AxisArgument(axis));
    work.lines.set_argument(launch);
    launch.run(range(axis.size));
}

bool shared_by_lines(const Tensor& index)
{
    for (std::size_t d = 0; d + 1 < index.dim(); ++d)
        if (index.strides[d] != 0 && index.size(d) != 1)
            return false;
    return true;
}

}  // namespace

void reduce_through(Queue& queue, const Tensor& self, const IndexedAxis& axis, const Tensor& source,
                    IndexReduce reduce)
{
    detail::check_operands("reduce_through", {{"self", self}, {"index", axis.index}, {"source", source}});
    require(self.dtype == source.dtype, axis.name, ": dtypes ", name_of(self.dtype), " and ", name_of(source.dtype),
            " differ");
    require(self.shape == source.shape && self.shape == axis.index.shape && self.dim() > 0, axis.name,
            ": shapes differ");
    if (source.numel() == 0)
        return;
    const std::int64_t entries = source.shape.back(), lines = source.numel() / entries;
    const Accumulation work(self, source, axis.index, reduce);
    const bool rounded = entries > 1 && is_rounded(self.dtype, reduce);
    if (rounded && entries <= compared_entries)
        return by_lines(queue, work, axis, "accumulate_groups");
    if (queue.device().kind == DeviceKind::cpu && !rounded)
        return on_cpu(queue, work, axis);
    const bool shared = shared_by_lines(axis.index);
    if (shared && queue.device().kind == DeviceKind::cpu && suits_wider(work, axis))
        return wider_on_cpu(queue, work, axis);
    if (!shared && suit_bins(work, axis, queue.device()))
        return by_bins(queue, work, axis);
    const bool walks = shared && queue.device().kind != DeviceKind::cpu ? !walks_too_long(work, queue.device())
                                                                        : entries < 256 || lines >= 4096;
    if (walks && !rounded)
        return by_lines(queue, work, axis, "accumulate_lines");
    if (shared && suit_pieces(work, axis, queue.device()))
        return by_pieces(queue, work, axis);
    if (shared && (axis.size != index_is_key || axis.index.dtype == DataType::int64))
        return by_segments(queue, work, axis);
    if (lines > 32)
        return by_lines(queue, work, axis, "accumulate_lines");
    // A few lines, each with an index of its own: one after another.
    for (std::int64_t i = 0; i < self.size(0); ++i) {
        const auto part = [&](const Tensor& tensor) {
            Tensor result = tensor;
            result.offset += i * tensor.stride(0);
            result.shape = Dims(std::span<const std::int64_t>(tensor.shape).subspan(1));
            result.strides = Dims(std::span<const std::int64_t>(tensor.strides).subspan(1));
            return result;
        };
        IndexedAxis own = axis;
        own.index = part(axis.index);
        reduce_through(queue, part(self), own, part(source), reduce);
    }
}

}  // namespace clprim
