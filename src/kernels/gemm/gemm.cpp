#include <clprim/gemm.hpp>

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include <kernels/gemm/cpu_amx.hpp>
#include <kernels/gemm/gpu_matrix.hpp>
#include <core/operands.hpp>

namespace clprim {
namespace detail {

std::span<const GemmImplementation> gemm_implementations()
{
    static const GemmImplementation list[] = {
        {"cpu_small", cpu_small_rejects, cpu_small},
        {"cpu_amx_rows", cpu_amx_rows_rejects, cpu_amx_rows, true, cpu_amx_rows_advises_against},
        {"cpu_dot", cpu_dot_rejects, cpu_dot},
        {"cpu_amx", cpu_amx_rejects, cpu_amx, true, cpu_amx_advises_against},
        {"cpu_bfloat16_rows", cpu_bfloat16_rows_rejects, cpu_bfloat16_rows, true, cpu_bfloat16_rows_advises_against},
        {"cpu_bfloat16", cpu_bfloat16_rejects, cpu_amx, true, cpu_amx_advises_against},
        {"cpu_packed", cpu_packed_rejects, cpu_packed, true, nullptr, cpu_packed_space, cpu_packed_at},
        {"gpu_dot", gpu_dot_rejects, gpu_dot},
        {"gpu_matrix", gpu_matrix_rejects, gpu_matrix, true, gpu_matrix_advises_against, gpu_matrix_space,
         gpu_matrix_at},
        {"gpu_split", gpu_split_rejects, gpu_split, true, gpu_split_advises_against},
        {"gpu_tiled", gpu_tiled_rejects, gpu_tiled, true, nullptr, gpu_tiled_space, gpu_tiled_at},
        {"cpu_complex", cpu_complex_rejects, cpu_complex, true, cpu_complex_advises_against},
        {"complex_planes", complex_planes_rejects, complex_planes},
        {"clblast", clblast_rejects, clblast},   // where tuning prefers it
        {"reference", reference_rejects, reference, false},
    };
    return list;
}

DataType gemm_compute_type(DataType type)
{
    switch (type) {
    case DataType::float16: case DataType::bfloat16: return DataType::float32;
    case DataType::int8: case DataType::uint8: case DataType::int16: case DataType::uint16: case DataType::int32:
        return DataType::uint32;
    case DataType::int64: return DataType::uint64;
    default: return type;
    }
}

std::string gemm_options(DataType type)
{
    return fmt::format("-DX={} -DREAL={}", name_of(type), opencl_compute_type(gemm_compute_type(type)));
}

GemmArguments gemm_arguments(const GemmProblem& p)
{
    return {p.batch, p.m, p.n, p.k, p.a, p.b, p.c, p.d, p.add_d, static_cast<std::int32_t>(p.activation)};
}

void add_scalars(Launch& launch, const GemmProblem& problem)
{
    std::array<std::byte, 16> number;
    for (const Scalar& scalar : {problem.alpha, problem.beta}) {
        const std::size_t bytes = scalar.write(gemm_compute_type(problem.dtype), number.data());
        launch.set(bytes, number.data());
    }
}

GemmProblem transposed(const GemmProblem& problem)
{
    const auto turned = [](MatrixLayout layout) { return MatrixLayout{layout.column, layout.row, layout.batch}; };
    GemmProblem result = problem;
    std::swap(result.m, result.n);
    std::swap(result.prepared_a, result.prepared_b);
    result.a = turned(problem.b);
    result.b = turned(problem.a);
    result.c = turned(problem.c);
    result.d = turned(problem.d);
    return result;
}

GemmTensors transposed(const GemmTensors& tensors)
{
    return {tensors.b, tensors.a, tensors.c, tensors.d};
}

namespace {

// A text and numbers, each behind a name: what describe() says of every product, also where that is no news.
std::string concat_numbers(std::string_view text, std::initializer_list<std::pair<std::string_view, std::int64_t>> all)
{
    std::string result;
    result.reserve(text.size() + 16 * all.size());
    result += text;
    for (const auto& [name, number] : all) {
        std::array<char, 24> digits{};
        result += name;
        result.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
    }
    return result;
}

// What a problem says of a matrix, as a tensor whose place in memory can be checked.
void check_matrix(const char* name, const Tensor& tensor, Dims shape, const MatrixLayout& layout)
{
    if (std::ranges::find(shape, 0) != shape.end() && tensor.defined())
        return;
    Tensor(tensor.memory, tensor.offset, tensor.dtype, std::move(shape), {layout.batch, layout.row, layout.column})
        .check("gemm", name);
}

MatrixLayout layout_of(const Tensor& tensor)
{
    const std::size_t dims = tensor.dim();
    return {tensor.stride(dims - 2), tensor.stride(dims - 1), dims == 3 ? tensor.stride(0) : 0};
}

// A stand-in for C that tuning may overwrite: the same layout in memory of its own.
Tensor scratch_like(const GemmProblem& p, const Tensor& c, Queue& queue)
{
    std::int64_t low = 0, high = 1;
    for (const auto& [size, stride] : {std::pair{p.m, p.c.row}, {p.n, p.c.column}, {p.batch, p.c.batch}})
        (stride < 0 ? low : high) += (size - 1) * stride;
    Tensor scratch = queue.context().empty({high - low}, c.dtype, queue);
    scratch.offset = -low;
    return scratch;
}

void check(const GemmProblem& p, const GemmTensors& t, const Device& device)
{
    require(p.batch >= 0 && p.m >= 0 && p.n >= 0 && p.k >= 0, "gemm: negative size in ", describe(p));
    if (p.k != 0) {
        check_matrix("a", t.a, {p.batch, p.m, p.k}, p.a);
        check_matrix("b", t.b, {p.batch, p.k, p.n}, p.b);
    }
    check_matrix("c", t.c, {p.batch, p.m, p.n}, p.c);
    if (p.add_d)
        check_matrix("d", t.d, {p.batch, p.m, p.n}, p.d);
    require(p.dtype != DataType::boolean, "gemm: bool matrices have no product");
    if (!is_complex(p.dtype))
        p.alpha.to_double(), p.beta.to_double();   // refuse what is not real
    require(t.c.dtype == p.dtype && (p.k == 0 || (t.a.dtype == p.dtype && t.b.dtype == p.dtype)) &&
                (!p.add_d || t.d.dtype == p.dtype),
            "gemm: all matrices must be ", name_of(p.dtype));
    require(p.activation == Activation::none || is_floating_point(p.dtype),
            "gemm: an activation needs floating point, not ", name_of(p.dtype));
    require<NotSupported>(p.activation <= Activation::gelu_tanh,
                          "gemm: of the activations relu, gelu and gelu_tanh are fused; apply others to the result");
    require<NotSupported>(device.fp64 || (p.dtype != DataType::float64 && p.dtype != DataType::complex128), "gemm: ",
                          device.name, " has no double precision (fp64), which ", name_of(p.dtype), " needs");
}

}  // namespace
}  // namespace detail

GemmProblem gemm_problem(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d)
{
    const std::size_t dims = c.dim();
    for (const auto& [name, tensor] : {std::pair{"a", &a}, {"b", &b}, {"c", &c}})
        if (tensor->strides.size() != tensor->dim() || !tensor->defined()) [[unlikely]]
            tensor->check("gemm", name);
    if (!((dims == 2 || dims == 3) && a.dim() == dims && b.dim() == dims)) [[unlikely]]
        throw InvalidArgument(detail::concat("gemm: expected three matrices, or three batches of them, got ",
                                             to_string(a.shape), ", ", to_string(b.shape), " and ",
                                             to_string(c.shape)));
    GemmProblem p;
    p.batch = dims == 3 ? c.size(0) : 1;
    p.m = c.size(dims - 2);
    p.n = c.size(dims - 1);
    p.k = a.size(dims - 1);
    const bool fits = a.size(dims - 2) == p.m && b.size(dims - 2) == p.k && b.size(dims - 1) == p.n &&
                      (dims == 2 || (a.size(0) == p.batch && b.size(0) == p.batch));
    if (!fits) [[unlikely]]
        throw InvalidArgument(detail::concat("gemm: ", to_string(a.shape), " times ", to_string(b.shape),
                                             " does not give ", to_string(c.shape)));
    p.dtype = c.dtype;
    p.a = detail::layout_of(a);
    p.b = detail::layout_of(b);
    p.c = detail::layout_of(c);
    if (d.defined()) {
        if (d.strides.size() != d.dim()) [[unlikely]]
            d.check("gemm", "d");
        p.d = detail::layout_of(d.expand(c.shape));
    }
    return p;
}

void gemm(Queue& queue, const GemmProblem& asked, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d)
{
    GemmProblem problem = asked;
    problem.add_d = d.defined() && detail::complex_value(problem.beta) != 0.0;
    if (!problem.add_d)
        problem.d = {};
    const auto same = [](const MatrixLayout& x, const MatrixLayout& y) {
        return x.row == y.row && x.column == y.column && x.batch == y.batch;
    };
    problem.d_is_c =
        problem.add_d && d.memory.get() == c.memory.get() && d.offset == c.offset && same(problem.c, problem.d);
    const detail::GemmTensors tensors{a, b, c, problem.add_d ? d : Tensor()};
    detail::check(problem, tensors, queue.device());
    if (problem.batch == 0 || problem.m == 0 || problem.n == 0)
        return;
    const auto chosen = choose("gemm", detail::gemm_implementations(), problem, queue, [&](const auto& one) {
        detail::GemmTensors trial = tensors;
        trial.c = detail::scratch_like(problem, c, queue);
        if (problem.d_is_c)
            trial.d = trial.c;
        one.run(queue, problem, trial);
    });
    chosen.run(queue, problem, tensors);
}

std::string describe(const GemmProblem& p)
{
    const char* precision = p.dtype != DataType::float32 || p.precision == Float32Precision::highest ? ""
                            : p.precision == Float32Precision::high                                  ? " high"
                                                                                                     : " medium";
    std::string text = detail::concat_numbers(name_of(p.dtype), {{" batch=", p.batch}, {" m=", p.m}, {" n=", p.n},
                                              {" k=", p.k}, {" a=", p.a.row}, {":", p.a.column}, {":", p.a.batch},
                                              {" b=", p.b.row}, {":", p.b.column}, {":", p.b.batch},
                                              {" c=", p.c.row}, {":", p.c.column}, {":", p.c.batch}});
    if (p.add_d)
        text = detail::concat_numbers(text, {{" d=", p.d.row}, {":", p.d.column}, {":", p.d.batch}});
    if (p.activation != Activation::none)
        text += " activation";
    return text += precision;
}

}  // namespace clprim
