#include <clprim/scan.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <kernels/index/geometry.hpp>
#include <kernels/team.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

// One scan: `indices` is `out` again where there are none.
struct Lines {
    const Tensor &input, &out, &indices;
    std::size_t axis;
    std::int64_t n;
    Geometry starts;

    Lines(const Tensor& input_, const Tensor& out_, const Tensor& indices_, std::size_t axis_)
        : input(input_), out(out_), indices(indices_), axis(axis_), n(input.dim() ? input.size(axis) : 1),
          starts(make_starts(input, out, indices, axis))
    {
    }

    static Geometry make_starts(Tensor input, Tensor out, Tensor indices, std::size_t axis)
    {
        for (Tensor* tensor : {&input, &out, &indices})
            if (tensor->dim())
                tensor->shape[axis] = 1;
        return Geometry({&input, &out, &indices});
    }

    void set_tensors(Launch& launch) const
    {
        for (const Tensor* tensor : {&input, &out, &indices})
            launch.arg(*tensor).arg(cl_long(tensor->dim() ? tensor->stride(axis) : 0));
    }
};

// What carries more digits along than results have: a double where that is as fast as a float, elsewhere what rounding
// loses of sums, and the exponents of products.
std::string digits(DataType dtype, std::string_view scan, const Device& device)
{
    if (device.kind != DeviceKind::cpu && scan == "product")
        return is_complex(dtype) || is_floating_point(dtype) ? " -DSCALED" : "";
    const bool narrow = is_complex(dtype) ? dtype != DataType::complex128
                                          : is_floating_point(dtype) && dtype != DataType::float64;
    if (!narrow || (scan != "sum" && scan != "product" && !is_complex(dtype)))
        return "";
    if (device.kind == DeviceKind::cpu && device.fp64)
        return " -DIN_DOUBLE";
    return scan == "sum" ? " -DCOMPENSATED" : "";
}

std::string build_options(DataType dtype, const char* scan, const Geometry& lines, const Device& device)
{
    return "-DT=" + std::string(name_of(dtype)) + " -DSCAN_" + scan + digits(dtype, scan, device) +
           (is_complex(dtype) ? " -DCOMPLEX" : "") + lines.options();
}

constexpr std::int64_t state_words = 3;   // a state has at most 24 bytes

// Pieces of lines, several by a work-item (cpu_scan.cl).
void scan_on_cpu(Queue& queue, const Lines& lines, const Program& program)
{
    constexpr std::int64_t beside = 4, shortest = 2048;   // beside: BESIDE of cpu_scan.cl
    const std::int64_t count = lines.starts.numel(), wanted = 4 * beside * queue.device().compute_units;
    const std::int64_t most = std::max<std::int64_t>(lines.n / shortest, 1);
    const std::int64_t chunks = std::clamp<std::int64_t>(wanted / count, 1, most);
    const std::int64_t chunk = (lines.n + chunks - 1) / chunks, pieces = (lines.n + chunk - 1) / chunk;
    Tensor totals = lines.out;   // none are needed of whole lines
    if (pieces > 1)
        totals = queue.context().empty({count * pieces * state_words}, DataType::uint64, queue);
    auto pass = [&](const char* name) {
        Launch launch(queue, program.kernel(name));
        lines.set_tensors(launch);
        launch.arg(totals).arg(cl_long(lines.n)).arg(cl_long(chunk)).arg(cl_long(pieces));
        lines.starts.set_argument(launch);
        launch.run(Range::groups((count * pieces + beside - 1) / beside, 1));
    };
    if (pieces > 1) {
        pass("total_pieces");
        queue.launch(program.kernel("scan_totals"), Range::linear(count, 1), totals, cl_long(pieces), cl_long(count));
    }
    pass("scan_pieces");
}

