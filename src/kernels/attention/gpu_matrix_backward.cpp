// Launches gpu_matrix_backward.cl.
#include <cmath>

#include <fmt/format.h>

#include <kernels/attention/gpu_matrix.hpp>

namespace clprim::detail {
namespace {

// What one launch sums: all of a work-group's owners' gradients, or one of those of keys.
enum class Sums { queries, keys_and_values, keys, values };

// How a work-group's lines are shared; the options of gpu_matrix_backward.cl.
struct Tile {
    std::int64_t sub_groups, own, span, kept, part;
    bool ahead;
};

// Some have too few registers for both sums of keys of 128 elements.
bool both_at_once(MatrixEngineChoice engine, std::int64_t head)
{
    return head == 64 || engine.engine == MatrixEngine::mma || engine.engine == MatrixEngine::wmma12 ||
           engine.engine == MatrixEngine::mfma;
}

Tile tile_of(MatrixEngineChoice engine, const Attention& p, Sums sums)
{
    const std::int64_t head = attention_matrix_head(p);
    const bool small_head = head == 64, both = sums == Sums::keys_and_values;
    const std::int64_t all = sums == Sums::values ? 1 : 2;   // owned lines that may be kept
    const bool of_queries = sums == Sums::queries, of_values = sums == Sums::values;
    const bool masked = p.mask.defined();   // and registers hold places in the mask as well
    const bool tight = masked && p.query.size(3) % 8 != 0;
    switch (engine.engine) {
    case MatrixEngine::dpas16:
        return small_head ? Tile{8, 1, 32, both ? 1 : all, both ? 16 : 32, false} : Tile{8, 1, 32, 0, 32, false};
    case MatrixEngine::dpas8:
        return small_head  ? Tile{16, 1, 32, both ? 0 : all, both ? 16 : 32, false}
               : of_values ? Tile{16, 1, 32, 0, 32, false}
                           : Tile{8, 1, 32, 0, 16, false};
    case MatrixEngine::mfma: return {2, 1, 32, all, 32, true};
    case MatrixEngine::wmma:
        return small_head ? Tile{4, of_queries ? 2 : 1, 32, of_queries ? 1 : all, 16, false}
                          : Tile{4, 1, 32, 1, 16, false};
    case MatrixEngine::wmma12:
        return small_head ? Tile{4, of_queries ? 2 : 1, 32, all, 16, false} : Tile{4, 1, 32, both ? 1 : all, 16, false};
    case MatrixEngine::mma75:
        return small_head ? Tile{4, both ? 1 : 2, 32, !both ? all : p.dropout > 0 ? 0 : 1, 16, false}
                          : Tile{4, 1, 32, tight ? 1 : all, 16, false};
    default:
        return small_head      ? Tile{4, 2, 32, !both ? all : p.dropout > 0 ? 0 : 1, 16, false}
               : tight && both ? Tile{4, 1, 16, 0, 16, false}
                               : Tile{4, 1, 32, both || tight ? 1 : all, 16, false};
    }
}

std::size_t local_bytes(MatrixEngineChoice engine, const Attention& p, const Tile& tile, Sums sums)
{
    const AttentionWords words(engine, p, tile.sub_groups * tile.own, tile.span);
    const std::int64_t owned = sums == Sums::values ? 1 : 2;
    const bool transposing = is_mma(engine.engine);
    const std::int64_t slabs = sums == Sums::values ? words.along + words.turned
                                                    : 2 * words.along + (transposing ? 0 : words.turned);
    const std::int64_t step = slabs + (sums == Sums::keys_and_values && !transposing ? words.turned : 0) +
                              (sums == Sums::queries ? 0 : 2 * tile.span) + words.dropout;
    return words.bytes((owned - tile.kept) * words.own + step, owned * words.own, tile.sub_groups);
}

struct Backward {
    MatrixEngineChoice engine;
    Queue& queue;
    const Attention& p;
    const AttentionResults& r;
    const AttentionGradients& g;
    Tensor delta;

