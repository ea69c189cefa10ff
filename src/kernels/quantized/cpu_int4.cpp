#include <kernels/quantized/cpu_int4.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <core/host_processor.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t chunk = 128;   // inputs that kernels take at a time

// int4_problem of cpu_int4.cl.
struct RowProblem {
    std::int64_t columns, depth, group, scale_group, scale_column, zero_group, zero_column, item_columns;
};

// int4_problem of cpu_int4_bytes.cl.
struct RowsProblem {
    std::int64_t rows, columns, depth, x_row, y_row, group, scale_group, scale_column, zero_group, zero_column,
        item_columns, block_columns, ahead;
};

// How cpu_int4.cl does one row: the bfloat16 that a number of x is, scales of a chunk, and words of local memory; no
// parts: it cannot.
struct RowCut {
    std::int64_t parts = 0, pieces = 0, words = 0;
};

RowCut row_cut(const Device& device, const QuantizedWeights& w, Inputs inputs)
{
    const std::int64_t k = w.inputs();
    if (!multiplies_bfloat16_by_vectors(device) || k % chunk != 0 || w.outputs() % 4 != 0 ||
        (w.group != 32 && w.group != 64 && w.group % chunk != 0))
        return {};
    RowCut cut;
    const DataType type = w.scales.dtype;
    cut.parts = type == DataType::bfloat16 || inputs != Inputs::exact ? 1 : type == DataType::float16 ? 2 : 3;
    cut.pieces = w.group < chunk ? chunk / w.group : 1;
    cut.words = k / chunk * (64 * cut.parts + 16 * cut.pieces + 4);
    return 4 * static_cast<std::size_t>(cut.words) <= device.local_memory ? cut : RowCut{};
}

// Columns of a work-item, `unit` at a time.
std::int64_t item_columns(const Device& device, const QuantizedWeights& w, std::int64_t unit)
{
    return round_up(divide_up(w.outputs(), reading_items(w.values.numel(), device.compute_units)), unit);
}

std::string options_of(const QuantizedWeights& w, std::int64_t pieces)
{
    return fmt::format("-DX={} -DPIECES={}{}", name_of(w.scales.dtype), pieces, w.zeros.defined() ? " -DZEROS" : "");
}

std::int64_t stride_of(const Tensor& zeros, std::size_t axis) { return zeros.defined() ? zeros.stride(axis) : 0; }

void multiply_row(Queue& queue, const Tensor& x, const QuantizedWeights& w, const Tensor& y, const RowCut& cut)
{
    const RowProblem problem{w.outputs(),           w.inputs(),         w.group,
                             w.scales.stride(0),    w.scales.stride(1), stride_of(w.zeros, 0),
                             stride_of(w.zeros, 1), item_columns(queue.device(), w, 16)};
    const Program& program = queue.context().program(
        "kernels/quantized/cpu_int4.cl", fmt::format("{} -DPARTS={}", options_of(w, cut.pieces), cut.parts));
    queue.launch(program.kernel("multiply"),
                 Range::groups(static_cast<std::size_t>(divide_up(problem.columns, problem.item_columns))), x, w.values,
                 w.scales, w.zeros.defined() ? w.zeros : w.scales, y, problem,
                 LocalMemory{4 * static_cast<std::size_t>(cut.words)});
}

// How cpu_int4_bytes.cl does rows: those at a time, scales of a chunk, columns at a time, bytes of chunks and of local
// memory; no rows: it cannot.
struct BytesCut {
    std::int64_t rows = 0, pieces = 0, columns = 0, chunk_bytes = 0, memory = 0;
};

BytesCut bytes_cut(const Device& device, const QuantizedWeights& w, std::int64_t m)
{
    if (device.vnni_bytes != 64 || w.outputs() < 4)
        return {};
    BytesCut cut;
    const std::int64_t k = w.inputs(), chunks = divide_up(k, chunk);
    cut.rows = m <= 2 ? m : 4;
    cut.pieces = w.group % 64 != 0 ? 4 : w.group % chunk != 0 ? 2 : 1;
    // So many that what a call of the inner loops costs beside them is little.
    cut.columns = std::clamp<std::int64_t>(32768 / k / 4 * 4, 16, 64);
    cut.chunk_bytes = (256 * cut.rows + 128) * chunks;
    cut.memory = (cut.rows == 1 ? cut.chunk_bytes : 0) + cut.columns * 4 * round_up(chunks * cut.pieces, 16) +
                 cut.columns * 64 * cut.rows + 4 * cut.rows * (k / w.group);
    return static_cast<std::size_t>(cut.memory) <= device.local_memory ? cut : BytesCut{};
}

void multiply_bytes(Queue& queue, const Tensor& x, const QuantizedWeights& w, const Tensor& y, const BytesCut& cut)
{
    const std::int64_t row = w.inputs() / 2;
    const RowsProblem problem{x.size(0), w.outputs(), w.inputs(), x.stride(0), y.stride(0), w.group,
                              w.scales.stride(0), w.scales.stride(1), stride_of(w.zeros, 0), stride_of(w.zeros, 1),
                              item_columns(queue.device(), w, 4), cut.columns,
                              4 * row * std::max<std::int64_t>(1, 4096 / (4 * row))};
    const Program& program = queue.context().program(
        "kernels/quantized/cpu_int4_bytes.cl", fmt::format("{} -DROWS={}", options_of(w, cut.pieces), cut.rows));
    Tensor chunks = x;   // one row's are made by each work-item
    if (cut.rows > 1) {
        const std::int64_t fours = divide_up(x.size(0), cut.rows);
        chunks = queue.context().empty({fours * cut.chunk_bytes}, DataType::uint8, queue);
        const auto count = static_cast<std::size_t>(divide_up(w.inputs(), chunk));
        queue.launch(program.kernel("put_chunks"),
                     Range::groups({count, static_cast<std::size_t>(fours), 1}, {1, 1, 1}), x, chunks, problem);
    }
    queue.launch(program.kernel("multiply"),
                 Range::groups(static_cast<std::size_t>(divide_up(problem.columns, problem.item_columns))), x, chunks,
                 w.values, w.scales, w.zeros.defined() ? w.zeros : w.scales, y, problem,
                 LocalMemory{static_cast<std::size_t>(cut.memory)});
}

}  // namespace

bool cpu_int4(Queue& queue, const Tensor& x, const QuantizedWeights& w, const Tensor& y, Inputs inputs)
{
    const Device& device = queue.device();
    if (device.kind != DeviceKind::cpu)
        return false;
    if (inputs == Inputs::bytes)
        if (const BytesCut cut = bytes_cut(device, w, x.size(0)); cut.rows)
            return multiply_bytes(queue, x, w, y, cut), true;
    if (x.size(0) == 1)
        if (const RowCut cut = row_cut(device, w, inputs); cut.parts)
            return multiply_row(queue, x, w, y, cut), true;
    return false;
}

}  // namespace clprim::detail
