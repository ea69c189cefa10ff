// Launches gpu.cl, and chooses among the products for GPUs.
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
                                               engine.engine == MatrixEngine::mma && !engine.emulated, along_k,
                                               aligned));
}

Tensor pack_lines(Queue& queue, const Tensor& from, const Tensor& zeros, PackedMatrix p, std::int64_t batch)
{
    const std::int64_t count = words_of_line(p.depth), lines = batch * p.lines;
    p.zero_step = !zeros.defined() ? -1 : zeros.numel() == 1 ? 0 : 1;
    const IntegerLines packed(queue.context().empty({lines * (count + 2)}, DataType::int32, queue), lines);
    const bool along_k = p.k_step == 1;
    const bool aligned =
        along_k && (p.line_step | p.batch_step | static_cast<std::int64_t>(from.buffer_offset())) % 4 == 0;
    queue.launch(program_for(queue, from.dtype, along_k, aligned).kernel("pack_lines"),
                 Range::groups({size(divide_up(p.lines, along_k ? 4 : 16)), size(batch), 1}, {256, 1, 1}), from,
                 zeros.defined() ? zeros : from, packed.all, packed.sums, p, static_cast<cl_int>(count));
    return packed.all;
}

Rejection gpu_words_rejects(const IntegerProduct&, const Device& device)
{
    return device.max_work_group_size < 256 ? Rejection("work-groups of less than 256 work-items") : std::nullopt;
}

void gpu_words(Queue& queue, const IntegerProduct& p, const IntegerTensors& t)
{
    const IntegerLines rows = pack_rows(queue, p, t), columns = pack_columns(queue, p, t);
    const WordProduct q{p.m, p.n, p.k, words_of_line(p.k), p.c.row, p.c.column, p.c.batch};
    queue.launch(program_for(queue, DataType::int8, true, true).kernel("multiply"),
                 Range::groups({size(divide_up(p.n, tile)), size(divide_up(p.m, tile)), size(p.batch)}, {16, 16, 1}),
                 rows.all, rows.sums, columns.all, columns.sums, t.c, q);
}

constexpr IntegerImplementation implementations[] = {
    {"gpu_matrix", gpu_integer_matrix_rejects, gpu_integer_matrix, true, gpu_integer_matrix_advises_against},
    {"gpu_words", gpu_words_rejects, gpu_words},
};

}  // namespace

std::span<const IntegerImplementation> integer_gpu_implementations() { return implementations; }

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
    return p;
}

std::string describe(const IntegerProduct& p)
{
    const auto one = [](DataType type, const MatrixLayout& layout, bool zero) {
        return fmt::format("{}:{}:{}:{}{}", name_of(type), layout.row, layout.column, layout.batch,
                           zero ? ":zero" : "");
    };
    return fmt::format("batch={} m={} n={} k={} a={} b={} c={}:{}:{}", p.batch, p.m, p.n, p.k,
                       one(p.a_type, p.a, p.a_zero), one(p.b_type, p.b, p.b_zero), p.c.row, p.c.column, p.c.batch);
}

}  // namespace clprim::detail
