// Products of eight-bit integers on CPUs.
#pragma once

#include <kernels/integer/products.hpp>

namespace clprim::detail {

// Up to 16 rows, a launch that streams B's bytes as they lie, or as they were turned once (few_rows.cl).
Rejection cpu_integer_few_rows_rejects(const IntegerProduct&, const Device&);
Rejection cpu_integer_few_rows_advises_against(const IntegerProduct&, const Device&);
void cpu_integer_few_rows(Queue&, const IntegerProduct&, const IntegerTensors&);

// Fours of bytes by tile registers (cpu_amx.cl).
Rejection cpu_integer_amx_rejects(const IntegerProduct&, const Device&);
Rejection cpu_integer_amx_advises_against(const IntegerProduct&, const Device&);
void cpu_integer_amx(Queue&, const IntegerProduct&, const IntegerTensors&);

// The same with A's rows read where they lie (cpu_amx_rows.cl).
Rejection cpu_integer_amx_rows_rejects(const IntegerProduct&, const Device&);
Rejection cpu_integer_amx_rows_advises_against(const IntegerProduct&, const Device&);
void cpu_integer_amx_rows(Queue&, const IntegerProduct&, const IntegerTensors&);

// The same by vectors (cpu_vnni.cl).
Rejection cpu_integer_vnni_rejects(const IntegerProduct&, const Device&);
Rejection cpu_integer_vnni_advises_against(const IntegerProduct&, const Device&);
void cpu_integer_vnni(Queue&, const IntegerProduct&, const IntegerTensors&);
std::string dot_options(const Device&);   // of programs with dot_tile.cl

// Whether integer_conv has a kernel of its own for the device (conv_cpu.cl), which keeps panels in local memory. Else
// it is made of integer_matmul.
bool has_cpu_integer_conv(const Device&);

// Rows as the pixels of a convolution of one tap, whose weights are prepared, bytes where that is exact.
Rejection cpu_integer_conv_rejects(const IntegerProduct&, const Device&);
// Whether it should take fours of bytes at a time: most int8 weights have no zero points, or zeros.
bool cpu_integer_conv_by_fours(const IntegerProduct&, const Device&);
void cpu_integer_conv(Queue&, const IntegerProduct&, const IntegerTensors&);

// Pairs of int16 (cpu.cl).
Rejection cpu_integer_pairs_rejects(const IntegerProduct&, const Device&);
void cpu_integer_pairs(Queue&, const IntegerProduct&, const IntegerTensors&);

}  // namespace clprim::detail
