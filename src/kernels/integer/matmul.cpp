#include <clprim/integer_matmul.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/integer_conv.hpp>
#include <core/operands.hpp>
#include <core/overlap.hpp>
#include <kernels/integer/gpu.hpp>
#include <kernels/rounding.hpp>

namespace clprim {
namespace detail {
namespace {

constexpr std::int64_t tile_rows = 6, tile_columns = 16, chunk = 256;   // ROWS, COLUMNS, CHUNK of cpu.cl

// integer_product of cpu.cl.
struct Product {
    std::int64_t m, n, pairs, c_row, c_column, c_batch, block_strips, block_panels;
};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

const Program& program_for(Queue& queue, DataType type)
{
    return queue.context().program("kernels/integer/cpu.cl", fmt::format("-DX={}", name_of(type)));
}

// Lines of a matrix, `width` of them a panel, with numbers that are taken off.
Tensor pack(Queue& queue, const char* name, const Tensor& from, const Tensor& zeros, PackedMatrix p,
            std::int64_t batch, std::int64_t width)
{
    const std::int64_t pairs = divide_up(p.depth, 2), panels = divide_up(p.lines, width);
    p.zero_step = !zeros.defined() ? -1 : zeros.numel() == 1 ? 0 : 1;
    const Tensor packed = queue.context().empty({batch * panels * pairs * width}, DataType::int32, queue);
    queue.launch(program_for(queue, from.dtype).kernel(name),
                     Range::groups({size(panels), size(divide_up(pairs, chunk)), size(batch)}, {1, 1, 1}), from,
                     zeros.defined() ? zeros : from, packed, p);
    return packed;
}

constexpr std::int64_t most_rows = 16;   // MOST_ROWS of few_rows.cl

// few_rows of few_rows.cl.
struct FewRows {
    std::int64_t m, n, k, a_row, a_k, a_batch, b_column, b_k, b_batch, c_row, c_column, c_batch, a_zero, b_zero,
        columns;
};

// B with the numbers of a column side by side, [batch, k, n].
Tensor turned(Queue& queue, const Tensor& b)
{
    const Tensor lines = b.transpose(b.dim() - 2, b.dim() - 1);
    const Tensor result = queue.context().empty(lines.shape, b.dtype, queue);
    copy(queue, lines, result);
    return result.transpose(b.dim() - 2, b.dim() - 1);
}

// A launch that streams B's bytes as they lie, or as they were turned once.
void by_streaming(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c, const IntegerZeros& zeros)
{
    const std::size_t last = c.dim() - 1;
    const auto batch_step = [](const Tensor& t) { return t.dim() == 3 ? t.stride(0) : 0; };
    const std::int64_t m = c.size(last - 1), n = c.size(last), k = a.size(last);
    const std::int64_t batch = c.dim() == 3 ? c.size(0) : 1;
    Tensor weights = b;
    if (b.stride(last - 1) != 1 && zeros.prepared_b)
        weights = zeros.prepared_b->get(queue, fmt::format("integer lines {} {} {} {} {} {}", k, n, batch,
                                                           b.stride(last), b.stride(last - 1), b.offset),
                                        [&] { return turned(queue, b); });
    else if (b.stride(last - 1) != 1 && b.stride(last) != 1)
        weights = turned(queue, b);
    const bool along = weights.stride(last - 1) == 1;
    const auto zero_step = [](const Tensor& zero) -> std::int64_t {
        return !zero.defined() ? -1 : zero.numel() == 1 ? 0 : 1;
    };
    FewRows p{m, n, k, a.stride(last - 1), a.stride(last), batch_step(a), weights.stride(last),
              weights.stride(last - 1), batch_step(weights), c.stride(last - 1), c.stride(last), batch_step(c),
              zero_step(zeros.a), zero_step(zeros.b), 0};
    const std::int64_t step = along ? 12 : 64, wanted = 4 * std::max(1u, queue.device().compute_units);
    p.columns = round_up(divide_up(n * batch, wanted), step);
    const Program& program = queue.context().program(
        "kernels/integer/few_rows.cl", fmt::format("-DA={} -DB={}{}", name_of(a.dtype), name_of(b.dtype),
                                                     along ? " -DALONG" : ""));
    queue.launch(program.kernel("multiply"),
                 Range::groups({size(divide_up(n, p.columns)), 1, size(batch)}, {1, 1, 1}), a,
                 zeros.a.defined() ? zeros.a : a, weights, zeros.b.defined() ? zeros.b : weights, c, p);
}

// Rows as the pixels of a convolution of one tap, whose weights are prepared, bytes where that is exact.
void as_convolution(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c, const IntegerZeros& zeros)
{
    const auto image_of = [](const Tensor& t, std::size_t channels, std::size_t pixels) {
        Tensor image = t;
        image.shape = {1, t.size(channels), t.size(pixels)};
        image.strides = {t.size(0) * t.size(1), t.stride(channels), t.stride(pixels)};
        return image;
    };
    Tensor weights = b;
    weights.shape = {b.size(1), b.size(0), 1};
    weights.strides = {b.stride(1), b.stride(0), 1};
    IntegerConv conv;
    conv.options.prepared = zeros.prepared_b;
    conv.x_zero = zeros.a;
    conv.w_zero = zeros.b;
    integer_conv(queue, image_of(a, 1, 0), weights, image_of(c, 1, 0), conv);
}

void on_cpu(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c, const IntegerZeros& zeros)
{
    if (c.size(c.dim() - 2) <= most_rows)
        return by_streaming(queue, a, b, c, zeros);
    if (zeros.prepared_b && c.dim() == 2 && (!zeros.a.defined() || zeros.a.numel() == 1))
        return as_convolution(queue, a, b, c, zeros);
    const std::size_t last = c.dim() - 1;
    const auto batch_step = [](const Tensor& t) { return t.dim() == 3 ? t.stride(0) : 0; };
    const std::int64_t m = c.size(last - 1), n = c.size(last), k = a.size(last);
    const std::int64_t batch = c.dim() == 3 ? c.size(0) : 1;
    const Tensor rows = pack(queue, "pack_a", a, zeros.a,
                             {m, k, a.stride(last - 1), a.stride(last), batch_step(a), 0}, batch, tile_rows);
    const auto pack_columns = [&] {
        return pack(queue, "pack_b", b, zeros.b, {n, k, b.stride(last), b.stride(last - 1), batch_step(b), 0}, batch,
                    tile_columns);
    };
    const Tensor columns =
        zeros.prepared_b
            ? zeros.prepared_b->get(queue, fmt::format("integer {} {} {} {} {} {}", k, n, batch, b.stride(last),
                                                       b.stride(last - 1), b.offset), pack_columns)
            : pack_columns();

    // Strips of A that fill half of a second-level cache; some work-items for each core.
    Product p{m, n, divide_up(k, 2), c.stride(last - 1), c.stride(last), batch_step(c), 0, 0};
    const std::int64_t strips = divide_up(m, tile_rows), panels = divide_up(n, tile_columns);
    const std::int64_t wanted = 4 * std::max(1u, queue.device().compute_units);
    p.block_strips = std::min<std::int64_t>(strips, 192 / tile_rows);
    const std::int64_t row_blocks = divide_up(strips, p.block_strips) * batch;
    p.block_panels = std::clamp<std::int64_t>(panels * row_blocks / wanted, 1, 16);
    queue.launch(program_for(queue, b.dtype).kernel("multiply"),
                 Range::groups({size(divide_up(strips, p.block_strips)), size(divide_up(panels, p.block_panels)),
                                size(batch)}, {1, 1, 1}), rows, columns, c, p);
}

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

void on_gpu(Queue& queue, const IntegerTensors& tensors)
{
    const IntegerProduct problem = integer_product(tensors);
    const auto trial = [&](const auto& one) {
        IntegerTensors other = tensors;
        other.c = scratch_like(queue, tensors.c);
        one.run(queue, problem, other);
    };
    choose("integer_matmul", integer_gpu_implementations(), problem, queue, trial).run(queue, problem, tensors);
}

void check(const Tensor& a, const Tensor& b, const Tensor& c, const IntegerZeros& zeros)
{
    check_operands("integer_matmul", {{"a", a}, {"b", b}, {"c", c}, {"zeros.a", zeros.a, optional},
                                      {"zeros.b", zeros.b, optional}});
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
    require(c.dtype == DataType::int32, "integer_matmul: c must be int32, got ", name_of(c.dtype));
    require(!may_overlap(c), "integer_matmul: elements of c overlap, its strides are ", to_string(c.strides));
    const auto check_zeros = [](const char* name, const Tensor& zero, DataType type, std::int64_t lines) {
        require(!zero.defined() || (zero.dtype == type && zero.is_contiguous() &&
                                    (zero.numel() == 1 || zero.numel() == lines)),
                "integer_matmul: ", name, " must be contiguous, ", name_of(type), " and of one element or ", lines);
    };
    check_zeros("zeros.a", zeros.a, a.dtype, c.size(dims - 2));
    check_zeros("zeros.b", zeros.b, b.dtype, c.size(dims - 1));
}

}  // namespace
}  // namespace detail

void integer_matmul(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c, const IntegerZeros& zeros)
{
    detail::check(a, b, c, zeros);
    if (c.numel() == 0)
        return;
    if (a.size(a.dim() - 1) == 0)
        return fill(queue, c, 0.0);
    if (queue.device().kind == DeviceKind::cpu)
        detail::on_cpu(queue, a, b, c, zeros);
    else
        detail::on_gpu(queue, {a, b, c, zeros});
}

}  // namespace clprim
