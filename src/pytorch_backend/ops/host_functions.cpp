// Operators that PyTorch has once for all devices and that read through the addresses of their tensors all the same:
// those of the device are no addresses of the host. They run on the CPU under the fallback's policy.
#include <torch/library.h>

#include <fallback.hpp>

namespace torch_ocl {
namespace {

constexpr const char* names[] = {
    "_sobol_engine_draw",
    "_sobol_engine_ff_",
    "_sobol_engine_scramble_",
    "_sobol_engine_initialize_state_",
    "_nnpack_spatial_convolution",
    "_rowwise_prune",
    "choose_qparams_optimized",
    "fbgemm_linear_quantize_weight",
    "fbgemm_linear_int8_weight",
    "fbgemm_linear_int8_weight_fp32_activation",
    "fbgemm_linear_fp16_weight",
    "fbgemm_linear_fp16_weight_fp32_activation",
    "fbgemm_pack_gemm_matrix_fp16",
    "fbgemm_pack_quantized_matrix",
    "fbgemm_pack_quantized_matrix.KN",
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    for (const char* name : names)
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace
}  // namespace torch_ocl
