// Products with sparse tensors of coordinates: rows are put in order and compressed, then the kernel for rows runs.
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <ops/sparse.hpp>
#include <runtime/output.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Scalar;
using at::Tensor;

void check_same(const char* name, const Tensor& a, const Tensor& b, const char* what)
{
    TORCH_CHECK(a.device() == b.device(), name, ": expected all tensors to be on the same device, but found ",
                a.device(), " and ", b.device());
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), name, ": expected ", what, " of type ", a.scalar_type(), ", got ",
                b.scalar_type());
}

void check_factors(const char* name, const Tensor& sparse, const Tensor& dense)
{
    TORCH_CHECK(sparse.sparse_dim() == 2, name, ": expected a sparse matrix of 2 sparse dimensions, got ",
                sparse.sparse_dim());
    TORCH_CHECK(sparse.dense_dim() == 0, name, ": scalar values expected, got ", sparse.dense_dim(),
                "D values");
    TORCH_CHECK(dense.dim() == 2, name, ": 2D tensor expected, got ", dense.dim(), "D tensor");
    TORCH_CHECK(sparse.size(1) == dense.size(0), name, ": mat1 of size ", sparse.sizes(), " and mat2 of size ",
                dense.sizes(), " cannot be multiplied");
    check_same(name, sparse, dense, "mat2");
}

// Entries in order of `keys`, which say their row.
struct Rows {
    Tensor pointers, columns, values;

    clprim::SparseRows view() const
    {
        return {torch_ocl::view(pointers), torch_ocl::view(columns), torch_ocl::view(values)};
    }
};

Rows sparse_rows_of(const Tensor& keys, const Tensor& columns, const Tensor& values, int64_t count, bool in_order)
{
    if (in_order)
        return {row_pointers(keys, count), columns.contiguous(), values.resolve_conj().contiguous()};
    const auto [sorted, order] = keys.sort(true, 0, false);
    return {row_pointers(sorted, count), columns.index_select(0, order),
            values.resolve_conj().index_select(0, order)};
}

Rows sparse_rows_of(const Tensor& sparse)
{
    const Tensor indices = sparse._indices();
    return sparse_rows_of(indices.select(0, 0), indices.select(0, 1), sparse._values(), sparse.size(0),
                          sparse.is_coalesced());
}

// self as something of the result's size, or nothing where it does not count.
Tensor addend_of(const Tensor& self, const Scalar& beta, at::IntArrayRef sizes)
{
    return beta.equal(0) ? Tensor() : self.expand(sizes);
}

Tensor& sparse_addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                         const Scalar& alpha, Tensor& out)
{
    TORCH_CHECK(mat1.is_sparse(), "addmm: Expected 'mat1' to be a sparse tensor, got ", mat1.layout(),
                "; dense @ sparse is not supported for this layout");
    TORCH_CHECK(!mat2.is_sparse() && !self.is_sparse() && !out.is_sparse(),
                "addmm: expected 'self', 'mat2' and 'out' to be "
                "dense tensors");
    check_factors("addmm", mat1, mat2);
    check_same("addmm", mat1, self, "self");
    check_same("addmm", mat1, out, "out");
    const std::vector<int64_t> sizes{mat1.size(0), mat2.size(1)};
    const Tensor addend = addend_of(self, beta, sizes);
    // A result in the memory of an operand is made beside it.
    Tensor target = out;
    if (out.sizes() != at::IntArrayRef(sizes) || out.is_alias_of(mat2) || (addend.defined() && out.is_alias_of(addend)))
        target = at::empty(sizes, mat2.options());
    if (target.numel() != 0)
        multiply_rows(sparse_rows_of(mat1).view(), mat2, addend, target, alpha, beta);
    if (!target.is_same(out)) {
        at::native::resize_output(out, sizes);
        out.copy_(target);
    }
    return out;
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha)
{
    Tensor out = at::empty({0}, mat2.options());
    return sparse_addmm_out(self, mat1, mat2, beta, alpha, out);
}

