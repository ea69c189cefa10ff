// Instructions of sm_90a in kernels for NVIDIA's driver, whose compiler of OpenCL C writes PTX for sm_90 and refuses
// them. Kernels write them as comments of PTX, //sm_90a:wgmma.fence..., that are lines of their own; in the PTX that
// the driver gives as a program's binary they are made instructions of, and its target sm_90a.
#pragma once

#include <optional>
#include <vector>

#include <clprim/export.hpp>

namespace clprim::detail {

// PTX for sm_90a; nothing where a binary has no such comments, or is not for sm_90.
CLPRIM_API std::optional<std::vector<unsigned char>> ptx_for_sm_90a(const std::vector<unsigned char>& binary);

}  // namespace clprim::detail
