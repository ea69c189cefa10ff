#include <kernels/bins/bins.hpp>

#include <limits>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/scan.hpp>
#include <kernels/sort/digits.hpp>

namespace clprim::detail {

Bins sort_into_bins(Queue& queue, const Tensor& numbers, std::int64_t bins)
{
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    require(numbers.dtype == DataType::int32 && numbers.is_contiguous(), "sort_into_bins: expected int32 numbers");
    require(numbers.numel() <= limit && bins < limit, "sort_into_bins: 2^31 or more numbers or bins");
    Context& context = queue.context();
    const Program& program = context.program("kernels/bins/bins.cl", "");
    constexpr std::int64_t many = 1 << 16;
    if (numbers.numel() >= many && can_sort_numbers(queue.device(), numbers.numel())) {
        Tensor line = numbers;
        line.shape = {numbers.numel()};
        line.strides = {1};
        const SortedNumbers sorted = sort_numbers(queue, line, bins);
        const Tensor begins = context.empty({bins + 1}, DataType::int32, queue);
        queue.launch(program.kernel("find_bins"), Range::linear(bins + 1, 64), sorted.numbers, begins,
                     cl_uint(numbers.numel()), cl_ulong(bins));
        return {begins, sorted.order};
    }
    const Tensor begins = context.empty({bins + 1}, DataType::int32, queue),
                 list = context.empty({numbers.numel()}, DataType::int32, queue);
    const cl_ulong count = numbers.numel();
    fill(queue, begins, 0.);
    queue.launch(program.kernel("count_bins"), Range::linear(count, 64), numbers, begins, count);
    cumulative(queue, begins, 0, Scan::sum, begins);
    queue.launch(program.kernel("fill_bins"), Range::linear(count, 64), numbers, begins, list, count);
    queue.launch(program.kernel("sort_bins"), Range::linear(bins, 64), begins, list, cl_ulong(bins));
    return {begins, list};
}

}  // namespace clprim::detail
