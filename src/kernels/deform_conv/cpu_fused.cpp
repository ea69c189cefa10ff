// Deformable convolution on CPU devices: sampling fused with products of register tiles (cpu_fused.cl) or, where there
// are such, of AMX's tile registers (cpu_amx.cl).
#include <algorithm>

#include <clprim/copy.hpp>

#include "kernels/deform_conv/problem.hpp"

namespace clprim::deform_conv {

namespace {

// As kernels get it (cpu_rows.cl): pixels x padded channels.
struct Layout {
    cl_int channels, segment, padded_segment, tile;
};

Layout layout_of(const Geometry& g)
{
    const cl_int segment = g.segment(), padded = round_up(segment, 32);
    return {g.channels / segment * padded, segment, padded, 0};
}

constexpr std::int64_t block = 96;        // as BLOCK in cpu_rows.cl
constexpr std::int64_t row_pixels = 64;   // as ROW_PIXELS in cpu_pack.cl
constexpr std::size_t tile_bytes = 208 * 1024;        // columns and sums of a forward task: they stay in the L2 cache
// Runs of a few channels are padded to 32, which is faster than tiled.cl even for a single one, but takes memory.
constexpr std::int64_t padded_bytes = std::int64_t{1} << 30;
constexpr std::int64_t amx_run = 128, amx_block_words = 3 * 512;   // RUN and AMX_BLOCK of cpu_amx.cl

std::int64_t amx_words(std::int64_t depth) { return 16 + divide_up(depth, 32) * amx_block_words; }   // words_of

std::size_t bytes_per_pixel(const Geometry& g)
{
    return (layout_of(g).channels / g.groups + round_up(g.outputs_per_group(), 32) + 16) * sizeof(float);
}

// Pixels of a forward task with AMX: few, whose sums stay in the nearest cache, where all weights stay in the second;
// else so many that their sums fill a third of that. Enough tasks remain.
std::int64_t amx_pixels(const Geometry& g, const Device& device)
{
    const std::int64_t sums = 4 * (round_up(g.outputs_per_group(), 32) + 16);
    const std::int64_t panels = divide_up(g.outputs_per_group(), 32);
    const std::int64_t weights = 4 * g.taps() * panels * amx_words(layout_of(g).channels / g.groups);
    const std::int64_t cache = weights < (768 << 10) ? 32 << 10 : 640 << 10;
    std::int64_t tile = std::clamp<std::int64_t>(cache / sums / 32 * 32, 32, round_up(g.pixels(), 32));
    while (tile > 32 && divide_up(g.pixels(), tile) * g.batch * g.groups < 2 * device.compute_units)
        tile -= 32;
    return round_up(divide_up(g.pixels(), divide_up(g.pixels(), tile)), 32);   // of the same size all
}

// Chunks of 32 channels with one offset group that a task of the weight gradient takes together.
std::int64_t amx_chunks_together(const Geometry& g)
{
    const std::int64_t most = layout_of(g).padded_segment / 32;
    for (std::int64_t together = std::min<std::int64_t>(most, 8); together > 1; --together)
        if (most % together == 0)
            return together;
    return 1;
}

std::size_t amx_local_memory(const Geometry& g)
{
    const std::int64_t forward = amx_run + 2 * amx_run / 32 * amx_block_words;
    return static_cast<std::size_t>(4 * std::max(forward, block * 32 + amx_chunks_together(g) * amx_words(block)));
}

std::optional<std::string> rejects(const Problem& problem, const Device& device)
{
    const Geometry& g = problem.geometry;
    if (device.kind != DeviceKind::cpu)
        return "for CPU devices";
    if (problem.inputs.x.dtype == DataType::float64)
        return "computes in float32";
    const Layout l = layout_of(g);
    if (l.padded_segment > 2 * l.segment && 4 * g.batch * g.image() * l.channels > padded_bytes)
        return detail::concat("runs of ", l.segment, " channels with one group and offset group, padded to ",
                              l.padded_segment, ", would take too much memory");
    if (12 * bytes_per_pixel(g) > std::min(device.local_memory, tile_bytes) || device.local_memory < block * 32 * 4)
        return "too many channels for the local memory";
    return {};
}

std::optional<std::string> amx_rejects(const Problem& problem, const Device& device)
{
    if (!device.amx)
        return "for CPUs with AMX";
    if (const auto reason = rejects(problem, device))
        return reason;
    if (amx_local_memory(problem.geometry) > device.local_memory)
        return "too many channels for the local memory";
    return {};
}

class Fused {
public:
    Fused(Queue& queue, const Problem& problem, bool amx)
        : queue_(queue), in_(problem.inputs), g_(problem.geometry), l_(layout_of(g_)), amx_(amx),
          products_(program(amx ? "cpu_amx" : "cpu_fused")), packing_(program("cpu_pack")),
          x_(to_rows(in_.x, l_))
    {
    }

