// Sums and products of sparse tensors of compressed rows, columns or blocks.
#include <limits>

#include <ATen/ExpandUtils.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_sparse_sparse_matmul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/resize_as_sparse_native.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <ops/outputs.hpp>
#include <ops/sparse.hpp>
#include <runtime/stream.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Scalar;
using at::Tensor;
using at::sparse_csr::getCompressedPlainIndices;
using at::sparse_csr::is_sparse_compressed;

Tensor to_layout_of(const Tensor& coo, const Tensor& like)
{
    switch (like.layout()) {
    case at::kSparseCsr: return coo.to_sparse_csr();
    case at::kSparseCsc: return coo.to_sparse_csc();
    case at::kSparseBsr: return coo.to_sparse_bsr(at::sparse_csr::getBlockSize(like));
    default: return coo.to_sparse_bsc(at::sparse_csr::getBlockSize(like));
    }
}

// The parts of `out` become those of `result`, which has its layout.
void assign(const Tensor& out, const Tensor& result)
{
    TORCH_CHECK(at::canCast(result.scalar_type(), out.scalar_type()), "result type ", result.scalar_type(),
                " can't be cast to the desired output type ", out.scalar_type());
    const auto [compressed, plain] = getCompressedPlainIndices(result);
    at::sparse_csr::get_sparse_csr_impl(out)->set_member_tensors(compressed, plain,
                                                                 result.values().to(out.scalar_type()), result.sizes());
}

Tensor& compressed_add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out)
{
    TORCH_CHECK(self.sizes() == other.sizes(),
                "torch.add: Expected input tensors to have the same shape, but got tensor `self` "
                "with shape ",
                self.sizes(), " and tensor `other` with shape ", other.sizes());
    if (!is_sparse_compressed(self)) {
        TORCH_CHECK(self.layout() == at::kStrided && is_sparse_compressed(other), "torch.add: cannot add ",
                    self.layout(), " and ", other.layout());
        return at::add_out(out, self, other.to_sparse(), alpha);
    }
    if (other.layout() == at::kStrided)     // PyTorch's rule, and its tests': alpha belongs to the sparse one
        return at::add_out(out, other, self.to_sparse(), alpha);
    TORCH_CHECK(self.layout() == other.layout(), "torch.add: expected tensors of one layout, got ", self.layout(),
                " and ", other.layout());
    TORCH_CHECK(out.layout() == self.layout(), "torch.add: expected 'out' of layout ", self.layout(), ", got ",
                out.layout());
    TORCH_CHECK(!is_block(self) || at::sparse_csr::getBlockSize(self) == at::sparse_csr::getBlockSize(other),
                "torch.add: expected tensors of one blocksize, got ", at::sparse_csr::getBlockSize(self), " and ",
                at::sparse_csr::getBlockSize(other));
    TORCH_CHECK(self.dim() == 2 || self.values().dim() == self.dim() - 1,
                "torch.add: batches of compressed tensors are "
                "not supported, got ",
                self.sizes());
    const Tensor sum = at::add(self.to_sparse(), other.to_sparse(), alpha);
    Tensor result = to_layout_of(sum.coalesce(), self);
    const auto [compressed, plain] = getCompressedPlainIndices(result);
    const at::ScalarType index_type = getCompressedPlainIndices(self).first.scalar_type();
    at::sparse_csr::get_sparse_csr_impl(result)->set_member_tensors(compressed.to(index_type), plain.to(index_type),
                                                                    result.values(), result.sizes());
    assign(out, result);
    return out;
}

// A matrix by rows, whatever its layout.
struct CompressedRows {
    Tensor pointers, columns, values;

