// Advanced indexing, x[i, :, j] and x[mask], read and written; and the operators on masks.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_meta.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <ops/indexing.hpp>
#include <ops/number.hpp>
#include <ops/outputs.hpp>
#include <runtime/structured.hpp>

namespace torch_ocl {

namespace {

using IndexList = c10::List<std::optional<at::Tensor>>;

// ---- reading ----

// `operand` for code that only moves elements: numbers of eight bits are bytes to it.
clprim::Tensor moved_operand(const at::TensorIteratorBase& iter, int arg)
{
    if (!c10::isFloat8Type(iter.dtype(arg)))
        return operand(iter, arg);
    clprim::Tensor result = storage_view(iter.tensor(arg));   // one byte: strides of the iterator count elements
    result.shape = clprim::Dims({iter.shape().data(), iter.shape().size()});
    result.strides = clprim::Dims({iter.strides(arg).data(), iter.strides(arg).size()});
    std::reverse(result.shape.begin(), result.shape.end());
    std::reverse(result.strides.begin(), result.strides.end());
    return result;
}

at::Tensor& index_out(const at::Tensor& self, const IndexList& indices, at::Tensor& out)
{
    StructuredOut<at::meta::structured_index_Tensor> op({out});
    const auto shape = op.meta(self, indices);   // op now iterates over (out, self, index...)
    if (op.numel() == 0) {
        op.finish();
        return out;
    }
    clprim::Queue& queue = current_queue(self);
    const auto target = moved_operand(op, 0), source = moved_operand(op, 1);
    const auto item = static_cast<int64_t>(self.element_size());
    const auto axis = [&](int k) {
        return clprim::IndexedAxis{"index", operand(op, 2 + k), shape.sizes[k], shape.strides[k] / item};
    };
    const int count = op.ntensors() - 2;
    if (count == 1) {
        clprim::read_through(queue, source, axis(0), target);
    } else {
        // The keys take the shape of the index: dimensions that no index moves along keep stride 0.
        at::DimVector sizes(op.ndim(), 1);
        for (int d = 0; d < op.ndim(); ++d)
            for (int k = 0; k < count; ++k)
                if (op.strides(2 + k)[d] != 0)
                    sizes[op.ndim() - 1 - d] = op.shape()[d];
        const at::Tensor keys = at::empty(sizes, self.options().dtype(at::kLong));
        int64_t run = 0;   // of elements, that keys count
        for (int k = 0; k < count; ++k)
            run = std::gcd(run, axis(k).stride);
        run = std::max<int64_t>(run, 1);
        const auto term = [&](int k) {
            auto result = axis(k);
            result.stride /= run;
            result.index.shape = clprim::Dims(sizes);
            return result;
        };
        clprim::add_keys(queue, view(keys), term(0), term(1));
        for (int k = 2; k < count; ++k)
            clprim::add_keys(queue, view(keys), term(k), false);
        clprim::read_through(queue, source,
                             {"index", view(keys.expand(at::DimVector(op.shape().rbegin(), op.shape().rend()))),
                              clprim::index_is_key, run},
                             target);
    }
    op.finish();
    return out;
}

// Without this PyTorch would look at the indices once for the shape and once more for index.out: masks would be
// counted, and warned of, twice.
at::Tensor index(const at::Tensor& self, const IndexList& indices)
{
    // A mask of every element needs one coordinate of each, not as many as there are dimensions.
    if (indices.size() == 1 && self.dim() > 1 && self.is_contiguous()) {
        const std::optional<at::Tensor> mask = indices.get(0);
        if (mask && mask->defined() && mask->scalar_type() == at::kBool && mask->sizes() == self.sizes())
            return at::index(self.view(-1), {std::optional<at::Tensor>(mask->reshape(-1))});
    }
    at::Tensor out = at::empty({0}, self.options());
    return index_out(self, indices, out);
}

// ---- writing ----

// self[indices] as lines (positions that no index moves) times entries (positions of the broadcast index), entries
// last.
struct IndexedView {
    clprim::Tensor self;        // stride 0 along the entries
    at::Tensor keys;            // offset of every entry, in runs of elements
    int64_t run = 0;
    at::DimVector before, entries, after;

