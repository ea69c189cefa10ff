// Resampling: torch.nn.functional.interpolate in all its modes.
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>
#if __has_include(<ATen/ops/_upsample_lanczos2d_aa_meta.h>)   // which older versions of PyTorch have not
#define HAS_LANCZOS
#include <ATen/ops/_upsample_lanczos2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_meta.h>
#endif
#include <clprim/resample.hpp>
#include <torch/library.h>

#include <runtime/output.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using Scale = std::optional<double>;
using Sizes = at::ArrayRef<int64_t>;

clprim::Resampling resampling(clprim::Filter filter, bool align_corners, std::initializer_list<Scale> scales)
{
    clprim::Resampling how{filter, align_corners, {}};
    std::size_t axis = 0;
    for (const Scale& scale : scales)
        how.scale_factors[axis++] = scale.value_or(0);
    return how;
}

void forward(const at::Tensor& self, const at::Tensor& out, const clprim::Resampling& how)
{
    const bool flat = how.filter != clprim::Filter::linear || self.dim() == 4;   // bytes of pictures alone
    const bool bytes = self.scalar_type() == at::kByte && flat;
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()) || bytes, "\"upsample\" not implemented for '",
                                c10::toString(self.scalar_type()), "'");
    const at::MemoryFormat format = self.suggest_memory_format();
    const Output y(out, format);
    clprim::resample(current_queue(self), view(self.contiguous(format)), view(y.tensor()), how);
    y.finish();
}

void backward(const at::Tensor& grad_output, const at::Tensor& grad_input, const clprim::Resampling& how)
{
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(grad_output.scalar_type()),
                                "\"upsample_backward\" not implemented for '",
                                c10::toString(grad_output.scalar_type()), "'");
    const at::MemoryFormat format = grad_output.suggest_memory_format();
    const Output dx(grad_input, format);
    clprim::resample_backward(current_queue(grad_output), view(grad_output.contiguous(format)), view(dx.tensor()),
                              how);
    dx.finish();
}

// The operators of one signature: with align_corners or without, and a scale per axis.
template <class... Scales>
struct Aligned {
    template <class Meta, clprim::Filter filter>
    static at::Tensor& out(const at::Tensor& self, Sizes size, bool align_corners, Scales... scales, at::Tensor& out)
    {
        StructuredOut<Meta> op({out});
        op.meta(self, size, align_corners, scales...);
        forward(self, op.output(), resampling(filter, align_corners, {scales...}));
        op.finish();
        return out;
    }
    template <class Meta, clprim::Filter filter>
    static at::Tensor& grad(const at::Tensor& grad_output, Sizes size, Sizes input_size, bool align_corners,
                            Scales... scales, at::Tensor& grad_input)
    {
        StructuredOut<Meta> op({grad_input});
        op.meta(grad_output, size, input_size, align_corners, scales...);
        backward(grad_output, op.output(), resampling(filter, align_corners, {scales...}));
        op.finish();
        return grad_input;
    }
};

template <class... Scales>
struct Plain {
    template <class Meta, clprim::Filter filter>
    static at::Tensor& out(const at::Tensor& self, Sizes size, Scales... scales, at::Tensor& out)
    {
        StructuredOut<Meta> op({out});
        op.meta(self, size, scales...);
        forward(self, op.output(), resampling(filter, false, {scales...}));
        op.finish();
        return out;
    }
    template <class Meta, clprim::Filter filter>
    static at::Tensor& grad(const at::Tensor& grad_output, Sizes size, Sizes input_size, Scales... scales,
                            at::Tensor& grad_input)
    {
        StructuredOut<Meta> op({grad_input});
        op.meta(grad_output, size, input_size, scales...);
        backward(grad_output, op.output(), resampling(filter, false, {scales...}));
        op.finish();
        return grad_input;
    }
};

using Plain1 = Plain<Scale>;
using Plain2 = Plain<Scale, Scale>;
using Plain3 = Plain<Scale, Scale, Scale>;
using Aligned1 = Aligned<Scale>;
using Aligned2 = Aligned<Scale, Scale>;
using Aligned3 = Aligned<Scale, Scale, Scale>;

#define RESAMPLE(SIGNATURE, NAME, FILTER)                                                                             \
    m.impl(#NAME ".out", SIGNATURE::out<at::meta::structured_##NAME, clprim::Filter::FILTER>);                        \
    m.impl(#NAME "_backward.grad_input",                                                                              \
           SIGNATURE::grad<at::meta::structured_##NAME##_backward, clprim::Filter::FILTER>);

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    RESAMPLE(Plain1, upsample_nearest1d, nearest)
    RESAMPLE(Plain2, upsample_nearest2d, nearest)
    RESAMPLE(Plain3, upsample_nearest3d, nearest)
    RESAMPLE(Plain1, _upsample_nearest_exact1d, nearest_exact)
    RESAMPLE(Plain2, _upsample_nearest_exact2d, nearest_exact)
    RESAMPLE(Plain3, _upsample_nearest_exact3d, nearest_exact)
    RESAMPLE(Aligned1, upsample_linear1d, linear)
    RESAMPLE(Aligned2, upsample_bilinear2d, linear)
    RESAMPLE(Aligned3, upsample_trilinear3d, linear)
    RESAMPLE(Aligned2, upsample_bicubic2d, cubic)
    RESAMPLE(Aligned2, _upsample_bilinear2d_aa, antialias_linear)
    RESAMPLE(Aligned2, _upsample_bicubic2d_aa, antialias_cubic)
#ifdef HAS_LANCZOS
    RESAMPLE(Aligned2, _upsample_lanczos2d_aa, antialias_lanczos)
#endif
}

}  // namespace
}  // namespace torch_ocl
