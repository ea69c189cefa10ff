// Launches gpu_matrix.cl.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include <core/gpu_rate.hpp>
#include <kernels/attention/gpu_matrix.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t longest_head = 128, shortest_head = 64;

// How a work-group's queries are shared, for lines of 64 and of 128 elements.
struct Tile {
    std::int64_t sub_groups, own, span;
    bool kept;                  // queries stay in registers
    int buffers = 2;            // steps of keys and values in local memory
    bool few_registers = false; // places in memory are found anew in each step
};

Tile tile_of(MatrixEngineChoice engine, const Attention& p, bool large)
{
    const bool small_head = attention_matrix_head(p) == shortest_head;
    const auto with = [&](Tile tile) {
        if (!large)
            tile.sub_groups /= 2;
        return tile;
    };
    switch (engine.engine) {
    case MatrixEngine::dpas16: return small_head ? with({8, 1, 32, true}) : Tile{16, 1, 32, false};
    case MatrixEngine::dpas8:    // fewer sub-groups would each bring too much
        return small_head ? Tile{16, 1, 32, true} : Tile{16, 1, 32, false, 1, true};
    case MatrixEngine::mfma: return with({4, 1, small_head ? 64 : 32, true});
    case MatrixEngine::wmma:     // places of a mask would spill sums
        return with({8, 1, small_head ? 64 : 32, true, 2, !small_head && p.mask.defined()});
    case MatrixEngine::wmma12: return with({8, 1, small_head ? 64 : 32, true});
    case MatrixEngine::mma75:    // dropout would spill
        return with(small_head ? Tile{4, 2, 32, true, 2, p.dropout > 0} : Tile{8, 1, 32, true});
    default: return with(small_head ? Tile{4, 2, 32, true} : Tile{8, 1, 32, true});
    }
}

// Queries of a work-group.
std::int64_t block_of(MatrixEngineChoice engine, const Tile& tile)
{
    return AttentionWords::lines_of(engine, tile.sub_groups * tile.own);
}

// Whether all lines begin and end at multiples of eight elements, which are neighbours.
bool in_eights(const Tensor& t)
{
    return t.stride(3) == 1 && (t.stride(0) | t.stride(1) | t.stride(2) | t.size(3) |
                                static_cast<std::int64_t>(t.buffer_offset())) % 8 == 0;
}

// Bytes from the first element of a head to beyond its last, or more than any number where strides are negative.
std::int64_t extent(const Tensor& t)
{
    if (t.stride(2) < 0 || t.stride(3) < 0)
        return std::int64_t{1} << 62;
    return 2 * ((t.size(2) + 64) * t.stride(2) + t.size(3) * t.stride(3));
}

std::size_t local_bytes(MatrixEngineChoice engine, const Attention& p, const Tile& tile)
{
    const AttentionWords words(engine, p, tile.sub_groups * tile.own, tile.span);
    const std::int64_t step = words.along + words.turned + words.dropout;
    return words.bytes((tile.kept ? 0 : words.own) + tile.buffers * step, words.own, tile.sub_groups);
}

}  // namespace

std::int64_t AttentionWords::lines_of(MatrixEngineChoice engine, std::int64_t fragments)
{
    const MatrixEngineShape& shape = shape_of(engine.engine);
    return fragments * (is_mma(engine.engine) ? shape.m : shape.n);
}

AttentionWords::AttentionWords(MatrixEngineChoice engine_, const Attention& p, std::int64_t own_fragments,
                               std::int64_t span)
    : engine(engine_)
{
    const bool dpas = engine.engine == MatrixEngine::dpas8 || engine.engine == MatrixEngine::dpas16;
    const std::int64_t head = attention_matrix_head(p), block = lines_of(engine, own_fragments);
    const std::int64_t depth = is_mma(engine.engine) ? head : 32, pitch = depth / 2 + (dpas ? 0 : 4);
    own = head / depth * block * pitch;
    along = head / depth * span * pitch;
    turned = is_mma(engine.engine) ? along : span / depth * head * pitch;
    results = block * (head / 2 + 4);
    dropout = p.dropout > 0 ? block * span / 16 : 0;
}

std::size_t AttentionWords::bytes(std::int64_t in_loop, std::int64_t before, std::int64_t sub_groups) const
{
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const std::int64_t exchange = engine.emulated ? sub_groups * shape.lanes * shape.exchange_words : 0;
    return static_cast<std::size_t>(4 * (std::max({in_loop, before, results}) + exchange));
}

std::int64_t attention_matrix_head(const Attention& p)
{
    return std::max(p.query.size(3), p.value.size(3)) <= shortest_head ? shortest_head : longest_head;
}

