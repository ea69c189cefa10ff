// Reductions made from expressions, over any subset of axes, with several inputs, outputs and accumulators.
//
// Sums of x and of x * x over all axes but the channel, in one pass (outputs of shape [1, C, 1, 1]):
//     pointwise_reduce(queue, {x}, {sum, squares}, {}, {
//         .state = "float sum; float squares;",
//         .init = "s.sum = 0; s.squares = 0;",
//         .step = "s.sum += x0; s.squares += x0 * x0;",
//         .combine = "s.sum += other.sum; s.squares += other.squares;",
//         .finish = "y0 = s.sum; y1 = s.squares;"});
//
// The same bits come out every run: partial results are combined in a fixed order, without atomics. Accumulators are
// kept in blocks whose results are combined, so that the error of a long float32 sum stays that of a short one.
#pragma once

#include <clprim/pointwise.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// The parts of a reduction, OpenCL C statements. `s` is the accumulator, `other` one to be merged into it.
struct ReduceCode {
    std::string_view state;     // its fields: "float sum; float squares;"
    std::string_view init;      // of an accumulator of no elements; combining with it must change nothing
    std::string_view step;      // takes in one element x0.., w0..; `index` is its linear position among the
                                // reduced axes
    std::string_view combine;   // merges `other`, of elements that may lie before or after
    std::string_view finish;    // assigns y0.. ; `count` elements were reduced
};

// A row of the table of reductions; its code may use everything in kernels/pointwise/math.cl. Numbers w0.. are of T's
// real type.
struct ReduceRow {
    const char* name;
    ReduceCode code;
    unsigned accepts = any_real;     // Accepts
    Result result[2] = {Result::common, Result::common};   // types of y0 and y1
    bool ordered = false;       // `index` is used: the order of the reduced axes must be kept
    const char* onnx = nullptr;
    const char* doc = nullptr;
    const char* reports = nullptr;   // what errors say that `finish` finds: it sees `errors` and `operator_code`
    ReduceCode cpu_code = {};   // instead of `code` on CPUs, if there is one
};

std::span<const ReduceRow> reduce_rows();
const ReduceRow& reduce_row(std::string_view name);   // throws InvalidArgument

// Computes a row: axes on which the outputs have size 1 (or that they lack in front) are reduced. All outputs have one
// shape; inputs broadcast to each other. Inputs become `common`'s compute type, which is that of the accumulator.
// An empty reduction gives finish(init). Throws InvalidArgument for shapes that do not fit, NotSupported for dtypes.
void reduce(Queue& queue, const ReduceRow& row, const PointwiseProblem& problem);

// Computes expressions. Variables have the compute types of their own dtypes (typeof_x0, ...), numbers that of y0.
void pointwise_reduce(Queue& queue, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                      std::span<const Scalar> scalars, const ReduceCode& code);

// The same with lists in braces, as at the top.
inline void pointwise_reduce(Queue& queue, std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> outputs,
                             std::initializer_list<Scalar> scalars, const ReduceCode& code)
{
    pointwise_reduce(queue, std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()),
                     std::span(scalars.begin(), scalars.size()), code);
}

}  // namespace clprim
CLPRIM_API_END
