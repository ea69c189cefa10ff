#include <clprim/scan.hpp>

#include <cmath>

#include <clprim/context.hpp>
#include <kernels/index/geometry.hpp>
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

std::string build_options(DataType dtype, const char* scan, const Geometry& lines, const Device& device)
{
    std::string options = "-DT=" + std::string(name_of(dtype)) + " -DSCAN_" + scan;
    // Sums of less than float64 carry what rounding loses along: in a double where that is as fast as a float.
    if (std::string_view(scan) == "sum" && is_floating_point(dtype) && dtype != DataType::float64)
        options += device.kind == DeviceKind::cpu && device.fp64 ? " -DIN_DOUBLE" : " -DCOMPENSATED";
    return options + (is_complex(dtype) ? " -DCOMPLEX" : "") + lines.options();
}

void scan_lines(Queue& queue, const Lines& lines, const char* scan)
{
    const Program& program =
        queue.context().program("kernels/scan/scan.cl",
                                build_options(lines.input.dtype, scan, lines.starts, queue.device()));
    const std::int64_t count = lines.starts.numel();
    if (count >= 1024 || lines.n < 256) {
        Launch launch(queue, program.kernel("scan_lines"));
        lines.set_tensors(launch);
        launch.arg(cl_long(lines.n));
        lines.starts.set_argument(launch);
        // Lines side by side in the vectors of a CPU would be gathered; one alone is read as it lies.
        const bool apart = queue.device().kind == DeviceKind::cpu && lines.n >= 64 && lines.input.dim() &&
                           lines.input.stride(lines.axis) == 1;
        launch.run(Range::linear(count, apart ? 1 : 64));
        return;
    }
    const cl_long chunk = std::llround(std::ceil(std::sqrt(static_cast<double>(lines.n))));
    const cl_long chunks = (lines.n + chunk - 1) / chunk;
    // A state has at most 24 bytes.
    const Tensor totals = queue.context().empty({count * chunks * 3}, DataType::uint64, queue);
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
    require(input.shape == out.shape && input.dtype == out.dtype, "cumulative: input and output differ");
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
