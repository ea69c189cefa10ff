// Unique: slices are brought into lexicographic order, and where neighbours differ a new group begins.
//
// On the device, columns of the slices are sorted all at once and replaced by the ranks of their elements; then pairs
// of columns become one column of ranks, until one is left (Karp, Miller, Rosenberg, STOC 1972). The host does strings
// and small tensors.
#include <algorithm>
#include <numeric>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/index.hpp>
#include <clprim/scan.hpp>
#include <clprim/sort.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/host_pick.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Ints = std::vector<std::int64_t>;

// Elements as ranks among themselves: equal elements share one, NaN come last and are all different.
template <class T>
Ints ranks(const std::vector<T>& elements)
{
    const auto is_nan = [](const T& x) { return x != x; };
    Ints order(elements.size()), result(elements.size());
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](std::int64_t i) -> const T& { return elements[static_cast<std::size_t>(i)]; };
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
        return is_nan(at(a)) || is_nan(at(b)) ? !is_nan(at(a)) && is_nan(at(b)) : at(a) < at(b);
    });
    std::int64_t rank = -1;
    for (std::size_t i = 0; i < order.size(); ++i) {
        if (i == 0 || at(order[i]) != at(order[i - 1]))
            ++rank;
        result[static_cast<std::size_t>(order[i])] = rank;
    }
    return result;
}

Ints element_ranks(const Call& call)
{
    const Value& x = call.input(0);
    if (x.type() == ElementType::string)
        return ranks(x.strings());
    if (is_floating_point(storage_type(x.type())))
        return ranks(x.to_doubles(call.queue()));
    if (x.type() == ElementType::uint64) {
        const auto elements = x.host<std::uint64_t>(call.queue());
        return ranks(std::vector(elements.begin(), elements.end()));
    }
    return ranks(x.to_ints(call.queue()));
}

void unique_on_host(Call& call)
{
    Value x = call.input(0);
    const bool flat = !call.has_attribute("axis");
    Dims shape = flat ? Dims{x.numel()} : x.shape();
    const std::size_t axis = flat ? 0 : call.axis(call.integer_attribute("axis", 0), x.dim());
    const Ints rank = element_ranks(call);
    const Dims strides = contiguous_strides(shape);
    // A slice is the list of its elements' ranks.
    const auto count = static_cast<std::size_t>(shape[axis]);
    std::vector<Ints> slices(count);
    for (std::int64_t i = 0; i < shape.product(); ++i)
        slices[static_cast<std::size_t>(i / strides[axis] % shape[axis])].push_back(rank[static_cast<std::size_t>(i)]);

    Ints order(count);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {},
                             [&](std::int64_t i) -> const Ints& { return slices[static_cast<std::size_t>(i)]; });
    Ints first, counts, group(count);                  // of each group of equal slices, in sorted order
    for (std::size_t i = 0; i < count; ++i) {
        const auto slice = static_cast<std::size_t>(order[i]);
        if (i == 0 || slices[slice] != slices[static_cast<std::size_t>(order[i - 1])]) {
            first.push_back(order[i]);
            counts.push_back(0);
        }
        ++counts.back();
        group[slice] = static_cast<std::int64_t>(first.size()) - 1;
    }
    Ints place(first.size());                          // groups in the order asked for
    std::iota(place.begin(), place.end(), 0);
    if (call.integer_attribute("sorted", 1) == 0)
        std::ranges::sort(place, {}, [&](std::int64_t g) { return first[static_cast<std::size_t>(g)]; });
    Ints indices, ordered_counts, inverse_of(first.size()), inverse;
    for (const std::int64_t g : place) {
        inverse_of[static_cast<std::size_t>(g)] = static_cast<std::int64_t>(indices.size());
        indices.push_back(first[static_cast<std::size_t>(g)]);
        ordered_counts.push_back(counts[static_cast<std::size_t>(g)]);
    }
    for (const std::int64_t g : group)
        inverse.push_back(inverse_of[static_cast<std::size_t>(g)]);

    if (x.type() != ElementType::string)
        x.bytes(call.queue());                         // brings them to the host
    Dims result = shape;
    result[axis] = static_cast<std::int64_t>(indices.size());
    call.output(0, pick(x, result, [&](std::int64_t i) {
        const std::int64_t outer = i / strides[axis] / result[axis], at = i / strides[axis] % result[axis];
        return (outer * shape[axis] + indices[static_cast<std::size_t>(at)]) * strides[axis] + i % strides[axis];
    }));
    call.output(1, Value::ints(indices));
    call.output(2, Value::ints(inverse));
    call.output(3, Value::ints(ordered_counts));
}

// Columns of n keys, [columns, n], in order.
struct Columns {
    Tensor order;                                      // where sorted elements stood
    Tensor fresh;                                      // 1 where they differ from the one before, else 0
    Tensor numbers;                                    // inclusive sums of these
};

Columns sort_columns(const Call& call, const Tensor& keys)
{
    Queue& queue = call.queue();
    const Tensor sorted = call.allocate(keys.shape, keys.dtype);
    const auto integers = [&] { return call.allocate(keys.shape, DataType::int64); };
    const Columns result{integers(), integers(), integers()};
    const std::int64_t n = keys.size(1);
    sort(queue, keys, 1, false, sorted, result.order);
    fill(queue, result.fresh.slice(1, 0, 1), 1.);
    if (n > 1) {
        const Tensor neighbours[] = {sorted.slice(1, 1, n), sorted.slice(1, 0, n - 1)};
        const Tensor differs = result.fresh.slice(1, 1, n);
        pointwise(queue, neighbours, {&differs, 1}, {}, "y0 = x0 != x1;");
    }
    cumulative(queue, result.fresh, 1, Scan::sum, result.numbers);
    return result;
}

