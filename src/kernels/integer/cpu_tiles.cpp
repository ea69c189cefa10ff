// Launches cpu_amx.cl, cpu_amx_rows.cl and cpu_vnni.cl.
#include <kernels/integer/cpu.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <core/host_processor.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t side = 32, block = 64, block_words = 512;   // SIDE, BLOCK and BLOCK_WORDS of byte_blocks.cl
constexpr std::int64_t most_strips = 16, most_panels = 16;   // of a work-item: panels of a chunk of k take 512 KiB

// integer_product of byte_sums.cl.
struct TileProduct {
    std::int64_t m, n, k, c_row, c_column, c_batch, block_strips, block_panels, a_row, a_batch, zero_step;
};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

std::int64_t padded(std::int64_t lines) { return round_up(lines, side); }

struct Packing {
    const char* kernel;
    bool as_unsigned;
};

// The lines' words and behind them their sums and zero points.
Tensor pack(Queue& queue, const Packing& packing, const Tensor& from, const Tensor& zeros, PackedMatrix p,
            std::int64_t batch)
{
    const std::int64_t groups = divide_up(p.lines, side), lines = batch * padded(p.lines);
    p.zero_step = zero_step(zeros);
    const std::int64_t words = batch * groups * divide_up(p.depth, block) * block_words;
    const IntegerLines packed(queue.context().empty({words + 2 * lines}, DataType::int32, queue), lines);
    const Program& program = queue.context().program(
        "kernels/integer/cpu_lines.cl",
        fmt::format("-DX={}{}", name_of(from.dtype), packing.as_unsigned ? " -DUNSIGNED" : ""));
    queue.launch(program.kernel(packing.kernel), Range::groups({size(groups), size(batch), 1}, {1, 1, 1}), from,
                 zeros.defined() ? zeros : from, packed.all, packed.sums, p);
    return packed.all;
}

IntegerLines packed_columns(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    const auto pack_columns = [&] {
        return pack(queue, {"pack_columns", false}, t.b, t.zeros.b, {p.n, p.k, p.b.column, p.b.row, p.b.batch, 0},
                    p.batch);
    };
    Prepared* prepared = t.zeros.prepared_b;
    return {prepared ? prepared->get(queue, fmt::format("integer_bytes {} {} {} {} {} {}", p.k, p.n, p.batch,
                                                        p.b.column, p.b.row, t.b.offset), pack_columns,
                                    Prepared::Keeps::all)
                     : pack_columns(),
            p.batch * padded(p.n)};
}

// Some work-items for each core: fewer where tile registers finish sooner than a strip comes again.
TileProduct cut(const IntegerProduct& p, const IntegerTensors& t, const Device& device)
{
    const std::int64_t strips = divide_up(p.m, side), panels = divide_up(p.n, side);
    const std::int64_t wanted = (device.amx ? 2 : 4) * std::max(1u, device.compute_units);
    TileProduct q{p.m, p.n, p.k, p.c.row, p.c.column, p.c.batch, std::min(strips, most_strips), 0, p.a.row, p.a.batch,
                  zero_step(t.zeros.a)};
    const std::int64_t row_blocks = divide_up(strips, q.block_strips) * p.batch;
    q.block_panels = std::clamp<std::int64_t>(panels * row_blocks / wanted, 1, most_panels);
    return q;
}

Range blocks_of(const IntegerProduct& p, const TileProduct& q)
{
    return Range::groups({size(divide_up(divide_up(p.m, side), q.block_strips)),
                          size(divide_up(divide_up(p.n, side), q.block_panels)), size(p.batch)}, {1, 1, 1});
}

// C by the kernels of `program`, which take A's bytes signed or not.
void multiply(Queue& queue, const Program& program, bool unsigned_rows, const IntegerProduct& p,
              const IntegerTensors& t)
{
    const IntegerLines rows(pack(queue, {"pack_rows", unsigned_rows}, t.a, t.zeros.a,
                                 {p.m, p.k, p.a.row, p.a.column, p.a.batch, 0}, p.batch),
                            p.batch * padded(p.m));
    const IntegerLines columns = packed_columns(queue, p, t);
    const TileProduct q = cut(p, t, queue.device());
    queue.launch(program.kernel("multiply"), blocks_of(p, q), rows.all, rows.sums, columns.all, columns.sums, t.c, q);
}

}  // namespace

