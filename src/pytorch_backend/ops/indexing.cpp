// Operators with one index tensor: gather, index_select, index_add, index_copy, index_reduce, index_fill.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/index_reduce.h>
#include <ATen/ops/index_reduce_meta.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <ops/indexing.hpp>
#include <ops/number.hpp>
#include <ops/outputs.hpp>
#include <runtime/structured.hpp>

namespace torch_ocl {

namespace {

using clprim::IndexReduce;
using clprim::NegativeIndex;

// view_1d for what only moves elements.
clprim::Tensor moved_1d(const at::Tensor& tensor) { return storage_view(tensor.dim() ? tensor : tensor.unsqueeze(0)); }

// Rows of nothing are not read, but their indices are looked at, as the CPU does.
void check_rows(std::string_view name, const at::Tensor& self, int64_t dim, const at::Tensor& index)
{
    const at::Tensor rows = torch_ocl::empty({index.numel()}, at::kLong, self.device());
    clprim::add_keys(current_queue(self), view(rows),
                     {name, view_1d(index), self.size(dim), 1, NegativeIndex::refused}, true);
}

void check_selection(const at::Tensor& self, int64_t dim, const at::Tensor& index)
{
    if (self.dim() <= 1 || self.numel() != 0 || index.numel() == 0)
        return;
    TORCH_CHECK(self.size(dim) > 0, "index_select(): self indexing axis dim should be positive");
    check_rows("index_select of rows without elements", self, dim, index);
}

// Entries for a dimension that has none: where index_copy would need memory, the CPU refuses with a RuntimeError.
void require_entries(const char* name, const at::Tensor& self, int64_t dim, const at::Tensor& source)
{
    TORCH_CHECK(self.dim() == 0 || self.size(dim) != 0 || source.numel() == 0, name,
                ": index out of range for dimension ", dim, " of size 0");
}

at::Tensor& gather_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool sparse_grad, at::Tensor& out)
{
    StructuredOut<at::meta::structured_gather> op({out});
    op.meta(self, dim, index, sparse_grad);
    if (index.numel() != 0)
        clprim::gather(current_queue(self), moved_1d(self), along(at::maybe_wrap_dim(dim, self.dim()), "gather"),
                       view_1d(index), moved_1d(op.output()));
    op.finish();
    return out;
}

at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector, but got dim: ", index.dim(),
                      " with type: ", index.scalar_type(), " and size: ", index.sizes());
    TORCH_CHECK(!(self.dim() == 0 && index.numel() != 1),
                "index_select(): Index to scalar can have only 1 value, got ", index.numel(), " value(s)");
    TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                "index_select(): Expected dtype int32 or int64 for index but got: ", index.scalar_type());
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "index_select(): self and result must have the same scalar type");
    TORCH_CHECK(self.device() == index.device() && self.device() == out.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", self.device(),
                " and ", self.device() == index.device() ? out.device() : index.device(), "!");
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, self);
    at::assert_no_overlap(out, index);
    auto sizes = self.sizes().vec();
    if (self.dim())
        sizes[dim] = index.numel();
    at::native::resize_output(out, sizes);
    check_selection(self, dim, index);
    clprim::index_select(current_queue(self), moved_1d(self), along(dim, "index_select"), view_1d(index),
                         moved_1d(out));
    return out;
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index)
{
    at::Tensor out = at::empty({0}, self.options());
    return index_select_out(self, dim, index, out);
}

at::Tensor& index_copy_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                           at::Tensor& out)
{
    StructuredOut<at::meta::structured_index_copy> op({out}, InPlace::allowed);
    dim = op.meta(self, dim, index, source).dim;
    copy_unless_same(self, op.output());
    if (index.numel() != 0) {
        require_entries("index_copy", self, dim, source);
        const clprim::Along axis = along(dim, "index_copy");
        const auto self_view = view_1d(op.output()), index_view = view_1d(index), source_view = view_1d(source);
        if (at::globalContext().deterministicAlgorithms())
            clprim::index_reduce(current_queue(out), self_view, axis, index_view, source_view, IndexReduce::assign);
        else
            clprim::index_copy(current_queue(out), self_view, axis, index_view, source_view);
    }
    op.finish();
    return out;
}

void reduce_rows(const Target& to, const at::Tensor& source, IndexReduce reduce)
{
    if (adds_to_float32(to.out, to.index.numel(), source.numel())) {
        const at::Tensor wide = to.out.to(at::kFloat);
        reduce_rows({wide, to.dim, to.index, to.name}, source.to(at::kFloat), reduce);
        to.out.copy_(wide);
        return;
    }
    clprim::index_reduce(current_queue(to.out), view_1d(to.out), to.axis(), view_1d(to.index), view_1d(source), reduce);
}

