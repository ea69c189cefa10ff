// Unpooling and fractional maximum pooling.
#include <algorithm>

#include <clprim/copy.hpp>
#include <clprim/error_hook.hpp>
#include <clprim/pool.hpp>

#include "kernels/bins/bins.hpp"
#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// fractional_t of index_pool.cl
struct Fractional {
    cl_int in[3], out[3], extent[3];
    cl_uint axes;
};

const Program& program(Queue& queue, DataType dtype, const char* flags = "")
{
    return queue.context().program("kernels/pool/index_pool.cl", detail::define("X", dtype) + flags);
}

// Kernels count within a plane in 32 bits.
void require_small_planes(const Tensor& x, const char* name)
{
    require(x.numel() / (x.size(0) * x.size(1)) < std::int64_t{1} << 31, name,
            ": planes of 2^31 elements or more are not supported, got ", to_string(x.shape));
}

struct Planes {
    std::int64_t count, in, out;   // elements of a plane of x and of y
};

struct Scattering {
    const Tensor &x, &indices, &y;
    const char* name;
};

// On GPUs the last element that wants a place gets it: places are claimed by number first.
void take_last(Queue& queue, const Scattering& s, const Planes& planes)
{
    const auto in = cl_uint(planes.in), out = cl_uint(planes.out);
    const Program& code = program(queue, s.x.dtype);
    const Tensor claims = queue.context().empty({s.y.numel()}, DataType::int32, queue);
    const cl_int none = -1;
    queue.fill(*claims.memory, 0, claims.nbytes(), &none, sizeof none);
    queue.launch(code.kernel("claim_places"), Range::linear(s.x.numel(), 64), s.indices, claims, cl_ulong(s.x.numel()),
                 in, out, queue.error_buffer(), Queue::error_code(s.name));
    queue.launch(code.kernel("take_claimed"), Range::linear(s.y.numel(), 64), s.x, claims, s.y,
                 cl_ulong(s.y.numel()), in, out);
    queue.expect_errors();
}

// Sums on GPUs, of some planes at a time: bins and what lies in them are numbered in 31 bits.
void add_up(Queue& queue, const Scattering& s, const Planes& planes)
{
    const auto some = [&](const Tensor& tensor, std::int64_t size, std::int64_t first, std::int64_t end) {
        return tensor.reshape({planes.count, size}).slice(0, first, end);
    };
    const Program& code = program(queue, s.x.dtype);
    const std::int64_t together = std::clamp<std::int64_t>(
        ((std::int64_t{1} << 31) - 2) / std::max(planes.in, planes.out), 1, planes.count);
    for (std::int64_t first = 0; first < planes.count; first += together) {
        const std::int64_t end = std::min(first + together, planes.count), items = (end - first) * planes.in,
                           places = (end - first) * planes.out;
        const Tensor numbers = queue.context().empty({items}, DataType::int32, queue);
        queue.launch(code.kernel("number_places"), Range::linear(items, 64), some(s.indices, planes.in, first, end),
                     numbers, cl_ulong(items), cl_uint(planes.in), cl_uint(planes.out), queue.error_buffer(),
                     Queue::error_code(s.name));
        queue.expect_errors();
        const detail::Bins bins = detail::sort_into_bins(queue, numbers, places);
        queue.launch(code.kernel("gather_places"), Range::linear(places, 64), some(s.x, planes.in, first, end),
                     bins.begins, bins.list, some(s.y, planes.out, first, end), cl_ulong(places));
    }
}

void scatter(Queue& queue, const Tensor& x, const Tensor& indices, const Tensor& y, bool sum, const char* name)
{
    require(x.dim() == y.dim() && x.dim() >= 3 && x.size(0) == y.size(0) && x.size(1) == y.size(1) &&
                x.dtype == y.dtype && indices.shape == x.shape && indices.dtype == DataType::int64,
            name, ": shapes or dtypes do not fit: ", to_string(x.shape), ", indices ", to_string(indices.shape),
            ", result ", to_string(y.shape));
    require(x.is_contiguous() && y.is_contiguous() && indices.is_contiguous(), name, ": tensors must be contiguous");
    const std::int64_t planes = x.size(0) * x.size(1);
    if (y.numel() == 0)
        return;
    require_small_planes(x, name);
    require_small_planes(y, name);
    const std::int64_t in = x.numel() / planes, out = y.numel() / planes;
    if (in == 0)
        return fill(queue, y, 0.);
    if (queue.device().kind != DeviceKind::cpu)
        return (sum ? add_up : take_last)(queue, {x, indices, y, name}, {planes, in, out});
    queue.launch(program(queue, x.dtype, sum ? " -DSUM" : "").kernel("scatter_planes"), Range::linear(planes, 1), x,
                 indices, y, cl_ulong(planes), cl_uint(in), cl_uint(out), queue.error_buffer(),
                 Queue::error_code(name));
    queue.expect_errors();
}

}  // namespace

void max_unpool(Queue& queue, const Tensor& x, const Tensor& indices, const Tensor& y)
{
    detail::check_operands("max_unpool", {{"x", x}, {"indices", indices}, {"y", y}});
    scatter(queue, x, indices, y, false, "max_unpool");
}

void fractional_max_pool(Queue& queue, const Tensor& x, const Tensor& samples, std::array<int, 3> kernel,
                         const Tensor& y, const Tensor& indices)
{
    detail::check_operands("fractional_max_pool", {{"x", x}, {"samples", samples}, {"y", y}, {"indices", indices}});
    const std::size_t axes = x.dim() - 2;
    detail::require_dtype(is_floating_point(x.dtype) || y.numel() == 0, "fractional_max_pool: not implemented for ",
                          name_of(x.dtype));
    require((axes == 2 || axes == 3) && y.dim() == x.dim() && y.shape == indices.shape &&
                samples.numel() == x.size(0) * x.size(1) * std::int64_t(axes) && samples.dtype == x.dtype &&
                y.dtype == x.dtype && indices.dtype == DataType::int64,
            "fractional_max_pool: shapes or dtypes do not fit: ", to_string(x.shape), ", samples ",
            to_string(samples.shape), ", result ", to_string(y.shape));
    require(x.is_contiguous() && y.is_contiguous() && indices.is_contiguous() && samples.is_contiguous(),
            "fractional_max_pool: tensors must be contiguous");
    if (y.numel() == 0)
        return;
    require_small_planes(x, "fractional_max_pool");
    Fractional p{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, cl_uint(axes)};
    for (std::size_t i = 0; i < axes; ++i) {
        p.in[3 - axes + i] = x.size(2 + i);
        p.out[3 - axes + i] = y.size(2 + i);
        p.extent[3 - axes + i] = kernel[i];
    }
    const Range range =
        queue.device().kind == DeviceKind::cpu
            ? Range::linear(y.numel(), 64)
            : detail::plane_range(queue.device(), p.out[2], std::size_t(p.out[0]) * std::size_t(p.out[1]),
                                  x.size(0) * x.size(1));
    queue.launch(program(queue, x.dtype).kernel("fractional_max_pool"), range, x, samples, y, indices, p,
                 cl_ulong(y.numel()));
}

void fractional_max_pool_backward(Queue& queue, const Tensor& grad_output, const Tensor& indices,
                                  const Tensor& grad_input)
{
    detail::check_operands("fractional_max_pool_backward", {{"grad_output", grad_output}, {"indices", indices},
                                                            {"grad_input", grad_input}});
    scatter(queue, grad_output, indices, grad_input, true, "fractional_max_pool_backward");
}

}  // namespace clprim