// Whether the rows of a tensor lie densely behind each other, so that cpu_rows.cl walks eight at once.
bool rows_on_cpu(const Lines& lines, std::string_view scan, const Device& device)
{
    const DataType dtype = lines.out.dtype;
    const bool floats = is_floating_point(dtype);
    if ((scan != "sum" && scan != "product") || is_complex(dtype) || (floats && !device.fp64) ||
        !lines.input.is_contiguous() || !lines.out.is_contiguous() || lines.axis + 1 != lines.out.dim() || lines.n < 4)
        return false;
    // Sums of integers along longer rows are found by exchanging lanes of a vector (cpu_scan.cl).
    return lines.n < 64 || ((floats || scan == "product") && lines.starts.numel() >= 64 * device.compute_units);
}

void scan_rows_on_cpu(Queue& queue, const Lines& lines, std::string options)
{
    constexpr std::int64_t beside = 8, elements = 8192;   // beside: ROWS of cpu_rows.cl
    const DataType dtype = lines.out.dtype;
    const std::string computed(opencl_compute_type(dtype));
    const bool wide = options.find("-DIN_DOUBLE") != std::string::npos;
    options += detail::concat(detail::define("FROM", lines.input.dtype), " -DC8=", computed, "8 -DV8=",
                              wide ? "double" : computed, 8);
    const std::int64_t rows = lines.starts.numel();
    const std::int64_t each = std::max<std::int64_t>(elements / lines.n / beside, 1) * beside;
    queue.launch(queue.context().program("kernels/scan/cpu_rows.cl", options).kernel("scan_rows"),
                 Range::groups((rows + each - 1) / each, 1), lines.input, lines.out, cl_ulong(rows), cl_uint(lines.n),
                 cl_uint(each));
}

// One work-item for each line, or for each of about as many chunks as they have elements.
void scan_side_by_side(Queue& queue, const Lines& lines, const std::string& options)
{
    const Program& program = queue.context().program("kernels/scan/cpu_lines.cl", options);
    const std::int64_t count = lines.starts.numel(), cores = std::max(1u, queue.device().compute_units);
    const std::int64_t beside = count < 64 * cores ? 16 : 64;   // lines of a work-group
    if (count >= 16 * cores || lines.n < 256) {
        Launch launch(queue, program.kernel("scan_lines"));
        lines.set_tensors(launch);
        launch.arg(cl_long(lines.n));
        lines.starts.set_argument(launch);
        launch.run(Range::linear(count, beside));
        return;
    }
    const cl_long chunk = std::llround(std::ceil(std::sqrt(static_cast<double>(lines.n))));
    const cl_long chunks = (lines.n + chunk - 1) / chunk;
    const Tensor totals = queue.context().empty({count * chunks * state_words}, DataType::uint64, queue);
    Range range = Range::groups({std::size_t(chunks + 63) / 64, std::size_t(count), 1}, {64, 1, 1});
    range.dims = 2;
    for (const char* pass : {"chunk_totals", "scan_chunks"}) {
        {
            Launch launch(queue, program.kernel(pass));
            lines.set_tensors(launch);
            launch.arg(totals).arg(cl_long(lines.n)).arg(chunk).arg(chunks);
            lines.starts.set_argument(launch);
            launch.run(range);
        }
        if (pass == std::string_view("chunk_totals"))
            queue.launch(program.kernel("scan_totals"), Range::linear(count, 1), totals, chunks, cl_long(count));
    }
}

struct Layout {   // as in scan.cl
    cl_uint wide, deep, line_shift, lane_shift;
};

// Work-items of a group: along dense lines, or across lines that lie side by side.
Layout layout_of(const Lines& lines, std::int64_t places, std::int64_t each, std::int64_t team)
{
    const auto power = [](std::int64_t n) { return std::bit_ceil(static_cast<std::uint64_t>(n)); };
    const std::int64_t count = lines.starts.numel(), most_wide = power(count),
                       most_deep = power((places + each - 1) / each);
    const std::int64_t step = lines.input.dim() ? std::abs(lines.input.stride(lines.axis)) : 1;
    const bool across = count > 1 && std::abs(lines.starts.stride(0, 0)) < step;
    const std::int64_t beside = across ? std::min<std::int64_t>(most_wide, 32) : 1;
    const std::int64_t deep = std::min(std::max<std::int64_t>(team / beside, 1), most_deep),
                       wide = std::min(team / deep, most_wide);
    Layout layout{static_cast<cl_uint>(wide), static_cast<cl_uint>(deep), 0, 0};
    (across ? layout.lane_shift : layout.line_shift) = std::countr_zero(across ? layout.wide : layout.deep);
    return layout;
}

