// Launches cpu.cl, cpu_backward_keys.cl and cpu_backward_queries.cl.
#include <algorithm>
#include <limits>

#include <kernels/attention/problem.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t cache_bytes = 208 << 10;   // of local memory, which must stay in the second-level cache

struct Cut {
    std::int64_t element, columns, step;   // bytes of a sum, lanes of a panel, from row to row of packed rows
    explicit Cut(const Attention& p)
        : element(size_of(accumulate_type(p.query.dtype))), columns(128 / element), step(head_step(p) + 16) {}
};

// forward_plan of tiles.cl.
struct ForwardPlan {
    std::int64_t rows, keys, blocks;
};

// Of a work-item that owns `panels` of queries, with blocks of `keys`.
std::int64_t queries_bytes(const Attention& p, const Cut& cut, std::int64_t panels, std::int64_t keys, bool backward)
{
    const std::int64_t size = p.query.size(3), value_size = p.value.size(3);
    const std::int64_t block = keys * (cut.columns * (1 + p.mask.defined() + backward) + 2 * cut.step);
    const std::int64_t rows = backward ? size + value_size + round_up(size, 4) : size + round_up(value_size, 4) + 2;
    return cut.element * (block + cut.columns * (panels * rows + !backward));
}

std::int64_t room(const Device& device)
{
    return std::min<std::int64_t>(static_cast<std::int64_t>(device.local_memory), cache_bytes);
}

// As many queries as share a packed block of keys, and as many keys as share loads and stores of sums; then even parts.
ForwardPlan forward_plan(const Attention& p, const Device& device, bool backward)
{
    const Cut cut(p);
    const std::int64_t queries = p.query.size(2), keys = p.key.size(2), all = divide_up(queries, cut.columns);
    double best = std::numeric_limits<double>::infinity();
    std::int64_t best_panels = 1, best_keys = 12;
    for (const std::int64_t block : {12, 24, 36, 48, 72, 96, 120})
        for (std::int64_t panels = 1; panels <= std::min<std::int64_t>(all, 16); ++panels) {
            if (queries_bytes(p, cut, panels, block, backward) > room(device))
                break;
            const double cost = 0.3 / static_cast<double>(panels) + 3 / static_cast<double>(block);
            if (cost < best)
                best = cost, best_panels = panels, best_keys = block;
        }
    // Enough work-items to share among threads, and none much larger than the others.
    const std::int64_t heads = std::max<std::int64_t>(1, p.query.size(0) * p.query.size(1));
    std::int64_t blocks = divide_up(all, best_panels);
    blocks = std::clamp(divide_up(4 * device.compute_units, heads), blocks, std::max<std::int64_t>(all, 1));
    const std::int64_t rows = divide_up(all, blocks) * cut.columns,
                       key_blocks = std::max<std::int64_t>(1, divide_up(keys, best_keys));
    return {rows, std::max<std::int64_t>(12, round_up(divide_up(keys, key_blocks), 12)), divide_up(queries, rows)};
}

// keys_plan of cpu_backward_keys.cl.
struct KeysPlan {
    std::int64_t rows, panels, blocks, sums_rows, sums_columns;
};

std::int64_t sums_columns(const Attention& p) { return round_up(p.query.size(3), Cut(p).columns); }

std::int64_t keys_bytes(const Attention& p, const Cut& cut, const KeysPlan& plan, bool want_q)
{
    const std::int64_t size = p.query.size(3), value_size = p.value.size(3);
    const std::int64_t lane =
        size + value_size + round_up(size, 4) + round_up(value_size, 4) + (want_q ? plan.sums_columns : 0);
    const std::int64_t row = 2 * cut.step + cut.columns * (2 * plan.panels + p.mask.defined() + (p.dropout > 0));
    return cut.element * (plan.panels * cut.columns * lane + plan.rows * row);
}

// As many keys as share the packing of queries, and as many queries as share loads and stores of sums; then even parts.
KeysPlan keys_plan(const Attention& p, const Device& device, bool want_q)
{
    const Cut cut(p);
    const std::int64_t queries = p.query.size(2), all = divide_up(p.key.size(2), cut.columns);
    KeysPlan best{12, 1, 1, round_up(queries, 4), sums_columns(p)};
    double least = std::numeric_limits<double>::infinity();
    for (const std::int64_t rows : {12, 24, 36, 48, 72, 96})
        for (std::int64_t panels = 1; panels <= std::min<std::int64_t>(all, 8); ++panels) {
            KeysPlan plan = best;
            plan.rows = rows, plan.panels = panels;
            const double cost = 0.15 / static_cast<double>(panels) + 1.2 / static_cast<double>(rows);
            if (cost < least && keys_bytes(p, cut, plan, want_q) <= room(device))
                least = cost, best = plan;
        }
    best.panels = divide_up(all, divide_up(all, best.panels));
    best.rows = round_up(divide_up(queries, divide_up(queries, best.rows)), 12);
    if (!want_q)
        best.blocks = divide_up(all, best.panels);
    return best;
}

