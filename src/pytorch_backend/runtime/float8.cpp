#include <runtime/float8.hpp>

#include <ATen/ops/empty.h>
#include <clprim/float8.hpp>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {

clprim::Float8 format_of(at::ScalarType type)
{
    switch (type) {
    case at::kFloat8_e4m3fn: return clprim::Float8::e4m3fn;
    case at::kFloat8_e5m2: return clprim::Float8::e5m2;
    case at::kFloat8_e4m3fnuz: return clprim::Float8::e4m3fnuz;
    case at::kFloat8_e5m2fnuz: return clprim::Float8::e5m2fnuz;
    default: break;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat8_e8m0fnu, "the ocl device has no conversions of ", type);
    return clprim::Float8::e8m0fnu;
}

at::Tensor float8_to_float(const at::Tensor& codes)
{
    const at::Tensor dense = codes.contiguous();
    const at::Tensor numbers = at::empty(codes.sizes(), codes.options().dtype(at::kFloat));
    clprim::float8_to_float32(current_queue(codes), format_of(codes.scalar_type()), storage_view(dense), view(numbers));
    return numbers;
}

void float_to_float8(const at::Tensor& numbers, const at::Tensor& codes)
{
    const at::Tensor dense = numbers.contiguous();
    const at::Tensor target = codes.is_contiguous() ? codes : at::empty(codes.sizes(), codes.options());
    // Releases of PyTorch differ in what they make of numbers beyond the largest one.
    static const bool saturate = c10::Float8_e4m3fn(1e6f).x == 0x7e;
    clprim::float32_to_float8(current_queue(codes), format_of(codes.scalar_type()), view(dense), storage_view(target),
                              saturate);
    if (!target.is_same(codes))
        codes.copy_(target);
}

}  // namespace torch_ocl