// Whether quads of the operands lie at the same places of their lines, and how many elements of its first quad a line
// may have before it.
bool in_quads(const Lines& lines, std::int64_t& before)
{
    const std::initializer_list<const Tensor*> tensors = {&lines.input, &lines.out, &lines.indices};
    const auto apart = [](std::int64_t a, std::int64_t b) { return (a - b) % 4 != 0; };
    std::int64_t all = 0;   // what all lines begin at multiples of
    int k = 0;
    for (const Tensor* tensor : tensors) {
        if (is_complex(tensor->dtype) || (tensor != &lines.input && tensor->dtype == DataType::boolean) ||
            (tensor->dim() && lines.n > 1 && tensor->stride(lines.axis) != 1) ||
            apart(tensor->buffer_offset(), lines.input.buffer_offset()))
            return false;
        for (int d = 0; d < lines.starts.dims(); ++d) {
            if (apart(lines.starts.stride(k, d), lines.starts.stride(0, d)))
                return false;
            all |= lines.starts.stride(k, d);
        }
        all |= tensor->buffer_offset();
        ++k;
    }
    before = all % 4 == 0 ? 0 : 3;
    return true;
}

// Tiles along lines, by work-groups (scan.cl).
void scan_on_gpu(Queue& queue, const Lines& lines, std::string_view scan, std::string options)
{
    const Device& device = queue.device();
    const std::size_t bytes = std::max(size_of(lines.input.dtype), size_of(lines.out.dtype));
    // Logarithms of complex sums may differ by whole turns where they are added in pieces: one after the other as long
    // as that is bearable.
    const bool turns = scan == "log_sum_exp" && is_complex(lines.out.dtype), in_turn = turns && lines.n < 256;
    const std::int64_t each = turns ? 1 : bytes >= 8 || &lines.indices != &lines.out ? 4 : 8,
                       team = detail::team_for(device).size;
    std::int64_t before = 0;
    const bool quads = in_quads(lines, before);
    options += detail::concat(" -DTEAM=", team, " -DSPAN=", each, quads ? " -DQUADS" : "");
    const std::int64_t places = lines.n + (quads ? before : 0);
    const Layout layout = layout_of(lines, in_turn ? 1 : places, each, team);
    const std::int64_t count = lines.starts.numel(), groups = (count + layout.wide - 1) / layout.wide,
                       tile = layout.deep * each, tiles = (places + tile - 1) / tile,
                       wanted = 4 * std::int64_t{std::max(1u, device.compute_units)};
    // Chunks are read twice, which is worth it where a device would stand idle.
    std::int64_t chunk = tiles;
    if (2 * groups < wanted && !in_turn)
        chunk = std::max<std::int64_t>(tiles * groups / wanted, 1);
    const std::int64_t chunks = (tiles + chunk - 1) / chunk;
    Tensor totals = lines.out;   // none are needed of whole lines
    constexpr std::int64_t state_words = 4;
    if (chunks > 1)
        totals = queue.context().empty({count * chunks * state_words}, DataType::uint64, queue);
    const Program& program = queue.context().program("kernels/scan/scan.cl", options);
    const auto pass = [&](const char* name, std::int64_t launched) {
        Launch launch(queue, program.kernel(name));
        lines.set_tensors(launch);
        launch.arg(totals).arg(cl_long(lines.n)).arg(cl_long(places)).arg(cl_long(chunk * tile)).arg(layout);
        lines.starts.set_argument(launch);
        Range range = Range::groups({static_cast<std::size_t>(groups), static_cast<std::size_t>(launched), 1},
                                    {std::size_t{layout.wide} * layout.deep, 1, 1});
        range.dims = 2;
        launch.run(range);
    };
    if (chunks > 1)
        pass("chunk_totals", chunks - 1);
    pass("scan", chunks);
}

