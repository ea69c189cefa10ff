// torch.sparse.mm(a, b, reduce): the sum, mean, largest or smallest of the products of each row of compressed rows a.
// Sums go through the kernel of sparse products; the other reductions write the products of entries out.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sparse_csr_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Tensor;

constexpr const char* op_name = "torch.sparse.mm";

void check(const Tensor& a, const Tensor& b, c10::string_view reduce)
{
    TORCH_CHECK(a.layout() == at::kSparseCsr && a.dim() == 2, op_name,
                " with a reduce: expected a matrix of compressed rows (sparse_csr), got ", a.layout(), " of ", a.dim(),
                " dimensions");
    TORCH_CHECK(b.layout() == at::kStrided && b.dim() == 2 && b.size(0) == a.size(1), op_name,
                " with a reduce: expected a dense matrix of ", a.size(1), " rows, got ", b.layout(), " ", b.sizes());
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), op_name, " with a reduce: expected two matrices of one dtype, got ",
                a.scalar_type(), " and ", b.scalar_type());
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(a.scalar_type()), op_name, " with a reduce: not implemented for ",
                                a.scalar_type());
    TORCH_CHECK(a.device() == b.device(), op_name, " with a reduce: expected both on one device, got ", a.device(),
                " and ", b.device());
    TORCH_CHECK(reduce == "sum" || reduce == "mean" || reduce == "amax" || reduce == "amin", op_name,
                ": expected reduce to be sum, mean, amax or amin, got ", reduce);
}

Tensor entry_rows_of(const Tensor& a)
{
    return at::_convert_indices_from_csr_to_coo(a.crow_indices(), a.col_indices(), false, false)[0].to(at::kLong);
}

// What each row's sum is divided by, as a column.
Tensor counts_of(const Tensor& a) { return a.crow_indices().diff().clamp_min(1).unsqueeze(1); }

// The result, and for amax and amin the first entry that reaches it, or the number of entries in rows without one.
std::tuple<Tensor, Tensor> mm_reduce(const Tensor& a, const Tensor& b, c10::string_view reduce)
{
    check(a, b, reduce);
    const int64_t rows = a.size(0), columns = b.size(1), entries = a.values().size(0);
    const auto long_options = a.crow_indices().options();
    if (reduce == "sum" || reduce == "mean") {
        const Tensor sum = at::mm(a, b);
        return {reduce == "mean" ? sum.div(counts_of(a)).to(b.scalar_type()) : sum, at::zeros({0}, long_options)};
    }
    const Tensor at_row = entry_rows_of(a).unsqueeze(1).expand({entries, columns});
    const Tensor products = b.index_select(0, a.col_indices().to(at::kLong)).mul_(a.values().unsqueeze(1));
    const Tensor out = at::zeros({rows, columns}, b.options()).scatter_reduce_(0, at_row, products, reduce, false);
    const Tensor places = at::arange(entries, long_options.dtype(at::kLong)).unsqueeze(1);
    const Tensor extreme = out.gather(0, at_row);
    const Tensor reached = products.eq(extreme).logical_or_(extreme.isnan().logical_and_(products.isnan()));
    const Tensor none = at::scalar_tensor(entries, places.options());
    const Tensor first = at::full({rows, columns}, entries, places.options())
                             .scatter_reduce_(0, at_row, at::where(reached, places, none), "amin");
    return {out, first.to(long_options.dtype())};
}

std::tuple<Tensor, Tensor> mm_reduce_backward(const Tensor& a, const Tensor& grad, const Tensor& b,
                                              c10::string_view reduce, const Tensor& first, std::array<bool, 2> wanted)
{
    check(a, b, reduce);
    const Tensor rows = entry_rows_of(a), columns = a.col_indices().to(at::kLong);
    const bool extreme = reduce == "amax" || reduce == "amin";
    // The gradient of each product of an entry with a row of b.
    const Tensor of_rows = reduce == "mean" ? grad.div(counts_of(a)).to(grad.scalar_type()) : grad;
    Tensor of_products = of_rows.index_select(0, rows);
    if (extreme) {
        const Tensor places = at::arange(a.values().size(0), rows.options()).unsqueeze(1);
        of_products = of_products.mul(first.to(at::kLong).index_select(0, rows).eq(places));
    }
    Tensor of_a, of_b;
    if (wanted[0])
        of_a = at::sparse_csr_tensor(a.crow_indices(), a.col_indices(),
                                     of_products.mul(b.index_select(0, columns)).sum(1), a.sizes(),
                                     a.values().options().layout(at::kSparseCsr));
    if (wanted[1])
        of_b = at::zeros_like(b).index_add_(0, columns, of_products.mul(a.values().unsqueeze(1)));
    return {of_a, of_b};
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m)
{
    m.impl("_sparse_mm_reduce_impl", mm_reduce);
    m.impl("_sparse_mm_reduce_impl_backward", mm_reduce_backward);
}

}  // namespace
}  // namespace torch_ocl
