// Launches gpu_matrix.cl.
#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <core/gpu_rate.hpp>
#include <kernels/gemm/gpu_matrix.hpp>
#include <kernels/integer/gpu.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t slab = 64, together = 16;   // bytes along k of a slab, and of what a work-item reads at once

// integer_product of gpu_matrix.cl.
struct MatrixProduct {
    std::int64_t m, n, k, a_line, a_batch, b_line, b_batch, c_row, c_column, c_batch, a_zero, b_zero;
    std::int32_t pairs, part_pairs, parts;
};

// An operand as the kernel reads it.
struct Operand {
    Tensor values, facts;
    std::int64_t line, batch;   // bytes
    std::string_view known;     // A_FACTS
    bool is_unsigned;
};

// Whether lines along k can be read as they lie.
bool in_place(MatrixEngineChoice engine, const Tensor& t, std::int64_t k, std::int64_t line, std::int64_t k_step,
              std::int64_t batch)
{
    return k_step == 1 && line >= k && batch >= 0 &&
           (k | line | batch | static_cast<std::int64_t>(t.buffer_offset())) % together == 0 &&
           (t.dtype == DataType::int8 || engine.engine != MatrixEngine::mfma);
}

struct InPlace {
    bool a, b;
};

// Both, where they lie so and the other one needs no sums of their lines: zero points do, and so do unsigned bytes
// that packing turns into signed ones.
InPlace find_in_place(MatrixEngineChoice engine, const IntegerProduct& p, const IntegerTensors& t)
{
    InPlace result{in_place(engine, t.a, p.k, p.a.row, p.a.column, p.a.batch) && !p.b_zero,
                   in_place(engine, t.b, p.k, p.b.column, p.b.row, p.b.batch) && !p.a_zero};
    for (int round = 0; round < 2; ++round) {
        result.a = result.a && (result.b || p.b_type == DataType::int8);
        result.b = result.b && (result.a || p.a_type == DataType::int8);
    }
    return result;
}

Operand as_it_lies(const Tensor& values, const Tensor& zeros, std::int64_t line, std::int64_t batch)
{
    return {values, zeros.defined() ? zeros : values, line, batch, zeros.defined() ? name_of(zeros.dtype) : "none",
            values.dtype == DataType::uint8};
}

Operand as_packed(const IntegerLines& lines, std::int64_t count, std::int64_t k)
{
    const std::int64_t line = 4 * words_of_line(k);
    return {lines.all, lines.sums, line, count * line, "sums", false};
}

// -DOFFSET of matrix_tiles.cl: "uint" where it holds every byte of the buffers of A and B.
const char* offset_type(const MatrixProduct& q, const Operand& a, const Operand& b, std::int64_t batch)
{
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    const auto beyond = [&](const Operand& x, std::int64_t lines) {
        return static_cast<std::int64_t>(x.values.buffer_offset() * size_of(x.values.dtype)) + (batch - 1) * x.batch +
               lines * x.line;
    };
    const std::int64_t c = 4 * (q.m * std::abs(q.c_row) + q.n * std::abs(q.c_column));
    if (std::max({q.m * q.a_line, q.n * q.b_line, c}) >= limit)
        return "long";
    return std::max(beyond(a, q.m), beyond(b, q.n)) < limit && q.c_row >= 0 && q.c_column >= 0 ? "uint" : "int";
}

// Whether fragments can be read without slabs (gemm/fragments_blocks.cl).
bool blocks_fit(const Operand& operand, std::int64_t lines, std::int64_t bytes)
{
    constexpr std::int64_t longest = 1 << 24;
    const auto offset = static_cast<std::int64_t>(operand.values.buffer_offset() * size_of(operand.values.dtype));
    return (offset | operand.batch) % 64 == 0 && bytes >= 64 && lines < longest / 2 && operand.line < longest;
}

}  // namespace

Rejection gpu_integer_matrix_rejects(const IntegerProduct& p, const Device& device)
{
    if (p.k >= std::int64_t{1} << 31)
        return "2^31 k or more";
    return matrix_engine_rejects_bytes(device);
}

Rejection gpu_integer_matrix_advises_against(const IntegerProduct& p, const Device& device)
{
    return matrix_engine_advises_against(static_cast<double>(p.m), static_cast<double>(p.n), device);
}

void gpu_integer_matrix(Queue& queue, const IntegerProduct& p, const IntegerTensors& tensors)
{
    const MatrixEngineChoice engine = matrix_engine(queue.device());
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const std::int64_t tiles =
        divide_up(p.m, shape.rows(shape.large)) * divide_up(p.n, shape.columns(shape.large)) * p.batch;
    gpu_integer_matrix_by(engine, &matrix_tile(engine, tiles, queue.device()) == &shape.large, queue, p, tensors);
}

