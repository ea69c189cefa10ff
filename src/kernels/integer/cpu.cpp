// Products of eight-bit integers on CPUs without tile registers.
#include <kernels/integer/cpu.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/integer_conv.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t tile_rows = 6, tile_columns = 16, chunk = 256;   // ROWS, COLUMNS, CHUNK of cpu.cl
constexpr std::int64_t most_rows = 16;                                  // MOST_ROWS of few_rows.cl

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
    p.zero_step = zero_step(zeros);
    const Tensor packed = queue.context().empty({batch * panels * pairs * width}, DataType::int32, queue);
    queue.launch(program_for(queue, from.dtype).kernel(name),
                     Range::groups({size(panels), size(divide_up(pairs, chunk)), size(batch)}, {1, 1, 1}), from,
                     zeros.defined() ? zeros : from, packed, p);
    return packed;
}

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

}  // namespace

Rejection cpu_integer_few_rows_rejects(const IntegerProduct& p, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "for CPUs";
    return p.m > most_rows ? Rejection("more than 16 rows") : std::nullopt;
}

// Where they cross was measured for B as it lies; prepared for fours of bytes it is read faster from one row on.
Rejection cpu_integer_few_rows_advises_against(const IntegerProduct& p, const Device& device)
{
    constexpr std::int64_t rows = 6;
    return device.vnni_bytes && (p.prepared_b || p.m > rows) ? Rejection("slower than by fours of bytes")
                                                             : std::nullopt;
}

void cpu_integer_few_rows(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    const std::size_t last = t.c.dim() - 1;
    const IntegerZeros& zeros = t.zeros;
    Tensor weights = t.b;
    if (p.b.row != 1 && zeros.prepared_b)
        weights = zeros.prepared_b->get(queue, fmt::format("integer lines {} {} {} {} {} {}", p.k, p.n, p.batch,
                                                           p.b.column, p.b.row, t.b.offset),
                                        [&] { return turned(queue, t.b); }, Prepared::Keeps::all);
    else if (p.b.row != 1 && p.b.column != 1)
        weights = turned(queue, t.b);
    const bool along = weights.stride(last - 1) == 1;
    FewRows q{p.m, p.n, p.k, p.a.row, p.a.column, p.a.batch, weights.stride(last), weights.stride(last - 1),
              last == 2 ? weights.stride(0) : 0, p.c.row, p.c.column, p.c.batch, zero_step(zeros.a),
              zero_step(zeros.b), 0};
    const std::int64_t step = along ? 12 : 64, wanted = 4 * std::max(1u, queue.device().compute_units);
    q.columns = round_up(divide_up(p.n * p.batch, wanted), step);
    const Program& program = queue.context().program(
        "kernels/integer/few_rows.cl", fmt::format("-DA={} -DB={}{}", name_of(p.a_type), name_of(p.b_type),
                                                   along ? " -DALONG" : ""));
    queue.launch(program.kernel("multiply"),
                 Range::groups({size(divide_up(p.n, q.columns)), 1, size(p.batch)}, {1, 1, 1}), t.a,
                 zeros.a.defined() ? zeros.a : t.a, weights, zeros.b.defined() ? zeros.b : weights, t.c, q);
}

bool has_cpu_integer_conv(const Device& device)
{
    return device.kind == DeviceKind::cpu && device.local_memory >= 128 * 1024;
}

Rejection cpu_integer_conv_rejects(const IntegerProduct& p, const Device& device)
{
    if (!has_cpu_integer_conv(device))
        return "for CPUs with 128 KiB of local memory";
    if (!p.prepared_b)
        return "B is not prepared";
    return p.batch > 1 || p.row_zeros ? Rejection("batches or zero points of rows") : std::nullopt;
}

bool cpu_integer_conv_by_fours(const IntegerProduct& p, const Device& device)
{
    return device.vnni_bytes && p.b_type == DataType::int8 && !cpu_integer_conv_rejects(p, device);
}

void cpu_integer_conv(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    const auto seen_as = [](Tensor x, Dims shape, Dims strides) {
        x.shape = std::move(shape);
        x.strides = std::move(strides);
        return x;
    };
    IntegerConv conv;
    conv.options.prepared = t.zeros.prepared_b;
    conv.x_zero = t.zeros.a;
    conv.w_zero = t.zeros.b;
    conv.scale = t.scales.scale;
    conv.y_zero = t.scales.offset;
    conv.factor = t.scales.factor;
    integer_conv(queue, seen_as(t.a, {1, p.k, p.m}, {p.m * p.k, p.a.column, p.a.row}),
                 seen_as(t.b, {p.n, p.k, 1}, {p.b.column, p.b.row, 1}),
                 seen_as(t.c, {1, p.n, p.m}, {p.m * p.n, p.c.column, p.c.row}), conv);
}

Rejection cpu_integer_pairs_rejects(const IntegerProduct&, const Device& device)
{
    return device.kind != DeviceKind::cpu ? Rejection("for CPUs") : std::nullopt;
}

void cpu_integer_pairs(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    const IntegerZeros& zeros = t.zeros;
    const Tensor rows = pack(queue, "pack_a", t.a, zeros.a, {p.m, p.k, p.a.row, p.a.column, p.a.batch, 0}, p.batch,
                             tile_rows);
    const auto pack_columns = [&] {
        return pack(queue, "pack_b", t.b, zeros.b, {p.n, p.k, p.b.column, p.b.row, p.b.batch, 0}, p.batch,
                    tile_columns);
    };
    const Tensor columns =
        zeros.prepared_b
            ? zeros.prepared_b->get(queue, fmt::format("integer {} {} {} {} {} {}", p.k, p.n, p.batch, p.b.column,
                                                       p.b.row, t.b.offset), pack_columns, Prepared::Keeps::all)
            : pack_columns();

    // Strips of A that fill half of a second-level cache; some work-items for each core.
    Product q{p.m, p.n, divide_up(p.k, 2), p.c.row, p.c.column, p.c.batch, 0, 0};
    const std::int64_t strips = divide_up(p.m, tile_rows), panels = divide_up(p.n, tile_columns);
    const std::int64_t wanted = 4 * std::max(1u, queue.device().compute_units);
    q.block_strips = std::min<std::int64_t>(strips, 192 / tile_rows);
    const std::int64_t row_blocks = divide_up(strips, q.block_strips) * p.batch;
    q.block_panels = std::clamp<std::int64_t>(panels * row_blocks / wanted, 1, 16);
    queue.launch(program_for(queue, p.b_type).kernel("multiply"),
                 Range::groups({size(divide_up(strips, q.block_strips)), size(divide_up(panels, q.block_panels)),
                                size(p.batch)}, {1, 1, 1}), rows, columns, t.c, q);
}

}  // namespace clprim::detail
