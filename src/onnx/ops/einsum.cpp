// Einsum: diagonals are views, axes that one operand alone has are summed, the rest are batched products of matrices
// from left to right.
#include <algorithm>
#include <map>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/reduce.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/products.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Labels = std::vector<int>;       // letters, and numbers from `ellipsis` on for the axes of an ellipsis

constexpr int ellipsis = 256;

// A tensor with a label on each axis.
struct Term {
    Tensor tensor;
    Labels labels;
};

bool contains(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }

struct Equation {
    std::vector<std::string> inputs;
    std::string output;
    bool explicit_output = false;
};

Equation parse(const Call& call)
{
    std::string text = call.attribute<std::string>("equation");
    std::erase(text, ' ');
    Equation equation;
    const std::size_t arrow = text.find("->");
    equation.explicit_output = arrow != std::string::npos;
    if (equation.explicit_output) {
        equation.output = text.substr(arrow + 2);
        text.resize(arrow);
    }
    for (std::size_t begin = 0;;) {
        const std::size_t end = text.find(',', begin);
        equation.inputs.push_back(text.substr(begin, end - begin));
        if (end == std::string::npos)
            break;
        begin = end + 1;
    }
    call.check(equation.inputs.size() == call.inputs(), "the equation has ", equation.inputs.size(), " terms for ",
               call.inputs(), " inputs");
    return equation;
}

// Labels of a term; an ellipsis stands for `hidden` axes, numbered so that they end with those of all other terms.
Labels labels_of(const Call& call, const std::string& term, std::size_t hidden, std::size_t most_hidden)
{
    Labels labels;
    bool seen = false;
    for (std::size_t i = 0; i < term.size(); ++i) {
        if (term.compare(i, 3, "...") == 0) {
            call.check(!seen, "a term has two ellipses: '", term, "'");
            seen = true;
            for (std::size_t k = 0; k < hidden; ++k)
                labels.push_back(ellipsis + static_cast<int>(most_hidden - hidden + k));
            i += 2;
        } else {
            const char c = term[i];
            call.check((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), "unexpected '", std::string(1, c),
                       "' in term '", term, "'");
            labels.push_back(c);
        }
    }
    return labels;
}

std::size_t letters(const std::string& term)
{
    return static_cast<std::size_t>(std::ranges::count_if(term, [](char c) { return c != '.'; }));
}

// Repeated labels walk the diagonal.
Term diagonal(const Call& call, const Tensor& tensor, const Labels& labels)
{
    Term term{tensor, {}};
    Dims shape, strides;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const auto found = std::ranges::find(term.labels, labels[i]);
        if (found == term.labels.end()) {
            term.labels.push_back(labels[i]);
            shape.push_back(tensor.size(i));
            strides.push_back(tensor.stride(i));
            continue;
        }
        const auto at = static_cast<std::size_t>(found - term.labels.begin());
        call.check(shape[at] == tensor.size(i), "a repeated index has sizes ", shape[at], " and ", tensor.size(i));
        strides[at] += tensor.stride(i);
    }
    term.tensor.shape = shape;
    term.tensor.strides = strides;
    return term;
}

Term in_order(const Term& term, const Labels& order)
{
    Term result{term.tensor, order};
    result.tensor.shape.resize(0);
    result.tensor.strides.resize(0);
    for (const int label : order) {
        const auto at = static_cast<std::size_t>(std::ranges::find(term.labels, label) - term.labels.begin());
        result.tensor.shape.push_back(term.tensor.size(at));
        result.tensor.strides.push_back(term.tensor.stride(at));
    }
    return result;
}

// Sums over all axes whose labels nobody needs any more.
Term sum_out(Call& call, const Term& term, const Labels& needed)
{
    Dims reduced = term.tensor.shape, left;
    Labels labels;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
        if (contains(needed, term.labels[i])) {
            labels.push_back(term.labels[i]);
            left.push_back(reduced[i]);
        } else {
            reduced[i] = 1;
        }
    }
    if (labels.size() == term.labels.size())
        return term;
    const Tensor sum = call.allocate(reduced, term.tensor.dtype);
    const Input input(term.tensor);
    if (sum.numel())
        reduce(call.queue(), reduce_row("sum"), {std::span(&input, 1), std::span(&sum, 1), {}, sum.dtype});
    return {sum.reshape(left), labels};
}

// The axes in `labels` as one, or a copy that allows it.
Tensor merged(Call& call, const Term& term, std::initializer_list<const Labels*> groups)
{
    Labels order;
    Dims shape;
    for (const Labels* group : groups)
        order.insert(order.end(), group->begin(), group->end());
    const Tensor source = in_order(term, order).tensor;
    Dims strides;
    bool fits = true;
    std::size_t at = 0;
    for (const Labels* group : groups) {
        std::int64_t size = 1, stride = 0;
        for (std::size_t k = group->size(); k-- > 0;) {
            const std::int64_t here = source.size(at + k);
            if (here == 1)
                continue;
            if (size == 1)
                stride = source.stride(at + k);
            else
                fits = fits && source.stride(at + k) == size * stride;
            size *= here;
        }
        at += group->size();
        shape.push_back(size);
        strides.push_back(stride);
    }
    Tensor result = source;
    if (!fits) {
        result = call.allocate(source.shape, source.dtype);
        copy(call.queue(), source, result);
        return result.reshape(shape);
    }
    result.shape = shape;
    result.strides = strides;
    return result;
}

