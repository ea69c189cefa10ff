// Padding with a number: one launch on CPUs for dense results of up to five axes that are left when those merge which
// may, a fill and a copy otherwise.
#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/pad.hpp>
#include <core/operands.hpp>
#include <kernels/copy/kernel_table.hpp>

namespace clprim {
namespace {

constexpr std::size_t axes = 5;           // AXES in cpu_constant.cl
constexpr std::int64_t piece = 16384;     // PIECE there

// constant_t of cpu_constant.cl
struct ConstantGeometry {
    cl_long in[axes], out[axes], before[axes], strides[axes];
};

struct Axis {
    std::int64_t in, out, before, stride, place;   // stride of x, place: stride of y
};

// Of x that lies within y as a whole. Nothing if y has gaps, x has gaps within a row, or too many axes are left.
std::optional<ConstantGeometry> geometry_of(const Tensor& x, const Tensor& y, const Dims& before)
{
    std::vector<Axis> list;   // from the innermost on
    for (std::size_t i = y.dim(); i-- > 0;)
        if (y.size(i) != 1)
            list.push_back({x.size(i), y.size(i), before[i], x.stride(i), y.stride(i)});
    std::ranges::stable_sort(list, {}, &Axis::place);
    ConstantGeometry g;
    for (std::size_t i = 0; i < axes; ++i)
        g.in[i] = g.out[i] = 1, g.before[i] = g.strides[i] = 0;
    std::size_t left = axes;
    std::int64_t dense = 1;
    for (const Axis& axis : list) {
        const bool first = left == axes;
        if (axis.place != dense || (first && axis.in > 1 && axis.stride != 1))
            return {};
        dense *= axis.out;
        if (!first && g.in[left] == g.out[left] && (axis.in == 1 || axis.stride == g.strides[left] * g.in[left])) {
            g.before[left] = axis.before * g.out[left];
            g.in[left] *= axis.in;
            g.out[left] *= axis.out;
            continue;
        }
        if (left-- == 0)
            return {};
        g.in[left] = axis.in;
        g.out[left] = axis.out;
        g.before[left] = axis.before;
        g.strides[left] = first ? 1 : axis.stride;
    }
    return g;
}

Kernel& kernel_for(Context& context, std::size_t element_size)
{
    static KernelTable<5> table;
    return table.get(context, static_cast<std::size_t>(std::countr_zero(element_size)), [&]() -> Kernel& {
        const std::string name = element_size == 16 ? "raw128" : "uint" + std::to_string(8 * element_size);
        return context.program("kernels/pad/cpu_constant.cl", " -DD=" + name).kernel("pad_constant");
    });
}

void launch(Queue& queue, const Tensor& x, const Tensor& y, const ConstantGeometry& g,
            std::span<const std::byte> element)
{
    const std::int64_t width = g.out[axes - 1], rows = y.numel() / width;
    const std::int64_t pieces = width >= 2 * piece ? (width + piece - 1) / piece : 1;
    const auto units = std::max<std::int64_t>(queue.device().compute_units, 1);
    const std::int64_t some = std::max<std::int64_t>(piece / width, 1);
    const std::int64_t each = pieces > 1 ? 1 : std::clamp<std::int64_t>(rows / (4 * units), 1, some);
    Launch(queue, kernel_for(queue.context(), element.size()))
        .arg(x)
        .arg(y)
        .arg(g)
        .arg(static_cast<cl_ulong>(rows))
        .arg(static_cast<cl_uint>(each))
        .arg(static_cast<cl_uint>(pieces))
        .set(element.size(), element.data())
        .run(Range::groups(static_cast<std::size_t>((rows + each - 1) / each * pieces)));
}

// The part of `tensor` that begins at `first` and has `count` elements along an axis.
void narrow(Tensor& tensor, std::size_t axis, std::int64_t first, std::int64_t count)
{
    tensor.offset += first * tensor.stride(axis);
    tensor.shape[axis] = count;
}

}  // namespace

void pad_constant(Queue& queue, const Tensor& x, const Tensor& y, const Dims& before,
                  std::span<const std::byte> element)
{
    detail::check_operands("pad_constant", {{"x", x}, {"y", y}});
    require(x.dtype == y.dtype && x.dim() == y.dim() && before.size() == x.dim(),
            "pad_constant: expected tensors of one dtype and a number for each axis, got ", to_string(x.shape), ", ",
            to_string(y.shape), " and ", to_string(before));
    require(element.size() == size_of(y.dtype), "pad_constant: an element of ", name_of(y.dtype), " has ",
            size_of(y.dtype), " bytes, got ", element.size());
    if (y.numel() == 0)
        return;
    Tensor from = x, to = y;
    Dims place(y.dim(), 0);
    bool covered = true;
    for (std::size_t i = 0; i < y.dim(); ++i) {
        const std::int64_t first = std::max<std::int64_t>(before[i], 0), left_out = first - before[i];
        const std::int64_t count = std::max<std::int64_t>(std::min(x.size(i) - left_out, y.size(i) - first), 0);
        covered &= count == y.size(i);
        narrow(from, i, count == 0 ? 0 : left_out, count);
        narrow(to, i, count == 0 ? 0 : first, count);
        place[i] = first;
    }
    if (covered)
        return copy(queue, from, to);
    if (from.numel() == 0)
        return fill(queue, y, element);
    if (queue.device().kind == DeviceKind::cpu)
        if (const auto geometry = geometry_of(from, y, place))
            return launch(queue, from, y, *geometry, element);
    fill(queue, y, element);
    copy(queue, from, to);
}

}  // namespace clprim
