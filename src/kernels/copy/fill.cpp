#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <kernels/copy/collapse.hpp>
#include <kernels/copy/kernel_table.hpp>
#include <kernels/pointwise/iteration.hpp>
#include <core/operands.hpp>

namespace clprim {
namespace {

constexpr std::size_t max_rank = 8;

template <class Index>
struct SpaceArgument {   // space_t in fill.cl
    std::array<Index, max_rank> shape, target{}, magic{}, shift{};

    explicit SpaceArgument(const CopySpace& space)
    {
        shape.fill(1);
        std::copy(space.shape.begin(), space.shape.end(), shape.begin());
        std::copy(space.target.begin(), space.target.end(), target.begin());
        if constexpr (sizeof(Index) == 4)
            for (std::size_t axis = 1; axis < space.rank(); ++axis) {
                const Divider divider(static_cast<std::uint32_t>(shape[axis]));
                magic[axis] = divider.magic;
                shift[axis] = divider.shift;
            }
    }
};

// Work-items of GPUs own four elements of axis 0.
Range gpu_range(const CopySpace& space, std::int64_t rows, const Device& device)
{
    constexpr std::size_t filled = 4;   // FILLED in fill.cl
    const std::size_t largest = std::min<std::size_t>(256, std::bit_floor(device.max_work_group_size));
    const auto columns = static_cast<std::size_t>(space.shape[0]), lines = static_cast<std::size_t>(rows);
    const std::size_t x = std::min(std::bit_ceil((columns + filled - 1) / filled), std::min<std::size_t>(64, largest));
    const std::size_t y = std::min(std::bit_ceil(lines), largest / x);
    return Range::groups({(columns + filled * x - 1) / (filled * x), (lines + y - 1) / y, 1}, {x, y, 1});
}

std::uint16_t to_bfloat16(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value))
        return 0x7fc0;
    return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Round to nearest, ties to even.
std::uint16_t to_float16(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
    const float magnitude = std::fabs(value);
    if (std::isnan(value))
        return sign | 0x7e00;
    if (magnitude >= 65520.0f)
        return sign | 0x7c00;
    if (magnitude < 0x1p-14f)   // subnormal: a multiple of 2^-24
        return sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24f));
    const std::uint32_t rounded = (bits & 0x7fffffff) + 0xfff + ((bits >> 13) & 1) - (112u << 23);
    return sign | static_cast<std::uint16_t>(rounded >> 13);
}

template <class T>
void append(std::vector<std::byte>& bytes, T value)
{
    const std::size_t end = bytes.size();
    bytes.resize(end + sizeof value);
    std::memcpy(bytes.data() + end, &value, sizeof value);
}

enum class Access { dense, strided, rows };
constexpr std::array access_names = {"fill_dense", "fill_strided", "fill_rows"};

// The size of an element is all that matters to the kernels, and how many axes there can be: 2, 3, 4 or 8.
Kernel& kernel_for(Context& context, std::size_t element_size, bool wide, Access access, std::size_t rank)
{
    constexpr std::array names = {"uint8", "uint16", "uint32", "uint64", "raw128"};
    const auto log_size = static_cast<std::size_t>(std::countr_zero(element_size));
    static KernelTable<names.size() * 2 * access_names.size() * 9> table;
    const std::size_t axes = rank <= 2 ? 2 : rank <= 4 ? rank : max_rank;
    const auto way = static_cast<std::size_t>(access);
    const std::size_t key = ((log_size * 2 + (wide ? 1 : 0)) * access_names.size() + way) * 9 + axes;
    return table.get(context, key, [&]() -> Kernel& {
        const std::string flags = std::string("-DD=") + names[log_size] + (wide ? " -DINDEX=ulong" : " -DINDEX=uint") +
                                  " -DAXES=" + std::to_string(axes);
        return context.program(access == Access::rows ? "kernels/copy/cpu_fill_rows.cl" : "kernels/copy/fill.cl", flags)
            .kernel(access_names[way]);
    });
}

template <class Index>
void launch(Queue& queue, const Tensor& target, const CopySpace& space, std::span<const std::byte> element)
{
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    const std::int64_t count = space.numel(), rows = count / space.shape[0];
    constexpr std::int64_t long_row = 16, chunk = 16384;   // CHUNK in fill.cl
    if (cpu && space.shape[0] >= long_row) {
        const std::int64_t each = std::max<std::int64_t>(1, chunk / space.shape[0]);
        const auto blocks = static_cast<std::size_t>((space.shape[0] + chunk - 1) / chunk);
        Launch(queue, kernel_for(queue.context(), element.size(), sizeof(Index) == 8, Access::rows, space.rank()))
            .arg(target)
            .arg(SpaceArgument<Index>(space))
            .arg(static_cast<cl_int>(space.rank()))
            .arg(static_cast<Index>(rows))
            .set(element.size(), element.data())
            .arg(static_cast<Index>(each))
            .run(Range::groups({blocks, static_cast<std::size_t>((rows + each - 1) / each), 1}, {1, 1, 1}));
        return;
    }
    Launch(queue, kernel_for(queue.context(), element.size(), sizeof(Index) == 8, Access::strided, space.rank()))
        .arg(target)
        .arg(SpaceArgument<Index>(space))
        .arg(static_cast<cl_int>(space.rank()))
        .arg(static_cast<Index>(cpu ? count : rows))
        .set(element.size(), element.data())
        .run(cpu ? Range::linear(static_cast<std::size_t>(count), 64) : gpu_range(space, rows, queue.device()));
}