at::Tensor& index_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                          const at::Scalar& alpha, at::Tensor& out)
{
    StructuredOut<at::meta::structured_index_add> op({out}, InPlace::allowed);
    dim = op.meta(self, dim, index, source, alpha).dim;
    copy_unless_same(self, op.output());
    if (index.numel() != 0 && (self.dim() < 2 || self.numel() != 0)) {   // rows of nothing: any index will do
        const at::Tensor scaled = alpha.equal(1) ? source : source.mul(converted(alpha, self.scalar_type()));
        reduce_rows({op.output(), dim, index, "index_add"}, scaled, IndexReduce::sum);
    }
    op.finish();
    return out;
}

at::Tensor& index_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                             std::string_view reduce, bool include_self, at::Tensor& out)
{
    TORCH_CHECK_NOT_IMPLEMENTED(self.dim() > 1 || self.scalar_type() != at::kBool,
                                "index_reduce of one dimension not implemented for 'Bool'");
    TORCH_CHECK_NOT_IMPLEMENTED((self.dim() > 1 && include_self) || !self.is_complex(),
                                "index_reduce of one dimension or without self not implemented for '",
                                self.scalar_type(), "'");
    if (self.scalar_type() == at::kBool && source.scalar_type() == at::kBool && include_self && reduce != "mean") {
        // And, or: the same of zeros and ones.
        TORCH_CHECK(out.scalar_type() == at::kBool, "Expected out tensor to have dtype bool, but got ",
                    out.scalar_type(), " instead");
        const at::Tensor bytes = at::index_reduce(self.to(at::kByte), dim, index, source.to(at::kByte), reduce, true);
        return assign_output(out, bytes.to(at::kBool));
    }
    StructuredOut<at::meta::structured_index_reduce> op({out}, InPlace::allowed);
    dim = op.meta(self, dim, index, source, reduce, include_self).dim;
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "index_reduce not implemented for 'Bool'");
    require_order(self, reduce);
    const at::Tensor result = op.output();
    copy_unless_same(self, result);
    if (index.numel() != 0) {
        const Target to{result, dim, index, "index_reduce"};
        if (self.numel() == 0) {
            TORCH_CHECK_INDEX(self.size(dim) != 0, to.name, ": index out of range for dimension ", dim, " of size 0");
            check_rows(to.name, self, dim, index);
        }
        if (!include_self)
            clprim::index_copy(current_queue(out), view_1d(result), to.axis(), view_1d(index),
                               view_1d(expanded(neutral(reduce, result.scalar_type()), result, source.sizes())));
        reduce_rows(to, source, reduction(reduce));
        if (reduce == "mean") {
            const at::Tensor count = include_self ? at::ones_like(result) : at::zeros_like(result);
            reduce_rows({count, dim, index, to.name}, expanded(1, result, source.sizes()), IndexReduce::sum);
            divide_by_count(result, count);
        }
    }
    op.finish();
    return out;
}

at::Tensor& index_fill_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& value)
{
    TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
    TORCH_CHECK_INDEX(index.scalar_type() == at::kLong, "index_fill_(): Expected dtype int64 for index.");
    TORCH_CHECK(self.is_complex() || !value.is_complex(),
                "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    dim = at::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
    if (index.numel() == 0)
        return self;
    warn_of_expanded(self, "index_fill_", "tensor[mask] = scalar");
    at::assert_no_overlap(self, index);
    at::Tensor rows = self.dim() ? self : self.unsqueeze(0);
    auto sizes = rows.sizes().vec();
    sizes[dim] = index.numel();
    const at::Tensor source = value.to(self.device(), self.scalar_type()).expand(sizes);
    require_entries("index_fill_", self, dim, source);
    const clprim::Along axis(static_cast<std::size_t>(dim), NegativeIndex::from_end, "index_fill_");
    clprim::index_copy(current_queue(self), view(rows), axis, view_1d(index), view(source));
    return self;
}

at::Tensor& index_fill_scalar(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value)
{
    TORCH_CHECK_INDEX(index.scalar_type() == at::kLong, "index_fill_(): Expected dtype int64 for index.");
    TORCH_CHECK(self.is_complex() || !value.isComplex(),
                "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    return index_fill_tensor(self, dim, index, at::full({}, value, self.options()));
}

}  // namespace

at::Tensor select_rows(std::string_view name, const at::Tensor& self, const at::Tensor& index)
{
    auto sizes = self.sizes().vec();
    sizes[0] = index.numel();
    check_selection(self, 0, index);
    const at::Tensor out = at::empty(sizes, self.options());
    clprim::index_select(current_queue(self), storage_view(self), along(0, name), view_1d(index), storage_view(out));
    return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("gather.out", gather_out);
    m.impl("index_select", index_select);
    m.impl("index_select.out", index_select_out);
    m.impl("index_copy.out", index_copy_out);
    m.impl("index_add.out", index_add_out);
    m.impl("index_reduce.out", index_reduce_out);
    m.impl("index_fill_.int_Scalar", index_fill_scalar);
    m.impl("index_fill_.int_Tensor", index_fill_tensor);
}

}  // namespace torch_ocl
