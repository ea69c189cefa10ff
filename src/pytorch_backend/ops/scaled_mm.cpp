// Products of matrices of eight-bit floats with scales: (scale_a A) (scale_b B) + bias, a scale for all of a matrix or
// for each row of A and column of B.
#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <clprim/gemm.hpp>
#include <clprim/pointwise.hpp>
#include <clprim/quantized.hpp>

#include <runtime/float8.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

constexpr int64_t streamed_rows = 16;   // of A: B is read as it is

// Everything a product needs, checked as PyTorch does it.
struct ScaledProduct {
    const Tensor &a, &b, &scale_a, &scale_b;
    const std::optional<Tensor>& bias;
    const std::optional<Tensor>& scale_result;

    bool is_tensor_wise() const { return scale_a.numel() == 1 && scale_b.numel() == 1; }
    bool is_row_wise() const
    {
        return scale_a.dim() == 2 && scale_a.size(0) == a.size(0) && scale_a.size(1) == 1 && scale_b.dim() == 2 &&
               scale_b.size(0) == 1 && scale_b.size(1) == b.size(1) && scale_a.is_contiguous() &&
               scale_b.is_contiguous();
    }
    void check(at::ScalarType type) const
    {
        TORCH_CHECK(a.dim() == 2, "_scaled_mm: mat_a must be a matrix, got ", a.sizes());
        TORCH_CHECK(b.dim() == 2, "_scaled_mm: mat_b must be a matrix, got ", b.sizes());
        TORCH_CHECK(a.size(1) == b.size(0), "mat_a and mat_b shapes cannot be multiplied (", a.size(0), "x", a.size(1),
                    " and ", b.size(0), "x", b.size(1), ")");
        const auto fits = [](const Tensor& matrix) {
            return is_float8(matrix) && matrix.scalar_type() != at::kFloat8_e8m0fnu;
        };
        TORCH_CHECK_VALUE(fits(a) && fits(b) && scale_a.scalar_type() == at::kFloat &&
                              scale_b.scalar_type() == at::kFloat && (is_tensor_wise() || is_row_wise()),
                          "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales "
                          "should be float and singletons.\n- For RowWise scaling, a and b should be float8, scales "
                          "should be float, scale_a should be (", a.size(0), ", 1) and scale_b should be (1, ",
                          b.size(1), "), and both should be contiguous.\nGot mat_a ", a.scalar_type(), ", mat_b ",
                          b.scalar_type(), ", scale_a ", scale_a.scalar_type(), scale_a.sizes(), ", scale_b ",
                          scale_b.scalar_type(), scale_b.sizes());
        TORCH_CHECK(!bias || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ",
                    bias ? bias->numel() : 0);
        TORCH_CHECK(!bias || at::isFloatingType(bias->scalar_type()), "Bias must be of floating point, got ",
                    bias ? bias->scalar_type() : type);
        TORCH_CHECK(!scale_result || (scale_result->numel() == 1 && scale_result->scalar_type() == at::kFloat),
                    "scale_result must be a float scalar");
        TORCH_CHECK(at::isFloatingType(type) && type != at::kFloat8_e8m0fnu,
                    "out_dtype must be of floating point, got ", type);
        for (const Tensor* one : {&b, &scale_a, &scale_b})
            TORCH_CHECK(one->device() == a.device(), "_scaled_mm: all tensors must be on ", a.device(), ", got ",
                        one->device());
    }
};

