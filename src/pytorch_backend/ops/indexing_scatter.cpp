// scatter, scatter_add and scatter_reduce, and what they share with index_add and index_reduce.
#include <ATen/Context.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <ops/indexing.hpp>
#include <ops/outputs.hpp>
#include <runtime/structured.hpp>

namespace torch_ocl {

using clprim::IndexReduce;

IndexReduce reduction(std::string_view name)
{
    if (name == "add" || name == "sum" || name == "mean")
        return IndexReduce::sum;
    if (name == "multiply" || name == "prod")
        return IndexReduce::product;
    if (name == "amin" || name == "minimum")
        return IndexReduce::minimum;
    if (name == "amax" || name == "maximum")
        return IndexReduce::maximum;
    TORCH_CHECK(false, "reduce argument must be either sum, prod, mean, amax or amin, got ", name);
}

at::Scalar neutral(std::string_view reduce, at::ScalarType type)
{
    if (reduce == "sum" || reduce == "mean")
        return 0;
    if (reduce == "prod")
        return 1;
    const bool low = reduce == "amax";
    if (c10::isFloatingType(type))
        return low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    if (type == at::kBool)
        return low ? false : true;
    const int bits = static_cast<int>(8 * c10::elementSize(type));
    if (!c10::isSignedType(type))
        return low ? int64_t{0} : bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
    const int64_t limit = bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (bits - 1)) - 1;
    return low ? -limit - 1 : limit;
}

at::Tensor expanded(const at::Scalar& value, const at::Tensor& like, at::IntArrayRef sizes)
{
    return at::full({}, value, like.options()).expand(sizes);
}

void require_order(const at::Tensor& self, std::string_view reduce)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex() || (reduce != "amax" && reduce != "amin"), '"', reduce,
                                "\" not implemented for '", self.scalar_type(), "'");
}

void divide_by_count(const at::Tensor& sums, const at::Tensor& count)
{
    if (count.is_floating_point())
        count.clamp_min_(1);
    else   // complex numbers have no order, and integers become negative, as PyTorch's do
        count.masked_fill_(count.eq(0), 1);
    if (sums.is_floating_point() || sums.is_complex())
        sums.div_(count);
    else
        sums.div_(count, "floor");
}

namespace {

// The part of a source that an index covers.
clprim::Tensor covered(const at::Tensor& source, const at::Tensor& index)
{
    clprim::Tensor result = view_1d(source);
    result.shape = view_1d(index).shape;
    return result;
}

void scatter(const Target& to, const at::Tensor& source, bool one_value = false)
{
    if (to.index.numel() == 0)
        return;
    const clprim::Along axis = to.axis();
    const auto self = view_1d(to.out), index = view_1d(to.index), values = covered(source, to.index);
    // With enough lines the deterministic form costs nothing; otherwise it is what the user asked for.
    const int64_t entries = index.size(axis.axis), lines = to.index.numel() / std::max<int64_t>(entries, 1);
    if (!one_value && entries > 1 && (lines >= 1024 || at::globalContext().deterministicAlgorithms()))
        clprim::scatter_reduce(current_queue(to.out), self, axis, index, values, IndexReduce::assign);
    else
        clprim::scatter(current_queue(to.out), self, axis, index, values);
}

// Sums and products of float16 and bfloat16 are kept in float32 until all updates are in.
bool wants_float32(const at::Tensor& tensor) { return c10::isReducedFloatingType(tensor.scalar_type()); }

void scatter_reduce(const Target& to, const at::Tensor& source, std::string_view reduce)
{
    if (to.index.numel() == 0)
        return;
    if (wants_float32(to.out)) {
        const at::Tensor wide = to.out.to(at::kFloat);
        scatter_reduce({wide, to.dim, to.index, to.name}, source.to(at::kFloat), reduce);
        to.out.copy_(wide);
        return;
    }
    clprim::scatter_reduce(current_queue(to.out), view_1d(to.out), to.axis(), view_1d(to.index),
                           covered(source, to.index), reduction(reduce));
}

at::Tensor& scatter_src_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                            at::Tensor& out)
{
    StructuredOut<at::meta::structured_scatter_src> op({out}, InPlace::allowed);
    op.meta(self, dim, index, src);
    copy_unless_same(self, op.output());
    scatter({op.output(), dim, index, "scatter"}, src);
    op.finish();
    return out;
}

