#include <kernels/quantized/cpu_int4.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t chunk = 128;   // inputs that kernels take at a time

// int4_problem of cpu_int4.cl.
struct Int4Problem {
    std::int64_t rows, columns, depth, x_row, y_row, group, scale_group, scale_column, zero_group, zero_column,
        item_columns, block_columns, ahead;
};

std::int64_t stride_of(const Tensor& zeros, std::size_t axis) { return zeros.defined() ? zeros.stride(axis) : 0; }

// How cpu_int4.cl does rows: those at a time, bytes of a number of x, scales of a chunk, columns at a time, bytes of
// chunks and of local memory; no rows: it cannot.
struct Cut {
    std::int64_t rows = 0, digits = 1, pieces = 0, columns = 0, chunk_bytes = 0, memory = 0;
};

Cut cut_of(const Device& device, const QuantizedWeights& w, std::int64_t m, Inputs inputs)
{
    // Rows beyond four are faster by cpu_rows.cl, which converts a weight once for all of them; of halves, which it
    // converts as well, beyond eight.
    const std::int64_t exact_rows = w.scales.dtype == DataType::float32 ? 4 : 8;
    if (device.vnni_bytes != 64 || w.outputs() < 4 || (inputs == Inputs::exact && m > exact_rows))
        return {};
    Cut cut;
    const std::int64_t k = w.inputs(), chunks = divide_up(k, chunk);
    cut.rows = m <= 2 ? m : 4;
    cut.digits = inputs == Inputs::bytes ? 1 : w.scales.dtype == DataType::bfloat16 ? 2 : 3;
    cut.pieces = w.group % 64 != 0 ? 4 : w.group % chunk != 0 ? 2 : 1;
    cut.chunk_bytes = ((128 * cut.digits + 128) * cut.rows + 128) * chunks;
    const auto memory = [&](std::int64_t columns) {
        return (cut.rows == 1 ? cut.chunk_bytes : 0) + columns * 4 * round_up(chunks * cut.pieces, 16) +
               columns * 64 * cut.rows + 4 * (k / w.group);
    };
    // Sixteen of each stream, which are read as a vector where scales of neighbours lie side by side, or fewer.
    for (cut.columns = 64; cut.columns >= 16; cut.columns /= 2) {
        cut.memory = memory(cut.columns);
        if (static_cast<std::size_t>(cut.memory) <= device.local_memory)
            return cut;
    }
    return {};
}

void multiply(Queue& queue, const Tensor& x, const QuantizedWeights& w, const Tensor& y, const Cut& cut)
{
    const std::int64_t row = w.inputs() / 2, items = reading_items(w.values.numel(), queue.device().compute_units);
    const Int4Problem problem{x.size(0), w.outputs(), w.inputs(), x.stride(0), y.stride(0), w.group,
                              w.scales.stride(0), w.scales.stride(1), stride_of(w.zeros, 0), stride_of(w.zeros, 1),
                              round_up(divide_up(w.outputs(), items), 4), cut.columns,
                              row * std::max<std::int64_t>(1, 2048 / row)};
    const Program& program = queue.context().program(
        "kernels/quantized/cpu_int4.cl",
        fmt::format("-DX={} -DPIECES={} -DROWS={} -DDIGITS={}{}", name_of(w.scales.dtype), cut.pieces, cut.rows,
                    cut.digits, w.zeros.defined() ? " -DZEROS" : ""));
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
    const Cut cut = cut_of(device, w, x.size(0), inputs);
    if (cut.rows == 0)
        return false;
    multiply(queue, x, w, y, cut);
    return true;
}

}  // namespace clprim::detail
