// ai.onnx.ml, as exporters of scikit-learn pipelines use it: encoders, scalers, linear models.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include <clprim/concat.hpp>
#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>
#include <clprim/index.hpp>
#include <clprim/reduce.hpp>

#include "onnx/ops/classifier.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/host_pick.hpp"

namespace clprim::onnx {

namespace {

// The elements of a host value as texts that are equal where the elements are; NaN equals NaN.
std::vector<std::string> keys_of(const Value& value, Queue& queue)
{
    if (value.type() == ElementType::string)
        return value.strings();
    std::vector<std::string> keys;
    const auto add = [&](std::uint64_t bits) { keys.emplace_back(reinterpret_cast<const char*>(&bits), sizeof bits); };
    if (is_floating_point(storage_type(value.type())))
        for (const double number : value.to_doubles(queue))
            add(std::isnan(number) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(number + 0.0));
    else
        for (const std::int64_t number : value.to_ints(queue))
            add(static_cast<std::uint64_t>(number));
    return keys;
}

// The list among an operator's attributes `prefix`s: integers, strings, floats or a tensor.
Value listed(const Call& call, const std::string& prefix)
{
    if (call.has_attribute(prefix + "tensor"))
        return call.attribute<Value>(prefix + "tensor");
    const auto texts = call.attribute<std::vector<std::string>>(prefix + "strings", {});
    if (!texts.empty())
        return Value::strings({static_cast<std::int64_t>(texts.size())}, texts);
    const auto reals = call.attribute<std::vector<float>>(prefix + "floats", {});
    if (!reals.empty())
        return Value::copy_of(ElementType::float32, {static_cast<std::int64_t>(reals.size())}, reals.data());
    const auto ints = call.ints_attribute(prefix + "int64s");
    call.check(!ints.empty(), "none of the attributes ", prefix, "* is given");
    return Value::ints(ints);
}

// What stands for elements that no key matches, as one element of `type`.
Value default_of(const Call& call, ElementType type)
{
    if (call.has_attribute("default_tensor")) {
        const Value given = call.attribute<Value>("default_tensor");
        call.check(given.numel() == 1 && given.type() == type, "default_tensor is ", name_of(given.type()), " ",
                   to_string(given.shape()), ", expected one ", name_of(type));
        return given;
    }
    if (type == ElementType::string)
        return Value::strings({1}, {call.string_attribute("default_string", "_Unused")});
    Value result = Value::zeros(type, {1});
    switch (type) {
    case ElementType::float32: result.mutable_host<float>()[0] = call.float_attribute("default_float", -0.0f); break;
    case ElementType::float64: result.mutable_host<double>()[0] = call.float_attribute("default_float", -0.0f); break;
    case ElementType::int64:
        result.mutable_host<std::int64_t>()[0] = call.integer_attribute("default_int64", -1);
        break;
    case ElementType::int32: result.mutable_host<std::int32_t>()[0] = -1; break;
    case ElementType::int16: result.mutable_host<std::int16_t>()[0] = -1; break;
    default: call.fail("values of ", name_of(type), " are not supported");
    }
    return result;
}

// Element by element: the value of the last key that equals it, else the default.
void map_elements(Call& call, const Value& keys, const Value& values)
{
    Queue& queue = call.queue();
    call.check(keys.numel() == values.numel(), "there are ", keys.numel(), " keys and ", values.numel(), " values");
    call.check(keys.type() == call.type(0), "the keys are ", name_of(keys.type()), ", X is ", name_of(call.type(0)));
    if (values.type() != ElementType::string)
        values.bytes(queue);                         // brings them to the host
    const Value otherwise = default_of(call, values.type());
    std::unordered_map<std::string, std::int64_t> position;
    std::int64_t at = 0;
    for (const std::string& key : keys_of(keys, queue))
        position[key] = at++;
    std::vector<std::int64_t> found;
    bool missing = false;
    for (const std::string& key : keys_of(call.input(0), queue)) {
        const auto hit = position.find(key);
        found.push_back(hit == position.end() ? -1 : hit->second);
        missing = missing || hit == position.end();
    }
    const auto chosen = [&](std::int64_t i) { return found[static_cast<std::size_t>(i)]; };
    if (!missing)
        return call.output(0, pick(values, call.shape(0), chosen));
    // The default as one more value behind the others.
    Value table;
    const Dims size{values.numel() + 1};
    if (values.type() == ElementType::string) {
        std::vector<std::string> texts = values.strings();
        texts.push_back(otherwise.strings()[0]);
        table = Value::strings(size, std::move(texts));
    } else {
        table = Value::zeros(values.type(), size);
        const std::size_t width = size_of(storage_type(values.type())),
                          all = width * static_cast<std::size_t>(values.numel());
        std::memcpy(table.mutable_bytes(), values.bytes(queue), all);
        std::memcpy(table.mutable_bytes() + all, otherwise.bytes(queue), width);
    }
    call.output(0,
                pick(table, call.shape(0), [&](std::int64_t i) { return chosen(i) < 0 ? values.numel() : chosen(i); }));
}

void label_encoder(Call& call) { map_elements(call, listed(call, "keys_"), listed(call, "values_")); }

// Operator set 1: classes are their positions, one way or the other.
void label_encoder_1(Call& call)
{
    const auto classes = call.attribute<std::vector<std::string>>("classes_strings");
    std::vector<std::int64_t> positions(classes.size());
    for (std::size_t i = 0; i < positions.size(); ++i)
        positions[i] = static_cast<std::int64_t>(i);
    const Value texts = Value::strings({static_cast<std::int64_t>(classes.size())}, classes),
                numbers = Value::ints(positions);
    call.type(0) == ElementType::string ? map_elements(call, texts, numbers) : map_elements(call, numbers, texts);
}

void category_mapper(Call& call)
{
    const auto texts = call.attribute<std::vector<std::string>>("cats_strings");
    const Value names = Value::strings({static_cast<std::int64_t>(texts.size())}, texts);
    const Value numbers = Value::ints(call.attribute<std::vector<std::int64_t>>("cats_int64s"));
    call.type(0) == ElementType::string ? map_elements(call, names, numbers) : map_elements(call, numbers, names);
}

// Elements along the last axis, for every row.
void array_feature_extractor(Call& call)
{
    const Dims& shape = call.shape(0);
    call.check(!shape.empty(), "X has no axis");
    const std::vector<std::int64_t> columns = call.ints(1);
    for (const std::int64_t column : columns)
        call.check(column >= 0 && column < shape.back(), "column ", column, " of ", shape.back());
    const auto count = static_cast<std::int64_t>(columns.size());
    Dims result = shape.size() == 1 ? Dims{1, count} : shape;
    result[result.size() - 1] = count;
    if (call.type(0) == ElementType::string)
        return call.output(0, pick(call.input(0), result, [&](std::int64_t i) {
            return i / count * shape.back() + columns[static_cast<std::size_t>(i % count)];
        }));
    const Tensor x = call.contiguous(0), y = call.output_tensor(0, result, call.type(0));
    if (y.numel())
        index_select(call.queue(), shape.size() == 1 ? x.reshape({1, shape[0]}) : x, result.size() - 1,
                     Value::ints(columns).device(call.queue()), y);
}

void binarizer(Call& call)
{
    check_type(call, 0, numbers);
    const Tensor x = call.tensor(0), y = call.output_tensor(0, x.shape, call.type(0));
    const Scalar threshold(call.float_attribute("threshold", 0));
    const DataType type = x.dtype == DataType::float64 ? x.dtype : DataType::float32;
    pointwise(call.queue(), {&x, 1}, {&y, 1}, {&threshold, 1}, "y0 = (typeof_w0)x0 > w0;", {&type, 1});
}

// One number, or one per feature.
Tensor feature_numbers(const Call& call, const std::string& name, std::int64_t features)
{
    const auto reals = call.attribute<std::vector<float>>(name);
    call.check(reals.size() == 1 || static_cast<std::int64_t>(reals.size()) == features, name, " holds ", reals.size(),
               " numbers for ", features, " features");
    return number_table(call, {reals.begin(), reals.end()}, DataType::float32);
}

std::int64_t features_of(const Call& call) { return call.shape(0).empty() ? 1 : call.shape(0).back(); }

void scaler(Call& call)
{
    check_type(call, 0, numbers);
    const Tensor inputs[] = {call.tensor(0), feature_numbers(call, "offset", features_of(call)),
                             feature_numbers(call, "scale", features_of(call))};
    const Tensor y = call.output_tensor(0, call.shape(0), ElementType::float32);
    pointwise(call.queue(), inputs, {&y, 1}, {}, "y0 = ((float)x0 - x1) * x2;");
}

void imputer(Call& call)
{
    check_type(call, 0, numbers);
    const Tensor x = call.tensor(0), y = call.output_tensor(0, x.shape, call.type(0));
    if (is_floating_point(x.dtype)) {
        const Tensor inputs[] = {x, feature_numbers(call, "imputed_value_floats", features_of(call))};
        const Scalar replaced(call.float_attribute("replaced_value_float", 0));
        return pointwise(call.queue(), inputs, {&y, 1}, {&replaced, 1},
                         "y0 = x0 == w0 || (x0 != x0 && w0 != w0) ? (T)x1 : x0;");
    }
    const auto values = call.attribute<std::vector<std::int64_t>>("imputed_value_int64s");
    call.check(values.size() == 1 || static_cast<std::int64_t>(values.size()) == features_of(call),
               "imputed_value_int64s holds ", values.size(), " numbers for ", features_of(call), " features");
    const Tensor inputs[] = {x, Value::ints(values).device(call.queue())};
    const Scalar replaced(call.integer_attribute("replaced_value_int64", 0));
    pointwise(call.queue(), inputs, {&y, 1}, {&replaced, 1}, "y0 = x0 == w0 ? (T)x1 : x0;");
}

void normalizer(Call& call)
{
    const Tensor x = feature_rows(call, false), y = call.output_tensor(0, call.shape(0), ElementType::float32);
    const std::string norm = call.string_attribute("norm", "MAX");
    call.check(norm == "MAX" || norm == "L1" || norm == "L2", "norm is ", norm, ", expected MAX, L1 or L2");
    if (x.numel() == 0)
        return;
    const Tensor divisor = call.allocate({x.size(0), 1}, x.dtype), inputs[] = {x, divisor}, result = y.reshape(x.shape);
    const Input input(x);
    reduce(call.queue(),
           reduce_row(norm == "MAX"  ? "amax"
                      : norm == "L1" ? "norm1"
                                     : "norm2"),
           {{&input, 1}, {&divisor, 1}, {}, x.dtype});
    pointwise(call.queue(), inputs, {&result, 1}, {}, "y0 = x1 == 0 ? x0 : x0 / x1;");
}

void one_hot_encoder(Call& call)
{
    const bool texts = call.type(0) == ElementType::string;
    const auto names = call.attribute<std::vector<std::string>>("cats_strings", {});
    const Value categories = texts ? Value::strings({static_cast<std::int64_t>(names.size())}, names)
                                   : Value::ints(call.ints_attribute("cats_int64s"));
    const Value elements = texts ? call.input(0) : Value::ints(call.ints(0));
    std::unordered_map<std::string, std::size_t> position;
    for (const std::string& key : keys_of(categories, call.queue()))
        position.emplace(key, position.size());
    const auto count = static_cast<std::size_t>(categories.numel());
    Dims shape = call.shape(0);
    shape.push_back(categories.numel());
    Value result = Value::zeros(ElementType::float32, shape);
    const auto out = result.mutable_host<float>();
    std::size_t i = 0;
    for (const std::string& key : keys_of(elements, call.queue())) {
        const auto hit = position.find(key);
        call.check(hit != position.end() || call.integer_attribute("zeros", 1), "element ", i, " is of no category");
        if (hit != position.end())
            out[i * count + hit->second] = 1;
        ++i;
    }
    call.output(0, std::move(result));
}

void feature_vectorizer(Call& call)
{
    std::vector<Tensor> parts;
    std::int64_t width = 0;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        check_type(call, i, numbers);
        const Tensor x = call.contiguous(i);
        call.check(x.dim() == 1 || x.dim() == 2, "input ", i, " has shape ", to_string(x.shape),
                   ", expected [N, C] or [C]");
        const Tensor rows = x.dim() == 2 ? x : x.reshape({1, x.size(0)}),
                     part = call.allocate(rows.shape, DataType::float32);
        call.check(parts.empty() || rows.size(0) == parts[0].size(0), "inputs have ",
                   parts.empty() ? 0 : parts[0].size(0), " and ", rows.size(0), " rows");
        copy(call.queue(), rows, part);
        parts.push_back(part);
        width += rows.size(1);
    }
    call.check(!parts.empty(), "there is no input");
    concat(call.queue(), parts, 1, call.output_tensor(0, {parts[0].size(0), width}, ElementType::float32));
}

// x coefficients^T + intercepts; coefficients are row by row those of each output.
Tensor linear(const Call& call, const Tensor& x)
{
    const auto coefficients = call.attribute<std::vector<float>>("coefficients"),
               intercepts = call.attribute<std::vector<float>>("intercepts", {});
    const std::int64_t features = x.size(1), count = static_cast<std::int64_t>(coefficients.size());
    call.check(features > 0 && count > 0 && count % features == 0, "there are ", count, " coefficients for ", features,
               " features");
    const std::int64_t outputs = count / features;
    call.check(intercepts.empty() || static_cast<std::int64_t>(intercepts.size()) == outputs, "there are ",
               intercepts.size(), " intercepts for ", outputs, " outputs");
    const Tensor w =
        number_table(call, {coefficients.begin(), coefficients.end()}, x.dtype).reshape({outputs, features});
    const Tensor b =
        intercepts.empty() ? Tensor() : number_table(call, {intercepts.begin(), intercepts.end()}, x.dtype);
    const Tensor y = call.allocate({x.size(0), outputs}, x.dtype), turned = w.transpose(0, 1);
    if (y.numel())
        gemm(call.queue(), gemm_problem(x, turned, y, b), x, turned, y, b);
    return y;
}

void linear_regressor(Call& call)
{
    const Tensor y = linear(call, feature_rows(call, false));
    call.check(y.size(1) == call.integer_attribute("targets", 1), "coefficients are for ", y.size(1), " targets");
    call.output(0, Value(post_transform(call, y, call.string_attribute("post_transform", "NONE"))));
}

void linear_classifier(Call& call)
{
    ClassLabels labels = class_labels(call, "classlabels_ints");
    Tensor scores = linear(call, feature_rows(call, false));
    if (scores.size(1) == 1 && labels.size() == 2) {             // one score for two classes
        const Tensor both = call.allocate({scores.size(0), 2}, scores.dtype);
        const Tensor first = both.slice(1, 0, 1), second = both.slice(1, 1, 2);
        pointwise(call.queue(), {&scores, 1}, {&first, 1}, {}, "y0 = -x0;");
        pointwise(call.queue(), {&scores, 1}, {&second, 1}, {}, "y0 = x0;");
        scores = both;
    }
    const Tensor transformed = post_transform(call, scores, call.string_attribute("post_transform", "NONE"));
    emit_labels(call, transformed, labels);
    call.output(1, Value(transformed));
}

const OperatorRow ml_rows[] = {
    {"LabelEncoder", 1, label_encoder_1, nullptr, ml}, {"LabelEncoder", 2, label_encoder, nullptr, ml},
    {"CategoryMapper", 1, category_mapper, nullptr, ml},
    {"ArrayFeatureExtractor", 1, array_feature_extractor, nullptr, ml},
    {"Binarizer", 1, binarizer, nullptr, ml}, {"Scaler", 1, scaler, nullptr, ml},
    {"Imputer", 1, imputer, nullptr, ml}, {"Normalizer", 1, normalizer, nullptr, ml},
    {"OneHotEncoder", 1, one_hot_encoder, nullptr, ml}, {"FeatureVectorizer", 1, feature_vectorizer, nullptr, ml},
    {"LinearRegressor", 1, linear_regressor, nullptr, ml}, {"LinearClassifier", 1, linear_classifier, nullptr, ml},
};

}  // namespace

std::span<const OperatorRow> ml_operators() { return ml_rows; }

}  // namespace clprim::onnx