void scan_lines(Queue& queue, const Lines& lines, const char* scan)
{
    const std::string options = build_options(lines.out.dtype, scan, lines.starts, queue.device());
    const bool other = lines.input.dtype != lines.out.dtype;
    const std::string from = other ? detail::define("FROM", lines.input.dtype) : "";
    if (queue.device().kind != DeviceKind::cpu)
        return scan_on_gpu(queue, lines, scan, options + from);
    const auto scan_copy = [&](DataType dtype) {
        const Tensor copied = queue.context().empty(lines.out.shape, dtype, queue);
        copy(queue, lines.input, copied);
        scan_lines(queue, Lines(copied, lines.out, lines.indices, lines.axis), scan);
    };
    // Rows that are dense in the output alone: a copy turns them by tiles.
    constexpr std::int64_t fewest = 8192;
    if (lines.out.is_contiguous() && lines.axis + 1 == lines.out.dim() && lines.input.stride(lines.axis) > 1 &&
        lines.input.numel() >= fewest)
        return scan_copy(lines.input.dtype);
    if (rows_on_cpu(lines, scan, queue.device()))
        return scan_rows_on_cpu(queue, lines, options);
    // Lines side by side in the vectors of a CPU would be gathered where they are dense: those are walked as they lie.
    const bool dense = lines.input.dim() == 0 || lines.input.stride(lines.axis) == 1;
    const std::int64_t count = lines.starts.numel();
    if (dense ? lines.n >= 64 : count < 16)
        return scan_on_cpu(queue, lines, queue.context().program("kernels/scan/cpu_scan.cl", options + from));
    if (other)
        return scan_copy(lines.out.dtype);
    scan_side_by_side(queue, lines, options);
}

constexpr std::size_t max_dims = 16;

struct Shape {   // as in nonzero_shape.cl
    cl_int dims = 0, pad = 0;
    cl_long sizes[max_dims] = {};
};

bool on_cpu(Queue& queue) { return queue.device().kind == DeviceKind::cpu; }

constexpr std::int64_t most_narrow = std::int64_t{1} << 31;

Kernel& nonzero_kernel(Queue& queue, const Tensor& input, const char* name)
{
    std::string options = detail::define("T", input.dtype) + (is_complex(input.dtype) ? " -DCOMPLEX" : "");
    if (on_cpu(queue))
        return queue.context().program("kernels/scan/cpu_nonzero.cl", options).kernel(name);
    options += detail::concat(" -DTEAM=", detail::team_for(queue.device()).size, " -DDIMS=", input.dim());
    if (!is_complex(input.dtype) && input.buffer_offset() % 4 == 0)
        options += " -DQUADS";
    if (input.numel() >= most_narrow)
        options += " -DLARGE";
    return queue.context().program("kernels/scan/nonzero.cl", options).kernel(name);
}

Range nonzero_range(Queue& queue, std::size_t chunks)
{
    return Range::groups(chunks, on_cpu(queue) ? 1 : detail::team_for(queue.device()).size);
}

// Elements of a chunk: on GPUs whole tiles of a work-group, in at most some thousand chunks.
std::int64_t nonzero_chunk(const Device& device, std::int64_t n)
{
    if (device.kind == DeviceKind::cpu)
        return std::clamp<std::int64_t>(n / (device.compute_units * 16) + 1, 4096, 1 << 24);
    const std::int64_t tile = 8 * std::int64_t{detail::team_for(device).size};   // 8: SPAN of nonzero.cl
    return (n / 4096 + tile) / tile * tile;
}

}  // namespace

