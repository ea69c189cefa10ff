#include <kernels/integer/byte_table.hpp>

#include <algorithm>

#include <clprim/context.hpp>
#include <core/lie_alike.hpp>
#include <core/operands.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {

bool byte_table_pays(const Device& device, std::int64_t elements)
{
    constexpr std::int64_t least = 1024;   // the table is made of 256
    return device.kind == DeviceKind::cpu && elements >= least;
}

void look_up_bytes(Queue& queue, const Tensor& x, const Tensor& table, const Tensor& y)
{
    check_operands("look_up_bytes", {{"x", x}, {"table", table}, {"y", y}});
    require(size_of(x.dtype) == 1 && table.dtype == y.dtype && size_of(y.dtype) == 1 && table.numel() == 256 &&
                table.is_contiguous() && lie_alike(x, y) && x.is_non_overlapping_and_dense(),
            "look_up_bytes: bytes that lie alike and dense, and a table of 256, are expected");
    constexpr std::int64_t least_share = 8192;   // takes about as long as it takes to start a work-item
    const std::int64_t count = x.numel(), wanted = 4 * std::max(1u, queue.device().compute_units);
    const std::int64_t share = round_up(std::max(divide_up(count, wanted), least_share), 64);
    queue.launch(queue.context().program("kernels/integer/cpu_byte_table.cl", "").kernel("look_up"),
                 Range::groups({static_cast<std::size_t>(divide_up(count, share)), 1, 1}, {1, 1, 1}), x, table, y,
                 static_cast<cl_ulong>(count), static_cast<cl_ulong>(share));
}

}  // namespace clprim::detail
