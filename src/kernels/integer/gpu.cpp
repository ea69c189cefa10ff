// Launches gpu.cl.
#include <kernels/integer/gpu.hpp>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t tile = 64, slab_words = 16;   // TILE and SLAB of gpu.cl

// integer_product of gpu.cl.
struct WordProduct {
    std::int64_t m, n, k, words, c_row, c_column, c_batch;
};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

const Program& program_for(Queue& queue, DataType type, bool along_k, bool aligned)
{
    const MatrixEngineChoice engine = matrix_engine(queue.device());
    return queue.context().program("kernels/integer/gpu.cl",
                                   fmt::format("-DX={} -DPTX={:d} -DALONG_K={:d} -DALIGNED={:d}", name_of(type),
                                               is_mma(engine.engine) && !engine.emulated, along_k,
                                               aligned));
}

Tensor pack_lines(Queue& queue, const Tensor& from, const Tensor& zeros, PackedMatrix p, std::int64_t batch)
{
    const std::int64_t count = words_of_line(p.depth), lines = batch * p.lines;
    p.zero_step = zero_step(zeros);
    const IntegerLines packed(queue.context().empty({lines * (count + 2)}, DataType::int32, queue), lines);
    const bool along_k = p.k_step == 1;
    const bool aligned =
        along_k && (p.line_step | p.batch_step | static_cast<std::int64_t>(from.buffer_offset())) % 4 == 0;
    queue.launch(program_for(queue, from.dtype, along_k, aligned).kernel("pack_lines"),
                 Range::groups({size(divide_up(p.lines, along_k ? 4 : 16)), size(batch), 1}, {256, 1, 1}), from,
                 zeros.defined() ? zeros : from, packed.all, packed.sums, p, static_cast<cl_int>(count));
    return packed.all;
}

}  // namespace

Rejection gpu_integer_words_rejects(const IntegerProduct&, const Device& device)
{
    if (device.kind == DeviceKind::cpu)
        return "for GPUs";
    return device.max_work_group_size < 256 ? Rejection("work-groups of less than 256 work-items") : std::nullopt;
}

void gpu_integer_words(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    const IntegerLines rows = pack_rows(queue, p, t), columns = pack_columns(queue, p, t);
    const WordProduct q{p.m, p.n, p.k, words_of_line(p.k), p.c.row, p.c.column, p.c.batch};
    queue.launch(program_for(queue, DataType::int8, true, true).kernel("multiply"),
                 Range::groups({size(divide_up(p.n, tile)), size(divide_up(p.m, tile)), size(p.batch)}, {16, 16, 1}),
                 rows.all, rows.sums, columns.all, columns.sums, t.c, q);
}

std::int64_t words_of_line(std::int64_t k) { return round_up(divide_up(k, 4), slab_words); }

IntegerLines pack_rows(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    return {pack_lines(queue, t.a, t.zeros.a, {p.m, p.k, p.a.row, p.a.column, p.a.batch, 0}, p.batch), p.batch * p.m};
}

IntegerLines pack_columns(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    const auto pack = [&] {
        return pack_lines(queue, t.b, t.zeros.b, {p.n, p.k, p.b.column, p.b.row, p.b.batch, 0}, p.batch);
    };
    Prepared* prepared = t.zeros.prepared_b;
    return {prepared ? prepared->get(queue, fmt::format("integer words {} {} {} {} {} {}", p.k, p.n, p.batch,
                                                        p.b.column, p.b.row, t.b.offset), pack)
                     : pack(),
            p.batch * p.n};
}

}  // namespace clprim::detail