    at::DimVector indexed_sizes() const
    {
        at::DimVector sizes = before;
        sizes.append(entries);
        sizes.append(after);
        return sizes;
    }
    int64_t count() const { return c10::multiply_integers(entries); }
};

// `in_runs`: keys count the longest runs there are instead of elements.
IndexedView indexed_view(at::Tensor self, const IndexList& original, bool in_runs)
{
    at::native::checkIndexTensorTypes(original, true);
    std::vector<at::Tensor> indices = at::native::expandTensors(self, original);
    for (at::Tensor& index : indices)
        if (index.defined() && index.device() != self.device())
            index = index.to(self.device());
    try {
        indices = at::expand_outplace(indices);
    } catch (std::exception&) {
        std::ostringstream shapes;
        for (const at::Tensor& index : indices)
            if (index.defined())
                shapes << index.sizes() << " ";
        TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                          shapes.str());
    }
    indices.resize(self.dim());
    if (!at::native::hasContiguousSubspace(indices))
        std::tie(self, indices) = at::native::transposeToFront(self, indices);

    IndexedView result;
    result.self = storage_view(self);
    for (int64_t d = 0; in_runs && d < self.dim(); ++d)
        if (indices[d].defined())
            result.run = std::gcd(result.run, self.stride(d));
    result.run = std::max<int64_t>(result.run, 1);
    clprim::Dims shape, strides;
    bool first = true;
    for (int64_t d = 0; d < self.dim(); ++d) {
        if (!indices[d].defined()) {
            (first ? result.before : result.after).push_back(self.size(d));
            shape.push_back(self.size(d));
            strides.push_back(self.stride(d));
            continue;
        }
        if (first) {
            result.entries.assign(indices[d].sizes().begin(), indices[d].sizes().end());
            result.keys = at::empty(indices[d].sizes(), self.options().dtype(at::kLong));
        }
        TORCH_CHECK_INDEX(self.size(d) != 0 || indices[d].numel() == 0,
                          "index is out of bounds for dimension with size 0");
        if (self.numel() != 0)
            clprim::add_keys(current_queue(self), view(result.keys),
                             {"index_put_", view(indices[d]), self.size(d), self.stride(d) / result.run}, first);
        first = false;
    }
    shape.push_back(result.count());
    strides.push_back(0);
    result.self.shape = shape;
    result.self.strides = strides;
    return result;
}

// x[mask] = one value needs no index: it is masked_fill, which converts the value.
bool put_as_masked_fill(at::Tensor& self, const IndexList& indices, const at::Tensor& value)
{
    if (value.numel() != 1)
        return false;
    std::optional<at::Tensor> mask;
    int64_t before = 0, after = 0;
    for (const std::optional<at::Tensor>& index : indices) {
        if (!index.has_value() || !index->defined()) {
            ++(mask ? after : before);
            continue;
        }
        if (mask || index->scalar_type() != at::kBool || index->device() != self.device())
            return false;
        mask = index;
    }
    if (!mask || before + mask->dim() + after > self.dim() || mask->sizes() != self.sizes().slice(before, mask->dim()))
        return false;
    TORCH_CHECK(self.is_complex() || !value.is_complex(), "value cannot be converted to type ", self.scalar_type(),
                " without overflow");
    at::Tensor wide = *mask;
    for (int64_t i = before + mask->dim(); i < self.dim(); ++i)
        wide = wide.unsqueeze(-1);
    self.masked_fill_(wide, value.reshape({}).to(self.options()));
    return true;
}

at::Tensor& index_put_(at::Tensor& self, const IndexList& indices, const at::Tensor& values, bool accumulate, bool)
{
    TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                      self.dim(), " (got ", indices.size(), ")");
    warn_of_expanded(self, "index_put_", "tensor[indices] = tensor");
    if (!accumulate && put_as_masked_fill(self, indices, values))
        return self;
    at::assert_no_overlap(self, values);
    for (const std::optional<at::Tensor>& index : indices)
        if (index && index->defined())
            at::assert_no_overlap(self, *index);
    const bool combines = accumulate || at::globalContext().deterministicAlgorithms();
    const IndexedView to = indexed_view(self, indices, !combines);
    const at::DimVector sizes = to.indexed_sizes();
    TORCH_CHECK(at::is_expandable_to(values.sizes(), sizes), "shape mismatch: value tensor of shape ", values.sizes(),
                " cannot be broadcast to indexing result of shape ", at::IntArrayRef(sizes));
    TORCH_CHECK(self.scalar_type() == values.scalar_type(),
                "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
                " for the destination and ", values.scalar_type(), " for the source.");
    at::Tensor source = values.to(self.device()).expand(sizes);
    if (source.numel() == 0)
        return self;
    if (accumulate && adds_to_float32(self, to.count(), source.numel())) {
        at::Tensor wide = self.to(at::kFloat);
        index_put_(wide, indices, values.to(at::kFloat), true, false);
        self.copy_(wide);
        return self;
    }
    // Values as lines times entries, like self.
    for (std::size_t i = 0; i < to.entries.size(); ++i)
        source = source.movedim(to.before.size(), -1);
    at::DimVector flat = to.before;
    flat.append(to.after);
    flat.push_back(to.count());
    source = source.reshape(flat);
    const at::Tensor keys = to.keys.reshape(-1).expand(flat);

