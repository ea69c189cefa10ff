// SVMClassifier and SVMRegressor of ai.onnx.ml: support vectors with kernels, or linear models without any.
//
// Classifiers compare classes pair by pair (Chang, Lin, "LIBSVM", ACM TIST 2011). Where ONNX's definition is silent
// (which label, what the transforms make of the one score of two classes), results are ONNX Runtime's.
#include <algorithm>
#include <numeric>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/coupling.hpp>
#include <clprim/distance.hpp>
#include <clprim/gemm.hpp>
#include <clprim/index.hpp>

#include "onnx/ops/classifier.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

// Numbers on the device, kept for the session under `key`.
Tensor table(const Call& call, const std::string& key, const Floats& numbers, const Dims& shape)
{
    const auto upload = [&] { return number_table(call, {numbers.begin(), numbers.end()}, DataType::float32); };
    return call.derived(key, upload)->reshape(shape);
}

Tensor positions(const Call& call, const std::string& key, const Ints& numbers)
{
    return *call.derived(key, [&] { return index_table(call, numbers); });
}

// a b + bias.
Tensor product(const Call& call, const Tensor& a, const Tensor& b, const Tensor& bias = {})
{
    const Tensor y = call.allocate({a.size(0), b.size(1)}, a.dtype);
    if (y.numel())
        gemm(call.queue(), gemm_problem(a, b, y, bias), a, b, y, bias);
    return y;
}

// k(x, v) of every row x and every support vector v: x v, (gamma x v + coef0)^degree, tanh(gamma x v + coef0) or
// exp(-gamma |x - v|^2).
Tensor kernel_values(const Call& call, const Tensor& x, const Tensor& vectors)
{
    const std::string type = call.string_attribute("kernel_type", "LINEAR");
    Floats parameters = call.attribute<Floats>("kernel_params", {});
    call.check(parameters.empty() || parameters.size() == 3, "kernel_params holds ", parameters.size(),
               " numbers, expected gamma, coef0 and degree");
    parameters.resize(3);
    const Scalar scalars[] = {parameters[0], parameters[1], parameters[2]};
    const std::int64_t rows = x.size(0), count = vectors.size(0), features = x.size(1);
    const auto finish = [&](const Tensor& values, const char* code) {
        if (values.numel())
            pointwise(call.queue(), {&values, 1}, {&values, 1}, scalars, code);
        return values;
    };
    if (type == "RBF") {
        const Tensor distances = call.allocate({1, rows, count}, x.dtype);
        if (distances.numel())
            pairwise_distances(call.queue(), x.reshape({1, rows, features}), vectors.reshape({1, count, features}), 2,
                               distances);
        return finish(distances.reshape({rows, count}), "y0 = exp(-w0 * x0 * x0);");
    }
    const Tensor products = product(call, x, vectors.transpose(0, 1));
    if (type == "POLY")
        return finish(products, "y0 = pow(w0 * x0 + w1, w2);");
    if (type == "SIGMOID")
        return finish(products, "y0 = tanh(w0 * x0 + w1);");
    call.check(type == "LINEAR", "kernel_type is ", type, ", expected LINEAR, POLY, RBF or SIGMOID");
    return products;
}

// `count` support vectors, or rows of a linear model, for the features of x.
Tensor vectors_of(const Call& call, const char* name, std::int64_t count, const Tensor& x)
{
    const Floats numbers = call.attribute<Floats>(name);
    const std::int64_t features = x.size(1);
    call.check(features > 0 && static_cast<std::int64_t>(numbers.size()) == count * features, name, " holds ",
               numbers.size(), " numbers for ", count, " vectors of ", features, " features");
    return table(call, name, numbers, {count, features});
}

// rho, of which the first `count` numbers are used.
Tensor offsets(const Call& call, std::int64_t count)
{
    const Floats rho = call.attribute<Floats>("rho");
    call.check(static_cast<std::int64_t>(rho.size()) >= count, "rho holds ", rho.size(), " numbers, expected ", count);
    return table(call, "rho", {rho.begin(), rho.begin() + count}, {count});
}

void svm_regressor(Call& call)
{
    const Tensor x = feature_rows(call, false);
    const std::int64_t count = call.integer_attribute("n_supports", 0);
    const std::int64_t targets = call.integer_attribute("n_targets", 1);
    call.check(targets == 1, "n_targets is ", targets, ", expected 1");
    call.check(count >= 0, "n_supports is ", count);
    Tensor y;
    if (count) {
        const Floats coefficients = call.attribute<Floats>("coefficients");
        call.check(static_cast<std::int64_t>(coefficients.size()) == count, "there are ", coefficients.size(),
                   " coefficients for ", count, " support vectors");
        const Tensor values = kernel_values(call, x, vectors_of(call, "support_vectors", count, x));
        y = product(call, values, table(call, "coefficients", coefficients, {count, 1}), offsets(call, 1));
    } else {
        y = product(call, x, vectors_of(call, "coefficients", 1, x).transpose(0, 1), offsets(call, 1));
    }
    y = post_transform(call, y, call.string_attribute("post_transform", "NONE"));
    if (call.integer_attribute("one_class", 0) && y.numel())
        pointwise(call.queue(), {&y, 1}, {&y, 1}, {}, "y0 = x0 > 0 ? 1 : -1;");
    call.output(0, Value(y));
}

