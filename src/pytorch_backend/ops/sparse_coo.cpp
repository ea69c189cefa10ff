// Sparse tensors of coordinates: order and sums of equal entries, addition, multiplication, selection, masks. Made of
// the device's sorts, searches and gathers.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <ops/sparse.hpp>
#include <runtime/stream.hpp>
#include <runtime/tensor_view.hpp>

// Of ATen/native/sparse/SparseStubs.h, which is not installed: PyTorch's conversions between compressed layouts ask for
// it.
namespace at::native {
using flatten_indices_fn = Tensor (*)(const Tensor& indices, IntArrayRef size);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub)
}  // namespace at::native

namespace torch_ocl {

using at::Tensor;

Tensor flat_positions(const Tensor& indices, at::IntArrayRef sizes)
{
    if (indices.size(0) == 0)
        return at::zeros({indices.size(1)}, indices.options().dtype(at::kLong));
    Tensor flat = indices.select(0, 0).to(at::kLong);   // positions may need more bits than indices
    for (int64_t d = 1; d < indices.size(0); ++d)
        flat = at::add(indices.select(0, d), flat, sizes[d]);
    return flat.contiguous();
}

Tensor run_starts(const Tensor& keys)
{
    if (keys.numel() == 0)
        return at::empty({0}, keys.options().dtype(at::kLong));
    const int64_t n = keys.size(0);
    const Tensor fresh = keys.narrow(0, 1, n - 1).ne(keys.narrow(0, 0, n - 1));
    return at::cat({at::ones({1}, fresh.options()), fresh}).nonzero().squeeze(1);
}

Tensor row_pointers(const Tensor& keys, int64_t count)
{
    return at::searchsorted(keys.contiguous(), at::arange(count + 1, keys.options()));
}

Found find_sorted(const Tensor& among, const Tensor& keys)
{
    if (among.numel() == 0)
        return {at::zeros_like(keys), at::zeros_like(keys, keys.options().dtype(at::kBool))};
    const Tensor position = at::searchsorted(among, keys).clamp_max_(among.numel() - 1);
    return {position, among.index_select(0, position).eq(keys)};
}

Spread spread(const Tensor& counts)
{
    const Tensor ends = counts.cumsum(0);
    const int64_t total = counts.numel() == 0 ? 0 : ends[-1].item<int64_t>();
    const Tensor places = at::arange(total, ends.options());
    const Tensor source = at::searchsorted(ends, places, false, true);
    return {source, places.sub(ends.sub(counts).index_select(0, source))};
}

Tensor make_coo(const Tensor& indices, const Tensor& values, at::IntArrayRef sizes, bool coalesced)
{
    return at::_sparse_coo_tensor_unsafe(indices, values, sizes, values.options().layout(at::kSparse), coalesced);
}

clprim::SparseScale sparse_scale(const at::Scalar& product, const at::Scalar& addend)
{
    const auto number = [](const at::Scalar& scalar) {
        return static_cast<std::complex<double>>(scalar.to<c10::complex<double>>());
    };
    return {number(product), number(addend)};
}

void multiply_rows(const clprim::SparseRows& a, const Tensor& dense, const Tensor& self, const Tensor& out,
                   const at::Scalar& product, const at::Scalar& addend)
{
    const auto batched = [](const Tensor& tensor) {
        return tensor.defined() ? view(tensor.dim() == 2 ? tensor.unsqueeze(0) : tensor) : clprim::Tensor();
    };
    clprim::sparse_mm(current_queue(out), a, batched(dense.resolve_conj().resolve_neg()),
                      batched(self.defined() ? self.resolve_conj().resolve_neg() : self), batched(out),
                      sparse_scale(product, addend));
}

Tensor sum_runs(const Tensor& values, const Tensor& order, const Tensor& starts)
{
    std::vector<int64_t> sizes = values.sizes().vec();
    sizes[0] = starts.size(0);
    const Tensor result = at::empty(sizes, values.options());
    if (result.numel() == 0)
        return result;
    const Tensor pointers = at::cat({starts, at::full({1}, order.size(0), starts.options())});
    const Tensor rows = values.reshape({values.size(0), -1});
    multiply_rows({view(pointers), view(order), {}}, rows, {}, result.view({starts.size(0), -1}), 1, 0);
    return result;
}

namespace {

using at::sparse::get_sparse_impl;

// The tensor's memory becomes those parts.
void assign(Tensor& out, const Tensor& indices, const Tensor& values, at::IntArrayRef sizes, bool coalesced)
{
    const int64_t sparse_dim = indices.size(0);
    get_sparse_impl(out)->raw_resize_(sparse_dim, static_cast<int64_t>(sizes.size()) - sparse_dim, sizes);
    at::sparse::alias_into_sparse(out, indices, values);
    out._coalesced_(coalesced);
}

Tensor coalesce(const Tensor& self)
{
    const int64_t entries = self._nnz();
    if (self.is_coalesced())
        return self;
    if (entries < 2)
        return self.clone()._coalesced_(true);
    const Tensor indices = self._indices(), values = self._values();
    const auto [sorted, order] = flat_positions(indices, self.sizes()).sort(true, 0, false);
    const Tensor starts = run_starts(sorted);
    return make_coo(indices.index_select(1, order.index_select(0, starts)), sum_runs(values, order, starts),
                    self.sizes(), true);
}

at::ScalarType common_type(const char* name, const Tensor& a, const Tensor& b, const Tensor& out)
{
    const at::ScalarType common = at::promoteTypes(a.scalar_type(), b.scalar_type());
    TORCH_CHECK(at::canCast(common, out.scalar_type()), "Can't convert result type ", common, " to output ",
                out.scalar_type(), " in ", name, " operation");
    return common;
}

void check_device(const char* name, const Tensor& a, const Tensor& b)
{
    TORCH_CHECK(a.device() == b.device(), name, ": expected all tensors to be on the same device, but found ",
                a.device(), " and ", b.device());
}

Tensor& add_dense_out(const Tensor& dense, const Tensor& sparse, const at::Scalar& alpha, Tensor& out)
{
    TORCH_CHECK(!out.is_sparse(), "add: expected 'out' to be a dense tensor, since 'self' is one");
    TORCH_CHECK(dense.sizes() == sparse.sizes(),
                "add: expected 'self' and 'other' to have same size, but self has size ", dense.sizes(),
                " while other has size ", sparse.sizes(),
                " (FYI: dense-sparse addition does not currently support broadcasting)");
    const at::ScalarType common = common_type("add", dense, sparse, out);
    at::native::resize_output(out, dense.sizes());
    const bool direct = out.scalar_type() == common;
    if (direct && !out.is_same(dense))
        out.copy_(dense);
    if (sparse._nnz() == 0 && direct)
        return out;
    Tensor sum = direct ? out : dense.to(common, false, true);
    const Tensor indices = sparse._indices();
    Tensor values = sparse._values().to(common);
    if (sparse._nnz() != 0 && sum.numel() != 0) {
        if (!alpha.equal(1))
            values = values.mul(alpha);
        if (indices.size(0) == 0)
            sum.add_(values.sum(0, false, common));
        else if (common == at::kBool)   // or: set what is true
            sum.logical_or_(make_coo(indices, values, sparse.sizes(), false).coalesce().to(at::kByte).to_dense());
        else {
            c10::List<std::optional<Tensor>> places;
            for (int64_t d = 0; d < indices.size(0); ++d)
                places.push_back(indices.select(0, d));
            sum.index_put_(places, values, true);
        }
    }
    if (!direct)
        out.copy_(sum);
    return out;
}

Tensor& coo_add_out(const Tensor& self, const Tensor& other, const at::Scalar& alpha, Tensor& out)
{
    check_device("add", self, other);
    check_device("add", self, out);
    TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
    if (!self.is_sparse())
        return add_dense_out(self, other, alpha, out);
    TORCH_CHECK(out.is_sparse(), "add: expected 'out' to be a sparse tensor, since 'self' and 'other' are");
    TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
                " != ", other.sizes());
    const at::ScalarType common = common_type("add", self, other, out);
    if (other._nnz() == 0)
        return out.copy_(self.to(out.scalar_type()));
    if (self._nnz() != 0)
        TORCH_CHECK(at::sparse::is_same_density(self, other),
                    "add: expected 'self' and 'other' to have same density, but "
                    "'self' has ",
                    self.sparse_dim(), " sparse dimensions while 'other' has ", other.sparse_dim(),
                    " sparse dimensions");
    Tensor scaled = other._values().to(common);
    if (!alpha.equal(1))
        scaled = scaled.mul(alpha);
    if (self._nnz() == 0) {
        assign(out, other._indices().clone(), scaled.to(out.scalar_type(), false, true), other.sizes(),
               other.is_coalesced());
        return out;
    }
    const Tensor sum = make_coo(at::cat({self._indices(), other._indices()}, 1),
                                at::cat({self._values().to(common), scaled}, 0), self.sizes(), false);
    const bool coalesced = self.is_coalesced() && other.is_coalesced();
    const Tensor result = coalesced || sum._nnz() > sum.numel() ? sum.coalesce() : sum;
    assign(out, result._indices(), result._values().to(out.scalar_type()), self.sizes(), result.is_coalesced());
    return out;
}

// Two sparse tensors: entries of the one that the other has too. Uncoalesced ones multiply as their sums.
Tensor& multiply_common(const Tensor& a, const Tensor& b, Tensor& out)
{
    TORCH_CHECK(a.sizes() == b.sizes(),
                "mul: expected 'self' and 'other' to have same sizes when both are sparse, but ", a.sizes(),
                " != ", b.sizes());
    TORCH_CHECK(a.sparse_dim() == b.sparse_dim(), "mul: expected 'self' and 'other' to have same number of sparse "
                "dimensions, but ", a.sparse_dim(), " != ", b.sparse_dim());
    const at::ScalarType common = common_type("mul", a, b, out);
    const Tensor left = a.coalesce(), right = b.coalesce();
    const Found found =
        find_sorted(flat_positions(right._indices(), b.sizes()), flat_positions(left._indices(), a.sizes()));
    const Tensor chosen = found.present.nonzero().squeeze(1);
    const Tensor other = found.position.index_select(0, chosen);
    const Tensor values = left._values().index_select(0, chosen).to(common)
                              .mul(right._values().to(common).index_select(0, other));
    assign(out, left._indices().index_select(1, chosen), values.to(out.scalar_type()), a.sizes(), true);
    return out;
}

Tensor& mul_out(const Tensor& self, const Tensor& other, Tensor& out)
{
    if (self.is_sparse() && other.is_sparse() && self.dim() > 0 && other.dim() > 0) {
        check_device("mul", self, other);
        return multiply_common(self, other, out);
    }
    return at::native::mul_out_sparse_cpu(self, other, out);   // gathers of the dense one, or a number
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index)
{
    TORCH_CHECK_INDEX(self.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
    TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector, but got dim: ", index.dim());
    TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                      "index_select(): Expected dtype int32 or int64 for index but got: ", index.scalar_type());
    check_device("index_select", self, index);
    dim = at::maybe_wrap_dim(dim, self.dim());
    const int64_t size = self.size(dim), sparse_dim = self.sparse_dim();
    Tensor wanted = index.reshape(-1).to(at::kLong);
    std::vector<int64_t> sizes = self.sizes().vec();
    sizes[dim] = wanted.numel();
    if (dim >= sparse_dim)
        return make_coo(self._indices(), self._values().index_select(dim - sparse_dim + 1, wanted), sizes,
                        self.is_coalesced());
    if (wanted.numel() != 0) {
        const auto [low, high] = at::aminmax(wanted);
        const Tensor ends = at::stack({low, high}).cpu();
        const int64_t least = ends[0].item<int64_t>(), most = ends[1].item<int64_t>();
        TORCH_CHECK_INDEX(least >= -size && most < size, "index_select(): index contains ",
                          least < -size ? least : most, " that is out of range for tensor of size ", self.sizes(),
                          " at dimension ", dim);
        wanted = at::where(wanted.lt(0), wanted + size, wanted);
    }
    const Tensor indices = self._indices();
    const auto [sorted, order] = indices.select(0, dim).sort(true, 0, false);
    const Tensor begin = at::searchsorted(sorted, wanted), end = at::searchsorted(sorted, wanted, false, true);
    const Spread entries = spread(end - begin);
    const Tensor source = order.index_select(0, begin.index_select(0, entries.source) + entries.step);
    const Tensor fresh = indices.index_select(1, source);
    fresh.select(0, dim).copy_(entries.source);
    return make_coo(fresh, self._values().index_select(0, source), sizes, false);
}

// The values of `self` at the entries of `mask`, 0 where it has none.
Tensor values_at(const Tensor& self, const Tensor& mask)
{
    const Tensor from = self.coalesce();
    const Found found = find_sorted(flat_positions(from._indices(), self.sizes()),
                                    flat_positions(mask._indices(), mask.sizes()));
    std::vector<int64_t> sizes = from._values().sizes().vec();
    sizes[0] = mask._nnz();
    if (from._nnz() == 0)
        return at::zeros(sizes, from._values().options());
    Tensor absent = found.present.logical_not();
    for (int64_t d = 1; d < from._values().dim(); ++d)
        absent = absent.unsqueeze(-1);
    return from._values().index_select(0, found.position).masked_fill_(absent, 0);
}

Tensor sparse_mask(const Tensor& self, const Tensor& mask)
{
    TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ",
                self.sizes(), " but mask has size ", mask.sizes());
    TORCH_CHECK(mask.is_sparse(), "sparse_mask(): expected a sparse mask, got ", mask.layout());
    check_device("sparse_mask", self, mask);
    if (self.is_same(mask))
        return self;
    const Tensor indices = mask._indices();
    Tensor values;
    if (self.is_sparse()) {
        TORCH_CHECK(self.sparse_dim() == mask.sparse_dim(), "sparse_mask(): expected self with ", mask.sparse_dim(),
                    " sparse dimensions, as mask has, got ", self.sparse_dim());
        values = values_at(self, mask);
    }
    else if (indices.size(0) == 0) {
        values = self.unsqueeze(0).expand_as(mask._values()).clone();
    }
    else {
        std::vector<int64_t> sizes{-1};
        for (int64_t d = mask.sparse_dim(); d < self.dim(); ++d)
            sizes.push_back(self.size(d));
        const Tensor rows = self.reshape([&] {
            std::vector<int64_t> shape(sizes);
            shape[0] = c10::multiply_integers(self.sizes().slice(0, mask.sparse_dim()));
            return shape;
        }());
        values = rows.index_select(0, flat_positions(indices, mask.sizes()));
    }
    return make_coo(indices.clone(), values, mask.sizes(), mask.is_coalesced());
}

