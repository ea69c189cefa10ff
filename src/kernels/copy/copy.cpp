#include <clprim/copy.hpp>

#include <algorithm>
#include <array>
#include <atomic>

#include <clprim/context.hpp>
#include <kernels/copy/collapse.hpp>

namespace clprim {
namespace {

constexpr std::size_t max_rank = 8;        // of one launch; more axes are walked on the host
constexpr std::int64_t short_row = 32;
constexpr std::int64_t tile = 32;          // TILE in copy.cl
constexpr std::int64_t tile_rows = 8;

// space_t in copy.cl.
template <class Index>
struct SpaceArgument {
    std::array<Index, max_rank> shape, source, target;

    explicit SpaceArgument(const CopySpace& space)
    {
        shape.fill(1);
        source.fill(0);
        target.fill(0);
        std::copy(space.shape.begin(), space.shape.end(), shape.begin());
        std::copy(space.source.begin(), space.source.end(), source.begin());
        std::copy(space.target.begin(), space.target.end(), target.begin());
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

enum class Access { strided, short_rows, transposed };
constexpr const char* kernel_names[] = {"copy_strided", "copy_short_rows", "copy_transposed"};

struct Variant {
    DataType source, target;
    CopyOptions options;
    bool wide = false;   // 64-bit indices
    bool raw() const { return source == target && !options.conjugate && !options.negate; }
};

Kernel& build(Context& context, const Variant& variant, Access access)
{
    const std::string from(variant.raw() ? raw_name(size_of(variant.source)) : name_of(variant.source));
    const std::string to(variant.raw() ? raw_name(size_of(variant.target)) : name_of(variant.target));
    std::string flags = "-DS=" + from + " -DD=" + to + (variant.wide ? " -DINDEX=ulong" : " -DINDEX=uint");
    if (variant.options.conjugate)
        flags += " -DCONJUGATE";
    if (variant.options.negate)
        flags += " -DNEGATE";
    return context.program("kernels/copy/copy.cl", flags).kernel(kernel_names[static_cast<int>(access)]);
}

// Built kernels by variant, one table per device, so that a copy does not hash its build options.
Kernel& kernel_for(Context& context, const Variant& variant, Access access)
{
    constexpr std::size_t table_size = data_type_count * data_type_count * 4 * 2 * 3;
    constexpr int most_devices = 64;
    static std::array<std::atomic<std::atomic<Kernel*>*>, most_devices> tables{};
    auto& slot = tables[static_cast<std::size_t>(context.device().index)];
    std::atomic<Kernel*>* table = slot.load(std::memory_order_acquire);
    if (table == nullptr) {
        auto* fresh = new std::atomic<Kernel*>[table_size]();
        if (slot.compare_exchange_strong(table, fresh))
            table = fresh;
        else
            delete[] fresh;
    }
    std::size_t key = static_cast<std::size_t>(variant.source) * data_type_count + static_cast<std::size_t>(variant.target);
    key = key * 4 + (variant.options.conjugate ? 2 : 0) + (variant.options.negate ? 1 : 0);
    key = (key * 2 + (variant.wide ? 1 : 0)) * 3 + static_cast<std::size_t>(access);
    Kernel* kernel = table[key].load(std::memory_order_acquire);
    if (kernel == nullptr)
        table[key].store(kernel = &build(context, variant, access), std::memory_order_release);
    return *kernel;
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

void move_axis_to_1(CopySpace& space, std::size_t axis)
{
    for (Dims* dims : {&space.shape, &space.source, &space.target})
        std::rotate(dims->begin() + 1, dims->begin() + axis, dims->begin() + axis + 1);
}

std::int64_t outer_count(const CopySpace& space)
{
    std::int64_t n = 1;
    for (std::size_t axis = 2; axis < space.rank(); ++axis)
        n *= space.shape[axis];
    return n;
}

Range range_of(const CopySpace& space, Access access, DeviceKind kind)
{
    const auto size = [&](std::size_t axis) {
        return static_cast<std::size_t>(axis < space.rank() ? space.shape[axis] : 1);
    };
    const auto outer = static_cast<std::size_t>(outer_count(space));
    switch (access) {
    case Access::short_rows:
        return Range::linear(static_cast<std::size_t>(space.numel()), 64);
    case Access::transposed: {
        const std::size_t x = (size(0) + tile - 1) / tile, y = (size(1) + tile - 1) / tile;
        if (kind == DeviceKind::cpu)
            return Range::groups({x, y, outer}, {1, 1, 1});
        return Range::groups({x, y, outer}, {tile, tile_rows, 1});
    }
    default: {
        const std::size_t local = size(0) > 128 ? 256 : 64;
        return Range::groups({(size(0) + local - 1) / local, size(1), outer}, {local, 1, 1});
    }
    }
}

template <class Index>
void launch_as(Queue& queue, const Tensor& source, const Tensor& target, const CopySpace& space, Kernel& kernel,
               Access access)
{
    const Range range = range_of(space, access, queue.device().kind);
    const SpaceArgument<Index> argument(space);
    const auto rank = static_cast<cl_int>(space.rank());
    if (access == Access::short_rows)
        queue.launch(kernel, range, source, target, argument, rank, static_cast<Index>(space.numel()));
    else
        queue.launch(kernel, range, source, target, argument, rank);
}

void launch(Queue& queue, const Tensor& source, const Tensor& target, CopySpace space, const CopyOptions& options)
{
    Access access = Access::strided;
    if (const std::size_t axis = transposed_axis(space)) {
        move_axis_to_1(space, axis);
        access = Access::transposed;
    }
    else if (space.rank() > 1 && space.shape[0] < short_row) {
        access = Access::short_rows;
    }
    const Variant variant{source.dtype, target.dtype, options, !space.fits_32_bits()};
    Kernel& kernel = kernel_for(queue.context(), variant, access);
    if (variant.wide)
        launch_as<cl_ulong>(queue, source, target, space, kernel, access);
    else
        launch_as<cl_uint>(queue, source, target, space, kernel, access);
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
    require(source.shape == target.shape, "copy: shapes ", to_string(source.shape), " and ", to_string(target.shape),
            " differ");
    if (target.numel() == 0)
        return;
    const CopySpace space = collapse(target.shape, source.strides, target.strides);
    CopyOptions effective = options;
    effective.conjugate = options.conjugate && is_complex(target.dtype);
    require(!options.negate || target.dtype != DataType::boolean, "copy: a boolean cannot be negated");
    const bool run = space.rank() == 0 || (space.rank() == 1 && space.source[0] == 1 && space.target[0] == 1);
    if (run && source.dtype == target.dtype && !effective.conjugate && !effective.negate) {
        const std::size_t item = size_of(source.dtype);
        const auto from = static_cast<std::size_t>(source.offset) * item, to = static_cast<std::size_t>(target.offset) * item;
        if (source.memory->buffer == target.memory->buffer && source.memory->offset + from == target.memory->offset + to)
            return;
        return queue.copy(*source.memory, from, *target.memory, to, target.nbytes());
    }
    launch_any_rank(queue, source, target, space, effective);
}

}  // namespace clprim