std::string dot_options(const Device& device)
{
    return fmt::format("-DDOT_VECTOR={}{}", device.vnni_bytes, host_vnni_bytes() == 32 ? " -DDOT_VEX" : "");
}

Rejection cpu_integer_amx_rejects(const IntegerProduct&, const Device& device)
{
    return !device.amx || !host_has_amx_int8() ? Rejection("for CPUs with AMX of bytes") : std::nullopt;
}

// Cycles of both ways but for what they share, as measured; tiles are whole, and where B is prepared the other one, a
// convolution, reads A as it lies.
Rejection cpu_integer_amx_advises_against(const IntegerProduct& p, const Device& device)
{
    constexpr double launch = 15000, tile_block = 350, packing = 0.1, vector_product = 0.035;
    constexpr double vnni_product = 0.0095;   // two vectors of products a cycle, as processors with tiles have: counted
    const std::int64_t tiles = divide_up(p.m, side) * divide_up(p.n, side) * divide_up(p.k, block);
    const bool reads_a =
        device.vnni_bytes ? cpu_integer_conv_by_fours(p, device) : !cpu_integer_conv_rejects(p, device);
    const double units = std::max(1u, device.compute_units), batch = static_cast<double>(p.batch);
    const double a_bytes = static_cast<double>(padded(p.m) * round_up(p.k, block));
    const double by_tiles = tile_block * static_cast<double>(tiles) + (reads_a ? packing * a_bytes : 0);
    const double by_vectors = device.vnni_bytes
                                  ? vnni_product * static_cast<double>(p.m * padded(p.n) * round_up(p.k, block))
                                  : vector_product * static_cast<double>(round_up(p.m, 6) * round_up(p.n, 16) * p.k);
    if (batch * by_tiles / units + (reads_a ? launch : 0) > batch * by_vectors / units)
        return "slower than by vectors";
    return std::nullopt;
}

void cpu_integer_amx(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    multiply(queue, queue.context().program("kernels/integer/cpu_amx.cl", ""), false, p, t);
}

Rejection cpu_integer_amx_rows_rejects(const IntegerProduct& p, const Device& device)
{
    if (const Rejection reason = cpu_integer_amx_rejects(p, device))
        return reason;
    if (p.b_type != DataType::int8 || p.b_zero)
        return "for signed B without zero points";
    return p.a.column != 1 || p.k % block != 0 ? Rejection("for rows of A that are runs of multiples of 64 bytes")
                                               : std::nullopt;
}

Rejection cpu_integer_amx_rows_advises_against(const IntegerProduct& p, const Device&)
{
    return p.m < side / 2 ? Rejection("fewer rows than a tile register has") : std::nullopt;
}

void cpu_integer_amx_rows(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    const IntegerLines columns = packed_columns(queue, p, t);
    const Program& program = queue.context().program("kernels/integer/cpu_amx_rows.cl",
                                                     fmt::format("-DX={}", name_of(p.a_type)));
    const TileProduct q = cut(p, t, queue.device());
    queue.launch(program.kernel("multiply_rows"), blocks_of(p, q), t.a, t.zeros.a.defined() ? t.zeros.a : t.a,
                 columns.all, columns.sums, t.c, q);
}

Rejection cpu_integer_vnni_rejects(const IntegerProduct&, const Device& device)
{
    return device.vnni_bytes == 0 ? Rejection("for CPUs with VNNI") : std::nullopt;
}

Rejection cpu_integer_vnni_advises_against(const IntegerProduct& p, const Device& device)
{
    return cpu_integer_conv_by_fours(p, device) ? Rejection("slower than cpu_conv, which reads A as it lies")
                                                : std::nullopt;
}

void cpu_integer_vnni(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    multiply(queue, queue.context().program("kernels/integer/cpu_vnni.cl", dot_options(queue.device())), true, p, t);
}

}  // namespace clprim::detail