// Whether one owner of each head is better than owners of its keys and of its queries, which need seven products for
// five.
bool owns_heads(const Attention& p, const Device& device)
{
    const std::int64_t heads = p.key.size(0) * p.key.size(1), units = std::max(1u, device.compute_units);
    return 5 * divide_up(heads, units) * units <= 7 * heads;
}

const Program& program(Queue& queue, const Attention& p, const char* file)
{
    return queue.context().program(file, concat(attention_options(p), " -DSTEP=", Cut(p).step));
}

}  // namespace

Rejection attention_cpu_rejects(const Attention& p, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "for CPU devices";
    if (std::max(p.query.size(3), p.value.size(3)) > longest_fused_head)
        return "heads of more than 256 elements";
    if (queries_bytes(p, Cut(p), 1, 12, true) > room(device) ||
        keys_bytes(p, Cut(p), {12, 1, 1, 0, sums_columns(p)}, true) > room(device))
        return "too little local memory";
    return std::nullopt;
}

void attention_cpu(Queue& queue, const Attention& p, const Tensor& y, const Tensor& logsumexp)
{
    const ForwardPlan plan = forward_plan(p, queue.device(), false);
    const Cut cut(p);
    const auto bytes = static_cast<std::size_t>(queries_bytes(p, cut, plan.rows / cut.columns, plan.keys, false));
    launch(queue, program(queue, p, "kernels/attention/cpu.cl").kernel("forward"),
           Range::groups(static_cast<std::size_t>(p.query.size(0) * p.query.size(1) * plan.blocks)), p.query, p.key,
           p.value, p.mask, y, logsumexp, attention_arguments(p, y), plan, dropout_arguments(p), scale_of(p),
           LocalMemory{bytes});
}

void attention_cpu_backward(Queue& queue, const Attention& p, const AttentionResults& r, const AttentionGradients& g)
{
    const Cut cut(p);
    const Tensor delta = attention_delta(queue, p, r);
    const auto arguments = attention_arguments(p, r.y);
    const auto dropout = dropout_arguments(p);
    GradientLayouts layouts = gradient_layouts(r.grad_y, g);
    const bool keys = g.key.defined() || g.value.defined(),
               together = keys && g.query.defined() && owns_heads(p, queue.device());
    const auto groups = [](std::int64_t count) { return Range::groups(static_cast<std::size_t>(count)); };
    if (keys) {
        layouts.want_q = together;
        const KeysPlan plan = keys_plan(p, queue.device(), together);
        Tensor sums;
        if (together)
            sums = queue.context().empty({p.query.size(0) * p.query.size(1), plan.sums_rows, plan.sums_columns},
                                         accumulate_type(p.query.dtype), queue);
        const Program& owner = program(queue, p, "kernels/attention/cpu_backward_keys.cl");
        launch(queue, owner.kernel("backward_keys"), groups(p.key.size(0) * p.key.size(1) * plan.blocks), p.query,
               p.key, p.value, p.mask, r.grad_y, r.logsumexp, delta, g.query, g.key, g.value, sums, plan, arguments,
               layouts, dropout, scale_of(p),
               LocalMemory{static_cast<std::size_t>(keys_bytes(p, cut, plan, together))});
    }
    if (g.query.defined() && !together) {
        const ForwardPlan plan = forward_plan(p, queue.device(), true);
        const std::int64_t bytes = queries_bytes(p, cut, plan.rows / cut.columns, plan.keys, true);
        const Program& owner = program(queue, p, "kernels/attention/cpu_backward_queries.cl");
        launch(queue, owner.kernel("backward_queries"), groups(p.query.size(0) * p.query.size(1) * plan.blocks),
               p.query, p.key, p.value, p.mask, r.grad_y, r.logsumexp, delta, g.query, plan, arguments, layouts,
               dropout, scale_of(p), LocalMemory{static_cast<std::size_t>(bytes)});
    }
}

}  // namespace clprim::detail
