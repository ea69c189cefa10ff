#include <clprim/index.hpp>

#include <clprim/context.hpp>
#include <core/host_processor.hpp>
#include <core/operands.hpp>
#include <kernels/team.hpp>

namespace clprim {
namespace {

// bags_t of bags.cl
struct Bags {
    cl_ulong row;
    cl_long rows, count, bags, begins, padding;
    cl_uint width;
};

void check(const Tensor& table, const EmbeddingBags& b)
{
    const auto integers = [](const Tensor& t) { return t.dtype == DataType::int64 || t.dtype == DataType::int32; };
    require(table.dim() == 2 && is_floating_point(table.dtype) && (table.stride(1) == 1 || table.size(1) == 1),
            "embedding_bag: the table has floating-point rows without gaps, got ", name_of(table.dtype), " ",
            to_string(table.shape));
    require(integers(b.index) && b.index.dim() == 1 && b.index.is_contiguous() && integers(b.offsets) &&
                b.offsets.dim() == 1 && b.offsets.is_contiguous(),
            "embedding_bag: index and offsets are contiguous, of one dimension and of dtype int64 or int32");
    const std::int64_t bags = b.result.dim() ? b.result.size(0) : -1;
    require(b.result.shape == Dims{bags, table.size(1)} && b.result.dtype == table.dtype && b.result.is_contiguous() &&
                (b.offsets.size(0) == bags || b.offsets.size(0) == bags + 1),
            "embedding_bag: ", b.offsets.size(0), " offsets and a table of ", to_string(table.shape),
            " do not fit a result of ", to_string(b.result.shape));
    require(integers(b.sizes) && b.sizes.shape == Dims{bags} && b.sizes.is_contiguous(),
            "embedding_bag: sizes are integers, one for each bag");
    require(b.mode == BagMode::maximum ? b.places.defined() && b.places.dtype == b.sizes.dtype &&
                                             b.places.shape == b.result.shape && b.places.is_contiguous()
                                       : !b.places.defined(),
            "embedding_bag: places are of maxima, as many and of the dtype of sizes");
    require(!b.weights.defined() || (b.mode == BagMode::sum && b.weights.dtype == table.dtype &&
                                     b.weights.shape == b.index.shape && b.weights.is_contiguous()),
            "embedding_bag: weights of samples are for sums, one for each index, of the table's dtype");
}

}  // namespace

void embedding_bag(Queue& queue, const Tensor& table, const EmbeddingBags& b)
{
    detail::check_operands("embedding_bag", {{"table", table}, {"index", b.index}, {"offsets", b.offsets},
                                             {"result", b.result}, {"sizes", b.sizes},
                                             {"weights", b.weights, detail::optional},
                                             {"places", b.places, detail::optional}});
    check(table, b);
    const std::int64_t bags = b.result.size(0), width = table.size(1);
    if (bags == 0)
        return;
    const bool cpu = queue.device().kind == DeviceKind::cpu, maximum = b.mode == BagMode::maximum;
    detail::Team team = detail::team_for_rows(queue.device(), width, {&table, &b.result});
    if (maximum || (!cpu && table.stride(0) % 4 != 0))
        team.vec = 1;
    const unsigned vectors = !cpu ? 1 : maximum ? 16 : 4;
    std::string options = detail::concat(
        detail::define("X", table.dtype), " -DINDEX=", opencl_compute_type(b.index.dtype), " -DBEGIN=",
        opencl_compute_type(b.offsets.dtype), " -DRESULT=", opencl_compute_type(b.sizes.dtype), " -DMODE=",
        static_cast<int>(b.mode), b.weights.defined() ? " -DWEIGHTED" : "", " -DVEC=", team.vec, " -DVECTORS=",
        vectors);
    const Bags bags_argument{static_cast<cl_ulong>(table.stride(0)), table.size(0), b.index.size(0), bags,
                             b.offsets.size(0), b.padding, static_cast<cl_uint>(width)};
    if (cpu && !maximum && width > 0) {
        options += prefetch_option(queue.device());
        const std::int64_t share = detail::divide_up(bags, 32 * std::int64_t{queue.device().compute_units});
        queue.launch(queue.context().program("kernels/index/bags.cl", options).kernel("embedding_bag_shares"),
                     Range::groups(detail::divide_up(bags, share)), table, b.index, b.offsets, b.weights, b.result,
                     b.sizes, bags_argument, queue.error_buffer(), Queue::error_code("embedding_bag"),
                     cl_ulong(share));
        return queue.expect_errors();
    }
    const auto span = static_cast<std::int64_t>(team.vec * vectors);
    const auto blocks = static_cast<std::size_t>(std::max<std::int64_t>((width + span - 1) / span, 1));
    const Range range = cpu ? Range::groups({blocks, static_cast<std::size_t>(bags), 1}, {1, 1, 1})
                            : detail::plane_range(queue.device(), blocks, static_cast<std::size_t>(bags), 1);
    queue.launch(queue.context().program("kernels/index/bags.cl", options).kernel("embedding_bag"), range, table,
                 b.index, b.offsets, b.weights, b.result, b.sizes, b.places, bags_argument, queue.error_buffer(),
                 Queue::error_code("embedding_bag"));
    queue.expect_errors();
}

}  // namespace clprim
