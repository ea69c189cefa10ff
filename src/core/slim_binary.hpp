// Binaries of Intel's OpenCL driver for CPUs without what nobody needs of them. They hold the machine code of a program
// and, beside it, what the front end made of its text before anything was optimised, in LLVM's bitcode. A driver that
// loads one parses all of that and keeps it, some twenty bytes in memory for each in the file, though it asks only for
// names, arguments and attributes of kernels. In a slim binary functions have no bodies.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim::detail {

// Nothing where the binary is not known to be of that kind.
std::optional<std::vector<unsigned char>> slim_binary(std::span<const unsigned char> binary);

}  // namespace clprim::detail
CLPRIM_API_END
