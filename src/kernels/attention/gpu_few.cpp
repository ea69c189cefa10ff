// Launches gpu_few.cl.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <core/gpu_rate.hpp>
#include <kernels/attention/problem.hpp>
#include <kernels/gemm/gpu_tile.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t items = 128, span = 64;       // as in gpu_few.cl
constexpr std::int64_t most_queries = 8;             // beyond, tiles of queries share what is read
constexpr std::int64_t most_keys = 256;              // of a piece: what it writes is little beside what it reads
constexpr std::int64_t least_keys = 2 * span;
constexpr std::size_t most_local = 40 << 10;

std::int64_t rows_of(const Attention& p) { return p.query.size(1) / p.key.size(1) * p.query.size(2); }

std::size_t local_bytes(const Attention& p, std::int64_t rows, std::int64_t chunk)
{
    return static_cast<std::size_t>(rows * head_step(p) + 4 * rows * items + rows * chunk) *
           size_of(accumulate_type(p.query.dtype));
}

// Rows of a work-group, none where local memory is too small.
std::int64_t rows_of_group(const Attention& p, const Device& device)
{
    const std::size_t fixed = (items + 8) * size_of(accumulate_type(p.query.dtype)) + 48;   // that the kernel declares
    for (const std::int64_t rows : {8, 4, 2, 1})
        if (rows < 2 * rows_of(p) &&
            local_bytes(p, rows, most_keys) + fixed <= std::min<std::size_t>(device.local_memory, most_local))
            return rows;
    return 0;
}

struct Cut {
    std::int64_t rows, groups, splits, chunk;   // groups: of one piece
};

// As many pieces as fill the device.
Cut cut_of(const Attention& p, const Device& device)
{
    const std::int64_t rows = rows_of_group(p, device), keys = p.key.size(2);
    const std::int64_t groups = p.query.size(0) * p.key.size(1) * divide_up(rows_of(p), rows);
    const std::int64_t fill = std::max<std::int64_t>(static_cast<std::int64_t>(gpu_rate(device).engines / 2), 4);
    const std::int64_t wanted = divide_up(fill, groups);
    const std::int64_t chunk = std::clamp(round_up(divide_up(keys, wanted), span), least_keys, most_keys);
    return {rows, groups, divide_up(keys, chunk), chunk};
}

std::string options(const Attention& p, std::int64_t rows, const Device& device)
{
    const std::int64_t farthest = std::max(
        {line_extent(p.query, 1), line_extent(p.key, span), line_extent(p.value, span)});
    const int sub_group = spilling_sub_group(device);
    return fmt::format("{} -DHEAD={} -DROWS={}{} -DOFFSET={}{}{}", attention_options(p), head_step(p), rows,
                       quad_options(std::array{p.query, p.key, p.value}),
                       farthest < std::int64_t{1} << 31 ? "int" : "long", p.mask.defined() ? " -DMASKED" : "",
                       sub_group ? fmt::format(" -DSUB_GROUP={}", sub_group) : "");
}

}  // namespace

Rejection attention_gpu_few_rejects(const Attention& p, const Device& device)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (std::max(p.query.size(3), p.value.size(3)) > longest_fused_head)
        return "heads of more than 256 elements";
    if (p.dropout > 0)
        return "dropout";
    constexpr std::int64_t most = std::int64_t{1} << 27;   // of eight rows each
    if (p.query.size(0) * p.query.size(1) >= most || p.key.size(2) >= most)
        return "more than 2^27 heads or keys";
    if (p.query.size(2) > most_queries)
        return "more than eight queries";
    if (rows_of_group(p, device) == 0 || device.max_work_group_size < static_cast<std::size_t>(items))
        return "too little local memory or too small work-groups";
    return std::nullopt;
}

void attention_gpu_few(Queue& queue, const Attention& p, const Tensor& y, const Tensor& logsumexp)
{
    const Cut cut = cut_of(p, queue.device());
    const Program& program =
        queue.context().program("kernels/attention/gpu_few.cl", options(p, cut.rows, queue.device()));
    const std::int64_t rows = p.query.size(0) * p.query.size(1) * p.query.size(2);
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    const auto scratch = [&](const Dims& shape) {
        return queue.context().empty(shape, accumulate_type(p.query.dtype), queue);
    };
    Tensor sums, tops;
    if (cut.splits > 1)
        sums = scratch({cut.splits, rows, head_step(p)}), tops = scratch({2, cut.splits, rows});
    const AttentionArguments arguments = attention_arguments(p, y);
    launch(queue, program.kernel("forward"),
           Range::groups({size(cut.splits), size(cut.groups), 1}, {size(items), 1, 1}), p.query, p.key, p.value, p.mask,
           y, logsumexp, sums, tops, arguments, scale_of(p), static_cast<cl_int>(cut.splits),
           static_cast<cl_int>(cut.chunk), LocalMemory{local_bytes(p, cut.rows, cut.chunk)});
    if (cut.splits > 1)
        launch(queue, program.kernel("combine"), Range::groups({size(rows), 1, 1}, {size(items), 1, 1}), sums, tops, y,
               logsumexp, arguments, static_cast<cl_int>(cut.splits));
}

}  // namespace clprim::detail