    explicit CompressedRows(const Tensor& matrix)
    {
        const Tensor by_rows = matrix.layout() == at::kSparseCsc ? matrix.to_sparse_csr()
                               : matrix.layout() == at::kSparseBsc
                                   ? matrix.to_sparse_bsr(at::sparse_csr::getBlockSize(matrix))
                                   : matrix;
        std::tie(pointers, columns) = getCompressedPlainIndices(by_rows);
        pointers = pointers.contiguous();
        columns = columns.contiguous();
        values = by_rows.values().resolve_conj().contiguous();
    }
    clprim::SparseRows view() const
    {
        return {torch_ocl::view(pointers), torch_ocl::view(columns), torch_ocl::view(values)};
    }
};

// The matrix transposed, in another layout of the same parts.
Tensor transposed(const Tensor& matrix) { return matrix.transpose(0, 1); }

void check_matrix(const char* name, const char* argument, const Tensor& tensor)
{
    TORCH_CHECK(tensor.dim() == 2, name, ": Expected ", argument, " to be 2-D, but got ", tensor.dim(), "-D");
    TORCH_CHECK(tensor.layout() == at::kStrided || is_sparse_compressed(tensor), name, ": expected ", argument,
                " to be dense or sparse compressed, got ", tensor.layout());
}

Tensor& addmm_sparse_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                         const Scalar& alpha, Tensor& out)
{
    Tensor product = at::_sparse_sparse_matmul(mat1.to_sparse(), mat2.to_sparse());
    if (!alpha.equal(1))
        product = product.mul(at::scalar_tensor(alpha, product.options().layout(at::kStrided).device(at::kCPU)));
    if (out.layout() == at::kStrided) {
        Tensor sum = product.to_dense();
        if (!beta.equal(0))
            sum.add_(self.layout() == at::kStrided ? self : self.to_dense(), beta);
        at::native::resize_output(out, sum.sizes());
        out.copy_(sum);
        return out;
    }
    if (!beta.equal(0)) {
        TORCH_CHECK(self.layout() != at::kStrided, "addmm: expected a sparse 'self' beside a sparse 'out'");
        product = at::add(product, self.to_sparse(), beta).coalesce();
    }
    assign(out, to_layout_of(product, out));
    return out;
}

