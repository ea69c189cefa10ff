// Launches gpu.cl.
#include <algorithm>

#include <kernels/attention/problem.hpp>

namespace clprim::detail {
namespace {

// How a block is shared among a work-group; all -D options of gpu.cl.
struct Tiling {
    std::int64_t block, side_x, side_y;
    std::int64_t items() const { return side_x * side_y; }
};
constexpr Tiling tilings[] = {{32, 16, 8}, {16, 16, 8}, {8, 8, 8}};   // best first

constexpr std::int64_t most_local = 48 << 10;   // so that at least two work-groups share a large local memory

std::size_t local_bytes(const Attention& p, const Tiling& t, bool backward)
{
    const std::int64_t rows = t.block * (head_step(p) + 1), scores = t.block * (t.block + 1);
    const std::int64_t numbers = backward ? 4 * rows + 2 * scores : 2 * rows + scores + t.block * t.side_x;
    return static_cast<std::size_t>(numbers) * size_of(accumulate_type(p.query.dtype));
}

const Tiling* tiling_for(const Attention& p, const Device& device, bool backward)
{
    for (const Tiling& t : tilings)
        if (local_bytes(p, t, backward) <= std::min<std::size_t>(device.local_memory, most_local) &&
            static_cast<std::size_t>(t.items()) <= device.max_work_group_size)
            return &t;
    return nullptr;
}

Rejection rejects(const Attention& p, const Device& device, bool backward)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (std::max(p.query.size(3), p.value.size(3)) > longest_fused_head)
        return "heads of more than 256 elements";
    if (!tiling_for(p, device, backward))
        return "too little local memory";
    return std::nullopt;
}

struct Work {
    const Tiling& tiling;
    const Program& program;
    LocalMemory local;

    Work(Queue& queue, const Attention& p, bool backward)
        : tiling(*tiling_for(p, queue.device(), backward)),
          program(
              queue.context().program("kernels/attention/gpu.cl",
                                      concat(attention_options(p), " -DHEAD=", head_step(p), " -DBLOCK=", tiling.block,
                                             " -DSIDE_X=", tiling.side_x, " -DSIDE_Y=", tiling.side_y))),
          local{local_bytes(p, tiling, backward)}
    {
    }

    // A work-group for each block of `rows` rows of `heads` heads in all.
    Range range(std::int64_t heads, std::int64_t rows) const
    {
        return Range::groups({static_cast<std::size_t>(heads * divide_up(rows, tiling.block)), 1, 1},
                             {static_cast<std::size_t>(tiling.side_x), static_cast<std::size_t>(tiling.side_y), 1});
    }
};

}  // namespace

Rejection attention_gpu_rejects(const Attention& p, const Device& device) { return rejects(p, device, false); }
Rejection attention_gpu_backward_rejects(const Attention& p, const Device& device) { return rejects(p, device, true); }

void attention_gpu(Queue& queue, const Attention& p, const Tensor& y, const Tensor& logsumexp)
{
    const Work work(queue, p, false);
    launch(queue, work.program.kernel("forward"), work.range(p.query.size(0) * p.query.size(1), p.query.size(2)),
           p.query, p.key, p.value, p.mask, y, logsumexp, attention_arguments(p, y), dropout_arguments(p), scale_of(p),
           work.local);
}

void attention_gpu_backward(Queue& queue, const Attention& p, const AttentionResults& r, const AttentionGradients& g)
{
    const Work work(queue, p, true);
    const Tensor delta = attention_delta(queue, p, r);
    const auto arguments = attention_arguments(p, r.y);
    const auto layouts = gradient_layouts(r.grad_y, g);
    const auto dropout = dropout_arguments(p);
    if (g.query.defined())
        launch(queue, work.program.kernel("backward_queries"),
               work.range(p.query.size(0) * p.query.size(1), p.query.size(2)), p.query, p.key, p.value, p.mask,
               r.grad_y, r.logsumexp, delta, g.query, arguments, layouts, dropout, scale_of(p), work.local);
    if (g.key.defined() || g.value.defined())
        launch(queue, work.program.kernel("backward_keys"), work.range(p.key.size(0) * p.key.size(1), p.key.size(2)),
               p.query, p.key, p.value, p.mask, r.grad_y, r.logsumexp, delta, g.key, g.value, arguments, layouts,
               dropout, scale_of(p), work.local);
}

}  // namespace clprim::detail
