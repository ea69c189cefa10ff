// Which matrix instructions a device has: what a kernel that multiplies small matrices of 16-bit floats is built for.
#pragma once

#include <string>
#include <string_view>

#include <clprim/device.hpp>

namespace clprim::detail {

enum class MatrixEngine {
    none,
    dpas16, dpas8,     // Intel's systolic arrays in sub-groups of 16 (Xe2, Xe-HPC) and of 8 (Xe-HPG)
    mma,               // NVIDIA's tensor cores, compute capability 8.0 and later
    mma75,             // those of Turing, 7.5: smaller instructions, no bfloat16
    wmma, wmma12,      // AMD's WMMA, gfx11 and gfx12
    mfma,              // AMD's MFMA, gfx90a and gfx94x
};

// Whether fragments lie in lanes as mma.sync has them.
constexpr bool is_mma(MatrixEngine engine) { return engine == MatrixEngine::mma || engine == MatrixEngine::mma75; }

struct MatrixEngineChoice {
    MatrixEngine engine = MatrixEngine::none;
    bool emulated = false;   // computed by ordinary instructions from the same registers: for tests
    bool named = false;      // asked for by CLPRIM_MATRIX_ENGINE
};

CLPRIM_API std::string_view name_of(MatrixEngine engine);

// "mma", "emulated_dpas16" and so on, or "none"; the empty text is what the device has. Throws InvalidArgument, with
// all names, for another text.
CLPRIM_API MatrixEngineChoice matrix_engine(const Device& device, std::string_view text);

// That of CLPRIM_MATRIX_ENGINE. Devices without an engine, or without a known one, get the emulation of `mma`.
MatrixEngineChoice matrix_engine(const Device& device);

// NVIDIA's: 86 for 8.6, 0 where the driver does not say.
int compute_capability(const Device& device);

}  // namespace clprim::detail
