#include <clprim/integer_matmul.hpp>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>
#include <core/operands.hpp>
#include <core/overlap.hpp>
#include <kernels/integer/cpu.hpp>
#include <kernels/integer/gpu.hpp>

namespace clprim {
namespace detail {
namespace {

// A stand-in for C that tuning may overwrite: the same layout in memory of its own.
Tensor scratch_like(Queue& queue, const Tensor& c)
{
    std::int64_t low = 0, high = 1;
    for (std::size_t i = 0; i < c.dim(); ++i)
        (c.stride(i) < 0 ? low : high) += (c.size(i) - 1) * c.stride(i);
    Tensor scratch = queue.context().empty({high - low}, c.dtype, queue);
    scratch.offset = -low;
    scratch.shape = c.shape;
    scratch.strides = c.strides;
    return scratch;
}

void check(const IntegerTensors& t)
{
    const Tensor &a = t.a, &b = t.b, &c = t.c;
    const IntegerZeros& zeros = t.zeros;
    const IntegerScales& scales = t.scales;
    check_operands("integer_matmul", {{"a", a}, {"b", b}, {"c", c}, {"zeros.a", zeros.a, optional},
                                      {"zeros.b", zeros.b, optional}, {"scales.scale", scales.scale, optional},
                                      {"scales.offset", scales.offset, optional},
                                      {"scales.factor", scales.factor, optional}});
    const std::size_t dims = c.dim();
    require((dims == 2 || dims == 3) && a.dim() == dims && b.dim() == dims,
            "integer_matmul: expected three matrices, or three batches of them, got ", to_string(a.shape), ", ",
            to_string(b.shape), " and ", to_string(c.shape));
    require(a.size(dims - 2) == c.size(dims - 2) && b.size(dims - 1) == c.size(dims - 1) &&
                a.size(dims - 1) == b.size(dims - 2) &&
                (dims == 2 || (a.size(0) == c.size(0) && b.size(0) == c.size(0))),
            "integer_matmul: ", to_string(a.shape), " times ", to_string(b.shape), " does not give ",
            to_string(c.shape));
    const auto is_byte = [](const Tensor& t) { return t.dtype == DataType::int8 || t.dtype == DataType::uint8; };
    require(is_byte(a) && is_byte(b), "integer_matmul: a and b must be int8 or uint8, got ", name_of(a.dtype), " and ",
            name_of(b.dtype));
    const bool real = scales.scale.defined();
    require(c.dtype == (real ? DataType::float32 : DataType::int32), "integer_matmul: c must be ",
            real ? "float32" : "int32", ", got ", name_of(c.dtype));
    const auto is_line = [&](const Tensor& line) {
        return line.dtype == DataType::float32 && line.is_contiguous() && line.numel() == c.size(dims - 1);
    };
    require(!real || is_line(scales.scale) ||
                (scales.scale.dtype == DataType::float32 && scales.scale.numel() == 1),
            "integer_matmul: the scale must be contiguous, float32 and of one element or ", c.size(dims - 1));
    require(!scales.offset.defined() || (real && is_line(scales.offset)),
            "integer_matmul: an offset needs a scale and must be contiguous, float32 and of ", c.size(dims - 1),
            " elements");
    require(!scales.factor.defined() ||
                (real && scales.factor.dtype == DataType::float32 && scales.factor.numel() == 1),
            "integer_matmul: a factor needs a scale and must be float32 and of one element");
    require(!may_overlap(c), "integer_matmul: elements of c overlap, its strides are ", to_string(c.strides));
    const auto check_zeros = [](const char* name, const Tensor& zero, DataType type, std::int64_t lines) {
        require(!zero.defined() || (zero.dtype == type && zero.is_contiguous() &&
                                    (zero.numel() == 1 || zero.numel() == lines)),
                "integer_matmul: ", name, " must be contiguous, ", name_of(type), " and of one element or ", lines);
    };
    check_zeros("zeros.a", zeros.a, a.dtype, c.size(dims - 2));
    check_zeros("zeros.b", zeros.b, b.dtype, c.size(dims - 1));
}

constexpr IntegerImplementation implementations[] = {
    {"cpu_few_rows", cpu_integer_few_rows_rejects, cpu_integer_few_rows, true,
     cpu_integer_few_rows_advises_against},
    {"cpu_amx_rows", cpu_integer_amx_rows_rejects, cpu_integer_amx_rows, true,
     cpu_integer_amx_rows_advises_against},
    {"cpu_amx", cpu_integer_amx_rejects, cpu_integer_amx, true, cpu_integer_amx_advises_against},
    {"cpu_vnni", cpu_integer_vnni_rejects, cpu_integer_vnni, true, cpu_integer_vnni_advises_against},
    {"cpu_conv", cpu_integer_conv_rejects, cpu_integer_conv},
    {"cpu_pairs", cpu_integer_pairs_rejects, cpu_integer_pairs},
    {"gpu_matrix", gpu_integer_matrix_rejects, gpu_integer_matrix, true, gpu_integer_matrix_advises_against},
    {"gpu_words", gpu_integer_words_rejects, gpu_integer_words},
};

}  // namespace

std::span<const IntegerImplementation> integer_implementations() { return implementations; }

IntegerProduct integer_product(const IntegerTensors& t)
{
    const std::size_t last = t.c.dim() - 1;
    const auto layout = [&](const Tensor& x) {
        return MatrixLayout{x.stride(last - 1), x.stride(last), last == 2 ? x.stride(0) : 0};
    };
    IntegerProduct p;
    p.batch = last == 2 ? t.c.size(0) : 1;
    p.m = t.c.size(last - 1);
    p.n = t.c.size(last);
    p.k = t.a.size(last);
    p.a = layout(t.a);
    p.b = layout(t.b);
    p.c = layout(t.c);
    p.a_type = t.a.dtype;
    p.b_type = t.b.dtype;
    p.a_zero = t.zeros.a.defined();
    p.b_zero = t.zeros.b.defined();
    p.row_zeros = p.a_zero && t.zeros.a.numel() > 1;
    p.prepared_b = t.zeros.prepared_b;
    return p;
}

std::string describe(const IntegerProduct& p)
{
    const auto one = [](DataType type, const MatrixLayout& layout, bool zero) {
        return fmt::format("{}:{}:{}:{}{}", name_of(type), layout.row, layout.column, layout.batch,
                           zero ? ":zero" : "");
    };
    return fmt::format("batch={} m={} n={} k={} a={} b={} c={}:{}:{}{}{}", p.batch, p.m, p.n, p.k,
                       one(p.a_type, p.a, p.a_zero), one(p.b_type, p.b, p.b_zero), p.c.row, p.c.column, p.c.batch,
                       p.row_zeros ? " row_zeros" : "", p.prepared_b ? " prepared" : "");
}

}  // namespace detail

namespace {

// c = sums scale factor + offset.
void scale_sums(Queue& queue, const Tensor& sums, const Tensor& c, const IntegerScales& scales)
{
    const auto line = [](const Tensor& t) { return t.reshape({t.numel()}); };
    std::vector<Tensor> inputs{sums, line(scales.scale)};
    std::string code = "y0 = (float)x0 * x1";
    if (scales.factor.defined()) {
        inputs.push_back(line(scales.factor));
        code = "y0 = (float)x0 * (x1 * x2)";
    }
    if (scales.offset.defined()) {
        code += detail::concat(" + x", inputs.size());
        inputs.push_back(line(scales.offset));
    }
    pointwise(queue, inputs, std::span(&c, 1), {}, code + ";");
}

}  // namespace

void integer_matmul(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c, const IntegerZeros& zeros,
                    const IntegerScales& scales)
{
    detail::IntegerTensors tensors{a, b, c, zeros, scales};
    detail::check(tensors);
    if (c.numel() == 0)
        return;
    const bool real = scales.scale.defined();
    if (a.size(a.dim() - 1) == 0) {
        fill(queue, c, 0.0);
        if (real)
            scale_sums(queue, c, c, scales);
        return;
    }
    tensors.scales = {};
    tensors.c.dtype = DataType::int32;           // as it is chosen, and where it is not scaled in the same launch
    const detail::IntegerProduct problem = detail::integer_product(tensors);
    const auto trial = [&](const auto& one) {
        detail::IntegerTensors other = tensors;
        other.c = detail::scratch_like(queue, tensors.c);
        one.run(queue, problem, other);
    };
    const auto chosen = choose("integer_matmul", detail::integer_implementations(), problem, queue, trial);
    if (real && chosen->run == detail::cpu_integer_conv)
        return chosen.run(queue, problem, {a, b, c, zeros, scales});
    if (!real)
        return chosen.run(queue, problem, tensors);
    tensors.c = detail::scratch_like(queue, tensors.c);
    chosen.run(queue, problem, tensors);
    scale_sums(queue, tensors.c, c, scales);
}

}  // namespace clprim
