#include <clprim/distance.hpp>

#include <cmath>

#include <clprim/copy.hpp>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// distance_t of distance.cl
struct Geometry {
    cl_ulong batch, rows, columns, size;
};

void check(const Tensor& t, const Dims& shape, DataType dtype, const char* what)
{
    require(t.shape == shape && t.dtype == dtype && t.is_contiguous(), "distances: ", what, " must be contiguous ",
            name_of(dtype), " of shape ", to_string(shape), ", got ", name_of(t.dtype), " ", to_string(t.shape));
}

Geometry geometry_of(const Tensor& a, const Tensor& b, double p)
{
    require(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(2) &&
                is_floating_point(a.dtype),
            "distances: expected floating-point points [batch, rows, size] and [batch, columns, size], got ",
            to_string(a.shape), " and ", to_string(b.shape));
    check(a, a.shape, a.dtype, "a");
    check(b, b.shape, a.dtype, "b");
    require(p >= 0, "distances: p must not be negative, got ", p);
    return {cl_ulong(a.size(0)), cl_ulong(a.size(1)), cl_ulong(b.size(1)), cl_ulong(a.size(2))};
}

Kernel& kernel(Queue& queue, const char* name, const Tensor& a, double p, bool condensed)
{
    const int norm = p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : std::isinf(p) ? 3 : 4;
    const std::string options = detail::define("X", a.dtype) + " -DACC=" +
                                std::string(opencl_compute_type(detail::accumulate_type(a.dtype))) +
                                detail::concat(" -DNORM=", norm, condensed ? " -DCONDENSED" : "");
    return queue.context().program("kernels/distance/distance.cl", options).kernel(name);
}

void forward(Queue& queue, const Tensor& a, const Tensor& b, double p, const Tensor& y, bool condensed)
{
    const Geometry g = geometry_of(a, b, p);
    if (y.numel() == 0)
        return;
    Tensor columns = queue.context().empty({b.size(0), b.size(2), b.size(1)}, b.dtype, queue);
    if (b.numel() != 0)
        copy(queue, b.transpose(1, 2), columns);
    const Range range = detail::plane_range(queue.device(), g.columns, g.rows, g.batch);
    detail::launch(queue, kernel(queue, "distances", a, p, condensed), range, a, columns, y, g,
                   detail::AccScalar{p, detail::accumulate_type(a.dtype)});
}

void backward(Queue& queue, const DistanceBackward& problem, const Tensor& a, const Tensor& b, bool condensed)
{
    const Geometry g = geometry_of(a, b, problem.p);
    const Dims shape = condensed ? Dims{a.size(1) * (a.size(1) - 1) / 2} : Dims{a.size(0), a.size(1), b.size(1)};
    check(problem.y, shape, a.dtype, "y");
    check(problem.grad_y, shape, a.dtype, "grad_y");
    check(problem.grad_a, problem.a.shape, a.dtype, "grad_a");
    if (a.numel() != 0)
        detail::launch(queue, kernel(queue, "distances_backward", a, problem.p, condensed),
                       detail::plane_range(queue.device(), g.size, g.rows, g.batch), a, b, problem.y, problem.grad_y,
                       problem.grad_a, g, detail::AccScalar{problem.p, detail::accumulate_type(a.dtype)});
}

Tensor as_batch(const Tensor& x)
{
    require(x.dim() == 2 && x.is_contiguous(), "condensed_distances: expected contiguous points [n, size], got ",
            to_string(x.shape));
    return x.reshape({1, x.size(0), x.size(1)});
}

}  // namespace

void pairwise_distances(Queue& queue, const Tensor& a, const Tensor& b, double p, const Tensor& y)
{
    detail::check_operands("pairwise_distances", {{"a", a}, {"b", b}, {"y", y}});
    require(a.dim() == 3 && b.dim() == 3, "pairwise_distances: expected tensors of 3 dimensions, got ",
            to_string(a.shape), " and ", to_string(b.shape));
    check(y, {a.size(0), a.size(1), b.size(1)}, a.dtype, "y");
    forward(queue, a, b, p, y, false);
}

void pairwise_distances_backward(Queue& queue, const DistanceBackward& problem)
{
    detail::check_operands("pairwise_distances_backward", {{"a", problem.a}, {"b", problem.b}, {"y", problem.y},
                           {"grad_y", problem.grad_y}, {"grad_a", problem.grad_a}});
    backward(queue, problem, problem.a, problem.b, false);
}

void condensed_distances(Queue& queue, const Tensor& x, double p, const Tensor& y)
{
    detail::check_operands("condensed_distances", {{"x", x}, {"y", y}});
    const Tensor points = as_batch(x);
    check(y, {x.size(0) * (x.size(0) - 1) / 2}, x.dtype, "y");
    forward(queue, points, points, p, y, true);
}

void condensed_distances_backward(Queue& queue, const DistanceBackward& problem)
{
    detail::check_operands("condensed_distances_backward", {{"a", problem.a}, {"y", problem.y},
                           {"grad_y", problem.grad_y}, {"grad_a", problem.grad_a}});
    const Tensor points = as_batch(problem.a);
    backward(queue, problem, points, points, true);
}

}  // namespace clprim