// sum = A B, both of codes, in float32; true if scale_b is in it.
bool multiply(const ScaledProduct& p, const Tensor& sum)
{
    clprim::Queue& queue = current_queue(p.a);
    const Tensor a = float8_to_float(p.a);
    const int64_t n = p.b.size(1), k = p.b.size(0);
    const Tensor turned = p.b.t();
    if (a.size(0) <= streamed_rows && k % 32 == 0 && turned.is_contiguous() && turned.storage_offset() % 16 == 0) {
        const Tensor scales = p.scale_b.reshape({1, -1}).expand({1, n});
        clprim::QuantizedWeights weights;
        weights.values = storage_view(turned);
        weights.format = format_of(p.b.scalar_type());
        weights.group = k;
        weights.scales = view(scales);
        clprim::quantized_matmul(queue, view(a), weights, view(sum));
        return true;
    }
    // A bfloat16 holds every code's number, so that one product of bfloat16 is exact where an engine multiplies them.
    const Tensor b = turned.is_contiguous() ? float8_to_float(turned).t() : float8_to_float(p.b);
    clprim::GemmProblem problem = clprim::gemm_problem(view(a), view(b), view(sum));
    problem.precision = clprim::Float32Precision::medium;
    clprim::gemm(queue, problem, view(a), view(b), view(sum));
    return false;
}

Tensor& scaled_mm_out(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                      const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                      std::optional<at::ScalarType> out_dtype, bool /*use_fast_accum: sums are float32 always*/,
                      Tensor& out)
{
    const at::ScalarType type = out_dtype.value_or(out.scalar_type());
    TORCH_CHECK(type == out.scalar_type(), "out_dtype must match output matrix type");
    const ScaledProduct p{self, mat2, scale_a, scale_b, bias, scale_result};
    p.check(type);
    const c10::OptionalDeviceGuard guard(self.device());
    at::native::resize_output(out, {self.size(0), mat2.size(1)});
    if (out.numel() == 0)
        return out;
    const Tensor sum = at::empty(out.sizes(), self.options().dtype(at::kFloat));
    if (self.size(1) == 0)
        sum.zero_();
    const bool has_scale_b = self.size(1) != 0 && multiply(p, sum);
    const bool narrow = is_float8(out);
    const Tensor target = narrow || !out.is_non_overlapping_and_dense() ? at::empty_like(sum) : out;
    const auto row = [&](const Tensor& scale) { return scale.numel() == 1 ? scale.reshape({1, 1}) : scale; };
    const Tensor rows = row(scale_a), columns = row(scale_b);
    std::vector<clprim::Tensor> inputs{view(sum), view(rows)};
    std::string code = "float v = x0 * x1";
    const auto add = [&](const char* operation, const Tensor& tensor) {
        code += operation + std::to_string(inputs.size());
        inputs.push_back(view(tensor));
    };
    if (!has_scale_b)
        add(" * x", columns);
    const Tensor line = bias ? bias->reshape({1, -1}) : Tensor();
    if (bias)
        add(" + x", line);
    code += "; y0 = v";
    // What a number of eight bits is to be multiplied by to give the result.
    const Tensor divisor = scale_result ? scale_result->reshape({1, 1}) : Tensor();
    if (scale_result && narrow)
        add(" / x", divisor);
    const clprim::Tensor result = view(target);
    clprim::pointwise(current_queue(self), inputs, {&result, 1}, {}, code + ";");
    if (!target.is_same(out))
        out.copy_(target);
    return out;
}

Tensor scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                 const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                 std::optional<at::ScalarType> out_dtype, bool use_fast_accum)
{
    const c10::OptionalDeviceGuard guard(self.device());
    Tensor out = at::empty({0}, self.options().dtype(out_dtype.value_or(self.scalar_type())));
    return scaled_mm_out(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, out);
}

// ---- scales with recipes that say what they are ----

enum Recipe : int64_t { tensor_wise = 0, row_wise = 1 };   // of at::blas::ScalingType

void check_scale(const char* name, const at::ITensorListRef& scales, at::IntArrayRef recipe, int64_t rows)
{
    const int64_t expected = recipe[0] == tensor_wise ? 1 : rows;
    TORCH_CHECK_VALUE(scales.size() == 1 && scales.front().scalar_type() == at::kFloat &&
                          scales.front().numel() == expected,
                      "_scaled_mm_v2: ", name, " must be one tensor of ", expected, " Float elements, got ",
                      scales.size(), " tensors", scales.size() == 0 ? "" : ", the first of ",
                      scales.size() == 0 ? 0 : scales.front().numel());
}