    void forward(const Tensor& y)
    {
        const std::int64_t panels = divide_up(g_.outputs_per_group(), 32);
        const Tensor packed = workspace(g_.groups * g_.taps() * panels * depth() * 32);
        launch(packing_, "deform_conv_pack_forward", l_.channels / 32 * panels, in_.weight, strides_of(in_.weight),
               packed, g_, l_);
        if (amx_)
            return amx_forward(packed, panels, y);
        l_.tile = forward_tile();
        launch(products_, "deform_conv_fused_forward", divide_up(g_.pixels(), l_.tile) * g_.batch * g_.groups, x_,
               row_strides(x_), in_.offset, strides_of(in_.offset), in_.mask, strides_of(in_.mask), packed, in_.bias,
               cl_long{in_.bias.defined() ? in_.bias.stride(0) : -1}, y, strides_of(y), g_, l_,
               LocalMemory{l_.tile * depth() * sizeof(float)},
               LocalMemory{l_.tile * (panels * 32 + 16) * sizeof(float)});
    }

    void backward(const Tensor& gy, const DeformConv2DGradients& out)
    {
        const bool data = out.x.defined() || out.offset.defined() || out.mask.defined();
        if (!data && !out.weight.defined())
            return;
        const Tensor rows = gradient_rows(gy);
        if (out.weight.defined())
            grad_weight(rows, out.weight);
        if (data)
            grad_data(rows, out);
    }

private:
    void amx_forward(const Tensor& packed, std::int64_t panels, const Tensor& y)
    {
        const Tensor words = split_panels(packed, g_.groups * g_.taps() * panels, depth());
        const std::int64_t tile = amx_pixels(g_, queue_.device());
        const std::int64_t tasks = divide_up(g_.pixels(), tile) * g_.batch * g_.groups;
        const Tensor sums = workspace(tasks * tile * (panels * 32 + 16));
        l_.tile = static_cast<cl_int>(tile);
        launch(products_, "deform_conv_amx_forward", tasks, x_, row_strides(x_), in_.offset, strides_of(in_.offset),
               in_.mask, strides_of(in_.mask), packed, words, in_.bias,
               cl_long{in_.bias.defined() ? in_.bias.stride(0) : -1}, y, strides_of(y), sums, g_, l_,
               LocalMemory{amx_run * sizeof(float)}, LocalMemory{2 * amx_run / 32 * amx_block_words * sizeof(cl_uint)});
    }

    Tensor words(std::int64_t count) { return queue_.context().empty({count}, DataType::uint32, queue_); }

    // Panels of [depth][32] floats as words.
    Tensor split_panels(const Tensor& packed, std::int64_t panels, std::int64_t panel_depth)
    {
        const Tensor result = words(panels * amx_words(panel_depth));
        launch(products_, "deform_conv_split_panels", panels, packed, result, static_cast<cl_int>(panel_depth));
        return result;
    }

    const Program& program(const char* file) const
    {
        return queue_.context().program(std::string("kernels/deform_conv/") + file + ".cl",
                                        "-DX=" + std::string(name_of(in_.x.dtype)));
    }

    std::int64_t depth() const { return l_.channels / g_.groups; }

    template <class... Arguments>
    void launch(const Program& program, const char* kernel, std::int64_t tasks, const Arguments&... arguments)
    {
        queue_.launch(program.kernel(kernel), Range::groups(tasks), arguments...);
    }

    Tensor workspace(std::int64_t elements) { return queue_.context().empty({elements}, DataType::float32, queue_); }

    // Pixels per forward task: as many as the cache holds, but enough tasks to share among threads.
    cl_int forward_tile() const
    {
        const std::size_t fit = std::min(queue_.device().local_memory, tile_bytes) / bytes_per_pixel(g_);
        cl_int tile = static_cast<cl_int>(std::min<std::size_t>(fit, 96)) / 12 * 12;
        while (tile > 24 && divide_up(g_.pixels(), tile) * g_.batch * g_.groups < 16)
            tile -= 12;
        return tile;
    }

