// Sequences and optional values.
#include <clprim/concat.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Values = std::vector<Value>;

// A position in [-n, n] of a list, counted from the front; `end` allows n itself.
std::size_t position(const Call& call, std::size_t input, std::size_t count, bool end)
{
    const std::int64_t given = call.integer(input), n = static_cast<std::int64_t>(count);
    call.check(given >= -n && given < n + end, "position ", given, " is out of range for a sequence of ", n);
    return static_cast<std::size_t>(given < 0 ? given + n : given);
}

void sequence_empty(Call& call)
{
    call.output(0, Value::sequence({}, static_cast<ElementType>(call.integer_attribute("dtype", 1))));
}

void sequence_construct(Call& call)
{
    Values items;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        items.push_back(call.input(i));
    call.output(0, Value::sequence(std::move(items)));
}

void sequence_at(Call& call)
{
    const Values& items = call.input(0).items();
    call.output(0, items[position(call, 1, items.size(), false)]);
}

void sequence_insert(Call& call)
{
    Values items = call.input(0).items();
    const std::size_t at = call.has(2) ? position(call, 2, items.size(), true) : items.size();
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), call.input(1));
    call.output(0, Value::sequence(std::move(items)));
}

void sequence_erase(Call& call)
{
    Values items = call.input(0).items();
    call.check(!items.empty(), "the sequence is empty");
    const std::size_t at = call.has(1) ? position(call, 1, items.size(), false) : items.size() - 1;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
    call.output(0, Value::sequence(std::move(items), call.input(0).type()));
}

void sequence_length(Call& call)
{
    call.output(0, Value::scalar(static_cast<std::int64_t>(call.input(0).items().size())));
}

void split_to_sequence(Call& call)
{
    const Tensor x = call.tensor(0);
    const std::size_t axis = call.axis(call.integer_attribute("axis", 0), x.dim());
    const std::int64_t size = x.shape[axis];
    std::vector<std::int64_t> lengths;
    const bool single = !call.has(1);
    if (!single && call.input(1).dim() == 1)
        lengths = call.ints(1);
    else {
        const std::int64_t length = single ? 1 : call.integer(1);
        call.check(length > 0, "a piece must have at least one element, split is ", length);
        for (std::int64_t begin = 0; begin < size; begin += length)
            lengths.push_back(std::min(length, size - begin));
    }
    const bool drops_axis = single && call.integer_attribute("keepdims", 1) == 0;
    Values items;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
        call.check(length >= 0 && begin + length <= size, "pieces ", to_string(Dims(lengths)), " do not fill size ",
                   size);
        const Value piece(x.slice(axis, begin, begin + length), call.type(0));
        Dims shape = piece.shape();
        if (drops_axis) {
            std::rotate(shape.begin() + axis, shape.begin() + axis + 1, shape.end());
            shape.resize(shape.size() - 1);
        }
        items.push_back(drops_axis ? piece.reshaped(shape, call.queue()) : piece);
        begin += length;
    }
    call.check(begin == size, "pieces ", to_string(Dims(lengths)), " do not fill size ", size);
    call.output(0, Value::sequence(std::move(items), call.type(0)));
}

void concat_from_sequence(Call& call)
{
    Values items = call.input(0).items();
    call.check(!items.empty(), "the sequence is empty");
    const bool fresh = call.integer_attribute("new_axis", 0) != 0;
    const std::size_t axis = call.axis(call.attribute<std::int64_t>("axis"), items[0].dim() + fresh);
    std::vector<Tensor> tensors;
    Dims whole;
    for (const Value& item : items) {
        Dims shape = item.shape();
        if (fresh) {
            shape.push_back(1);
            std::rotate(shape.begin() + axis, shape.end() - 1, shape.end());
        }
        Dims expected = shape;
        if (whole.empty())
            whole = shape;
        else {
            call.check(shape.size() == whole.size(), "items have ", whole.size(), " and ", shape.size(), " dimensions");
            expected[axis] = whole[axis];
            call.check(expected == whole && item.type() == items[0].type(), "items of shapes ", to_string(shape),
                       " and ", to_string(whole), " do not fit together");
            whole[axis] += shape[axis];
        }
        tensors.push_back(item.reshaped(shape, call.queue()).device(call.queue()));
    }
    const Tensor y = call.output_tensor(0, whole, items[0].type());
    std::erase_if(tensors, [](const Tensor& tensor) { return tensor.numel() == 0; });
    if (!tensors.empty())
        concat(call.queue(), tensors, axis, y);
}

// body(item of each sequence, or a tensor as it is) -> an item of each output sequence.
void sequence_map(Call& call)
{
    const Graph& body = *call.attribute<GraphRef>("body");
    std::vector<Values> results(call.outputs());
    const std::size_t count = call.input(0).items().size();
    for (std::size_t i = 0; i < count; ++i) {
        Values arguments;
        for (std::size_t k = 0; k < call.inputs(); ++k) {
            const Value& input = call.input(k);
            call.check(!input.is_sequence() || input.items().size() == count, "the sequences have ", count, " and ",
                       input.is_sequence() ? input.items().size() : 0, " items");
            arguments.push_back(input.is_sequence() ? input.items()[i] : input);
        }
        const Values items = call.run(body, arguments);
        for (std::size_t k = 0; k < results.size(); ++k)
            results[k].push_back(items[k]);
    }
    for (std::size_t k = 0; k < results.size(); ++k)
        call.output(k, Value::sequence(std::move(results[k])));
}

void optional(Call& call) { call.output(0, call.has(0) ? call.input(0) : Value()); }
void optional_has_element(Call& call) { call.output(0, Value::scalar(call.has(0))); }

void optional_get_element(Call& call)
{
    call.check(call.has(0), "the optional is empty");
    call.output(0, call.input(0));
}

const OperatorRow sequence_rows[] = {
    {"SequenceEmpty", 11, sequence_empty},
    {"SequenceConstruct", 11, sequence_construct, sequence_construct},
    {"SequenceAt", 11, sequence_at},
    {"SequenceInsert", 11, sequence_insert, sequence_insert},
    {"SequenceErase", 11, sequence_erase},
    {"SequenceLength", 11, sequence_length},
    {"SequenceMap", 17, sequence_map},
    {"SplitToSequence", 11, split_to_sequence},
    {"ConcatFromSequence", 11, concat_from_sequence},
    {"Optional", 15, optional, optional},
    {"OptionalHasElement", 15, optional_has_element, optional_has_element},
    {"OptionalGetElement", 15, optional_get_element, optional_get_element},
};

}  // namespace

std::span<const OperatorRow> sequence_operators() { return sequence_rows; }

}  // namespace clprim::onnx