// One score per pair of classes (i, j), i < j: positive for i.
struct Pairs {
    std::int64_t classes;
    Ints first, second;
    explicit Pairs(std::int64_t count) : classes(count)
    {
        for (std::int64_t i = 0; i < count; ++i)
            for (std::int64_t j = i + 1; j < count; ++j) {
                first.push_back(i);
                second.push_back(j);
            }
    }
    std::int64_t size() const { return static_cast<std::int64_t>(first.size()); }
};

// values [rows, vectors] -> scores [rows, pairs]: what the vectors of class i say against j, and those of j against i.
// Row c of the coefficients holds what vectors of a class say against the c-th of the others.
Tensor pair_scores(const Call& call, const Tensor& values, const Ints& vectors_per_class, const Pairs& pairs)
{
    const std::int64_t rows = values.size(0), count = values.size(1), others = pairs.classes - 1;
    const Floats numbers = call.attribute<Floats>("coefficients");
    call.check(static_cast<std::int64_t>(numbers.size()) == others * count, "there are ", numbers.size(),
               " coefficients for ", count, " support vectors and ", pairs.classes, " classes");
    const Tensor coefficients = table(call, "coefficients", numbers, {others, count}).transpose(0, 1);
    const Tensor rho = offsets(call, pairs.size());
    const Tensor votes = call.allocate({rows, pairs.classes * others}, values.dtype);
    const Tensor scores = call.allocate({rows, pairs.size()}, values.dtype);
    if (rows == 0)
        return scores;
    fill(call.queue(), votes, 0.);                     // for classes without vectors
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < pairs.classes; ++i) {
        const std::int64_t end = begin + vectors_per_class[static_cast<std::size_t>(i)];
        const Tensor a = values.slice(1, begin, end), b = coefficients.slice(0, begin, end);
        const Tensor c = votes.slice(1, i * others, (i + 1) * others);
        if (end > begin)
            gemm(call.queue(), gemm_problem(a, b, c), a, b, c);
        begin = end;
    }
    Ints for_first, for_second;
    for (std::size_t p = 0; p < pairs.first.size(); ++p) {
        for_first.push_back(pairs.first[p] * others + pairs.second[p] - 1);
        for_second.push_back(pairs.second[p] * others + pairs.first[p]);
    }
    const Tensor chosen[] = {call.allocate_like(scores), call.allocate_like(scores), rho};
    index_select(call.queue(), votes, 1, positions(call, "first of pairs", for_first), chosen[0]);
    index_select(call.queue(), votes, 1, positions(call, "second of pairs", for_second), chosen[1]);
    pointwise(call.queue(), chosen, {&scores, 1}, {}, "y0 = x0 + x1 + x2;");
    return scores;
}

// How many pairs each class wins: a product with +1 and -1, onto as many as it wins where all scores are negative.
Tensor votes_of(const Call& call, const Tensor& scores, const Pairs& pairs)
{
    Floats signs(pairs.first.size() * static_cast<std::size_t>(pairs.classes)), base;
    for (std::size_t p = 0; p < pairs.first.size(); ++p) {
        float* const row = &signs[p * static_cast<std::size_t>(pairs.classes)];
        row[pairs.first[p]] = 1;
        row[pairs.second[p]] = -1;
    }
    for (std::int64_t c = 0; c < pairs.classes; ++c)
        base.push_back(static_cast<float>(c));
    const Tensor positive = call.allocate_like(scores);
    if (scores.numel())
        pointwise(call.queue(), {&scores, 1}, {&positive, 1}, {}, "y0 = x0 > 0;");
    return product(call, positive, table(call, "signs", signs, {pairs.size(), pairs.classes}),
                   table(call, "base", base, {pairs.classes}));
}

