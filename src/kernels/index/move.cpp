#include <kernels/index/move.hpp>

#include <bit>

#include <clprim/context.hpp>
#include <clprim/index.hpp>
#include <kernels/index/axis.hpp>
#include <kernels/index/geometry.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

// An unsigned type of that many bytes: moves look only at bytes.
struct RawType {
    DataType dtype;
    const char* name;
};

RawType raw_type(std::size_t bytes)
{
    static constexpr RawType types[] = {{DataType::uint8, "uchar"}, {DataType::uint16, "ushort"},
        {DataType::uint32, "uint"}, {DataType::uint64, "ulong"}, {DataType::complex128, "uint4"}};
    return types[std::countr_zero(bytes)];
}

bool divides(int factor, const Tensor& tensor) { return tensor.buffer_offset() % factor == 0; }

Tensor as_raw(Tensor tensor, int factor)
{
    tensor.offset /= factor;
    tensor.dtype = raw_type(size_of(tensor.dtype) * factor).dtype;
    return tensor;
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
    const bool keys = axis && axis->size == index_is_key;   // keys count elements, so elements must stay what they are
    int factor = keys ? 1 : 16 / static_cast<int>(size_of(out.dtype));
    for (; factor > 1; factor /= 2)
        if ((!axis || axis->stride % factor == 0) && divides(factor, out) && divides(factor, source) &&
            g.widen(factor, 0b011u))
            break;

    const RawType element = raw_type(size_of(out.dtype) * factor);
    std::string options = std::string("-DELEMENT=") + element.name + g.options();
    if (axis)
        options += " -DINDEX=" + std::string(name_of(axis->index.dtype));
    if (scatter)
        options += " -DSCATTER";
    Launch launch(queue, queue.context().program("kernels/index/move.cl", options).kernel("move"));
    launch.arg(as_raw(out, factor)).arg(as_raw(source, factor));
    if (axis)
        launch.arg(axis->index).arg(AxisArgument(*axis, factor)).arg(queue.error_buffer()).arg(Queue::error_code(name));
    g.set_argument(launch);
    launch.run(Range::linear(g.numel(), 64));
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
