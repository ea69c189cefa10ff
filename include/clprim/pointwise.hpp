// Elementwise kernels made from expressions: any number of inputs, outputs and scalars, each with its own dtype.
//
//     pointwise(queue, {a, b}, {y}, {Scalar(0.5)}, "y0 = x0 + w0 * x1;");
//
// Inputs are broadcast against the outputs (numpy's rules) and may have any strides; nothing is copied first.
// Kernels are generated once per expression, dtypes and kind of layout, never per shape.
#pragma once

#include <complex>
#include <span>
#include <string_view>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// A number given by value. It becomes a kernel argument of the type that the expression asks for.
class Scalar {
public:
    Scalar() = default;
    template <class T>
        requires std::is_arithmetic_v<T>
    Scalar(T value)
    {
        if constexpr (std::is_integral_v<T>)
            integer_ = static_cast<std::int64_t>(value);
        else
            real_ = value, kind_ = Kind::real;
    }
    Scalar(std::complex<double> value) : real_(value.real()), imaginary_(value.imag()), kind_(Kind::complex) {}

    // Both throw InvalidArgument for a complex number that is not real. As an integer: towards zero, saturated; NaN
    // gives 0.
    double to_double() const
    {
        if (imaginary_ != 0) [[unlikely]]
            throw_not_real();
        return real_part();
    }
    std::int64_t to_int64() const;
    // Writes the number as a kernel argument of clprim's compute type of `type` (float for float16, ...); at most 16
    // bytes. Returns how many. Throws InvalidArgument for a number that is not real, but for complex and boolean types.
    std::size_t write(DataType type, void* target) const;

private:
    double real_part() const { return kind_ == Kind::integer ? static_cast<double>(integer_) : real_; }
    [[noreturn]] void throw_not_real() const;

    enum class Kind : std::uint8_t { integer, real, complex };
    std::int64_t integer_ = 0;
    double real_ = 0, imaginary_ = 0;
    Kind kind_ = Kind::integer;
};

// An input of a pointwise kernel: a tensor, or one number for all elements.
struct Input {
    Tensor tensor;
    Scalar value;
    DataType dtype;   // of the number; of the tensor otherwise

    Input(Tensor t) : tensor(std::move(t)), dtype(tensor.dtype) {}
    Input(Scalar v, DataType type) : value(v), dtype(type), number_(true) {}
    bool is_value() const { return number_; }

private:
    bool number_ = false;
};

// How the variables of a row's code are typed; `T` is the compute type of the problem's common dtype.
enum class Result : std::uint8_t {
    common,      // y is a T
    predicate,   // y is an int, true or false
    real,        // y is the real type of T (abs of a complex number)
    index,       // y is a long (reductions: a position or a count)
};

// Classes of dtypes that a row's code is made for.
enum Accepts : unsigned {
    floating = 1, integral = 2, boolean_type = 4, complex_type = 8,
    numbers = floating | integral, any_real = numbers | boolean_type, integers = integral | boolean_type,
    fractions = floating | complex_type, anything = any_real | complex_type,
};
Accepts class_of(DataType type);

// A row of the operator table. The code is OpenCL C: statements over x0.., w0.. that assign y0..; it may use
// everything in kernels/pointwise/math.cl. Registration, documentation and tests read the same rows.
struct PointwiseRow {
    const char* name;                  // PyTorch's name where it has one
    const char* code;                  // for real dtypes; null if only complex_code is defined
    const char* complex_code = nullptr;
    unsigned accepts = floating;       // Accepts, beside complex dtypes, which have their own code
    Result result = Result::common;
    unsigned own_typed = 0;            // bit k: x_k keeps its own type instead of becoming a T
    const char* onnx = nullptr;        // ONNX operator with this meaning, or a formula of operators: onnx/formula.hpp
    const char* doc = nullptr;
    const char* library = nullptr;     // a further kernel file whose functions the code uses
    const char* reports = nullptr;     // what errors that the code finds say; the name where this is null
};

std::span<const PointwiseRow> pointwise_rows();
const PointwiseRow& pointwise_row(std::string_view name);   // throws InvalidArgument

// Computes a row: inputs are converted to `common`, scalars are given as the compute type of `common`, results are
// rounded to `common` and converted to the dtype of their output. Outputs have one shape; inputs broadcast to it.
// Throws InvalidArgument for shapes that do not fit, NotSupported for a dtype that the row or the device lacks.
struct PointwiseProblem {
    std::span<const Input> inputs;
    std::span<const Tensor> outputs;
    std::span<const Scalar> scalars;
    DataType common;
};
void pointwise(Queue& queue, const PointwiseRow& row, const PointwiseProblem& problem);

// Computes an expression. Every variable has the compute type of its own dtype (float for float16 and bfloat16);
// these are also named typeof_x0, typeof_y0, typeof_w0 ...; T is the type of y0. Scalars have the types in
// `scalar_types` or, where that is shorter, the dtype of the first output.
void pointwise(Queue& queue, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               std::span<const Scalar> scalars, std::string_view code, std::span<const DataType> scalar_types = {});

// Every element of x must lie within [low, high], and NaN does not: otherwise the next synchronisation throws an Error
// that says `message`. x: contiguous, of any real dtype.
void require_within(Queue& queue, const Tensor& x, double low, double high, std::string_view message);

// The same with lists in braces, as at the top.
inline void pointwise(Queue& queue, std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> outputs,
                      std::initializer_list<Scalar> scalars, std::string_view code)
{
    pointwise(queue, std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()),
              std::span(scalars.begin(), scalars.size()), code);
}

}  // namespace clprim
CLPRIM_API_END
