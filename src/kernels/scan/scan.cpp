#include <clprim/scan.hpp>

#include <cmath>

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
// loses of sums.
std::string digits(DataType dtype, std::string_view scan, const Device& device)
{
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

void scan_lines(Queue& queue, const Lines& lines, const char* scan)
{
    const std::string options = build_options(lines.out.dtype, scan, lines.starts, queue.device());
    // Lines side by side in the vectors of a CPU would be gathered where they are dense: those are walked as they lie.
    const bool dense = lines.input.dim() == 0 || lines.input.stride(lines.axis) == 1;
    const std::int64_t count = lines.starts.numel();
    const bool other = lines.input.dtype != lines.out.dtype;
    if (queue.device().kind == DeviceKind::cpu && (dense ? lines.n >= 64 : count < 16))
        return scan_on_cpu(queue, lines,
                           queue.context().program("kernels/scan/cpu_scan.cl",
                                                   options + (other ? detail::define("FROM", lines.input.dtype) : "")));
    if (other) {
        const Tensor converted = queue.context().empty(lines.out.shape, lines.out.dtype, queue);
        copy(queue, lines.input, converted);
        return scan_lines(queue, Lines(converted, lines.out, lines.indices, lines.axis), scan);
    }
    const Program& program = queue.context().program("kernels/scan/scan.cl", options);
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    const std::int64_t cores = std::max(1u, queue.device().compute_units);
    const std::int64_t beside = cpu && count < 64 * cores ? 16 : 64;   // lines of a work-group
    if (count >= (cpu ? 16 * cores : 1024) || lines.n < 256) {
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

constexpr std::size_t max_dims = 16;

struct Shape {   // as in nonzero.cl
    cl_int dims = 0, pad = 0;
    cl_long sizes[max_dims] = {};
};

Kernel& nonzero_kernel(Queue& queue, DataType dtype, const char* name)
{
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    return queue.context()
        .program(cpu ? "kernels/scan/cpu_nonzero.cl" : "kernels/scan/nonzero.cl",
                 "-DT=" + std::string(name_of(dtype)) + (is_complex(dtype) ? " -DCOMPLEX" : ""))
        .kernel(name);
}

Range nonzero_range(Queue& queue, std::size_t chunks)
{
    return queue.device().kind == DeviceKind::cpu ? Range::groups(chunks, 1) : Range::linear(chunks, 64);
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
    const Device& device = queue.device();
    counts.chunk = device.kind == DeviceKind::cpu
                       ? std::clamp<std::int64_t>(n / (device.compute_units * 16) + 1, 4096, 1 << 24)
                       : std::max<std::int64_t>(64, (n + 4095) / 4096);
    const cl_ulong chunks = (n + counts.chunk - 1) / counts.chunk;
    counts.totals = queue.context().empty({static_cast<std::int64_t>(chunks)}, DataType::int64, queue);
    queue.launch(nonzero_kernel(queue, input.dtype, "count_chunks"), nonzero_range(queue, chunks), input, counts.totals,
                 n, cl_ulong(counts.chunk), chunks);
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
    Kernel& kernel = nonzero_kernel(queue, input.dtype, "write_coordinates");
    queue.launch(kernel, nonzero_range(queue, chunks), input, counts.totals, coordinates,
                 cl_long(coordinates.stride(0)), cl_long(coordinates.stride(1)), cl_ulong(input.numel()),
                 cl_ulong(counts.chunk), chunks, shape);
}

}  // namespace clprim