Tensor probabilities(const Call& call, const Tensor& scores, const Pairs& pairs)
{
    const Floats a = call.attribute<Floats>("prob_a"), b = call.attribute<Floats>("prob_b", {});
    call.check(static_cast<std::int64_t>(a.size()) == pairs.size() && b.size() == a.size(), "prob_a and prob_b hold ",
               a.size(), " and ", b.size(), " numbers, expected ", pairs.size());
    const Tensor of_pairs = call.allocate_like(scores);
    const Tensor result = call.allocate({scores.size(0), pairs.classes}, scores.dtype);
    const Dims size{pairs.size()};
    const Tensor inputs[] = {scores, table(call, "prob_a", a, size), table(call, "prob_b", b, size)};
    if (scores.numel())
        pointwise(call.queue(), inputs, {&of_pairs, 1}, {},
                  "y0 = clamp(1 / (1 + exp(x0 * x1 + x2)), 1e-7f, 1 - 1e-7f);");
    couple_pairs(call.queue(), of_pairs, result);
    return result;
}

// The one score s of two classes as two: (-s, s), or (1 - s, s) where ONNX Runtime puts this in place of the transform.
Tensor two_scores(const Call& call, const Tensor& score, const std::string& transform)
{
    call.check(transform != "PROBIT", "post_transform PROBIT is not for the score of two classes");
    const Tensor both = call.allocate({score.size(0), 2}, score.dtype);
    const Tensor parts[] = {both.slice(1, 0, 1), both.slice(1, 1, 2)};
    const bool replaced = transform != "NONE" && transform != "LOGISTIC";
    if (both.numel())
        pointwise(call.queue(), {&score, 1}, parts, {}, replaced ? "y0 = 1 - x0; y1 = x0;" : "y0 = -x0; y1 = x0;");
    return replaced ? both : post_transform(call, both, transform);
}

// Without support vectors: a row of coefficients per class. Of two classes the second is meant where a score is
// positive (at least 1/2 if no coefficient is negative).
void linear_svm(Call& call, const Tensor& x, const ClassLabels& labels, const std::string& transform)
{
    const auto classes = static_cast<std::int64_t>(labels.size());
    const Tensor weights = vectors_of(call, "coefficients", classes, x).transpose(0, 1);
    const Tensor scores = product(call, x, weights, offsets(call, 1));
    Tensor decisive = scores;
    if (classes == 2 && scores.numel()) {
        const Floats& coefficients = call.attribute<Floats>("coefficients");
        const bool positive = std::ranges::all_of(coefficients, [](float c) { return c >= 0; });
        decisive = call.allocate_like(scores);
        const Tensor from[] = {scores.slice(1, 0, 1), scores.slice(1, 1, 2)};
        const Tensor to[] = {decisive.slice(1, 0, 1), decisive.slice(1, 1, 2)};
        pointwise(call.queue(), from, to, {}, positive ? "y0 = x0; y1 = fmax(x0, x1) >= 0.5f ? INFINITY : x1;"
                                                       : "y0 = x0; y1 = fmax(x0, x1) > 0 ? INFINITY : x1;");
    }
    emit_labels(call, decisive, labels);
    call.output(1, Value(classes > 1 || transform == "PROBIT" ? post_transform(call, scores, transform) : scores));
}

void svm_classifier(Call& call)
{
    const Tensor x = feature_rows(call, false);
    const ClassLabels labels = class_labels(call, "classlabels_ints");
    const std::string transform = call.string_attribute("post_transform", "NONE");
    const Ints vectors_per_class = call.ints_attribute("vectors_per_class");
    for (const std::int64_t vectors : vectors_per_class)
        call.check(vectors >= 0 && vectors < (1 << 30), "vectors_per_class holds ", vectors);
    const std::int64_t count = std::accumulate(vectors_per_class.begin(), vectors_per_class.end(), std::int64_t{0});
    if (count == 0)
        return linear_svm(call, x, labels, transform);
    call.check(labels.size() >= 2 && labels.size() < 65536 && labels.size() == vectors_per_class.size(),
               "there are ", labels.size(), " labels and ", vectors_per_class.size(), " vectors_per_class");
    const Pairs pairs(static_cast<std::int64_t>(labels.size()));
    const Tensor values = kernel_values(call, x, vectors_of(call, "support_vectors", count, x));
    Tensor scores = pair_scores(call, values, vectors_per_class, pairs);
    emit_labels(call, votes_of(call, scores, pairs), labels);
    if (call.has_attribute("prob_a") && !call.attribute<Floats>("prob_a").empty())
        scores = probabilities(call, scores, pairs);
    const bool one = scores.size(1) == 1;
    call.output(1, Value(one ? two_scores(call, scores, transform) : post_transform(call, scores, transform)));
}

const OperatorRow svm_rows[] = {
    {"SVMClassifier", 1, svm_classifier, nullptr, ml},
    {"SVMRegressor", 1, svm_regressor, nullptr, ml},
};

}  // namespace

std::span<const OperatorRow> svm_operators() { return svm_rows; }

}  // namespace clprim::onnx