    clprim::Queue& queue = current_queue(self);
    const clprim::IndexedAxis axis{"index_put_", view(keys), clprim::index_is_key, to.run};
    if (accumulate && c10::isFloat8Type(self.scalar_type()))
        data_type(self.scalar_type());   // refuses what cannot be added
    if (accumulate)
        clprim::reduce_through(queue, to.self, axis, view(source), clprim::IndexReduce::sum);
    else if (combines)
        clprim::reduce_through(queue, to.self, axis, storage_view(source), clprim::IndexReduce::assign);
    else
        clprim::write_through(queue, to.self, axis, storage_view(source));
    return self;
}

// ---- masks ----

at::Tensor& masked_fill_tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value)
{
    TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
    TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
                mask.scalar_type());
    TORCH_CHECK(self.device() == mask.device(), "expected self and mask to be on the same device, but got mask on ",
                mask.device(), " and self on ", self.device());
    if (value.is_complex() && !self.is_complex()) {    // fits only without an imaginary part: the host has to look
        const at::Scalar number = converted(value.item(), self.scalar_type());
        return masked_fill_tensor(self, mask, at::full({}, number, self.options()));
    }
    warn_of_expanded(self, "masked_fill_", "tensor[mask] = scalar");
    at::assert_no_partial_overlap(self, mask);
    const auto wide = at::expand_inplace(self, mask, "masked_fill_");
    const at::Tensor source = value.to(self.device(), self.scalar_type()).expand(self.sizes());
    clprim::masked_fill(current_queue(self), storage_view(self), view(*wide), storage_view(source));
    return self;
}

at::Tensor& masked_fill_scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value)
{
    const bool narrower = value.isComplex() && !self.is_complex();
    return masked_fill_tensor(self, mask, at::full({}, narrower ? converted(value, self.scalar_type()) : value,
                                                   self.options()));
}

at::Tensor select_masked(const at::Tensor& self, const at::Tensor& mask)
{
    TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
    const at::Tensor mask_1d = mask.dim() ? mask : mask.unsqueeze(0), self_1d = self.dim() ? self : self.unsqueeze(0);
    const auto [wide_mask, wide_self] = at::expand_outplace(mask_1d, self_1d, "masked_select");
    IndexList indices;
    indices.push_back(std::optional<at::Tensor>(*wide_mask));
    return at::index(*wide_self, indices);
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out)
{
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "masked_select(): self and result must have the same scalar type");
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, self);
    at::assert_no_overlap(out, mask);
    const at::Tensor selected = select_masked(self, mask);
    return assign_output(out, selected);
}

// The k-th set position takes element k of the source: an inclusive count of the mask is the index.
at::Tensor& masked_scatter_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source)
{
    TORCH_CHECK(self.scalar_type() == source.scalar_type(),
                "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
                source.scalar_type());
    TORCH_CHECK(mask.scalar_type() == at::kBool,
                "masked_scatter_ only supports boolean masks, but got mask with dtype ", mask.scalar_type());
    at::assert_no_internal_overlap(self);
    const auto wide = at::expand_inplace(self, mask, "masked_scatter_");
    if (self.numel() == 0)
        return self;
    if (source.numel() == 0) {
        TORCH_CHECK(!wide->any().item<bool>(),
                    "masked_scatter: expected self and source to have same number of elements");
        return self;
    }
    const at::Tensor place = wide->reshape(-1).to(at::kLong).cumsum(0).sub_(1).clamp_min_(0);
    const at::Tensor values = select_rows("masked_scatter_", source.reshape(-1), place).view(self.sizes());
    return self.copy_(at::where(*wide, values, self));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("index.Tensor", index);
    m.impl("index.Tensor_out", index_out);
    m.impl("_index_put_impl_", index_put_);
    m.impl("masked_fill_.Scalar", masked_fill_scalar);
    m.impl("masked_fill_.Tensor", masked_fill_tensor);
    m.impl("masked_select", select_masked);
    m.impl("masked_select.out", masked_select_out);
    m.impl("masked_scatter_", masked_scatter_);
}

}  // namespace torch_ocl
