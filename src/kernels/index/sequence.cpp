#include <clprim/sequence.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

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

// Launches a kernel with its numbers in the type `real`, which they have: on CPUs one for vectors where it may.
template <class... Numbers>
void launch_as(Queue& queue, const char* name, const char* real, const Tensor& out, Numbers... numbers)
{
    const std::string options = "-DT=" + std::string(name_of(out.dtype)) + " -DREAL=" + real +
                                (real == std::string_view("long") ? " -DINTEGRAL" : "");
    const auto count = static_cast<std::size_t>(out.numel());
    if (queue.device().kind == DeviceKind::cpu && out.is_contiguous() && count < (std::size_t{1} << 31) - (1 << 16)) {
        const std::string_view stored = opencl_storage_type(out.dtype);
        const std::string conversion = real == stored             ? " -DPLAIN"
                                       : is_integral(out.dtype) ? detail::concat(" -DCONVERT=convert_", stored, 16)
                                                                  : "";
        Kernel& kernel = queue.context().program("kernels/index/cpu_sequence.cl", options + conversion).kernel(name);
        const std::size_t items = (count + 15) / 16,
                          most = std::min<std::size_t>(256, queue.device().max_work_group_size);
        return queue.launch(kernel, Range::linear(items, std::clamp<std::size_t>(std::bit_ceil(items / 16), 1, most)),
                            out, cl_int(count), numbers...);
    }
    queue.launch(queue.context().program("kernels/index/sequence.cl", options).kernel(name), Range::linear(count, 64),
                 out, cl_long(out.stride(0)), cl_ulong(count), numbers...);
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
    if (in_double(queue, out.dtype))
        launch_as(queue, name, "double", out, double(numbers)...);
    else
        launch_as(queue, name, "float", out, float(numbers)...);
}

// triangle_t of cpu_triangle.cl
struct TriangleArgument {
    cl_long out_row, out_matrix, row, matrix, rows, columns, all, each, edge, element;
};

// How far matrices lie apart, where that is one number; 0 for one matrix.
std::optional<std::int64_t> matrices_apart(const Tensor& t)
{
    std::optional<std::int64_t> apart, expected;
    for (std::size_t axis = t.dim() - 2; axis-- > 0;) {
        if (t.size(axis) == 1)
            continue;
        if (expected && t.stride(axis) != *expected)
            return std::nullopt;
        apart = apart.value_or(t.stride(axis));
        expected = t.stride(axis) * t.size(axis);
    }
    return apart.value_or(0);
}

// Rows as bytes, on CPUs; false where elements of neither rows nor columns lie together, or matrices anyhow.
bool triangle_of_rows(Queue& queue, Tensor input, std::int64_t edge, bool upper, Tensor out)
{
    const std::size_t column = out.dim() - 1, row = out.dim() - 2;
    const auto in_rows = [&] {
        return (out.stride(column) == 1 || out.size(column) == 1) &&
               (input.stride(column) == 1 || input.size(column) == 1);
    };
    if (!in_rows()) {   // the opposite triangle of the transposed matrices
        for (Tensor* t : {&input, &out}) {
            std::swap(t->shape[row], t->shape[column]);
            std::swap(t->strides[row], t->strides[column]);
        }
        edge = -edge;
        upper = !upper;
    }
    const auto apart = matrices_apart(input), out_apart = matrices_apart(out);
    if (!in_rows() || !apart || !out_apart)
        return false;
    const auto bytes = static_cast<std::int64_t>(size_of(out.dtype));
    const std::int64_t rows = out.size(row), all = out.numel() / out.size(column),
                       row_bytes = out.size(column) * bytes,
                       each = std::clamp<std::int64_t>((1 << 15) / row_bytes, 1, std::max<std::int64_t>(all / 8, 1));
    for (Tensor* t : {&input, &out}) {
        t->offset *= bytes;
        t->dtype = DataType::uint8;
    }
    const TriangleArgument argument{out.stride(row) * bytes, *out_apart * bytes, input.stride(row) * bytes,
                                    *apart * bytes, rows, out.size(column), all, each, edge, bytes};
    queue.launch(queue.context().program("kernels/index/cpu_triangle.cl", "").kernel("triangle"),
                 Range::groups(static_cast<std::size_t>((all + each - 1) / each)), out, input, argument,
                 cl_int(upper));
    return true;
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
        launch_as(queue, "arange", "long", out, cl_long(start), cl_long(step));
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
    if (queue.device().kind == DeviceKind::cpu && triangle_of_rows(queue, input, edge, upper, out))
        return;
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
