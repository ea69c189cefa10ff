#include <clprim/copy.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <kernels/copy/collapse.hpp>
#include <kernels/copy/kernel_table.hpp>
#include <kernels/copy/spread.hpp>
#include <kernels/pointwise/iteration.hpp>
#include <core/host_processor.hpp>
#include <core/operands.hpp>

namespace clprim {
namespace {

constexpr std::size_t max_rank = 8;        // of one launch; more axes are walked on the host
constexpr std::int64_t short_row = 16;     // rows shorter than this are not worth a loop or a work-group of their own
constexpr std::int64_t chunk = 4096;       // CHUNK, TILE in copy.cl
constexpr std::size_t tile = 32;

// space_t in copy.cl.
template <class Index>
struct SpaceArgument {
    std::array<Index, max_rank> shape, source{}, target{}, magic{}, shift{};

    explicit SpaceArgument(const CopySpace& space)
    {
        shape.fill(1);
        std::copy(space.shape.begin(), space.shape.end(), shape.begin());
        std::copy(space.source.begin(), space.source.end(), source.begin());
        std::copy(space.target.begin(), space.target.end(), target.begin());
        if constexpr (sizeof(Index) == 4)
            for (std::size_t axis = 2; axis < space.rank(); ++axis) {   // a work-item knows where it is along the first
                const Divider divider(static_cast<std::uint32_t>(shape[axis]));
                magic[axis] = divider.magic;
                shift[axis] = divider.shift;
            }
    }
};

// Bytes that only move need no dtype but their size.
const char* raw_name(std::size_t bytes)
{
    switch (bytes) {
    case 1: return "uint8";
    case 2: return "uint16";
    case 4: return "uint32";
    case 8: return "uint64";
    default: return "raw128";
    }
}

// The last two are a CPU's: channels of pictures, which lie side by side in the target or in the source.
enum class Access { strided, transposed, interleaved, deinterleaved };
constexpr const char* kernel_names[] = {"copy_strided", "copy_transposed", "interleave", "deinterleave"};

struct Variant {
    DataType source, target;
    CopyOptions options;
    bool wide = false;     // 64-bit indices
    bool quads = false;    // four elements a work-item
    unsigned axes = 8;     // that the kernel is built for; channels
    bool raw() const { return source == target && !options.conjugate && !options.negate; }
};

// See the head of copy.cl.
std::string block_flags(const Variant& variant)
{
    const DataType from = variant.source, to = variant.target;
    if (variant.raw() || variant.options.negate || is_complex(from) || is_complex(to))
        return {};
    const bool half = from == DataType::float16 || to == DataType::float16;
    const bool from_long = (from == DataType::int64 || from == DataType::uint64) && is_floating_point(to);
    const bool to_long = is_floating_point(from) && to == DataType::int64;
    if (!half && !from_long && !to_long)
        return {};
    const bool plain = (from_long || to_long) && opencl_storage_type(from) == opencl_compute_type(from);
    const std::string vector =
        from_long || to_long ? fmt::format(" -DCONVERT_VECTOR=convert_{}8", opencl_compute_type(to)) : "";
    return fmt::format(" -DBLOCKS{}{}{}{}", from == DataType::float16 ? " -DLOAD_HALF" : "",
                       to == DataType::float16 ? " -DSTORE_HALF" : "", plain ? " -DLOAD_PLAIN" : "", vector);
}

// Whether a CPU moves the elements through its registers (cpu_transpose.cl, cpu_channels.cl).
bool in_registers(const Device& device, const Variant& variant)
{
    return device.kind == DeviceKind::cpu && variant.raw() && size_of(variant.target) <= 8;
}

// How, where few channels lie side by side on one side and each alone on the other.
Access access_of_channels(const CopySpace& space)
{
    if (space.rank() < 2 || space.shape[1] < 2 || space.shape[1] > 4)
        return Access::strided;
    const std::int64_t channels = space.shape[1];
    if (space.source[0] == 1 && space.target[0] == channels && space.target[1] == 1)
        return Access::interleaved;
    return space.target[0] == 1 && space.source[0] == channels && space.source[1] == 1 ? Access::deinterleaved
                                                                                       : Access::strided;
}

// Whether bytes along axis 0 are worth a vector of a CPU (copy_runs in run.cl).
bool in_runs(const Device& device, const Variant& variant, const CopySpace& space)
{
    return in_registers(device, variant) && space.source[0] == 1 && space.target[0] == 1 &&
           space.size(0) * size_of(variant.target) >= 8;
}

Kernel& build(Context& context, const Variant& variant, Access access)
{
    if (access != Access::strided && in_registers(context.device(), variant)) {
        const std::size_t bytes = size_of(variant.target);
        const char* element = bytes == 1 ? "uchar" : bytes == 2 ? "ushort" : bytes == 4 ? "uint" : "ulong";
        const bool tiles = access == Access::transposed;
        return context
            .program(tiles ? "kernels/copy/cpu_transpose.cl" : "kernels/copy/cpu_channels.cl",
                     fmt::format("-DELEMENT={} -DINDEX={} -DLANES={}{}", element, variant.wide ? "ulong" : "uint",
                                 bytes == 8 ? 8 : 16, tiles ? "" : fmt::format(" -DCHANNELS={}", variant.axes)))
            .kernel(kernel_names[static_cast<int>(access)]);
    }
    const std::string from(variant.raw() ? raw_name(size_of(variant.source)) : name_of(variant.source));
    const std::string to(variant.raw() ? raw_name(size_of(variant.target)) : name_of(variant.target));
    std::string flags = fmt::format("-DS={} -DD={} -DINDEX={} -DAXES={}{}", from, to, variant.wide ? "ulong" : "uint",
                                    variant.axes, variant.quads ? " -DQUADS" : "");
    if (variant.options.conjugate)
        flags += " -DCONJUGATE";
    if (variant.options.negate)
        flags += " -DNEGATE";
    if (variant.raw() && context.device().kind == DeviceKind::cpu)
        flags += " -DRAW";
    flags += block_flags(variant);
    return context.program("kernels/copy/copy.cl", flags).kernel(kernel_names[static_cast<int>(access)]);
}

// 2, 3, 4 or 8 axes.
std::size_t axes_bucket(unsigned axes) { return axes == 8 ? 3 : axes - 2; }

Kernel& kernel_for(Context& context, const Variant& variant, Access access)
{
    constexpr std::size_t variants = data_type_count * data_type_count * 4 * 2 * 4 * 4 * 2;
    static KernelTable<variants> table;
    std::size_t key =
        static_cast<std::size_t>(variant.source) * data_type_count + static_cast<std::size_t>(variant.target);
    key = key * 4 + (variant.options.conjugate ? 2 : 0) + (variant.options.negate ? 1 : 0);
    key = (key * 2 + (variant.wide ? 1 : 0)) * 4 + static_cast<std::size_t>(access);
    key = (key * 4 + axes_bucket(variant.axes)) * 2 + (variant.quads ? 1 : 0);
    return table.get(context, key, [&]() -> Kernel& { return build(context, variant, access); });
}

// The axis, other than 0, along which the source is contiguous, if it is worth a transposition; else 0.
std::size_t transposed_axis(const CopySpace& space)
{
    if (space.rank() < 2 || space.target[0] != 1 || space.source[0] == 1 || space.shape[0] < 8)
        return 0;
    for (std::size_t axis = 1; axis < space.rank(); ++axis)
        if (space.source[axis] == 1 && space.shape[axis] >= 8)
            return axis;
    return 0;
}

bool holds_tile(const Device& device, DataType type)
{
    const std::size_t bytes = tile * (tile + 1) * std::max<std::size_t>(4, size_of(type));
    return device.kind == DeviceKind::cpu || (device.max_work_group_size >= tile && device.local_memory >= bytes);
}

void move_axis_to_1(CopySpace& space, std::size_t axis)
{
    for (Dims* dims : {&space.shape, &space.source, &space.target})
        std::rotate(dims->begin() + 1, dims->begin() + axis, dims->begin() + axis + 1);
}

CopySpace with_first_axes_swapped(CopySpace space)
{
    for (Dims* dims : {&space.shape, &space.source, &space.target})
        std::swap((*dims)[0], (*dims)[1]);
    return space;
}

// How many elements of axis 1 a work-item of a CPU takes, for about `chunk` elements in all; of few it takes all, which
// may share the cache's lines.
std::size_t rows_per_item(const CopySpace& space)
{
    const std::size_t rows = space.size(1);
    if (rows < static_cast<std::size_t>(short_row))
        return rows;
    return std::max<std::size_t>(1, static_cast<std::size_t>(chunk) / space.size(0));
}

// Whether rows of both tensors lie at multiples of four elements, so that a GPU's work-item moves four at once.
bool in_quads(const Tensor& source, const Tensor& target, const CopySpace& space)
{
    if (space.rank() == 0 || space.source[0] != 1 || space.target[0] != 1 || space.shape[0] % 4 != 0 ||
        is_complex(source.dtype) || is_complex(target.dtype) || source.buffer_offset() % 4 != 0 ||
        target.buffer_offset() % 4 != 0)
        return false;
    for (std::size_t axis = 1; axis < space.rank(); ++axis)
        if (space.source[axis] % 4 != 0 || space.target[axis] % 4 != 0)
            return false;
    return true;
}

// How many places of the axes from 2 on a work-item of a CPU takes where axes 0 and 1 leave it few elements.
std::size_t places_per_item(const CopySpace& space, const Device& device)
{
    const std::size_t rows = rows_per_item(space), elements = std::min<std::size_t>(space.size(0), chunk) * rows;
    const std::size_t items = groups_for(space.size(0), chunk) * groups_for(space.size(1), rows) * space.outer();
    const std::size_t most = items / (16 * std::max(1u, device.compute_units));
    constexpr std::size_t few = 1024;   // take longer to launch than to move
    return elements < few ? std::clamp<std::size_t>(chunk / elements, 1, std::max<std::size_t>(most, 1)) : 1;
}

Range cpu_tiles(const CopySpace& space)
{
    return Range::groups({groups_for(space.size(0), tile), groups_for(space.size(1), tile), space.outer()}, {1, 1, 1});
}

Range cpu_blocks(const CopySpace& space, Access access)
{
    constexpr std::size_t block = 64;   // BLOCK in cpu_transpose.cl
    const std::size_t x = space.size(0), y = space.size(1);
    const std::size_t z = space.outer();
    if (access != Access::transposed)
        return Range::groups({groups_for(x, chunk), 1, z}, {1, 1, 1});
    return Range::groups({groups_for(x, block), groups_for(y, block), z}, {1, 1, 1});
}

template <class Index>
void launch_as(Queue& queue, const Tensor& source, const Tensor& target, const CopySpace& space, const Variant& variant,
               Access access)
{
    Kernel& kernel = kernel_for(queue.context(), variant, access);
    const auto rank = static_cast<cl_int>(space.rank());
    const SpaceArgument<Index> argument(space);
    if (access != Access::strided && in_registers(queue.device(), variant))
        return queue.launch(kernel, cpu_blocks(space, access), source, target, argument, rank);
    if (queue.device().kind == DeviceKind::cpu) {
        const std::size_t rows = rows_per_item(space);
        if (access == Access::transposed)
            return queue.launch(kernel, cpu_tiles(space), source, target, argument, rank, static_cast<Index>(rows));
        const std::size_t outer = space.outer(), each = places_per_item(space, queue.device());
        const Range range = Range::groups({groups_for(space.size(0), chunk), groups_for(space.size(1), rows),
                                           groups_for(outer, each)}, {1, 1, 1});
        return queue.launch(kernel, range, source, target, argument, rank, static_cast<Index>(rows),
                            static_cast<Index>(outer), static_cast<Index>(each));
    }
    const Spread spread(space, variant.quads, queue.device());
    Range range = spread.range;
    if (access == Access::transposed)
        range = Range::groups({groups_for(space.size(0), tile), groups_for(space.size(1), tile),
                               spread.outer}, {tile, largest_group(queue.device()) / tile, 1});
    queue.launch(kernel, range, source, target, argument, rank, spread.argument<Index>(space, variant.quads));
}

// Blocks of short axes, such as squares of pixels among channels: a work-item of a CPU takes the first axis that is
// longer with one of them, since launching it takes as long as moving some dozens of elements.
void move_long_axis_to_items(CopySpace& space)
{
    constexpr std::size_t few = 256;
    if (space.rank() < 3 || space.size(0) * rows_per_item(space) >= few)
        return;
    auto axis = std::find_if(space.shape.begin() + 1, space.shape.end(), [](auto size) { return size >= short_row; });
    if (axis == space.shape.end())
        axis = std::max_element(space.shape.begin() + 1, space.shape.end());
    if (*axis <= space.shape[0] || *axis <= space.shape[1])
        return;
    move_axis_to_1(space, static_cast<std::size_t>(axis - space.shape.begin()));
    if (space.shape[0] < short_row)
        space = with_first_axes_swapped(space);
}

// Axis 1 is the one that a GPU's work-items take several elements of, where there is one.
void move_long_axis_to_1(CopySpace& space)
{
    if (space.rank() < 3 || space.shape[1] >= 4 || space.shape[0] >= 64)
        return;
    const auto longest = std::max_element(space.shape.begin() + 1, space.shape.end());
    move_axis_to_1(space, static_cast<std::size_t>(longest - space.shape.begin()));
}

void launch(Queue& queue, const Tensor& source, const Tensor& target, CopySpace space, const CopyOptions& options)
{
    Access access = Access::strided;
    Variant variant{source.dtype, target.dtype, options, !space.fits_32_bits()};
    if (const std::size_t axis = holds_tile(queue.device(), target.dtype) ? transposed_axis(space) : 0) {
        move_axis_to_1(space, axis);
        access = Access::transposed;
    }
    else if (space.rank() > 1 && space.shape[0] < short_row && space.shape[1] > space.shape[0]) {
        const CopySpace turned = with_first_axes_swapped(space);
        if (!in_runs(queue.device(), variant, space) || access_of_channels(turned) != Access::strided)
            space = turned;
    }
    if (access == Access::strided && in_registers(queue.device(), variant)) {
        access = access_of_channels(space);
        variant.axes = access == Access::strided ? 8 : static_cast<unsigned>(space.shape[1]);
    }
    if (queue.device().kind == DeviceKind::cpu && access == Access::strided &&
        !in_runs(queue.device(), variant, space))
        move_long_axis_to_items(space);
    if (queue.device().kind == DeviceKind::gpu) {
        variant.quads = access == Access::strided && in_quads(source, target, space);
        if (access == Access::strided)
            move_long_axis_to_1(space);
        variant.axes = space.rank() <= 2 ? 2 : space.rank() <= 4 ? static_cast<unsigned>(space.rank()) : 8;
    }
    if (variant.wide)
        launch_as<cl_ulong>(queue, source, target, space, variant, access);
    else
        launch_as<cl_uint>(queue, source, target, space, variant, access);
}

Tensor bytes_of(const Tensor& tensor)
{
    Tensor bytes = tensor;
    bytes.dtype = DataType::uint8;
    bytes.offset *= static_cast<std::int64_t>(size_of(tensor.dtype));
    bytes.shape = {static_cast<std::int64_t>(tensor.nbytes())};
    bytes.strides = {1};
    return bytes;
}

// Bytes as they are, from one run to another.
void copy_run(Queue& queue, const Tensor& source, const Tensor& target)
{
    const Tensor from = bytes_of(source), to = bytes_of(target);
    const std::size_t bytes = target.nbytes();
    const bool one_buffer = source.memory->buffer == target.memory->buffer;
    const std::int64_t apart = from.buffer_offset() - to.buffer_offset();
    if (one_buffer && apart == 0)
        return;
    const bool overlap = one_buffer && std::abs(apart) < static_cast<std::int64_t>(bytes);
    // CPU drivers write their own copies through or past the cache whatever the size, which is as good for few bytes
    // alone. They refuse runs that overlap.
    constexpr std::size_t few = 512 << 10, line = 64, each = 512;   // lines a work-item
    if (queue.device().kind != DeviceKind::cpu || overlap || bytes < few)
        return queue.copy(*source.memory, static_cast<std::size_t>(from.offset), *target.memory,
                          static_cast<std::size_t>(to.offset), bytes);
    // What fills much of the cache is seldom read from there.
    const bool stream = bytes >= host_cache() / 4;
    const Program& program = queue.context().program("kernels/copy/cpu.cl", stream ? "-DSTREAM" : "");
    queue.launch(program.kernel("copy_bytes"), Range::groups(groups_for(bytes / line, each), 1), from, to,
                 static_cast<cl_ulong>(bytes), static_cast<cl_ulong>(each));
}

// Walks the axes beyond max_rank on the host.
void launch_any_rank(Queue& queue, const Tensor& source, const Tensor& target, const CopySpace& space,
                     const CopyOptions& options)
{
    if (space.rank() <= max_rank)
        return launch(queue, source, target, space, options);
    CopySpace inner = space;
    const std::size_t last = space.rank() - 1;
    for (Dims* dims : {&inner.shape, &inner.source, &inner.target})
        dims->resize(last);
    Tensor from = source, to = target;
    for (std::int64_t i = 0; i < space.shape[last]; ++i) {
        launch_any_rank(queue, from, to, inner, options);
        from.offset += space.source[last];
        to.offset += space.target[last];
    }
}

}  // namespace

void copy(Queue& queue, const Tensor& source, const Tensor& target, const CopyOptions& options)
{
    detail::check_operands("copy", {{"source", source}, {"target", target}});
    require(source.shape == target.shape, "copy: shapes ", to_string(source.shape), " and ", to_string(target.shape),
            " differ");
    if (target.numel() == 0)
        return;
    const CopySpace space = collapse(target.shape, source.strides, target.strides);
    CopyOptions effective = options;
    effective.conjugate = options.conjugate && is_complex(target.dtype);
    require(!options.negate || target.dtype != DataType::boolean, "copy: a boolean cannot be negated");
    const bool run = space.rank() == 0 || (space.rank() == 1 && space.source[0] == 1 && space.target[0] == 1);
    if (run && source.dtype == target.dtype && !effective.conjugate && !effective.negate)
        return copy_run(queue, source, target);
    launch_any_rank(queue, source, target, space, effective);
}

}  // namespace clprim
