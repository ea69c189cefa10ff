// Text of generated kernels: the declarations that elementwise kernels and reductions share.
#pragma once

#include <string>
#include <vector>

#include <clprim/pointwise.hpp>

namespace clprim {

// How an operand moves along the fastest dimension of the loop nest.
enum class Step : unsigned { dense, still, value, strided };

// One operand as the kernel's text sees it.
struct Variable {
    std::string name;    // "x0", "y1"
    DataType dtype;      // in memory; for a number, of the kernel argument
    DataType type;       // of the variable: its compute type
    DataType rounded;    // outputs: results are rounded to this dtype before they are converted to `dtype`
    Step step;
    bool output;
    bool wraps = false;  // outputs: a signed sum or product, converted to a dtype that could hold more
};

// A number argument: "w0" and its compute type.
struct Number {
    std::string name;
    DataType type;
};

// OpenCL C that turns `expression` of compute type `from` into compute type `to`.
std::string convert_text(const std::string& expression, DataType from, DataType to);

// "#define"s of T (with its class) for kernels/pointwise/math.cl.
std::string type_text(DataType common);

// kernels/pointwise/math.cl with what `code`, expressions in its functions, needs beside it.
std::string math_text(std::string_view code);

// wrapped_int32(v) or wrapped_int64(v), which hides v's origin: a compiler that saw a signed sum converted to a wider
// type would compute it there, since OpenCL C leaves open what an overflow gives. PyTorch wraps around.
std::string wrapping_text(DataType type);

// Kernel parameters "__global const float* x0_data, ulong x0_offset, ..." of all operands and numbers.
std::string parameter_text(const std::vector<Variable>& operands, const std::vector<Number>& numbers);
// "x0_data += x0_offset; ..."
std::string shift_text(const std::vector<Variable>& operands);
// The parameters and arguments with which an inline function gets the operands: pointers, positions and numbers.
std::string inline_parameter_text(const std::vector<Variable>& operands, const std::vector<Number>& numbers);
// The variables with their names: "const float x0 = ...;" for inputs.
std::string load_text(const Variable& input);
std::string store_text(const Variable& output);
// The body of a function that computes 4 * `quads` elements around `code`: dense operands are read as quads at their
// position and at multiples of `ahead` behind it, all of them before the first is written.
std::string quads_text(const std::vector<Variable>& operands, std::string_view code, int quads);
// The same for four elements `ahead` apart, of which those below `room` are there; their loads come first. Of a strided
// input x0 they lie x0_step apart.
std::string fours_text(const std::vector<Variable>& operands, std::string_view code);

// "typedef float typeof_x0; ..." of all operands and numbers.
std::string typedef_text(const std::vector<Variable>& operands, const std::vector<Number>& numbers);
// index_t, for dividing: 32 bits unless `wide`. offset_t, for addressing: 64 bits on CPUs, whose compilers see only
// then that neighbouring work-items touch neighbouring elements (a uint might wrap), which makes the difference between
// vector loads and gathers.
std::string index_text(bool wide);

DataType real_type(DataType type);   // of a complex type; other types are their own
DataType variable_type(Result result, DataType common);   // of a row's output variable
// Throws NotSupported when the device cannot compute with the operand's types.
void require_supported(const Variable& operand, const Device& device, const char* operation);
// The line that brings in a kernel file when the program is built.
std::string include_text(std::string_view path);
// One address for every different text, valid for ever: the identity of code given by a caller.
const std::string& intern(std::string text);

}  // namespace clprim