Tensor& compressed_addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                             const Scalar& alpha, Tensor& out)
{
    check_matrix("addmm", "mat1", mat1);
    check_matrix("addmm", "mat2", mat2);
    TORCH_CHECK(mat1.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
                mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
    for (const Tensor& tensor : {mat1, mat2, Tensor(out)}) {
        TORCH_CHECK(tensor.device() == self.device(),
                    "addmm: expected all tensors to be on the same device, but found ", self.device(), " and ",
                    tensor.device());
        TORCH_CHECK(tensor.scalar_type() == self.scalar_type(), "addmm: expected operands of one type, got ",
                    self.scalar_type(), " and ", tensor.scalar_type());
    }
    const std::vector<int64_t> sizes{mat1.size(0), mat2.size(1)};
    TORCH_CHECK(at::is_expandable_to(self.sizes(), sizes), "addmm: 'self' of size ", self.sizes(),
                " cannot be expanded to ", at::IntArrayRef(sizes));
    const bool sparse1 = is_sparse_compressed(mat1), sparse2 = is_sparse_compressed(mat2);
    if (sparse1 && sparse2)
        return addmm_sparse_out(self, mat1, mat2, beta, alpha, out);
    TORCH_CHECK(out.layout() == at::kStrided, "addmm: computation on CPU and ocl is not implemented for ", out.layout(),
                " + ", mat1.layout(), " @ ", mat2.layout());
    if (!sparse1 && !sparse2) {   // self alone is sparse
        const Tensor dense = self.to_dense();
        return at::addmm_out(out, dense, mat1, mat2, beta, alpha);
    }
    const Tensor addend =
        beta.equal(0) ? Tensor() : (self.layout() == at::kStrided ? self : self.to_dense()).expand(sizes);
    const Tensor& dense = sparse1 ? mat2 : mat1;
    Tensor target = out;
    if (out.sizes() != at::IntArrayRef(sizes) || out.is_alias_of(dense) ||
        (addend.defined() && out.is_alias_of(addend)))
        target = at::empty(sizes, dense.options());
    if (target.numel() != 0) {
        if (sparse1)
            multiply_rows(CompressedRows(mat1).view(), dense, addend, target, alpha, beta);
        else   // (mat2^T mat1^T)^T
            multiply_rows(CompressedRows(transposed(mat2)).view(), dense.t(), addend.defined() ? addend.t() : addend,
                          target.t(), alpha, beta);
    }
    if (!target.is_same(out)) {
        at::native::resize_output(out, sizes);
        out.copy_(target);
    }
    return out;
}

Tensor& addmv_out(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha,
                  Tensor& out)
{
    TORCH_CHECK(mat.dim() == 2 && vec.dim() == 1 && mat.size(1) == vec.size(0), "addmv: matrix of size ", mat.sizes(),
                " and vector of size ", vec.sizes(), " cannot be multiplied");
    TORCH_CHECK(is_sparse_compressed(mat) && vec.layout() == at::kStrided,
                "addmv: expected a sparse compressed matrix and "
                "a dense vector, got ",
                mat.layout(), " and ", vec.layout());
    const Tensor addend = self.expand({mat.size(0)}).unsqueeze(1);
    Tensor column = at::empty({mat.size(0), 1}, vec.options());
    compressed_addmm_out(addend, mat, vec.unsqueeze(1), beta, alpha, column);
    at::native::resize_output(out, {mat.size(0)});
    return out.copy_(column.squeeze(1));
}

Tensor& sampled_addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                          const Scalar& alpha, Tensor& out)
{
    const char* name = "sampled_addmm";
    check_output_device(out, mat1.device());
    TORCH_CHECK(self.layout() == at::kSparseCsr && out.layout() == at::kSparseCsr, name,
                ": Expected self and out to have "
                "sparse csr layout, but got ",
                self.layout(), " and ", out.layout());
    TORCH_CHECK(mat1.layout() == at::kStrided && mat2.layout() == at::kStrided, name,
                ": Expected mat1 and mat2 to have "
                "strided layout, but got ",
                mat1.layout(), " and ", mat2.layout());
    TORCH_CHECK(!at::isIntegralType(self.scalar_type(), true), name,
                ": Expected self to be a floating-point or complex tensor, but got ", self.scalar_type());
    TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type() && mat1.scalar_type() == self.scalar_type() &&
                    out.scalar_type() == self.scalar_type(),
                name, ": Expected mat1, mat2, self and out to have the same dtype, but got ", mat1.scalar_type(), ", ",
                mat2.scalar_type(), ", ", self.scalar_type(), " and ", out.scalar_type());
    TORCH_CHECK(mat1.dim() >= 2 && mat2.dim() == mat1.dim() && self.dim() == mat1.dim(), name,
                ": Expected mat1, mat2 and self "
                "to be matrices or batches of them alike, got ",
                mat1.sizes(), ", ", mat2.sizes(), " and ", self.sizes());
    TORCH_CHECK(mat1.size(-1) == mat2.size(-2), name, ": mat1 and mat2 shapes cannot be multiplied (", mat1.size(-2),
                "x", mat1.size(-1), " and ", mat2.size(-2), "x", mat2.size(-1), ")");
    std::vector<int64_t> sizes = mat1.sizes().vec();
    sizes.back() = mat2.size(-1);
    TORCH_CHECK(self.sizes() == at::IntArrayRef(sizes) &&
                    mat2.sizes().slice(0, mat2.dim() - 2) == mat1.sizes().slice(0, mat1.dim() - 2),
                name, ": self of size ", self.sizes(), " does not fit mat1 of size ", mat1.sizes(),
                " and mat2 of size ", mat2.sizes());
    if (!out.is_same(self)) {
        at::native::resize_as_sparse_compressed_(out, self);
        out.copy_(self);
    }
    const auto [pointers, plain] = getCompressedPlainIndices(self);
    const Tensor values = out.values();
    if (values.numel() == 0)
        return out;
    const int64_t rows = mat1.size(-2), batches = plain.numel() / plain.size(-1);
    Tensor row = entry_rows(pointers, plain.size(-1)).reshape({batches, -1});
    if (batches > 1)
        row = row + (at::arange(batches, row.options()) * rows).unsqueeze(1);
    row = row.reshape(-1).contiguous();
    const Tensor column = plain.reshape(-1).contiguous(), former = values.reshape(-1).resolve_conj().contiguous();
    const Tensor left = mat1.resolve_conj().reshape({batches, rows, mat1.size(-1)});
    const Tensor right = mat2.resolve_conj().reshape({batches, mat2.size(-2), mat2.size(-1)});
    const Tensor result = at::empty_like(former);
    clprim::SparseRows entries{{}, view(column), beta.equal(0) ? clprim::Tensor() : view(former)};
    clprim::sparse_sampled(current_queue(result), entries, view(row), view(left), view(right), view(result),
                           sparse_scale(alpha, beta));
    values.copy_(result.view(values.sizes()));
    return out;
}

