// Instructions of sm_90a in kernels for NVIDIA's driver, whose compiler of OpenCL C writes PTX for sm_90 and refuses
// them. Assembly of kernels has them as comments of PTX, //sm_90a:wgmma.fence..., each in a line. The driver gives PTX,
// a text, as a program's binary: there they are made instructions of, and the target sm_90a, before the driver is given
// that binary. A driver whose binaries are something else leaves comments: what a trial of such a kernel computes is
// wrong then (kernels/gemm/matrix_engine_probe.cpp).
#pragma once

#include <optional>
#include <vector>

#include <clprim/export.hpp>

namespace clprim::detail {

// PTX for sm_90a; nothing where a binary has no such comments, or is not for sm_90.
CLPRIM_API std::optional<std::vector<unsigned char>> ptx_for_sm_90a(const std::vector<unsigned char>& binary);

}  // namespace clprim::detail
