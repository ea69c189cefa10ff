#include <kernels/index/move.hpp>

#include <algorithm>
#include <bit>
#include <limits>

#include <clprim/context.hpp>
#include <clprim/index.hpp>
#include <kernels/index/axis.hpp>
#include <kernels/index/geometry.hpp>
#include <core/operands.hpp>

namespace clprim {

detail::RawType detail::raw_type(std::size_t bytes)
{
    static constexpr RawType types[] = {{DataType::uint8, "uchar"}, {DataType::uint16, "ushort"},
        {DataType::uint32, "uint"}, {DataType::uint64, "ulong"}, {DataType::complex128, "uint4"}};
    return types[std::countr_zero(bytes)];
}

namespace {

using detail::concat;
using detail::raw_type;

constexpr std::int64_t chunk = 4096;   // CHUNK of move.cl: elements that a CPU's work-item moves

std::size_t blocks(std::int64_t all, std::int64_t each) { return static_cast<std::size_t>((all + each - 1) / each); }

bool divides(int factor, const Tensor& tensor) { return tensor.buffer_offset() % factor == 0; }

Tensor as_raw(Tensor tensor, int factor)
{
    tensor.offset /= factor;
    tensor.dtype = raw_type(size_of(tensor.dtype) * factor).dtype;
    return tensor;
}

// Whether whatever an index reaches in the tensor lies within 31 bits, in elements of `bytes`.
bool is_near(const Tensor& reached, const IndexedAxis& axis, std::size_t bytes)
{
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    const std::size_t memory = reached.memory ? reached.memory->size : 0;
    return axis.size <= limit && static_cast<std::int64_t>(memory / bytes) <= limit;
}

// Four elements a work-item, for GPUs: build options.
std::string share(Geometry& g, const Tensor& dense, const IndexedAxis* axis, unsigned mask, std::size_t bytes)
{
    if (bytes < 16 && divides(4, dense) && (!axis || divides(4, axis->index)) && g.share_neighbours(4, mask))
        return " -DQUADS";
    g.share(4);
    return axis && g.last_is_still() ? " -DSTILL" : "";
}

// One launch of move.cl. `scatter`: the index reaches into `out` instead of into `source`.
void move(Queue& queue, const Tensor& out, const Tensor& source, const IndexedAxis* axis, bool scatter)
{
    const std::string_view name = axis ? axis->name : "move";
    require(out.dtype == source.dtype, name, ": dtypes ", name_of(out.dtype), " and ", name_of(source.dtype),
            " differ");
    if (out.numel() == 0)
        return;
    Geometry g = axis ? Geometry({&out, &source, &axis->index}) : Geometry({&out, &source});
    int factor = 16 / static_cast<int>(size_of(out.dtype));
    for (; factor > 1; factor /= 2)
        if ((!axis || axis->stride % factor == 0) && divides(factor, out) && divides(factor, source) &&
            g.widen(factor, 0b011u))
            break;

    const std::size_t bytes = size_of(out.dtype) * factor;
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    std::string shared;
    if (cpu) {
        shared = concat(" -DCHUNK=", chunk);
        if (g.dims() > 0) {
            const bool to_dense = g.stride(0, 0) == 1;
            if (axis && g.stride(2, 0) == 0)
                shared += " -DSTILL";
            else if (const int reached = scatter ? 0 : 1;
                     axis && g.stride(2, 0) == 1 && g.stride(1 - reached, 0) == 1 &&
                     (g.stride(reached, 0) == 0 || g.stride(reached, 0) == 1))
                shared += concat(" -DLINED_UP=", g.stride(reached, 0));
            if (to_dense && g.stride(1, 0) == 1)
                shared += " -DFORWARD";
            else if (to_dense && g.stride(1, 0) == -1)
                shared += concat(" -DBACKWARD", bytes < 16 ? concat(" -DVECTOR=", raw_type(bytes).name, 16) : "");
        }
    } else {
        const unsigned dense = scatter ? 0b110u : axis ? 0b101u : 0b001u;
        shared = share(g, as_raw(scatter ? source : out, factor), axis, dense, bytes);
        if (axis && is_near(scatter ? out : source, *axis, bytes))
            shared += " -DNEAR";
    }
    std::string options = std::string("-DELEMENT=") + raw_type(bytes).name + g.options() + shared;
    if (axis)
        options += " -DINDEX=" + std::string(name_of(axis->index.dtype));
    if (scatter)
        options += " -DSCATTER";
    Launch launch(queue, queue.context().program("kernels/index/move.cl", options).kernel("move"));
    launch.arg(as_raw(out, factor)).arg(as_raw(source, factor));
    if (axis)
        launch.arg(axis->index).arg(AxisArgument(*axis, factor)).arg(queue.error_buffer()).arg(Queue::error_code(name));
    g.set_argument(launch);
    if (cpu) {
        const std::int64_t columns = g.dims() > 0 ? g.size(0) : 1, rows = g.numel() / columns;
        const std::int64_t each = std::clamp<std::int64_t>(chunk / columns, 1, std::max<std::int64_t>(rows / 8, 1));
        launch.arg(static_cast<cl_uint>(each))
            .run(Range::groups({blocks(columns, chunk), blocks(rows, each), 1}, {1, 1, 1}));
    } else {
        launch.run(Range::linear(g.numel(), 64));
    }
    if (axis)
        queue.expect_errors();
}

}  // namespace

void move_elements(Queue& queue, const Tensor& out, const Tensor& source) { move(queue, out, source, nullptr, false); }

void read_through(Queue& queue, const Tensor& source, const IndexedAxis& axis, const Tensor& out)
{
    detail::check_operands("read_through", {{"source", source}, {"index", axis.index}, {"out", out}});
    move(queue, out, source, &axis, false);
}

void write_through(Queue& queue, const Tensor& self, const IndexedAxis& axis, const Tensor& source)
{
    detail::check_operands("write_through", {{"self", self}, {"index", axis.index}, {"source", source}});
    move(queue, self, source, &axis, true);
}

}  // namespace clprim
