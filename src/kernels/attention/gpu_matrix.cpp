// Launches gpu_matrix.cl.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include <core/gpu_rate.hpp>
#include <kernels/attention/gpu_matrix.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t most_values = 128;   // whose sums fit into registers

// How a work-group's queries are shared.
struct Tile {
    std::int64_t sub_groups, own, span;
    bool kept;                  // queries stay in registers
    int buffers = 2;            // steps of keys and values in local memory
    bool few_registers = false; // places in memory are found anew in each step
    bool ahead = true;          // the next step is on its way while one is multiplied
};

// Of heads of more than 128 elements: a line of queries alone takes half of the registers.
Tile tile_of_long_heads(MatrixEngineChoice engine, bool masked)
{
    switch (engine.engine) {
    case MatrixEngine::dpas16: return {8, 1, 32, false, 1, false, false};
    case MatrixEngine::dpas8: return {8, 1, 32, false, 1, true, false};
    case MatrixEngine::mfma: return {2, 1, 32, true};
    case MatrixEngine::wmma12: return {4, 1, 32, true, 1, false, !masked};
    default: return {4, 1, 16, true, 2, masked};
    }
}

Tile tile_of(MatrixEngineChoice engine, const Attention& p, bool large)
{
    const std::int64_t head = attention_matrix_head(p);
    const bool small_head = head == 64;
    const auto with = [&](Tile tile) {
        if (!large)
            tile.sub_groups /= 2;
        return tile;
    };
    if (head > most_values)
        return tile_of_long_heads(engine, p.mask.defined());
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
    const std::int64_t head = attention_matrix_head(p), values = attention_matrix_values(p);
    const std::int64_t block = lines_of(engine, own_fragments);
    const std::int64_t depth = is_mma(engine.engine) ? head : 32, pitch = depth / 2 + (dpas ? 0 : 4);
    own = head / depth * block * pitch;
    along = head / depth * span * pitch;
    turned = is_mma(engine.engine) ? span * (values / 2 + 4) : span / depth * values * pitch;
    results = block * (values / 2 + 4);
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
    const std::int64_t longer = std::max(p.query.size(3), p.value.size(3));
    return longer <= 64 ? 64 : longer <= 128 ? 128 : 256;
}

std::int64_t attention_matrix_values(const Attention& p) { return std::min(attention_matrix_head(p), most_values); }

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
           fmt::format(" -DBLOCKS=1 -DHEAD={}{} -DSPAN={} -DALIGNED={:d} -DWHOLE={:d} -DOFFSET={}{}", head,
                       head > most_values ? fmt::format(" -DVALUES={}", most_values) : "", span, aligned,
                       p.query.size(3) == head && p.value.size(3) == head,
                       farthest < std::int64_t{1} << 31 ? "uint" : "long", p.mask.defined() ? " -DMASKED" : "");
}

Rejection attention_matrix_rejects_shape(const Attention& p, std::int64_t longest)
{
    if (std::max(p.query.size(3), p.value.size(3)) > longest)
        return fmt::format("heads of more than {} elements", longest);
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
    if (auto reason = attention_matrix_rejects_shape(p, attention_matrix_longest))
        return reason;
    if (auto reason = matrix_engine_rejects_by(engine, p.query.dtype, device))
        return reason;
    if (engine.engine == MatrixEngine::wmma && attention_matrix_head(p) > most_values)
        return "vectors are as fast at heads of more than 128 elements, which would spill registers";
    const Tile tile = tile_of(engine, p, large);
    if (device.max_work_group_size < static_cast<std::size_t>(tile.sub_groups * shape_of(engine.engine).lanes))
        return "work-groups are too small";
    if (device.local_memory < local_bytes(engine, p, tile))
        return "too little local memory";
    return std::nullopt;
}

Rejection attention_matrix_rejects(const Attention& p, const Device& device, std::int64_t longest)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (p.query.dtype != DataType::float16 && p.query.dtype != DataType::bfloat16)   // before the costly questions
        return "for float16 and bfloat16";
    if (auto reason = attention_matrix_rejects_shape(p, longest))
        return reason;
    return matrix_engine_rejects(p.query.dtype, device);
}

Rejection attention_gpu_matrix_rejects(const Attention& p, const Device& device)
{
    if (auto reason = attention_matrix_rejects(p, device, attention_matrix_longest))
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
        fmt::format(" -DKEPT={:d} -DBUFFERS={} -DFEW_REGISTERS={:d} -DAHEAD={:d}", tile.kept, tile.buffers,
                    tile.few_registers, tile.ahead);
    const Program& program = queue.context().program("kernels/attention/gpu_matrix.cl", options);
    // The sign of the scale goes to the queries; of a scale of zero nothing is left but what is no number.
    const double scale = p.scale == 0 ? 1e-30 : std::abs(p.scale) * 1.4426950408889634;
    const std::int64_t groups = p.query.size(0) * p.query.size(1) * divide_up(p.query.size(2), block_of(engine, tile));
    const std::int64_t items = tile.sub_groups * shape_of(engine.engine).lanes;
    const std::int64_t parts = divide_up(p.value.size(3), attention_matrix_values(p));
    launch(queue, program.kernel("forward"),
           Range::groups({static_cast<std::size_t>(groups), static_cast<std::size_t>(parts), 1},
                         {static_cast<std::size_t>(items), 1, 1}),
           p.query, p.key, p.value, p.mask, y, logsumexp, attention_arguments(p, y), dropout_arguments(p),
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
