// torch.cdist and torch.nn.functional.pdist.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_euclidean_dist.h>
#include <ATen/ops/_euclidean_dist_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/distance.hpp>
#include <torch/library.h>

#include <runtime/errors.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

void check_points(const Tensor& x, const char* name, const char* what)
{
    TORCH_CHECK(at::isFloatingType(x.scalar_type()), name, " only supports floating-point dtypes, ", what, " got: ",
                x.scalar_type());
}

// Both sets of points as [batch, points, size] over their common batch, whose sizes are `batch`.
struct Points {
    Tensor a, b;
    std::vector<int64_t> batch;

    Points(const Tensor& x1, const Tensor& x2)
    {
        batch = at::infer_size(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
        a = flat(x1);
        b = flat(x2);
    }
    std::vector<int64_t> with(int64_t rows, int64_t columns) const
    {
        std::vector<int64_t> sizes = batch;
        sizes.insert(sizes.end(), {rows, columns});
        return sizes;
    }

private:
    Tensor flat(const Tensor& x) const
    {
        const int64_t count = c10::multiply_integers(batch);
        return x.expand(with(x.size(-2), x.size(-1))).contiguous().view({count, x.size(-2), x.size(-1)});
    }
};

Tensor cdist_forward(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t> compute_mode)
{
    TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", x1.dim(),
                "D, X2 got: ", x2.dim(), "D");
    TORCH_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
                " X2: ", x2.size(-1));
    check_points(x1, "cdist", "X1");
    check_points(x2, "cdist", "X2");
    TORCH_CHECK(x1.scalar_type() == x2.scalar_type(), "cdist expects X1 and X2 of one dtype, got ", x1.scalar_type(),
                " and ", x2.scalar_type());
    TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
    const int64_t mode = compute_mode.value_or(0);
    TORCH_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
    const c10::OptionalDeviceGuard guard(x1.device());
    const Points points(x1, x2);
    const int64_t rows = x1.size(-2), columns = x2.size(-2);
    // Mode 0: a product of matrices pays for many points; mode 1 asks for it, mode 2 forbids it.
    const bool large = rows > 25 || columns > 25;
    const bool some = points.a.numel() != 0 && points.b.numel() != 0;
    if (p == 2 && some && (mode == 1 || (mode == 0 && large)))
        return at::_euclidean_dist(points.a, points.b).view(points.with(rows, columns));
    const Tensor result = torch_ocl::empty(points.with(rows, columns), x1.scalar_type(), x1.device());
    translate_errors([&] {
        clprim::pairwise_distances(current_queue(x1), view(points.a), view(points.b), p,
                                   view(result.view({points.a.size(0), rows, columns})));
    });
    return result;
}

// What cdist takes for many points. Around the product of matrices there are some ten launches, which on a CPU take
// longer than differences of few points or in few dimensions.
Tensor euclidean_dist(const Tensor& x1, const Tensor& x2)
{
    const int64_t size = x1.size(-1), pairs = x1.size(-2) * x2.size(-2);
    const bool small = current_queue(x1).device().kind == clprim::DeviceKind::cpu &&
                       (size <= 8 || (size <= 64 && pairs <= 4096));
    return small ? cdist_forward(x1, x2, 2, 2) : at::native::_euclidean_dist(x1, x2);
}

Tensor cdist_backward(const Tensor& grad, const Tensor& x1, const Tensor& x2, double p, const Tensor& cdist)
{
    const c10::OptionalDeviceGuard guard(x1.device());
    const Points points(x1, x2);
    const int64_t rows = x1.size(-2), columns = x2.size(-2);
    const Tensor result = at::empty_like(points.a);
    if (points.b.numel() == 0 || grad.numel() == 0)
        return result.zero_().view(points.with(rows, x1.size(-1)));
    const std::vector<int64_t> flat{points.a.size(0), rows, columns};
    const Tensor y = cdist.expand(points.with(rows, columns)).contiguous().view(flat);
    const Tensor dy = grad.expand(points.with(rows, columns)).contiguous().view(flat);
    translate_errors([&] {
        clprim::pairwise_distances_backward(
            current_queue(x1), {view(points.a), view(points.b), view(y), view(dy), view(result), p});
    });
    return result.view(points.with(rows, x1.size(-1)));
}

Tensor pdist_forward(const Tensor& self, double p)
{
    TORCH_CHECK(self.is_contiguous(), "_pdist_forward requires contiguous input");
    TORCH_CHECK(self.dim() == 2, "pdist only supports 2D tensors, got: ", self.dim(), "D");
    check_points(self, "pdist", "input");
    TORCH_CHECK(p >= 0, "pdist only supports non-negative p values");
    const c10::OptionalDeviceGuard guard(self.device());
    const int64_t n = self.size(0);
    const Tensor result = torch_ocl::empty({n <= 1 ? 0 : n * (n - 1) / 2}, self.scalar_type(), self.device());
    if (result.numel() != 0)
        translate_errors([&] { clprim::condensed_distances(current_queue(self), view(self), p, view(result)); });
    return result;
}

Tensor pdist_backward(const Tensor& grad, const Tensor& self, double p, const Tensor& pdist)
{
    TORCH_CHECK(self.is_contiguous() && pdist.is_contiguous(), "_pdist_backward requires contiguous self and pdist");
    const c10::OptionalDeviceGuard guard(self.device());
    if (grad.numel() == 0)
        return at::zeros_like(self);
    const Tensor result = at::empty_like(self), dy = grad.contiguous();
    translate_errors([&] {
        clprim::condensed_distances_backward(current_queue(self),
                                             {view(self), {}, view(pdist), view(dy), view(result), p});
    });
    return result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_cdist_forward", cdist_forward);
    m.impl("_euclidean_dist", euclidean_dist);
    m.impl("_cdist_backward", cdist_backward);
    m.impl("_pdist_forward", pdist_forward);
    m.impl("_pdist_backward", pdist_backward);
}

}  // namespace
}  // namespace torch_ocl
