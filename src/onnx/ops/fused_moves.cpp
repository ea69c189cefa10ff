// What fuse_moves.cpp makes.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include <clprim/index.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// Rows of the last axis, which stays whole: where each comes from, and the shape of all but that axis.
struct Rows {
    Dims shape;
    std::vector<std::int64_t> from;
};

std::vector<std::int64_t> strides_of(const Dims& shape)
{
    std::vector<std::int64_t> result(shape.size(), 1);
    for (std::size_t axis = shape.size(); axis-- > 1;)
        result[axis - 1] = result[axis] * shape[axis];
    return result;
}

// Rows of `shape` whose places in `source` are `begin` and so many `steps` of each axis on.
Rows picked(const Rows& source, const Dims& shape, std::int64_t begin, const std::vector<std::int64_t>& steps)
{
    Rows result{shape, {}};
    result.from.reserve(static_cast<std::size_t>(shape.product()));
    std::vector<std::int64_t> at(shape.size(), 0);
    std::int64_t place = begin;
    for (std::int64_t i = 0; i < shape.product(); ++i) {
        result.from.push_back(source.from[static_cast<std::size_t>(place)]);
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            place += steps[axis];
            if (++at[axis] < shape[axis])
                break;
            place -= steps[axis] * shape[axis];
            at[axis] = 0;
        }
    }
    return result;
}

// What the nodes of a chain do to rows; nothing where one moves elements within them, or fails.
class Tracer {
public:
    Tracer(const Graph& chain, const Dims& shape) : chain_(chain), size_(shape.back())
    {
        Rows rows{Dims(std::span<const std::int64_t>(shape.begin(), shape.end() - 1)), {}};
        rows.from.resize(static_cast<std::size_t>(rows.shape.product()));
        std::iota(rows.from.begin(), rows.from.end(), std::int64_t{0});
        rows_.emplace(chain.inputs[0], std::move(rows));
        for (const auto& [slot, value] : chain.constants)
            constants_[slot] = &value;
    }

    std::optional<Rows> result()
    {
        for (const Node& node : chain_.nodes) {
            const Rows& source = rows_.at(node.inputs[0]);
            auto next = node.op_type == "Reshape"     ? reshaped(node, source)
                        : node.op_type == "Transpose" ? turned(node, source)
                        : node.op_type == "Slice"     ? sliced(node, source)
                                                      : joined(node, source);
            if (!next)
                return std::nullopt;
            rows_.insert_or_assign(node.outputs[0], std::move(*next));
        }
        return std::move(rows_.at(chain_.outputs[0]));
    }

private:
    std::span<const std::int64_t> ints(int slot) const
    {
        const Value& value = *constants_.at(slot);
        return {reinterpret_cast<const std::int64_t*>(value.host_bytes()), static_cast<std::size_t>(value.numel())};
    }

    // Of all axes but the last one.
    std::optional<std::size_t> axis_of(std::int64_t given, const Rows& rows) const
    {
        const auto dims = static_cast<std::int64_t>(rows.shape.size()) + 1, axis = given < 0 ? given + dims : given;
        return axis >= 0 && axis + 1 < dims ? std::optional(static_cast<std::size_t>(axis)) : std::nullopt;
    }

    std::optional<Rows> reshaped(const Node& node, const Rows& source) const
    {
        const auto given = ints(node.inputs[1]);
        if (given.empty())
            return std::nullopt;
        Dims shape;
        std::int64_t known = 1;
        std::optional<std::size_t> open;
        const std::int64_t all = source.shape.product() * size_;
        for (std::size_t i = 0; i < given.size(); ++i) {
            if (given[i] < -1 || (given[i] == -1 && open) ||
                (given[i] == 0 && (i > source.shape.size() || attribute_of<std::int64_t>(node, "allowzero", 0) != 0)))
                return std::nullopt;
            const std::int64_t same = i < source.shape.size() ? source.shape[i] : size_;
            shape.push_back(given[i] == 0 ? same : given[i]);
            if (given[i] == -1)
                open = i;
            else if (shape[i] > all || (known *= shape[i]) > all)
                return std::nullopt;
        }
        if (open)
            shape[*open] = all / known;
        if (shape.product() != all || shape.back() != size_)
            return std::nullopt;
        return Rows{Dims(std::span<const std::int64_t>(shape.begin(), shape.end() - 1)), source.from};
    }

    std::optional<Rows> turned(const Node& node, const Rows& source) const
    {
        const auto* order = find_attribute<std::vector<std::int64_t>>(node, "perm");
        const std::size_t dims = source.shape.size();
        if (!order || order->size() != dims + 1 || order->back() != static_cast<std::int64_t>(dims))
            return std::nullopt;
        const auto strides = strides_of(source.shape);
        Dims shape;
        std::vector<std::int64_t> steps;
        for (std::size_t i = 0; i < dims; ++i) {
            const auto axis = static_cast<std::size_t>((*order)[i]);
            if ((*order)[i] < 0 || axis >= dims)
                return std::nullopt;
            shape.push_back(source.shape[axis]);
            steps.push_back(strides[axis]);
        }
        return shape.product() == source.shape.product() ? std::optional(picked(source, shape, 0, steps))
                                                         : std::nullopt;
    }