Tensor& addmm_(Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha)
{
    return sparse_addmm_out(self, mat1, mat2, beta, alpha, self);
}

Tensor& bmm_out(const Tensor& self, const Tensor& mat2, Tensor& out)
{
    TORCH_CHECK(self.is_sparse() && !mat2.is_sparse(), "bmm: expected a sparse 'self' and a dense 'mat2', got ",
                self.layout(), " and ", mat2.layout());
    TORCH_CHECK(self.dense_dim() == 0 && self.dim() == 3, "bmm: expected 'self' of 3 sparse dimensions, got ",
                self.sparse_dim(), " sparse and ", self.dense_dim(), " dense ones");
    TORCH_CHECK(mat2.dim() == 3, "bmm: Tensor 'mat2' must have 3 dimensions, got ", mat2.dim());
    TORCH_CHECK(self.size(0) == mat2.size(0) && self.size(2) == mat2.size(1), "bmm: 'self' of size ", self.sizes(),
                " and 'mat2' of size ", mat2.sizes(), " cannot be multiplied");
    check_same("bmm", self, mat2, "mat2");
    check_same("bmm", self, out, "out");
    const std::vector<int64_t> sizes{self.size(0), self.size(1), mat2.size(2)};
    const Tensor indices = self._indices();
    const Tensor target =
        out.sizes() == at::IntArrayRef(sizes) && !out.is_alias_of(mat2) ? out : at::empty(sizes, mat2.options());
    if (target.numel() != 0) {
        const Rows rows = sparse_rows_of(flat_positions(indices.narrow(0, 0, 2), self.sizes()), indices.select(0, 2),
                                  self._values(), sizes[0] * sizes[1], self.is_coalesced());
        multiply_rows(rows.view(), mat2, {}, target, 1, 0);
    }
    if (!target.is_same(out)) {
        at::native::resize_output(out, sizes);
        out.copy_(target);
    }
    return out;
}

Tensor bmm(const Tensor& self, const Tensor& mat2)
{
    Tensor out = at::empty({0}, mat2.options());
    return bmm_out(self, mat2, out);
}

// Rows of the result that have entries, as a tensor of one sparse dimension.
Tensor row_products_of(const char* name, const Tensor& mat1, const Tensor& mat2)
{
    TORCH_CHECK(mat1.is_sparse() && !mat2.is_sparse(), name, ": expected a sparse 'mat1' and a dense 'mat2', got ",
                mat1.layout(), " and ", mat2.layout());
    check_factors(name, mat1, mat2);
    const Tensor sparse = mat1.coalesce(), rows = sparse._indices().select(0, 0);
    const Tensor starts = run_starts(rows);
    const Tensor pointers = at::cat({starts, at::full({1}, sparse._nnz(), starts.options())});
    const Tensor columns = sparse._indices().select(0, 1).contiguous(), values = sparse._values().contiguous();
    const Tensor result = at::empty({starts.size(0), mat2.size(1)}, mat2.options());
    if (result.numel() != 0)
        multiply_rows({view(pointers), view(columns), view(values)}, mat2, {}, result, 1, 0);
    return make_coo(rows.index_select(0, starts).unsqueeze(0), result, {mat1.size(0), mat2.size(1)}, true);
}

Tensor row_products(const Tensor& mat1, const Tensor& mat2) { return row_products_of("hspmm", mat1, mat2); }

Tensor& row_products_out(const Tensor& mat1, const Tensor& mat2, Tensor& out)
{
    TORCH_CHECK(out.is_sparse(), "hspmm: expected 'out' to be a sparse tensor, got ", out.layout());
    const Tensor result = row_products(mat1, mat2);
    at::sparse::get_sparse_impl(out)->raw_resize_(1, 1, result.sizes());
    at::sparse::alias_into_sparse(out, result._indices(), result._values());
    return out._coalesced_(true);
}

