// Unpooling and fractional maximum pooling.
#include <clprim/error_hook.hpp>
#include <clprim/pool.hpp>

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
    const auto in = cl_uint(x.numel() / planes), out = cl_uint(y.numel() / planes);
    if (!sum && queue.device().kind == DeviceKind::gpu) {
        const Tensor claims = queue.context().empty({y.numel()}, DataType::int32, queue);
        const cl_int none = -1;
        queue.fill(*claims.memory, 0, claims.nbytes(), &none, sizeof none);
        queue.launch(program(queue, x.dtype).kernel("claim_places"), Range::linear(x.numel(), 64), indices, claims,
                     cl_ulong(x.numel()), in, out, queue.error_buffer(), Queue::error_code(name));
        queue.launch(program(queue, x.dtype).kernel("take_claimed"), Range::linear(y.numel(), 64), x, claims, y,
                     cl_ulong(y.numel()), in, out);
    } else {
        queue.launch(program(queue, x.dtype, sum ? " -DSUM" : "").kernel("scatter_planes"), Range::linear(planes, 1),
                     x, indices, y, cl_ulong(planes), in, out, queue.error_buffer(), Queue::error_code(name));
    }
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