    std::optional<Rows> sliced(const Node& node, const Rows& source) const
    {
        const auto starts = ints(node.inputs[1]), ends = ints(node.inputs[2]), axes = ints(node.inputs[3]);
        const auto steps = node.inputs.size() == 5 ? ints(node.inputs[4]) : std::span<const std::int64_t>();
        const bool steps_fit = steps.empty() || steps.size() == axes.size();
        if (starts.size() != axes.size() || ends.size() != axes.size() || !steps_fit)
            return std::nullopt;
        Dims shape = source.shape;
        const auto strides = strides_of(shape);
        std::int64_t begin = 0;
        for (std::size_t i = 0; i < axes.size(); ++i) {
            const auto axis = axis_of(axes[i], source);
            if (!axis || (!steps.empty() && steps[i] != 1) || shape[*axis] != source.shape[*axis])
                return std::nullopt;
            const std::int64_t size = shape[*axis];
            const auto place = [&](std::int64_t at) {
                return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
            };
            const std::int64_t from = place(starts[i]);
            shape[*axis] = place(ends[i]) - from;
            begin += from * strides[*axis];
            if (shape[*axis] <= 0)
                return std::nullopt;
        }
        return picked(source, shape, begin, strides);
    }

    std::optional<Rows> joined(const Node& node, const Rows& first) const
    {
        const Rows& second = rows_.at(node.inputs[1]);
        const auto axis = axis_of(attribute_of<std::int64_t>(node, "axis", 0), first);
        if (!axis || second.shape.size() != first.shape.size())
            return std::nullopt;
        Dims shape = first.shape;
        shape[*axis] = second.shape[*axis];
        if (shape != second.shape)
            return std::nullopt;
        shape[*axis] += first.shape[*axis];
        Rows result{shape, {}};
        const auto block = [&](const Rows& of) { return strides_of(of.shape)[*axis] * of.shape[*axis]; };
        const std::int64_t a = block(first), b = block(second);
        for (std::int64_t i = 0; i * (a + b) < shape.product(); ++i)
            for (const auto& [of, length] : {std::pair{&first, a}, std::pair{&second, b}})
                result.from.insert(result.from.end(), of->from.begin() + i * length,
                                   of->from.begin() + (i + 1) * length);
        return result;
    }

    const Graph& chain_;
    std::int64_t size_;
    std::map<int, Rows> rows_;
    std::map<int, const Value*> constants_;
};

// Rows that stay together, as one each; how many there are in such.
std::int64_t join_rows(std::vector<std::int64_t>& from)
{
    std::int64_t together = static_cast<std::int64_t>(from.size()), run = 0;
    for (std::size_t i = 0; i < from.size(); ++i, ++run)
        if (i == 0 || from[i] != from[i - 1] + 1) {
            together = std::gcd(std::gcd(together, run), from[i]);
            run = 0;
        }
    together = std::gcd(together, run);
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < from.size(); i += static_cast<std::size_t>(together))
        result.push_back(from[i] / together);
    from = std::move(result);
    return together;
}

// Shorter ones are moved faster by copies of their axes.
constexpr std::int64_t shortest_row = 16;

struct Table {
    Dims shape;                          // of the result
    Tensor from;                         // undefined where the chain runs node by node
    std::int64_t row = 0;                // elements in each
};

void moves(Call& call)
{
    const Graph& chain = *call.attribute<GraphRef>("operators");
    const Dims& shape = call.shape(0);
    const auto table = call.derived("moves of " + to_string(shape), [&] {
        Table result;
        if (shape.size() < 2 || shape.product() == 0 || is_narrow(call.type(0)))
            return result;
        auto rows = Tracer(chain, shape).result();
        if (!rows)
            return result;
        result.shape = std::move(rows->shape);
        result.shape.push_back(shape.back());
        result.row = shape.back() * join_rows(rows->from);
        if (result.row >= shortest_row && shape.product() % result.row == 0)
            result.from = Value::ints(rows->from).device(call.queue());
        return result;
    });
    if (!table->from.defined()) {
        const Value x = call.input(0);
        return call.output(0, call.run(chain, std::span(&x, 1))[0]);
    }
    const Tensor x = call.contiguous(0), y = call.allocate(table->shape, x.dtype);
    call.output(0, Value(y));
    const auto rows = [&](const Tensor& t) { return t.reshape({t.numel() / table->row, table->row}); };
    index_select(call.queue(), rows(x), 0, table->from, rows(y));
}

const OperatorRow fused_moves_rows[] = {{"Moves", 1, moves, nullptr, "clprim"}};

}  // namespace

std::span<const OperatorRow> fused_moves_operators() { return fused_moves_rows; }

}  // namespace clprim::onnx