// Two columns of ranks as one of keys that order as the pairs do; a last one that is alone stays.
Tensor pair_columns(const Call& call, const Tensor& ranks)
{
    const std::int64_t columns = ranks.size(0), pairs = columns / 2, n = ranks.size(1);
    const Tensor keys = call.allocate({columns - pairs, n}, DataType::int64);
    const Tensor even(ranks.memory, ranks.offset, ranks.dtype, {pairs, n}, {2 * n, 1}),
        odd(ranks.memory, ranks.offset + n, ranks.dtype, {pairs, n}, {2 * n, 1}), paired = keys.slice(0, 0, pairs);
    const Tensor both[] = {even, odd};
    const Scalar factor(n + 1);
    pointwise(call.queue(), both, {&paired, 1}, {&factor, 1}, "y0 = x0 * w0 + x1;");
    if (columns % 2)
        copy(call.queue(), ranks.slice(0, columns - 1, columns), keys.slice(0, pairs, pairs + 1));
    return keys;
}

Columns sort_slices(const Call& call, Tensor keys)
{
    for (;;) {
        const Columns columns = sort_columns(call, keys);
        if (keys.size(0) == 1)
            return columns;
        const Tensor ranks = call.allocate(keys.shape, DataType::int64);
        scatter(call.queue(), ranks, 1, columns.order, columns.numbers);
        keys = pair_columns(call, ranks);
    }
}

// What Unique gives besides the slices themselves, [groups] and [n], int64.
struct Groups {
    Tensor first, inverse, counts;
};

// Groups in sorted order. Waits for their number.
Groups group_slices(const Call& call, const Columns& columns)
{
    Queue& queue = call.queue();
    const std::int64_t n = columns.order.size(1);
    const Tensor order = columns.order.reshape({n}), fresh = columns.fresh.reshape({n});
    const auto integers = [&](std::int64_t count) { return call.allocate({count}, DataType::int64); };
    const NonzeroCounts found = nonzero_count(queue, fresh);
    const std::int64_t count = last_integer(call, found.totals);
    const Groups groups{integers(count), integers(n), integers(count)};
    const Tensor starts = integers(count + 1), numbers = integers(n);
    nonzero_write(queue, fresh, found, starts.slice(0, 0, count).reshape({count, 1}));
    fill(queue, starts.slice(0, count, count + 1), static_cast<double>(n));
    index_select(queue, order, 0, starts.slice(0, 0, count), groups.first);      // the sort is stable
    const Tensor bounds[] = {starts.slice(0, 1, count + 1), starts.slice(0, 0, count)};
    const Tensor sums = columns.numbers.reshape({n});
    pointwise(queue, bounds, {&groups.counts, 1}, {}, "y0 = x0 - x1;");
    pointwise(queue, {&sums, 1}, {&numbers, 1}, {}, "y0 = x0 - 1;");
    scatter(queue, groups.inverse, 0, order, numbers);
    return groups;
}

// The same groups in the order of their first slices.
Groups by_appearance(const Call& call, const Groups& groups)
{
    Queue& queue = call.queue();
    const auto like = [&](const Tensor& other) { return call.allocate_like(other); };
    const Tensor permutation = like(groups.first), ranks = like(groups.first), positions = like(groups.first);
    const Groups result{like(groups.first), like(groups.inverse), like(groups.counts)};
    sort(queue, groups.first, 0, false, result.first, permutation);
    index_select(queue, groups.counts, 0, permutation, result.counts);
    sort(queue, permutation, 0, false, positions, ranks);                        // the inverse of a permutation
    index_select(queue, ranks, 0, groups.inverse, result.inverse);
    return result;
}

// The slices along `axis` as columns of keys, [elements of a slice, slices].
Tensor slices_as_columns(const Call& call, const Tensor& x, std::size_t axis)
{
    Tensor view = x;
    for (std::size_t d = axis; d + 1 < x.dim(); ++d)
        view = view.transpose(d, d + 1);
    const Dims columns{x.numel() / x.size(axis), x.size(axis)};
    if (view.is_contiguous())
        return view.reshape(columns);
    const Tensor keys = call.allocate(view.shape, x.dtype);
    copy(call.queue(), view, keys);
    return keys.reshape(columns);
}

void unique(Call& call)
{
    if (call.type(0) == ElementType::string || call.input(0).numel() == 0)
        return unique_on_host(call);
    call.check(!is_narrow(call.type(0)), "X is ", name_of(call.type(0)));
    const bool flat = !call.has_attribute("axis");
    const std::size_t axis = flat ? 0 : call.axis(call.integer_attribute("axis", 0), call.shape(0).size());
    const Tensor x = flat ? call.contiguous(0).reshape({call.input(0).numel()}) : call.tensor(0);
    call.check(!is_complex(x.dtype), "X is ", name_of(x.dtype), ", which has no order");
    call.check(x.size(axis) <= std::numeric_limits<std::int32_t>::max(), "there are ", x.size(axis), " slices");
    Groups groups = group_slices(call, sort_slices(call, slices_as_columns(call, x, axis)));
    if (call.integer_attribute("sorted", 1) == 0)
        groups = by_appearance(call, groups);
    Dims shape = x.shape;
    shape[axis] = groups.first.numel();
    index_select(call.queue(), x, axis, groups.first, call.output_tensor(0, shape, call.type(0)));
    call.output(1, Value(groups.first));
    call.output(2, Value(groups.inverse));
    call.output(3, Value(groups.counts));
}

const OperatorRow unique_rows[] = {{"Unique", 11, unique, unique_on_host}};

}  // namespace

std::span<const OperatorRow> unique_operators() { return unique_rows; }

}  // namespace clprim::onnx