// The type of lists of tensors differs between versions of PyTorch.
template <class Function>
struct ThirdParameter;
template <class Result, class First, class Second, class Third, class... Others>
struct ThirdParameter<Result(First, Second, Third, Others...)> {
    using type = Third;
};
using Scales = ThirdParameter<at::_ops::_scaled_mm_v2_out::schema>::type;

Tensor& scaled_mm_v2_out(const Tensor& self, const Tensor& mat2, Scales scale_a, at::IntArrayRef recipe_a,
                         at::IntArrayRef swizzle_a, Scales scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                         const std::optional<Tensor>& bias, std::optional<at::ScalarType> out_dtype,
                         at::IntArrayRef contraction_dim, bool use_fast_accum, Tensor& out)
{
    TORCH_CHECK_VALUE(recipe_a.size() == 1 && recipe_a == recipe_b &&
                          (recipe_a[0] == tensor_wise || recipe_a[0] == row_wise),
                      "_scaled_mm_v2: of the ocl device's recipes both are TensorWise or both RowWise, got ", recipe_a,
                      " and ", recipe_b);
    for (const at::IntArrayRef swizzles : {swizzle_a, swizzle_b})
        for (const int64_t swizzle : swizzles)
            TORCH_CHECK_VALUE(swizzle == 0, "_scaled_mm_v2: the ocl device does not support swizzled scales");
    TORCH_CHECK_VALUE(self.dim() == 2 && mat2.dim() == 2, "_scaled_mm_v2: expected matrices, got ", self.sizes(),
                      " and ", mat2.sizes());
    if (!contraction_dim.empty())
        TORCH_CHECK_VALUE(contraction_dim.size() == 2 && c10::maybe_wrap_dim(contraction_dim[0], 2) == 1 &&
                              c10::maybe_wrap_dim(contraction_dim[1], 2) == 0,
                          "_scaled_mm_v2: contraction_dim must be the columns of the first and the rows of the second "
                          "matrix, (1, 0), got ", contraction_dim);
    check_scale("scale_a", scale_a, recipe_a, self.size(0));
    check_scale("scale_b", scale_b, recipe_b, mat2.size(1));
    const bool rows = recipe_a[0] == row_wise;
    const Tensor a = rows ? scale_a.front().reshape({-1, 1}) : scale_a.front();
    const Tensor b = rows ? scale_b.front().reshape({1, -1}) : scale_b.front();
    return scaled_mm_out(self, mat2, a, b, bias, std::nullopt, out_dtype, use_fast_accum, out);
}

#if __has_include(<ATen/ops/_scaled_mm_v2_meta.h>)   // PyTorch derives it from the other
void register_scaled_mm_v2(torch::Library&) {}
#else
Tensor scaled_mm_v2(const Tensor& self, const Tensor& mat2, Scales scale_a, at::IntArrayRef recipe_a,
                    at::IntArrayRef swizzle_a, Scales scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                    const std::optional<Tensor>& bias, std::optional<at::ScalarType> out_dtype,
                    at::IntArrayRef contraction_dim, bool use_fast_accum)
{
    Tensor out = at::empty({0}, self.options().dtype(out_dtype.value_or(self.scalar_type())));
    return scaled_mm_v2_out(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype,
                            contraction_dim, use_fast_accum, out);
}

void register_scaled_mm_v2(torch::Library& m) { m.impl("_scaled_mm_v2", scaled_mm_v2); }
#endif

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    register_scaled_mm_v2(m);
    m.impl("_scaled_mm", scaled_mm);
    m.impl("_scaled_mm.out", scaled_mm_out);
    m.impl("_scaled_mm_v2.out", scaled_mm_v2_out);
}

}  // namespace
}  // namespace torch_ocl
