#include <clprim/sequence.hpp>

#include <algorithm>

#include <clprim/context.hpp>
#include <kernels/index/geometry.hpp>
#include <kernels/index/move.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

// The type that a sequence computes in: double where the device has it and the result can tell.
bool in_double(Queue& queue, DataType dtype)
{
    return dtype == DataType::float64 || (is_integral(dtype) && queue.device().fp64);
}

Kernel& sequence_kernel(Queue& queue, DataType dtype, const char* name, const char* real)
{
    const std::string options = "-DT=" + std::string(name_of(dtype)) + " -DREAL=" + real +
                                (real == std::string_view("long") ? " -DINTEGRAL" : "");
    return queue.context().program("kernels/index/sequence.cl", options).kernel(name);
}

void check(const Tensor& out, const char* name)
{
    require(out.dim() == 1 && !is_complex(out.dtype), name, ": the output is one-dimensional and real, not ",
            to_string(out.shape), " ", name_of(out.dtype));
}

// Calls a kernel with its numbers in the type that it computes in.
template <class... Numbers>
void launch_sequence(Queue& queue, const char* name, const Tensor& out, Numbers... numbers)
{
    if (out.numel() == 0)
        return;
    const bool wide = in_double(queue, out.dtype);
    Kernel& kernel = sequence_kernel(queue, out.dtype, name, wide ? "double" : "float");
    const Range range = Range::linear(out.numel(), 64);
    const cl_long stride = out.stride(0);
    if (wide)
        queue.launch(kernel, range, out, stride, cl_ulong(out.numel()), double(numbers)...);
    else
        queue.launch(kernel, range, out, stride, cl_ulong(out.numel()), float(numbers)...);
}

}  // namespace

void arange(Queue& queue, const Tensor& out, double start, double step)
{
    detail::check_operands("arange", {{"out", out}});
    check(out, "arange");
    launch_sequence(queue, "arange", out, start, step);
}

void arange(Queue& queue, const Tensor& out, std::int64_t start, std::int64_t step)
{
    detail::check_operands("arange", {{"out", out}});
    check(out, "arange");
    require(is_integral(out.dtype), "arange: an integral sequence for ", name_of(out.dtype));
    if (out.numel() != 0)
        queue.launch(sequence_kernel(queue, out.dtype, "arange", "long"), Range::linear(out.numel(), 64), out,
                     cl_long(out.stride(0)), cl_ulong(out.numel()), cl_long(start), cl_long(step));
}

void linspace(Queue& queue, const Tensor& out, double start, double end)
{
    detail::check_operands("linspace", {{"out", out}});
    check(out, "linspace");
    const std::int64_t n = out.numel();
    if (n == 1)
        end = start;
    launch_sequence(queue, "linspace", out, start, end, n > 1 ? (end - start) / static_cast<double>(n - 1) : 0.0);
}

void triangle(Queue& queue, const Tensor& input, std::int64_t diagonal, bool upper, const Tensor& out)
{
    detail::check_operands("triangle", {{"input", input}, {"out", out}});
    require(input.shape == out.shape && input.dtype == out.dtype && input.dim() >= 2,
            "triangle: input and output are matrices of one shape and dtype");
    if (out.numel() == 0)
        return;
    const std::int64_t edge = std::clamp(diagonal, -out.size(out.dim() - 2), out.size(out.dim() - 1));
    Dims distance(out.dim(), 0);
    distance[out.dim() - 2] = -1;
    distance[out.dim() - 1] = 1;
    const Dims strides[] = {out.strides, input.strides, distance};
    Geometry g(out.shape, strides);
    const std::size_t bytes = size_of(out.dtype);
    std::string shared;
    if (queue.device().kind == DeviceKind::gpu) {
        if (bytes < 16 && out.buffer_offset() % 4 == 0 && input.buffer_offset() % 4 == 0 &&
            g.share_neighbours(4, 0b011u))
            shared = " -DQUADS";
        else
            g.share(4);
    }
    const std::string options = std::string("-DELEMENT=") + detail::raw_type(bytes).name + g.options() + shared;
    Launch launch(queue, queue.context().program("kernels/index/triangle.cl", options).kernel("triangle"));
    launch.arg(out).arg(input).arg(cl_long(edge)).arg(cl_int(upper));
    g.set_argument(launch);
    launch.run(Range::linear(g.numel(), 64));
}

void flip(Queue& queue, const Tensor& input, std::span<const std::int64_t> axes, const Tensor& out)
{
    detail::check_operands("flip", {{"input", input}, {"out", out}});
    Tensor reversed = input;   // negative strides from the last element on
    if (input.numel() == 0)
        return;
    for (std::int64_t axis : axes) {
        require(axis >= 0 && axis < static_cast<std::int64_t>(input.dim()), "flip: axis ", axis, " of a tensor with ",
                input.dim(), " dimensions");
        require(std::ranges::count(axes, axis) == 1, "flip: axis ", axis, " is given more than once");
        reversed.offset += (input.size(axis) - 1) * input.stride(axis);
        reversed.strides[axis] = -input.stride(axis);
    }
    move_elements(queue, out, reversed);
}

}  // namespace clprim