void cumulative(Queue& queue, const Tensor& input, std::size_t axis, Scan scan, const Tensor& out)
{
    detail::check_operands("cumulative", {{"input", input}, {"out", out}});
    static constexpr const char* names[] = {"sum", "product", "log_sum_exp"};
    const bool whole = (is_integral(input.dtype) || input.dtype == DataType::boolean) && is_integral(out.dtype);
    require(input.shape == out.shape && (input.dtype == out.dtype || whole), "cumulative: input and output differ");
    require(axis < std::max<std::size_t>(input.dim(), 1), "cumulative: axis ", axis, " of a tensor with ", input.dim(),
            " dimensions");
    require<NotSupported>(scan != Scan::log_sum_exp || is_floating_point(input.dtype) || is_complex(input.dtype),
                          "logcumsumexp: not for ", name_of(input.dtype));
    if (input.numel() != 0)
        scan_lines(queue, Lines(input, out, out, axis), names[static_cast<int>(scan)]);
}

void cumulative_extreme(Queue& queue, const Tensor& input, std::size_t axis, bool largest, const Tensor& values,
                        const Tensor& indices)
{
    detail::check_operands("cumulative_extreme", {{"input", input}, {"values", values}, {"indices", indices}});
    require(input.shape == values.shape && input.dtype == values.dtype && indices.shape == input.shape &&
                indices.dtype == DataType::int64,
            "cumulative_extreme: values are like the input, indices are int64 of its shape");
    require<NotSupported>(!is_complex(input.dtype), "cumulative_extreme: not for ", name_of(input.dtype));
    require(axis < std::max<std::size_t>(input.dim(), 1), "cumulative_extreme: axis ", axis, " of a tensor with ",
            input.dim(), " dimensions");
    if (input.numel() != 0)
        scan_lines(queue, Lines(input, values, indices, axis), largest ? "largest" : "smallest");
}

NonzeroCounts nonzero_count(Queue& queue, const Tensor& input)
{
    detail::check_operands("nonzero_count", {{"input", input}});
    require(input.is_contiguous() && input.numel() > 0 && input.dim() <= max_dims,
            "nonzero: the input must be contiguous, not empty, and of at most ", max_dims, " dimensions");
    NonzeroCounts counts;
    const cl_ulong n = input.numel();
    counts.chunk = nonzero_chunk(queue.device(), n);
    const cl_ulong chunks = (n + counts.chunk - 1) / counts.chunk;
    counts.totals = queue.context().empty({static_cast<std::int64_t>(chunks)}, DataType::int64, queue);
    queue.launch(nonzero_kernel(queue, input, "count_chunks"), nonzero_range(queue, chunks), input, counts.totals, n,
                 cl_ulong(counts.chunk));
    cumulative(queue, counts.totals, 0, Scan::sum, counts.totals);
    return counts;
}

void nonzero_write(Queue& queue, const Tensor& input, const NonzeroCounts& counts, const Tensor& coordinates)
{
    detail::check_operands("nonzero_write", {{"input", input}, {"totals", counts.totals},
                                             {"coordinates", coordinates}});
    require(coordinates.dtype == DataType::int64 && coordinates.dim() == 2 &&
                coordinates.size(1) == static_cast<std::int64_t>(input.dim()),
            "nonzero: coordinates are int64 [count, ", input.dim(), "]");
    if (coordinates.numel() == 0)
        return;
    Shape shape;
    shape.dims = static_cast<cl_int>(input.dim());
    std::copy(input.shape.begin(), input.shape.end(), shape.sizes);
    const cl_ulong chunks = counts.totals.numel();
    Kernel& kernel = nonzero_kernel(queue, input, "write_coordinates");
    queue.launch(kernel, nonzero_range(queue, chunks), input, counts.totals, coordinates,
                 cl_long(coordinates.stride(0)), cl_long(coordinates.stride(1)), cl_ulong(input.numel()),
                 cl_ulong(counts.chunk), shape);
}

}  // namespace clprim
