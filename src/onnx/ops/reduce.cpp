// Reductions, positions of extremes, cumulative sums, top k, softmax, normalisation by a norm.
#include <clprim/copy.hpp>
#include <clprim/reduce.hpp>
#include <clprim/scan.hpp>
#include <clprim/sequence.hpp>
#include <clprim/softmax.hpp>
#include <clprim/sort.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/host_math.hpp"

namespace clprim::onnx {

namespace {

// An ONNX reduction: the row for floating point, and how integers are computed: in a floating-point type, or by a row
// of their own. Integer results of a floating-point computation are rounded towards zero.
struct ReductionRow {
    const char* name;
    const char* row;
    const char* integer_row;                 // null: `row` in floating point
    bool keeps_one = false;                  // that of one element is the element
    unsigned accepts = numbers;
};

constexpr ReductionRow reductions[] = {
    {"ReduceSum", "sum", "sum", true},
    {"ReduceMean", "mean", "mean_integer", true},
    {"ReduceProd", "prod", "prod", true},
    {"ReduceMax", "amax", "amax", true, any_real},
    {"ReduceMin", "amin", "amin", true, any_real},
    {"ReduceL1", "norm1", "norm1_integer"},
    {"ReduceL2", "norm2", nullptr},
    {"ReduceSumSquare", "sum_of_squares", "sum_of_squares_integer"},
    {"ReduceLogSum", "log_sum", nullptr},
    {"ReduceLogSumExp", "logsumexp", nullptr},
};

// Sizes with 1 on the reduced axes; without them in `result`.
struct ReducedShape {
    Dims kept, result;
};

ReducedShape reduced_shape(const Dims& shape, const std::vector<bool>& over, bool keep)
{
    ReducedShape sizes;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        sizes.kept.push_back(over[d] ? 1 : shape[d]);
        if (keep || !over[d])
            sizes.result.push_back(sizes.kept[d]);
    }
    return sizes;
}

void run_reduction(Queue& queue, std::string_view row, const Tensor& x, std::span<const Tensor> outputs,
                   DataType common, std::span<const Scalar> scalars = {})
{
    const Input input(x);
    reduce(queue, reduce_row(row), {{&input, 1}, outputs, scalars, common});
}

void reduction(Call& call)
{
    const ReductionRow& row = *std::ranges::find(reductions, call.node().op_type, &ReductionRow::name);
    check_type(call, 0, row.accepts);
    const auto sizes = reduced_shape(call.shape(0), reduced_axes(call), call.integer_attribute("keepdims", 1));
    if (row.keeps_one && sizes.kept == call.shape(0))   // a launch for nothing
        return call.output(0, call.input(0).reshaped(sizes.result, call.queue()));
    const Tensor x = call.tensor(0);
    DataType common = x.dtype;
    const bool real = is_floating_point(x.dtype);
    if (!real && !row.integer_row)
        common = call.queue().device().fp64 ? DataType::float64 : DataType::float32;
    const Tensor y = call.allocate(sizes.kept, x.dtype);
    run_reduction(call.queue(), real || !row.integer_row ? row.row : row.integer_row, x, {&y, 1}, common);
    call.output(0, Value(y.reshape(sizes.result)));
}

// Input 0 summed to the shape of input 1, which was broadcast to it: what gradients of broadcasts need.
void sum_like(Call& call)
{
    check_type(call, 0, numbers);
    call.output(0, Value(summed_to(call, call.tensor(0), call.shape(1)), call.type(0)));
}

std::vector<bool> along(std::size_t axis, std::size_t dims)
{
    std::vector<bool> over(dims);
    if (dims)
        over[axis] = true;
    return over;
}

// Of a tensor without dimensions, axis 0 and -1 are its only element.
std::size_t axis_of(const Call& call, std::int64_t given, std::size_t dims)
{
    return call.axis(given, std::max<std::size_t>(dims, 1));
}

void arg_extreme(Call& call)
{
    check_type(call, 0, numbers);
    const Tensor x = call.tensor(0);
    const std::size_t axis = axis_of(call, call.integer_attribute("axis", 0), x.dim());
    call.check(!x.dim() || x.size(axis) > 0, "axis ", axis, " is empty: there is no extreme");
    const auto sizes = reduced_shape(x.shape, along(axis, x.dim()), call.integer_attribute("keepdims", 1));
    std::string row = call.node().op_type == "ArgMax" ? "argmax" : "argmin";
    if (call.integer_attribute("select_last_index", 0))
        row += "_last";
    const Tensor y = call.allocate(sizes.kept, DataType::int64);
    run_reduction(call.queue(), row, x, {&y, 1}, x.dtype);
    call.output(0, Value(y.reshape(sizes.result)));
}

// The same elements in the opposite order along an axis.
Tensor backwards(Tensor tensor, std::size_t axis)
{
    tensor.offset += (tensor.shape[axis] - 1) * tensor.strides[axis];
    tensor.strides[axis] = -tensor.strides[axis];
    return tensor;
}

void cumulative_along(Call& call)
{
    check_type(call, 0, numbers);
    const bool product = call.node().op_type == "CumProd";
    Tensor x = call.tensor(0);
    const std::size_t axis = axis_of(call, call.integer(1), x.dim());
    Tensor y = call.output_tensor(0, x.shape, call.type(0));
    if (x.numel() == 0)
        return;
    if (x.dim() && call.integer_attribute("reverse", 0)) {
        x = backwards(x, axis);
        y = backwards(y, axis);
    }
    if (!call.integer_attribute("exclusive", 0))
        return cumulative(call.queue(), x, axis, product ? Scan::product : Scan::sum, y);
    if (!x.dim())
        return fill(call.queue(), y, product ? 1 : 0);
    fill(call.queue(), y.slice(axis, 0, 1), product ? 1 : 0);
    if (const std::int64_t n = x.size(axis); n > 1)
        cumulative(call.queue(), x.slice(axis, 0, n - 1), axis, product ? Scan::product : Scan::sum,
                   y.slice(axis, 1, n));
}

// k is an attribute before operator set 10.
void top_k(Call& call)
{
    check_type(call, 0, numbers);
    const Tensor x = call.tensor(0);
    const std::size_t axis = axis_of(call, call.integer_attribute("axis", -1), x.dim());
    const std::int64_t k = call.opset() < 10 ? call.attribute<std::int64_t>("k") : call.integer(1);
    const std::int64_t size = x.dim() ? x.size(axis) : 1;
    call.check(k >= 0 && k <= size, "k is ", k, ", but axis ", axis, " has ", size, " elements");
    Dims shape = x.shape;
    if (shape.size())
        shape[axis] = k;
    const Tensor values = call.output_tensor(0, shape, call.type(0));
    const Tensor indices = call.output_tensor(1, shape, ElementType::int64);
    if (values.numel())
        topk(call.queue(), x, axis, call.integer_attribute("largest", 1), values, indices);
}

// Before operator set 13, everything from the axis on is one axis.
struct FlatAxis {
    Tensor x;
    std::size_t axis;
};

FlatAxis flat_axis(const Call& call)
{
    check_type(call, 0, floating);
    const Tensor x = call.contiguous(0);
    const bool flat = call.opset() < 13;
    const std::int64_t given = call.integer_attribute("axis", flat ? 1 : -1);
    if (!flat)
        return {x, axis_of(call, given, x.dim())};
    const auto dims = static_cast<std::int64_t>(x.dim());
    call.check(given >= -dims && given <= dims, "axis ", given, " is out of range for ", dims, " dimensions");
    Dims rows{1, 1};
    for (std::int64_t d = 0; d < dims; ++d)
        rows[d < (given < 0 ? given + dims : given) ? 0 : 1] *= x.shape[static_cast<std::size_t>(d)];
    return {x.reshape(rows), 1};
}

void softmax_along(Call& call)
{
    const auto [x, axis] = flat_axis(call);
    const Tensor y = call.output_tensor(0, call.shape(0), call.type(0));
    if (x.numel())
        softmax(call.queue(), x, y.reshape(x.shape), static_cast<int>(axis), call.node().op_type == "LogSoftmax");
}

// One where the first of the largest elements is, zero elsewhere.
void hardmax(Call& call)
{
    const auto [x, axis] = flat_axis(call);
    const Tensor y = call.output_tensor(0, call.shape(0), call.type(0));
    if (x.numel() == 0)
        return;
    const Tensor first = call.allocate(reduced_shape(x.shape, along(axis, x.dim()), true).kept, DataType::int64);
    run_reduction(call.queue(), "argmax", x, {&first, 1}, x.dtype);
    Dims line(x.dim(), 1);
    if (x.dim())
        line[axis] = x.size(axis);
    const Tensor positions = call.allocate({line.product()}, DataType::int64);
    arange(call.queue(), positions, std::int64_t{0}, std::int64_t{1});
    const Tensor inputs[] = {first, positions.reshape(line)}, one = y.reshape(x.shape);
    pointwise(call.queue(), inputs, {&one, 1}, {}, "y0 = x0 == x1;");
}

// A norm of zero gives zeros.
void lp_normalization(Call& call)
{
    check_type(call, 0, floating);
    const std::int64_t p = call.integer_attribute("p", 2);
    call.check(p == 1 || p == 2, "p is ", p, ", expected 1 or 2");
    const Tensor x = call.tensor(0);
    const std::size_t axis = axis_of(call, call.integer_attribute("axis", -1), x.dim());
    // The norm of short floats is kept in float32.
    const DataType wide = x.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    const Tensor norm = call.allocate(reduced_shape(x.shape, along(axis, x.dim()), true).kept, wide);
    const Tensor y = call.output_tensor(0, x.shape, call.type(0));
    run_reduction(call.queue(), p == 1 ? "norm1" : "norm2", x, {&norm, 1}, wide);
    const Tensor inputs[] = {x, norm};
    pointwise(call.queue(), inputs, {&y, 1}, {}, "y0 = x1 == 0 ? 0 : x0 / x1;");
}

void mean_variance_normalization(Call& call)
{
    check_type(call, 0, floating);
    const Tensor x = call.tensor(0);
    std::vector<bool> over(x.dim());
    for (const std::int64_t axis : call.ints_attribute("axes", {0, 2, 3}))
        over[call.axis(axis, x.dim())] = true;
    const Dims kept = reduced_shape(x.shape, over, true).kept;
    const DataType wide = x.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    const Tensor moments[] = {call.allocate(kept, wide), call.allocate(kept, wide)};
    const Scalar correction(0);
    run_reduction(call.queue(), "std_mean", x, moments, wide, {&correction, 1});
    const Tensor inputs[] = {x, moments[0], moments[1]};
    const Tensor y = call.output_tensor(0, x.shape, call.type(0));
    pointwise(call.queue(), inputs, {&y, 1}, {}, "y0 = (x0 - x2) / (x1 + (typeof_x1)1e-9f);");
}

const std::vector<OperatorRow>& operators()
{
    static const std::vector<OperatorRow> rows = [] {
        std::vector<OperatorRow> result;
        for (const ReductionRow& row : reductions) {
            const bool on_host = row.integer_row && std::string_view(row.row) == row.integer_row;
            result.push_back({row.name, 1, reduction, on_host ? host_or<try_host_reduce, reduction> : nullptr});
        }
        const OperatorRow others[] = {
            {"SumLike", 1, sum_like, nullptr, "clprim"},
            {"ArgMax", 1, arg_extreme}, {"ArgMin", 1, arg_extreme},
            {"CumSum", 11, cumulative_along}, {"CumProd", 26, cumulative_along},
            {"TopK", 1, top_k},
            {"Softmax", 1, softmax_along}, {"LogSoftmax", 1, softmax_along}, {"Hardmax", 1, hardmax},
            {"LpNormalization", 1, lp_normalization},
            {"MeanVarianceNormalization", 9, mean_variance_normalization},
        };
        result.insert(result.end(), std::begin(others), std::end(others));
        return result;
    }();
    return rows;
}

}  // namespace

std::span<const OperatorRow> reduce_operators() { return operators(); }

}  // namespace clprim::onnx