at::Tensor& scatter_value_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
                              at::Tensor& out)
{
    StructuredOut<at::meta::structured_scatter_value> op({out}, InPlace::allowed);
    op.meta(self, dim, index, value);
    copy_unless_same(self, op.output());
    scatter({op.output(), dim, index, "scatter"}, expanded(value, out, index.sizes()), true);
    op.finish();
    return out;
}

at::Tensor& scatter_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                               std::string_view reduce, at::Tensor& out)
{
    StructuredOut<at::meta::structured_scatter_reduce> op({out}, InPlace::allowed);
    op.meta(self, dim, index, src, reduce);
    copy_unless_same(self, op.output());
    scatter_reduce({op.output(), dim, index, "scatter"}, src, reduce);
    op.finish();
    return out;
}

at::Tensor& scatter_value_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                                     const at::Scalar& value, std::string_view reduce, at::Tensor& out)
{
    StructuredOut<at::meta::structured_scatter_value_reduce> op({out}, InPlace::allowed);
    op.meta(self, dim, index, value, reduce);
    copy_unless_same(self, op.output());
    scatter_reduce({op.output(), dim, index, "scatter"}, expanded(value, out, index.sizes()), reduce);
    op.finish();
    return out;
}

at::Tensor& scatter_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                            at::Tensor& out)
{
    StructuredOut<at::meta::structured_scatter_add> op({out}, InPlace::allowed);
    op.meta(self, dim, index, src);
    copy_unless_same(self, op.output());
    scatter_reduce({op.output(), dim, index, "scatter_add"}, src, "sum");
    op.finish();
    return out;
}

// The index of what is reached once where it is the same for all of a dimension: counts need no more.
at::Tensor without_repeats(at::Tensor index, const at::Tensor& result, int64_t dim)
{
    const int64_t along = c10::maybe_wrap_dim(dim, result.dim());
    for (int64_t d = 0; d < index.dim(); ++d)
        if (d != along && index.stride(d) == 0 && index.size(d) == result.size(d))
            index = index.narrow(d, 0, 1);
    return index;
}

at::Tensor& scatter_reduce_two_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                                   std::string_view reduce, bool include_self, at::Tensor& out)
{
    StructuredOut<at::meta::structured_scatter_reduce_two> op({out}, InPlace::allowed);
    op.meta(self, dim, index, src, reduce, include_self);
    require_order(self, reduce);
    const at::Tensor result = op.output();
    copy_unless_same(self, result);
    if (index.numel() != 0) {
        const Target to{result, dim, index, "scatter_reduce"};
        if (!include_self)
            scatter(to, expanded(neutral(reduce, result.scalar_type()), result, index.sizes()), true);
        scatter_reduce(to, src, reduce);
        if (reduce == "mean") {
            const at::Tensor once = without_repeats(index, result, dim);
            at::DimVector sizes(result.sizes());
            for (int64_t d = 0; d < result.dim(); ++d)
                if (once.size(d) != index.size(d))
                    sizes[d] = 1;
            const at::Tensor count = at::full(sizes, include_self ? 1 : 0, result.options());
            scatter_reduce({count, dim, once, to.name}, expanded(1, result, once.sizes()), "sum");
            divide_by_count(result, count);
        }
    }
    op.finish();
    return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("scatter.src_out", scatter_src_out);
    m.impl("scatter.value_out", scatter_value_out);
    m.impl("scatter.reduce_out", scatter_reduce_out);
    m.impl("scatter.value_reduce_out", scatter_value_reduce_out);
    m.impl("scatter_add.out", scatter_add_out);
    m.impl("scatter_reduce.two_out", scatter_reduce_two_out);
}

}  // namespace torch_ocl