void fill_dense(Queue& queue, const Tensor& target, std::span<const std::byte> element)
{
    // Drivers of CPUs fill slowly.
    if (queue.device().kind != DeviceKind::cpu)
        return queue.fill(*target.memory, static_cast<std::size_t>(target.offset) * element.size(), target.nbytes(),
                          element.data(), element.size());
    constexpr std::size_t chunk = 16384;   // CHUNK in fill.cl
    const auto count = static_cast<std::size_t>(target.numel());
    Launch(queue, kernel_for(queue.context(), element.size(), false, Access::dense, 1))
        .arg(target)
        .arg(static_cast<cl_ulong>(count))
        .set(element.size(), element.data())
        .run(Range::groups((count + chunk - 1) / chunk));
}

void fill_space(Queue& queue, const Tensor& target, const CopySpace& space, std::span<const std::byte> element)
{
    if (space.rank() <= max_rank) {
        if (space.fits_32_bits())
            launch<cl_uint>(queue, target, space, element);
        else
            launch<cl_ulong>(queue, target, space, element);
        return;
    }
    CopySpace inner = space;   // axes beyond max_rank are walked on the host
    const std::size_t last = space.rank() - 1;
    for (Dims* dims : {&inner.shape, &inner.source, &inner.target})
        dims->resize(last);
    Tensor part = target;
    for (std::int64_t i = 0; i < space.shape[last]; ++i, part.offset += space.target[last])
        fill_space(queue, part, inner, element);
}

}  // namespace

std::vector<std::byte> element_bytes(DataType type, std::complex<double> value)
{
    std::vector<std::byte> bytes;
    const double real = value.real(), imaginary = value.imag();
    switch (type) {
    case DataType::float32: append(bytes, static_cast<float>(real)); break;
    case DataType::float64: append(bytes, real); break;
    case DataType::float16: append(bytes, to_float16(static_cast<float>(real))); break;
    case DataType::bfloat16: append(bytes, to_bfloat16(static_cast<float>(real))); break;
    case DataType::int8: append(bytes, static_cast<std::int8_t>(real)); break;
    case DataType::int16: append(bytes, static_cast<std::int16_t>(real)); break;
    case DataType::int32: append(bytes, static_cast<std::int32_t>(real)); break;
    case DataType::int64: append(bytes, static_cast<std::int64_t>(real)); break;
    case DataType::uint8: append(bytes, static_cast<std::uint8_t>(static_cast<std::int64_t>(real))); break;
    case DataType::uint16: append(bytes, static_cast<std::uint16_t>(static_cast<std::int64_t>(real))); break;
    case DataType::uint32: append(bytes, static_cast<std::uint32_t>(static_cast<std::int64_t>(real))); break;
    case DataType::uint64:
        append(bytes, real < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(real))
                               : static_cast<std::uint64_t>(real));
        break;
    case DataType::boolean: append(bytes, static_cast<std::uint8_t>(real != 0 || imaginary != 0)); break;
    case DataType::complex32:
        append(bytes, to_float16(static_cast<float>(real)));
        append(bytes, to_float16(static_cast<float>(imaginary)));
        break;
    case DataType::bcomplex32:
        append(bytes, to_bfloat16(static_cast<float>(real)));
        append(bytes, to_bfloat16(static_cast<float>(imaginary)));
        break;
    case DataType::complex64:
        append(bytes, static_cast<float>(real));
        append(bytes, static_cast<float>(imaginary));
        break;
    case DataType::complex128:
        append(bytes, real);
        append(bytes, imaginary);
        break;
    }
    return bytes;
}

void fill(Queue& queue, const Tensor& target, std::span<const std::byte> element)
{
    detail::check_operands("fill", {{"target", target}});
    require(element.size() == size_of(target.dtype), "fill: an element of ", name_of(target.dtype), " has ",
            size_of(target.dtype), " bytes, got ", element.size());
    if (target.numel() == 0)
        return;
    const CopySpace space = collapse(target.shape, target.strides, target.strides);
    if (space.rank() == 0 || (space.rank() == 1 && space.target[0] == 1))
        return fill_dense(queue, target, element);
    fill_space(queue, target, space, element);
}

void fill(Queue& queue, const Tensor& target, double value) { fill(queue, target, element_bytes(target.dtype, value)); }

}  // namespace clprim