    void launch_for(Sums sums) const
    {
        const bool of_queries = sums == Sums::queries;
        const Tile tile = tile_of(engine, p, sums);
        const MatrixTile shared{tile.sub_groups, 1, tile.own, 1};
        const char* name = of_queries ? "backward_queries" : sums == Sums::values ? "backward_values" : "backward_keys";
        const std::string options =
            attention_matrix_options(engine, p, {r.grad_y, g.query, g.key, g.value}, shared, tile.span) +
            fmt::format(" -DBACKWARD={} -DOWN_KEYS={:d} -DDIFFERENCES={:d} -DPROBABILITIES={:d} -DKEPT={} -DPART={} "
                        "-DAHEAD={:d}",
                        name, !of_queries, sums != Sums::values,
                        sums == Sums::values || sums == Sums::keys_and_values, tile.kept, tile.part, tile.ahead);
        const Tensor& owners = of_queries ? p.query : p.key;
        const std::int64_t block = AttentionWords::lines_of(engine, tile.sub_groups * tile.own);
        const std::int64_t groups = owners.size(0) * owners.size(1) * divide_up(owners.size(2), block);
        const std::int64_t items = tile.sub_groups * shape_of(engine.engine).lanes;
        // Of a scale of zero nothing is left of scores but what is no number.
        const double score_scale = p.scale == 0 ? 1e-30 : p.scale * 1.4426950408889634;
        launch(queue, queue.context().program("kernels/attention/gpu_matrix_backward.cl", options).kernel(name),
               Range::groups({static_cast<std::size_t>(groups), 1, 1}, {static_cast<std::size_t>(items), 1, 1}),
               p.query, p.key, p.value, p.mask, r.grad_y, r.logsumexp, delta, of_queries ? g.query : g.key, g.value,
               attention_arguments(p, r.y), gradient_layouts(r.grad_y, g), dropout_arguments(p),
               static_cast<cl_float>(p.scale), static_cast<cl_float>(score_scale));
    }
};

}  // namespace

Rejection attention_gpu_matrix_backward_rejects_by(MatrixEngineChoice engine, const Attention& p, const Device& device)
{
    if (auto reason = attention_matrix_rejects_shape(p, attention_matrix_longest_backward))
        return reason;
    if (auto reason = matrix_engine_rejects_by(engine, p.query.dtype, device))
        return reason;
    for (const Sums sums : {Sums::queries, Sums::keys_and_values, Sums::keys, Sums::values}) {
        if (sums == Sums::keys_and_values && !both_at_once(engine, attention_matrix_head(p)))
            continue;
        const Tile tile = tile_of(engine, p, sums);
        if (device.max_work_group_size < static_cast<std::size_t>(tile.sub_groups * shape_of(engine.engine).lanes))
            return "work-groups are too small";
        if (device.local_memory < local_bytes(engine, p, tile, sums))
            return "too little local memory";
    }
    return std::nullopt;
}

Rejection attention_gpu_matrix_backward_rejects(const Attention& p, const Device& device)
{
    if (auto reason = attention_matrix_rejects(p, device, attention_matrix_longest_backward))
        return reason;
    const MatrixEngineChoice engine = matrix_engine(device);
    if (auto reason = attention_gpu_matrix_backward_rejects_by(engine, p, device))
        return reason;
    if (!attention_backward_by_matrix_works(device, engine, p.query.dtype))
        return fmt::format("attention's gradients by {} do not work on this device", name_of(engine.engine));
    return std::nullopt;
}

Rejection attention_gpu_matrix_backward_advises_against(const Attention& p, const Device& device)
{
    return attention_gpu_matrix_advises_against(p, device);
}

void attention_gpu_matrix_backward_by(MatrixEngineChoice engine, Queue& queue, const Attention& p,
                                      const AttentionResults& r, const AttentionGradients& g)
{
    const Backward backward{engine, queue, p, r, g, attention_delta(queue, p, r)};
    if (g.query.defined())
        backward.launch_for(Sums::queries);
    if (g.key.defined() && g.value.defined() && both_at_once(engine, attention_matrix_head(p)))
        return backward.launch_for(Sums::keys_and_values);
    if (g.key.defined())
        backward.launch_for(Sums::keys);
    if (g.value.defined())
        backward.launch_for(Sums::values);
}

void attention_gpu_matrix_backward(Queue& queue, const Attention& p, const AttentionResults& r,
                                   const AttentionGradients& g)
{
    attention_gpu_matrix_backward_by(matrix_engine(queue.device()), queue, p, r, g);
}

}  // namespace clprim::detail