std::string attention_matrix_options(MatrixEngineChoice engine, const Attention& p,
                                     std::initializer_list<Tensor> others, const MatrixTile& tile, std::int64_t span)
{
    const std::int64_t head = attention_matrix_head(p);
    std::int64_t farthest = p.mask.defined() ? extent(p.mask) : 0;
    bool aligned = true;
    const auto look = [&](const Tensor& t) {
        farthest = std::max(farthest, t.defined() ? extent(t) : 0);
        aligned = aligned && (!t.defined() || in_eights(t));
    };
    for (const Tensor* t : {&p.query, &p.key, &p.value})
        look(*t);
    for (const Tensor& t : others)
        look(t);
    return attention_options(p) + matrix_tile_options(engine, tile) +
           fmt::format(" -DBLOCKS=1 -DHEAD={} -DSPAN={} -DALIGNED={:d} -DWHOLE={:d} -DOFFSET={}{}", head, span, aligned,
                       p.query.size(3) == head && p.value.size(3) == head,
                       farthest < std::int64_t{1} << 31 ? "uint" : "long", p.mask.defined() ? " -DMASKED" : "");
}

Rejection attention_matrix_rejects_shape(const Attention& p)
{
    if (std::max(p.query.size(3), p.value.size(3)) > longest_head)
        return "heads of more than 128 elements";
    if (p.query.size(3) == 0 || p.value.size(3) == 0)
        return "heads without elements";
    constexpr std::int64_t most = std::int64_t{1} << 30;
    if (p.query.size(2) >= most || p.key.size(2) >= most || p.query.size(0) * p.query.size(1) >= most)
        return "more than 2^30 queries or keys";
    return std::nullopt;
}

Rejection attention_gpu_matrix_rejects_by(MatrixEngineChoice engine, bool large, const Attention& p,
                                          const Device& device)
{
    if (auto reason = attention_matrix_rejects_shape(p))
        return reason;
    if (auto reason = matrix_engine_rejects_by(engine, p.query.dtype, device))
        return reason;
    const Tile tile = tile_of(engine, p, large);
    if (device.max_work_group_size < static_cast<std::size_t>(tile.sub_groups * shape_of(engine.engine).lanes))
        return "work-groups are too small";
    if (device.local_memory < local_bytes(engine, p, tile))
        return "too little local memory";
    return std::nullopt;
}

Rejection attention_matrix_rejects(const Attention& p, const Device& device)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (p.query.dtype != DataType::float16 && p.query.dtype != DataType::bfloat16)   // before the costly questions
        return "for float16 and bfloat16";
    if (auto reason = attention_matrix_rejects_shape(p))
        return reason;
    return matrix_engine_rejects(p.query.dtype, device);
}

Rejection attention_gpu_matrix_rejects(const Attention& p, const Device& device)
{
    if (auto reason = attention_matrix_rejects(p, device))
        return reason;
    const MatrixEngineChoice engine = matrix_engine(device);
    if (auto reason = attention_gpu_matrix_rejects_by(engine, !engine.emulated, p, device))
        return reason;
    if (!attention_by_matrix_works(device, engine, p.query.dtype))
        return fmt::format("attention by {} does not work on this device", name_of(engine.engine));
    return std::nullopt;
}

Rejection attention_gpu_matrix_advises_against(const Attention& p, const Device& device)
{
    return matrix_engine_advises_against(static_cast<double>(p.query.size(2)), 1 << 20, device);
}

void attention_gpu_matrix_by(MatrixEngineChoice engine, bool large, Queue& queue, const Attention& p, const Tensor& y,
                             const Tensor& logsumexp)
{
    const Tile tile = tile_of(engine, p, large);
    const std::string options =
        attention_matrix_options(engine, p, {y}, {tile.sub_groups, 1, tile.own, 1}, tile.span) +
        fmt::format(" -DKEPT={:d} -DBUFFERS={} -DFEW_REGISTERS={:d}", tile.kept, tile.buffers, tile.few_registers);
    const Program& program = queue.context().program("kernels/attention/gpu_matrix.cl", options);
    // The sign of the scale goes to the queries; of a scale of zero nothing is left but what is no number.
    const double scale = p.scale == 0 ? 1e-30 : std::abs(p.scale) * 1.4426950408889634;
    const std::int64_t groups = p.query.size(0) * p.query.size(1) * divide_up(p.query.size(2), block_of(engine, tile));
    const std::int64_t items = tile.sub_groups * shape_of(engine.engine).lanes;
    launch(queue, program.kernel("forward"),
           Range::groups({static_cast<std::size_t>(groups), 1, 1}, {static_cast<std::size_t>(items), 1, 1}), p.query,
           p.key, p.value, p.mask, y, logsumexp, attention_arguments(p, y), dropout_arguments(p),
           static_cast<cl_float>(scale), static_cast<cl_uint>(p.scale < 0 ? 0x80008000u : 0u));
}

void attention_gpu_matrix(Queue& queue, const Attention& p, const Tensor& y, const Tensor& logsumexp)
{
    const MatrixEngineChoice engine = matrix_engine(queue.device());
    const Tile tile = tile_of(engine, p, true);
    const std::int64_t blocks = divide_up(p.query.size(2), block_of(engine, tile));
    const auto groups = static_cast<double>(p.query.size(0) * p.query.size(1) * blocks);
    const bool large = !engine.emulated && groups >= gpu_rate(queue.device()).cores;
    attention_gpu_matrix_by(engine, large, queue, p, y, logsumexp);
}

}  // namespace clprim::detail