    // Is the tensor already rows of float without padding?
    static bool is_rows(const Tensor& t, const Layout& l)
    {
        return t.dtype == DataType::float32 && l.channels == t.size(1) && t.is_channels_last();
    }

    Tensor to_rows(const Tensor& t, const Layout& l)
    {
        if (is_rows(t, l))
            return t;
        const std::int64_t pixels = t.size(2) * t.size(3);
        const Tensor rows = workspace(t.size(0) * pixels * l.channels);
        launch(packing_, "deform_conv_to_rows", t.size(0) * divide_up(pixels, row_pixels), t, strides_of(t), rows,
               static_cast<cl_int>(t.size(2)), static_cast<cl_int>(t.size(3)), static_cast<cl_int>(t.size(1)), l);
        return rows;
    }

    Strides row_strides(const Tensor& rows) const
    {
        if (rows.dim() == 4)
            return strides_of(rows);
        return {g_.image() * l_.channels, 1, std::int64_t{g_.width} * l_.channels, l_.channels};
    }

    // The gradient of y as rows of out_channels floats.
    Tensor gradient_rows(const Tensor& gy)
    {
        const Layout l{g_.out_channels, g_.out_channels, g_.out_channels, 0};
        if (is_rows(gy, l))
            return gy;
        const Tensor rows = queue_.context().empty({g_.batch, g_.pixels(), g_.out_channels}, DataType::float32, queue_);
        if (g_.out_channels % 16 == 0) {
            launch(packing_, "deform_conv_to_rows", g_.batch * divide_up(g_.pixels(), row_pixels), gy, strides_of(gy),
                   rows, g_.out_height, g_.out_width, g_.out_channels, l);
            return rows;
        }
        Tensor target = rows;
        target.shape = gy.shape;
        target.strides = {g_.pixels() * g_.out_channels, 1, std::int64_t{g_.out_width} * g_.out_channels,
                          g_.out_channels};
        copy(queue_, gy, target);
        return rows;
    }

    void grad_weight(const Tensor& rows, const Tensor& gw)
    {
        const std::int64_t panels = divide_up(g_.outputs_per_group(), 12), chunks = l_.channels / 32;
        const std::int64_t blocks = divide_up(g_.batch * g_.pixels(), block);
        if (amx_)
            return amx_grad_weight(rows, gw, blocks, chunks);
        const Tensor packed = workspace(g_.groups * blocks * panels * block * 12);
        const Tensor partial = workspace(g_.taps() * chunks * panels * 12 * 32);
        launch(packing_, "deform_conv_pack_gy", g_.groups * blocks, rows, packed, g_);
        launch(products_, "deform_conv_fused_weight", g_.taps() * chunks, x_, row_strides(x_), in_.offset,
               strides_of(in_.offset), in_.mask, strides_of(in_.mask), packed, partial, g_, l_,
               LocalMemory{block * 32 * sizeof(float)});
        unpack_weight(partial, panels * 12, 1, gw);
    }

    void amx_grad_weight(const Tensor& rows, const Tensor& gw, std::int64_t blocks, std::int64_t chunks)
    {
        const std::int64_t strips = divide_up(g_.outputs_per_group(), 32);
        const Tensor gy_words = words(g_.groups * blocks * strips * amx_words(block));
        const std::int64_t together = amx_chunks_together(g_);
        // A rule of the shape, not of the device, so that the order of the sums is the same everywhere.
        const std::int64_t parts = std::clamp<std::int64_t>(16 / (g_.taps() * chunks / together), 1, 4);
        const Tensor partial = workspace(parts * g_.taps() * chunks * strips * 32 * 32);
        launch(products_, "deform_conv_split_turned_gy", g_.groups * blocks, rows, gy_words, g_);
        launch(products_, "deform_conv_amx_weight", parts * g_.taps() * chunks / together, x_, row_strides(x_),
               in_.offset, strides_of(in_.offset), in_.mask, strides_of(in_.mask), rows, gy_words, partial,
               static_cast<cl_int>(together), static_cast<cl_int>(parts), g_, l_,
               LocalMemory{block * 32 * sizeof(float)}, LocalMemory{together * amx_words(block) * sizeof(cl_uint)});
        unpack_weight(partial, strips * 32, parts, gw);
    }

