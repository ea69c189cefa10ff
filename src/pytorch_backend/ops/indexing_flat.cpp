// take and put_: the tensor as one long vector.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <ops/indexing.hpp>

namespace torch_ocl {

namespace {

using clprim::IndexReduce;

at::Tensor& take_out(const at::Tensor& self, const at::Tensor& index, at::Tensor& out)
{
    TORCH_CHECK(index.scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
                index.scalar_type());
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "take(): self and out expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
                " and out.dtype = ", out.scalar_type());
    TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0), "take(): tried to take from an empty tensor");
    TORCH_CHECK(self.device() == index.device() && self.device() == out.device(),
                "take(): self, index and out expected to be in the same device, but got self.device = ", self.device(),
                ", index.device = ", index.device(), ", and out.device = ", out.device());
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, index);
    at::assert_no_overlap(out, self);
    at::native::resize_output(out, index.sizes());
    if (index.numel() == 0)
        return out;
    const at::Tensor flat = self.contiguous();
    clprim::Tensor source = view(flat), target = view(out);
    source.shape = target.shape;
    source.strides = clprim::Dims(target.dim(), 0);
    clprim::read_through(current_queue(self), source, {"take", view(index), self.numel()}, target);
    return out;
}

at::Tensor take(const at::Tensor& self, const at::Tensor& index)
{
    at::Tensor out = at::empty(index.sizes(), self.options());
    return take_out(self, index, out);
}

at::Tensor& put_(at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate)
{
    TORCH_CHECK(index.scalar_type() == at::kLong, "put_(): Expected a long tensor for index, but got ",
                index.scalar_type());
    TORCH_CHECK(self.scalar_type() == source.scalar_type(),
                "put_(): self and source expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
                " and source.dtype = ", source.scalar_type());
    TORCH_CHECK_INDEX(source.numel() == index.numel(), "put_(): Expected source and index to have the same number of "
                      "elements, but got source.numel() = ", source.numel(), ", index.numel() = ", index.numel());
    TORCH_CHECK(self.device() == index.device() && self.device() == source.device(),
                "put_(): self, index and source expected to be in the same device, but got self.device = ",
                self.device(), ", index.device = ", index.device(), ", and source.device = ", source.device());
    if (!accumulate)   // which of several sources of one place wins is left open
        at::globalContext().alertNotDeterministic("put_");
    at::assert_no_internal_overlap(self);
    at::assert_no_overlap(self, index);
    at::assert_no_overlap(self, source);
    if (index.numel() == 0)
        return self;
    TORCH_CHECK_INDEX(self.numel() != 0, "put_(): Tried to put elements into an empty tensor");
    const at::Tensor flat = self.contiguous().view(-1);
    const at::Tensor places = index.reshape(-1), values = source.reshape(-1);
    const clprim::Along axis(0, clprim::NegativeIndex::from_end, "put_");
    if (accumulate && adds_to_float32(flat, index.numel(), index.numel()))
        flat.copy_(flat.to(at::kFloat).put_(places, values.to(at::kFloat), true));
    else if (accumulate)
        clprim::index_reduce(current_queue(self), view(flat), axis, view(places), view(values), IndexReduce::sum);
    else
        clprim::index_copy(current_queue(self), view(flat), axis, view(places), view(values));
    if (!self.is_contiguous())
        self.copy_(flat.view(self.sizes()));
    return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("take", take);
    m.impl("take.out", take_out);
    m.impl("put_", put_);
}

}  // namespace torch_ocl
