// Products with weights of 8 and 4 bits.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <clprim/quantized.hpp>

#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

void check_input(const char* name, const Tensor& self)
{
    TORCH_CHECK(self.dim() == 2 && (self.scalar_type() == at::kFloat || self.scalar_type() == at::kHalf ||
                                    self.scalar_type() == at::kBFloat16),
                name, " : expect A to be 2D and of float, half or bfloat16, got ", self.sizes(), " ",
                self.scalar_type());
}

// x, with rows that are contiguous.
Tensor rows_of(const Tensor& x) { return x.size(1) <= 1 || x.stride(1) == 1 ? x : x.contiguous(); }

// Kernels read sixteen bytes at a time.
Tensor aligned(const Tensor& values)
{
    const Tensor dense = values.contiguous();
    return dense.storage_offset() * dense.element_size() % 16 == 0 ? dense : dense.clone();
}

Tensor product(const Tensor& self, const clprim::QuantizedWeights& weights)
{
    Tensor y = at::empty({self.size(0), weights.outputs()}, self.options());
    const Tensor x = rows_of(self);
    clprim::quantized_matmul(current_queue(self), view(x), weights, view(y));
    return y;
}

// Weights [n, k] of int8 with a scale for each row.
Tensor weight_int8pack_mm(const Tensor& self, const Tensor& weights, const Tensor& scales)
{
    check_input("_weight_int8pack_mm", self);
    TORCH_CHECK(weights.scalar_type() == at::kChar && weights.dim() == 2 && weights.size(1) == self.size(1),
                "_weight_int8pack_mm : expect B to be int8 [n, ", self.size(1), "], got ", weights.sizes(), " ",
                weights.scalar_type());
    TORCH_CHECK(scales.dim() == 1 && scales.size(0) == weights.size(0),
                "_weight_int8pack_mm : expect scales to be 1d of ", weights.size(0), " elements, got ", scales.sizes());
    const c10::OptionalDeviceGuard guard(self.device());
    const int64_t n = weights.size(0), k = weights.size(1);
    if (n == 0 || k == 0 || k % 32 != 0) {   // the kernel's blocks
        const Tensor wide = at::mm(self.to(at::kFloat), weights.to(at::kFloat).t());
        return (wide * scales.to(at::kFloat)).to(self.scalar_type());
    }
    if (scales.scalar_type() != self.scalar_type())
        return weight_int8pack_mm(self.to(at::kFloat), weights, scales.to(at::kFloat)).to(self.scalar_type());
    const Tensor values = aligned(weights);
    clprim::QuantizedWeights quantized;
    quantized.values = view(values);
    quantized.group = k;
    quantized.scales = view(scales.unsqueeze(0));
    return product(self, quantized);
}

// uint8 [n, k / 2] with the even input in a byte's high half -> int32 [n / 8, k / (innerKTiles * 16), 32, innerKTiles /
// 2], whose bytes lie as clprim::pack_int4 puts them.
Tensor convert_weight_to_int4pack(const Tensor& self, int64_t inner_k_tiles)
{
    TORCH_CHECK(self.dim() == 2 && self.scalar_type() == at::kByte,
                "_convert_weight_to_int4pack : expect in to be a 2D uint8 tensor, got ", self.sizes(), " ",
                self.scalar_type());
    TORCH_CHECK(inner_k_tiles == 2 || inner_k_tiles == 4 || inner_k_tiles == 8,
                "_convert_weight_to_int4pack : innerKTiles need to be 2, 4, or 8, got ", inner_k_tiles);
    const int64_t n = self.size(0), k = 2 * self.size(1);
    TORCH_CHECK(n % 8 == 0, "_convert_weight_to_int4pack : expect the number of rows to be a multiple of 8, got ", n);
    TORCH_CHECK(k % (inner_k_tiles * 16) == 0,
                "_convert_weight_to_int4pack : expect the number of weights in a row to be "
                "a multiple of ",
                inner_k_tiles * 16, ", got ", k);
    const c10::OptionalDeviceGuard guard(self.device());
    Tensor packed = at::empty({n / 8, k / (inner_k_tiles * 16), 32, inner_k_tiles / 2}, self.options().dtype(at::kInt));
    const Tensor bytes = packed.view(at::kByte).view({n, k / 2}), from = self.contiguous();
    clprim::pack_int4(current_queue(self), view(from), view(bytes), true);
    return packed;
}

// y = x W^T; W[j][i] = (q[j][i] - 8) * scale + zero with qScaleAndZeros [k / qGroupSize, n, (scale, zero)].
Tensor weight_int4pack_mm(const Tensor& self, const Tensor& mat2, int64_t group, const Tensor& scales_and_zeros)
{
    check_input("_weight_int4pack_mm", self);
    TORCH_CHECK(mat2.scalar_type() == at::kInt && mat2.dim() == 4 && mat2.is_contiguous() && mat2.size(2) == 32,
                "_weight_int4pack_mm : expect B to be what _convert_weight_to_int4pack returns, got ", mat2.sizes(),
                " ", mat2.scalar_type());
    const int64_t n = mat2.size(0) * 8, k = mat2.size(1) * mat2.size(3) * 32;
    TORCH_CHECK(self.size(1) == k, "_weight_int4pack_mm : expect A to be [m, ", k, "], got ", self.sizes());
    TORCH_CHECK(group == 32 || group == 64 || group == 128 || group == 256,
                "_weight_int4pack_mm : expect qGroupSize to be 32, 64, 128 or 256, got ", group);
    TORCH_CHECK(k % group == 0, "_weight_int4pack_mm : expect qGroupSize to divide ", k, ", got ", group);
    TORCH_CHECK(scales_and_zeros.dim() == 3 && scales_and_zeros.size(0) == k / group && scales_and_zeros.size(1) == n &&
                    scales_and_zeros.size(2) == 2,
                "_weight_int4pack_mm : expect qScaleAndZeros to be [", k / group, ", ", n, ", 2], got ",
                scales_and_zeros.sizes());
    TORCH_CHECK(scales_and_zeros.scalar_type() == self.scalar_type(),
                "_weight_int4pack_mm : expect qScaleAndZeros to be ", self.scalar_type(), " as A, got ",
                scales_and_zeros.scalar_type());
    const c10::OptionalDeviceGuard guard(self.device());
    if (self.size(0) == 0 || n == 0 || k == 0)
        return at::zeros({self.size(0), n}, self.options());
    const Tensor values = aligned(mat2.view(at::kByte).view({n, k / 2}));
    clprim::QuantizedWeights quantized;
    quantized.values = view(values);
    quantized.bits = 4;
    quantized.group = group;
    quantized.scales = view(scales_and_zeros.select(2, 0));
    quantized.zeros = view(scales_and_zeros.select(2, 1));
    return product(self, quantized);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_weight_int8pack_mm", weight_int8pack_mm);
    m.impl("_convert_weight_to_int4pack", convert_weight_to_int4pack);
    m.impl("_weight_int4pack_mm", weight_int4pack_mm);
}

}  // namespace
}  // namespace torch_ocl
