// Launches gpu.cl and gpu_backward.cl.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include <kernels/attention/problem.hpp>
#include <kernels/gemm/gpu_tile.hpp>

namespace clprim::detail {
namespace {

// How a block is shared among a work-group, the best first below; all -D options of gpu_tiles.cl.
struct Tiling {
    std::int64_t block, side_x, side_y;
    std::int64_t items() const { return side_x * side_y; }
    std::int64_t span() const { return 4 * side_x; }
};
constexpr Tiling tilings[] = {{64, 8, 16}, {32, 16, 8}, {32, 8, 8}, {16, 16, 8}, {16, 8, 8}, {8, 16, 8}, {8, 8, 8}};

constexpr std::int64_t most_local = 48 << 10;   // so that at least two work-groups share a large local memory
constexpr std::int64_t most_sums = 64;          // of a work-item, which stay in registers
// Of float64 and its scores beside Intel's 128 registers, where blocks are small enough for it.
constexpr std::int64_t most_wide_sums = 24, most_wide_local = 60 << 10;

std::size_t local_bytes(const Attention& p, const Tiling& t, bool backward)
{
    const std::int64_t own = t.block * (head_step(p) + 4), slab = t.span() * (64 + 4);
    const std::int64_t scores = t.block * (t.span() + 4), shared = t.block * t.side_x;
    return static_cast<std::size_t>((backward ? 2 * own : own + shared) + slab + scores) *
           size_of(accumulate_type(p.query.dtype));
}

const Tiling* tiling_of(const Attention& p, const Device& device, bool backward, bool wide)
{
    const std::size_t local = wide ? most_wide_local : most_local;
    for (const Tiling& t : tilings)
        if (local_bytes(p, t, backward) <= std::min(device.local_memory, local) &&
            (t.block * head_step(p) + (wide ? t.block * t.span() : 0)) / t.items() * (backward ? 2 : 1) <=
                (wide ? most_wide_sums : most_sums) &&
            static_cast<std::size_t>(t.items()) <= device.max_work_group_size)
            return &t;
    return nullptr;
}

const Tiling* tiling_for(const Attention& p, const Device& device, bool backward)
{
    const bool wide = size_of(accumulate_type(p.query.dtype)) > 4 && !device.sub_group_sizes.empty();
    const Tiling* t = wide ? tiling_of(p, device, backward, true) : nullptr;
    return t ? t : tiling_of(p, device, backward, false);
}

Rejection rejects(const Attention& p, const Device& device, bool backward)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (std::max(p.query.size(3), p.value.size(3)) > longest_fused_head)
        return "heads of more than 256 elements";
    constexpr std::int64_t most = std::int64_t{1} << 30;
    if (p.query.size(2) >= most || p.key.size(2) >= most ||
        p.query.size(0) * p.query.size(1) * divide_up(p.query.size(2), tilings[std::size(tilings) - 1].block) >= most)
        return "more than 2^30 queries or keys";
    if (!tiling_for(p, device, backward))
        return "too little local memory";
    return std::nullopt;
}

struct Work {
    const Tiling& tiling;
    const Program& program;
    LocalMemory local;

    Work(Queue& queue, const char* file, const Attention& p, std::initializer_list<Tensor> others, bool backward)
        : tiling(*tiling_for(p, queue.device(), backward)),
          program(queue.context().program(file, options(p, tiling, others) + order_option(queue.device()))),
          local{local_bytes(p, tiling, backward)}
    {
    }

    static std::string order_option(const Device& device)
    {
        // Intel's compiler ends at 8 by itself where sums fill the registers, but writes tighter loops when asked.
        const bool eights = has_eights(device) && device.has_extension("cl_intel_required_subgroup_size");
        const int items = eights ? 8 : spilling_sub_group(device);
        return items ? fmt::format(" -DSUB_GROUP={}", items) : on_nvidia(device) ? " -DINTERLEAVED=1" : "";
    }

    static std::string options(const Attention& p, const Tiling& t, std::initializer_list<Tensor> others)
    {
        const std::int64_t lines = std::max(t.block, t.span());
        std::vector<Tensor> all{p.query, p.key, p.value};
        all.insert(all.end(), others);
        std::int64_t farthest = line_extent(p.mask, lines);
        for (const Tensor& one : all)
            farthest = std::max(farthest, line_extent(one, lines));
        return fmt::format("{} -DHEAD={} -DBLOCK={} -DSIDE_X={} -DSIDE_Y={}{} -DOFFSET={}{}", attention_options(p),
                           head_step(p), t.block, t.side_x, t.side_y, quad_options(all),
                           farthest < std::int64_t{1} << 31 ? "int" : "long", p.mask.defined() ? " -DMASKED" : "");
    }

    // A work-group for each block of `rows` rows of `heads` heads in all.
    Range range(std::int64_t heads, std::int64_t rows) const
    {
        return Range::groups({static_cast<std::size_t>(heads * divide_up(rows, tiling.block)), 1, 1},
                             {static_cast<std::size_t>(tiling.side_x), static_cast<std::size_t>(tiling.side_y), 1});
    }
};

}  // namespace

bool in_quads(const Tensor& t)
{
    return !t.defined() || (t.stride(3) == 1 && (t.stride(0) | t.stride(1) | t.stride(2) | t.size(3) |
                                                 static_cast<std::int64_t>(t.buffer_offset())) % 4 == 0);
}

std::string quad_options(std::span<const Tensor> tensors)
{
    const auto neighbours = [](const Tensor& t) { return !t.defined() || (t.stride(3) == 1 && t.size(3) >= 4); };
    return fmt::format(" -DALIGNED={:d} -DNEIGHBOURS={:d}", std::ranges::all_of(tensors, in_quads),
                       std::ranges::all_of(tensors, neighbours));
}

std::int64_t line_extent(const Tensor& t, std::int64_t lines)
{
    return t.defined() ? lines * std::abs(t.stride(2)) + (lines + t.size(3)) * std::abs(t.stride(3)) : 0;
}

Rejection attention_gpu_rejects(const Attention& p, const Device& device) { return rejects(p, device, false); }
Rejection attention_gpu_backward_rejects(const Attention& p, const Device& device) { return rejects(p, device, true); }

void attention_gpu(Queue& queue, const Attention& p, const Tensor& y, const Tensor& logsumexp)
{
    const Work work(queue, "kernels/attention/gpu.cl", p, {y}, false);
    launch(queue, work.program.kernel("forward"), work.range(p.query.size(0) * p.query.size(1), p.query.size(2)),
           p.query, p.key, p.value, p.mask, y, logsumexp, attention_arguments(p, y), dropout_arguments(p), scale_of(p),
           work.local);
}

void attention_gpu_backward(Queue& queue, const Attention& p, const AttentionResults& r, const AttentionGradients& g)
{
    const Work work(queue, "kernels/attention/gpu_backward.cl", p, {r.grad_y, g.query, g.key, g.value}, true);
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
