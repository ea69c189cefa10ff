// Unique: how many elements come out depends on the data, and the order that "first occurrence" asks for is sequential,
// so this runs on the host.
#include <algorithm>
#include <numeric>

#include "onnx/ops/families.hpp"
#include "onnx/ops/host_pick.hpp"

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
    return ranks(x.to_ints(call.queue()));
}

void unique(Call& call)
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
    std::ranges::stable_sort(order, {}, [&](std::int64_t i) -> const Ints& { return slices[static_cast<std::size_t>(i)]; });
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

const OperatorRow rows[] = {{"Unique", 11, unique, unique}};

}  // namespace

std::span<const OperatorRow> unique_operators() { return rows; }

}  // namespace clprim::onnx