namespace {

// Parts of k, of 512 bytes or more.
std::int64_t parts_of(const Device& device, MatrixEngineChoice engine, const IntegerProduct& p, const MatrixTile& tile,
                      std::int64_t blocks)
{
    const std::int64_t most = std::max<std::int64_t>(p.k / 512, 1);
    if (engine.emulated)   // for tests, which are to see several
        return std::clamp<std::int64_t>(4 / blocks, 1, most);
    constexpr double bytes_to_floats = 2, usual_share = 0.7;   // products in a clock; of the peak
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const GpuRate rate = gpu_rate(device);
    const auto engines = static_cast<double>(tile.sub_groups_m * tile.sub_groups_n);
    const double products = static_cast<double>(shape.rows(tile) * shape.columns(tile)) * static_cast<double>(p.k);
    const Workload work{static_cast<double>(blocks), engines,
                        products / (engines * bytes_to_floats * rate.matrix * usual_share)};
    return best_parts(rate, work, static_cast<double>(p.batch * p.m) * static_cast<double>(p.n), most, false).count;
}

}  // namespace

void gpu_integer_matrix_by(MatrixEngineChoice engine, bool large, Queue& queue, const IntegerProduct& p,
                           const IntegerTensors& t)
{
    const InPlace lies = find_in_place(engine, p, t);
    const Operand a = lies.a ? as_it_lies(t.a, t.zeros.a, p.a.row, p.a.batch)
                             : as_packed(pack_rows(queue, p, t), p.m, p.k);
    const Operand b = lies.b ? as_it_lies(t.b, t.zeros.b, p.b.column, p.b.batch)
                             : as_packed(pack_columns(queue, p, t), p.n, p.k);
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const MatrixTile tile = in_stages(engine, large ? shape.large : shape.small, queue.device());
    const std::int64_t bytes = lies.a || lies.b ? p.k : a.line;   // packed lines are filled up with zeros
    const auto step = [](const Tensor& zero) -> std::int64_t { return zero.defined() && zero.numel() > 1; };
    MatrixProduct q{p.m, p.n, p.k, a.line, a.batch, b.line, b.batch, p.c.row, p.c.column, p.c.batch,
                    step(t.zeros.a), step(t.zeros.b), static_cast<std::int32_t>(bytes / 2), 0, 1};

    // Sums of integers may be added in any order.
    const std::int64_t row_blocks = divide_up(p.m, shape.rows(tile));
    const std::int64_t column_blocks = divide_up(p.n, shape.columns(tile));
    const std::int64_t parts = parts_of(queue.device(), engine, p, tile, row_blocks * column_blocks * p.batch);
    q.part_pairs = static_cast<std::int32_t>(round_up(divide_up(bytes, parts), slab) / 2);
    q.parts = static_cast<std::int32_t>(divide_up(q.pairs, q.part_pairs));
    if (q.parts > 1)
        fill(queue, t.c, 0.0);

    const bool blocks = engine.engine == MatrixEngine::dpas16 &&
                        (engine.emulated || queue.device().has_extension("cl_intel_subgroup_2d_block_io")) &&
                        blocks_fit(a, p.m, bytes) && blocks_fit(b, p.n, bytes);
    const bool quads = q.parts == 1 && p.c.column == 1 &&
                       (p.n | p.c.row | p.c.batch | static_cast<std::int64_t>(t.c.buffer_offset())) % 4 == 0;
    const Program& program = queue.context().program(
        "kernels/integer/gpu_matrix.cl",
        fmt::format("-DX=int8 -DA_ALONG_K=1 -DB_ALONG_K=1 -DALIGNED=1{} -DBLOCKS={:d} -DOFFSET={} -DA_UNSIGNED={:d} "
                    "-DB_UNSIGNED={:d} -DA_FACTS={} -DB_FACTS={} -DWHOLE_SLABS={:d} -DALIGNED_C={:d} -DPARTS={:d}",
                    matrix_tile_options(engine, tile), blocks, offset_type(q, a, b, p.batch), a.is_unsigned,
                    b.is_unsigned, a.known, b.known, bytes % slab == 0, quads, q.parts > 1));
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    queue.launch(program.kernel("multiply"),
                 Range::groups({size(column_blocks), size(row_blocks * q.parts), size(p.batch)},
                               {size(shape.items(tile)), 1, 1}),
                 a.values, a.facts, b.values, b.facts, t.c, q);
}

}  // namespace clprim::detail