    void unpack_weight(const Tensor& partial, std::int64_t padded_outputs, std::int64_t parts, const Tensor& gw)
    {
        queue_.launch(packing_.kernel("deform_conv_unpack_weight"), Range::linear(gw.numel(), free_group), partial, gw,
                      strides_of(gw), static_cast<cl_int>(padded_outputs), static_cast<cl_int>(parts), g_, l_);
    }

    void grad_data(const Tensor& rows, const DeformConv2DGradients& out)
    {
        const std::int64_t chunks = l_.channels / 32, outputs = g_.outputs_per_group();
        const Tensor packed = workspace(chunks * g_.taps() * outputs * 32);
        launch(packing_, "deform_conv_pack_data", chunks * divide_up(outputs, 32), in_.weight, strides_of(in_.weight),
               packed, g_, l_);
        // Enough tasks for a few threads also with one small image; a rule of the shape, not of the device, so that
        // the order of the sums is the same everywhere.
        const std::int64_t parts = std::clamp<std::int64_t>(4 / (chunks * g_.batch), 1, 4);
        const bool direct = parts == 1 && out.x.defined() && is_rows(out.x, l_);
        const std::int64_t part_size = g_.batch * g_.image() * l_.channels;
        const Tensor gx = direct ? out.x : workspace(parts * part_size);
        const std::int64_t partial_size = chunks * g_.taps() * 3 * g_.pixels();
        const std::int64_t images = std::clamp<std::int64_t>(column_bytes / (4 * partial_size), 1, g_.batch);
        const Tensor partial = workspace(images * partial_size);
        l_.tile = 96;
        const std::int64_t strips = g_.batch * g_.groups * divide_up(g_.pixels(), 32);
        const Tensor weight_words = amx_ ? split_panels(packed, chunks * g_.taps(), outputs) : Tensor();
        const Tensor gy_words = amx_ ? words(strips * amx_words(outputs)) : Tensor();
        if (amx_)
            launch(products_, "deform_conv_split_gy", strips, rows, gy_words, g_);
        for (std::int64_t n0 = 0; n0 < g_.batch; n0 += images) {
            const cl_int count = std::min(images, g_.batch - n0);
            Launch task(queue_, products_.kernel(amx_ ? "deform_conv_amx_data" : "deform_conv_fused_data"));
            task.arg(x_).arg(row_strides(x_)).arg(in_.offset).arg(strides_of(in_.offset))
                .arg(in_.mask).arg(strides_of(in_.mask));
            task.arg(packed);
            if (amx_)
                task.arg(weight_words);
            task.arg(rows);
            if (amx_)
                task.arg(gy_words);
            task.arg(gx).arg(direct ? strides_of(gx) : row_strides(gx))
                .arg(cl_long{part_size}).arg(static_cast<cl_int>(parts));
            task.arg(partial).arg(static_cast<cl_int>(n0)).arg(g_).arg(l_);
            task.run(Range::groups(count * parts * chunks));
            if (out.offset.defined() || out.mask.defined())
                queue_.launch(packing_.kernel("deform_conv_sum_offset"),
                              Range::linear(std::int64_t{count} * g_.offset_groups * g_.taps() * g_.pixels(),
                                            free_group),
                              partial, out.offset, strides_of(out.offset), out.mask, strides_of(out.mask),
                              static_cast<cl_int>(n0), count, g_, l_,
                              cl_int{(out.offset.defined() ? 1 : 0) + (out.mask.defined() ? 2 : 0)});
        }
        if (out.x.defined() && !direct)
            launch(packing_, "deform_conv_from_rows", g_.batch * divide_up(g_.image(), row_pixels), gx,
                   static_cast<cl_int>(parts), cl_long{part_size}, out.x, strides_of(out.x), g_.height, g_.width, l_);
    }

    Queue& queue_;
    const DeformConv2DInputs& in_;
    const Geometry& g_;
    Layout l_;
    bool amx_;
    const Program &products_, &packing_;
    Tensor x_;
};

}  // namespace

template <bool Amx>
void run_forward(Queue& queue, const Problem& problem, const Tensor& y)
{
    Fused(queue, problem, Amx).forward(y);
}
template <bool Amx>
void run_backward(Queue& queue, const Problem& problem, const Tensor& gy, const DeformConv2DGradients& gradients)
{
    Fused(queue, problem, Amx).backward(gy, gradients);
}

const Implementation cpu_fused{"cpu_fused", rejects, run_forward<false>, run_backward<false>};
const Implementation cpu_amx{"cpu_amx", amx_rejects, run_forward<true>, run_backward<true>};

}  // namespace clprim::deform_conv