// Axes of size 1 take part in what the other operand has there.
void match_sizes(Term& a, const Term& b)
{
    for (std::size_t i = 0; i < a.labels.size(); ++i) {
        const auto found = std::ranges::find(b.labels, a.labels[i]);
        if (found == b.labels.end())
            continue;
        const std::int64_t size = b.tensor.size(static_cast<std::size_t>(found - b.labels.begin()));
        if (a.tensor.size(i) == 1 && size != 1) {
            a.tensor.shape[i] = size;
            a.tensor.strides[i] = 0;
        }
    }
}

Term multiply(Call& call, Term a, Term b, const Labels& needed)
{
    match_sizes(a, b);
    match_sizes(b, a);
    Labels batch, summed, rows, columns;
    for (const int label : a.labels)
        (!contains(b.labels, label) ? rows : contains(needed, label) ? batch : summed).push_back(label);
    for (const int label : b.labels)
        if (!contains(a.labels, label))
            columns.push_back(label);
    Labels order = batch;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    Dims shape;
    for (const int label : order) {
        const Term& owner = contains(a.labels, label) ? a : b;
        shape.push_back(owner.tensor.size(
            static_cast<std::size_t>(std::ranges::find(owner.labels, label) - owner.labels.begin())));
    }
    const Tensor result = call.allocate(shape, a.tensor.dtype);
    if (result.numel() == 0)
        return {result, order};
    const Tensor left = merged(call, a, {&batch, &rows, &summed}), right = merged(call, b, {&batch, &summed, &columns});
    batched_product(call.queue(), left, right, result.reshape({left.size(0), left.size(1), right.size(2)}));
    return {result, order};
}

Labels implied_output(const std::vector<Labels>& inputs)
{
    std::map<int, int> times;
    for (const Labels& labels : inputs)
        for (const int label : labels)
            ++times[label];
    Labels hidden, output;
    for (const auto& [label, count] : times)
        if (label >= ellipsis)
            hidden.push_back(label);
        else if (count == 1)
            output.push_back(label);
    hidden.insert(hidden.end(), output.begin(), output.end());
    return hidden;
}

void check_sizes(const Call& call, const std::vector<Term>& terms)
{
    std::map<int, std::int64_t> sizes;
    for (const Term& term : terms)
        for (std::size_t i = 0; i < term.labels.size(); ++i) {
            const auto [known, fresh] = sizes.emplace(term.labels[i], term.tensor.size(i));
            if (!fresh && known->second == 1)
                known->second = term.tensor.size(i);
            call.check(known->second == term.tensor.size(i) || term.tensor.size(i) == 1, "an index has sizes ",
                       known->second, " and ", term.tensor.size(i));
        }
}

void einsum(Call& call)
{
    const Equation equation = parse(call);
    std::vector<std::size_t> hidden(call.inputs());
    std::size_t most_hidden = 0;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        const bool has_ellipsis = equation.inputs[i].find("...") != std::string::npos;
        const std::size_t named = letters(equation.inputs[i]), dims = call.shape(i).size();
        call.check(has_ellipsis ? dims >= named : dims == named, "term '", equation.inputs[i], "' does not fit input ",
                   i, " of shape ", to_string(call.shape(i)));
        call.check(call.type(i) == call.type(0), "input ", i, " is ", name_of(call.type(i)), ", expected ",
                   name_of(call.type(0)));
        hidden[i] = dims - named;
        most_hidden = std::max(most_hidden, hidden[i]);
    }
    std::vector<Labels> inputs;
    std::vector<Term> terms;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        inputs.push_back(labels_of(call, equation.inputs[i], hidden[i], most_hidden));
        terms.push_back(diagonal(call, call.tensor(i), inputs[i]));
    }
    check_sizes(call, terms);
    const Labels output = equation.explicit_output ? labels_of(call, equation.output, most_hidden, most_hidden)
                                                   : implied_output(inputs);
    for (const int label : output) {
        call.check(std::ranges::count(output, label) == 1, "an index comes twice in the output");
        call.check(std::ranges::any_of(inputs, [&](const Labels& l) { return contains(l, label); }),
                   "an index of the output is in no input");
    }
    // What the output or an operand further right still needs.
    const auto needed_after = [&](std::size_t used) {
        Labels needed = output;
        for (std::size_t k = used; k < terms.size(); ++k)
            needed.insert(needed.end(), terms[k].labels.begin(), terms[k].labels.end());
        return needed;
    };
    Term result = sum_out(call, terms[0], needed_after(1));
    for (std::size_t i = 1; i < terms.size(); ++i) {
        const Labels needed = needed_after(i + 1);
        Labels kept = needed;
        kept.insert(kept.end(), result.labels.begin(), result.labels.end());
        result = multiply(call, result, sum_out(call, terms[i], kept), needed);
    }
    call.output(0, Value(in_order(result, output).tensor));
}

const OperatorRow einsum_rows[] = {{"Einsum", 12, einsum}};

}  // namespace

std::span<const OperatorRow> einsum_operators() { return einsum_rows; }

}  // namespace clprim::onnx