// The values of `self` at the entries of `mask`; entries of an uncoalesced mask count as often as they come.
Tensor sparse_mask_projection(const Tensor& self, const Tensor& mask, bool accumulate_matches)
{
    TORCH_CHECK(self.is_sparse() && mask.is_sparse() && self.sizes() == mask.sizes(),
                "_sparse_mask_projection(): sparse operands of one size expected, got ", self.sizes(), " and ",
                mask.sizes());
    if (!accumulate_matches)
        return sparse_mask(self, mask);
    // Each entry of self, times how often the mask has it, at the mask's distinct entries.
    const Tensor counts = make_coo(mask._indices(), at::ones({mask._nnz()}, mask._values().options()),
                                   mask.sizes().slice(0, mask.sparse_dim()), mask.is_coalesced()).coalesce();
    const Found found = find_sorted(flat_positions(counts._indices(), mask.sizes()),
                                    flat_positions(self._indices(), self.sizes()));
    if (counts._nnz() == 0)
        return make_coo(self._indices().clone(), at::zeros_like(self._values()), self.sizes(), self.is_coalesced());
    Tensor factor = counts._values().index_select(0, found.position).masked_fill_(found.present.logical_not(), 0);
    for (int64_t d = 1; d < self._values().dim(); ++d)
        factor = factor.unsqueeze(-1);
    return make_coo(self._indices().clone(), self._values().mul(factor.to(self.scalar_type())), self.sizes(),
                    self.is_coalesced());
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m)
{
    m.impl("_coalesce", coalesce);
    m.impl("add.out", coo_add_out);
    m.impl("mul.out", mul_out);
    m.impl("index_select", index_select);
    m.impl("sparse_mask", sparse_mask);
    m.impl("_sparse_mask_projection", sparse_mask_projection);
}

}  // namespace
}  // namespace torch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &torch_ocl::flat_positions)
}  // namespace at::native