// beta * self + alpha * (mat1 @ mat2) as entries of self, and behind them all columns of mat1's rows that have entries.
Tensor& add_rows_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const at::Scalar& beta,
                     const at::Scalar& alpha, Tensor& out)
{
    TORCH_CHECK(self.is_sparse() && out.is_sparse(), "sspaddmm: expected sparse 'self' and 'out', got ",
                self.layout(), " and ", out.layout());
    const Tensor product = row_products_of("sspaddmm", mat1, mat2);
    if (self.dim() == 1 && self.size(0) == 0)   // what smm gives for nothing to add to
        return add_rows_out(at::empty(product.sizes(), self.options()), mat1, mat2, beta, alpha, out);
    TORCH_CHECK(self.sparse_dim() == 2 && self.dense_dim() == 0, "sspaddmm: expected 'self' of 2 sparse dimensions, "
                "got ", self.sparse_dim(), " and ", self.dense_dim(), " dense ones");
    check_same("sspaddmm", self, mat2, "mat2");
    TORCH_CHECK(self.sizes() == product.sizes(), "sspaddmm: expected 'self' of size ", product.sizes(), ", got ",
                self.sizes());
    const Tensor rows = product._indices().select(0, 0);
    const int64_t columns = product.size(1), more = rows.size(0) * columns;
    const auto spread_out = [&](const Tensor& numbers) {
        return numbers.expand({rows.size(0), columns}).reshape(more);
    };
    const Tensor places = at::stack({spread_out(rows.unsqueeze(1)), spread_out(at::arange(columns, rows.options()))});
    const Tensor indices = at::cat({self._indices(), places}, 1);
    const Tensor values = at::cat({self._values().mul(beta), product._values().reshape(more).mul(alpha)})
                              .to(self.scalar_type());
    at::sparse::get_sparse_impl(out)->raw_resize_(2, 0, product.sizes());
    at::sparse::alias_into_sparse(out, indices, values);
    return out._coalesced_(false);
}

Tensor& refuse_dense(const Tensor& self, const Tensor&, const Tensor&, const at::Scalar&, const at::Scalar&, Tensor&)
{
    TORCH_CHECK(false, "sspaddmm: can only be called on sparse tensors, got ", self.layout());
}

// Every entry (i, k) of a meets the row k of b; equal places of the products are then summed.
Tensor sparse_sparse_matmul(const Tensor& a, const Tensor& b)
{
    TORCH_CHECK(a.is_sparse() && b.is_sparse(), "_sparse_sparse_matmul: expected sparse operands, got ", a.layout(),
                " and ", b.layout());
    TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.sparse_dim() == 2 && b.sparse_dim() == 2,
                "_sparse_sparse_matmul: expected matrices of 2 sparse dimensions, got ", a.sizes(), " and ", b.sizes());
    TORCH_CHECK(a.size(1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1),
                " and ", b.size(0), "x", b.size(1), ")");
    check_same("_sparse_sparse_matmul", a, b, "mat2");
    const Tensor left = a.coalesce(), right = b.coalesce();
    const Tensor inner = left._indices().select(0, 1);
    const Tensor pointers = row_pointers(right._indices().select(0, 0), b.size(0));
    const Tensor begin = pointers.index_select(0, inner);
    const Spread products = spread(pointers.index_select(0, inner + 1) - begin);
    const Tensor other = begin.index_select(0, products.source) + products.step;
    const Tensor indices = at::stack({left._indices().select(0, 0).index_select(0, products.source),
                                      right._indices().select(0, 1).index_select(0, other)});
    const Tensor values = left._values().index_select(0, products.source).mul(right._values().index_select(0, other));
    return make_coo(indices, values, {a.size(0), b.size(1)}, false).coalesce();
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m)
{
    m.impl("addmm", addmm);
    m.impl("addmm.out", sparse_addmm_out);
    m.impl("addmm_", addmm_);
    m.impl("bmm", bmm);
    m.impl("bmm.out", bmm_out);
    m.impl("hspmm", row_products);
    m.impl("hspmm.out", row_products_out);
    m.impl("_sparse_sparse_matmul", sparse_sparse_matmul);
    m.impl("sspaddmm.out", add_rows_out);
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("sspaddmm.out", refuse_dense); }

}  // namespace
}  // namespace torch_ocl