Tensor sampled_addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                     const Scalar& alpha)
{
    Tensor out = at::empty({0, 0}, self.options());
    return sampled_addmm_out(self, mat1, mat2, beta, alpha, out);
}

std::tuple<Tensor&, Tensor&> triangular_solve_out(const Tensor& b, const Tensor& a, bool upper, bool transpose,
                                                  bool unitriangular, Tensor& x, Tensor& clone)
{
    const char* name = "triangular_solve";
    check_matrix(name, "A", a);
    TORCH_CHECK(a.layout() == at::kSparseCsr || a.layout() == at::kSparseBsr, name,
                ": expected A of layout torch.sparse_csr or torch.sparse_bsr, got ", a.layout());
    TORCH_CHECK(b.layout() == at::kStrided && b.dim() == 2, name, ": expected a dense b of 2 dimensions, got ",
                b.layout(), " of ", b.dim());
    TORCH_CHECK(a.size(0) == a.size(1) && a.size(0) == b.size(0), name, ": A of size ", a.sizes(),
                " is not square or does not fit b of size ", b.sizes());
    for (const Tensor& tensor : {b, Tensor(x)}) {
        TORCH_CHECK(tensor.device() == a.device(), name,
                    ": expected all tensors to be on the same device, but found ", a.device(), " and ",
                    tensor.device());
        TORCH_CHECK(tensor.scalar_type() == a.scalar_type(), name, ": expected operands of one type, got ",
                    a.scalar_type(), " and ", tensor.scalar_type());
    }
    TORCH_CHECK(a.scalar_type() == at::kFloat || a.scalar_type() == at::kDouble || a.is_complex(), name,
                ": not implemented for ", a.scalar_type());
    const Tensor single = a.layout() == at::kSparseCsr ? a : a.to_sparse().to_sparse_csr();
    const CompressedRows rows(transpose ? transposed(single) : single);
    const Tensor solution = b.resolve_conj().clone(at::MemoryFormat::Contiguous);
    if (a._nnz() == 0)      // as PyTorch has it: a singular matrix, even if its diagonal is said to be 1
        solution.fill_(std::numeric_limits<double>::quiet_NaN());
    else if (solution.numel() != 0)
        clprim::sparse_triangular_solve(current_queue(solution), rows.view(), upper != transpose, unitriangular,
                                        view(solution));
    at::native::resize_output(x, b.sizes());
    x.copy_(solution);
    return {x, clone};
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m)
{
    m.impl("add.out", compressed_add_out);
    m.impl("addmm.out", compressed_addmm_out);
    m.impl("addmv.out", addmv_out);
    m.impl("triangular_solve.X", triangular_solve_out);
    m.impl("sparse_sampled_addmm", sampled_addmm);
    m.impl("sparse_sampled_addmm.out", sampled_addmm_out);
}

}  // namespace
}  // namespace torch_ocl
