// Normalisation layers: batch, instance, layer, group, RMS and local response.
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/norm.hpp>
#include <clprim/pool.hpp>
#include <clprim/reduce.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"
#include "onnx/ops/windows.hpp"

namespace clprim::onnx {

namespace {

double epsilon(const Call& call) { return call.float_attribute("epsilon", 1e-5F); }

DataType statistics_type(DataType type) { return type == DataType::float64 ? type : DataType::float32; }

void check_floating(const Call& call)
{
    call.check(is_floating_point(storage_type(call.type(0))), "input 0 is ", name_of(call.type(0)),
               ", expected floating point");
}

// A contiguous copy in another shape or dtype, or the tensor itself where that changes nothing.
Tensor converted(const Call& call, const Tensor& tensor, const Dims& shape, DataType type)
{
    const Tensor source = tensor.shape == shape ? tensor : tensor.expand(shape);
    if (source.dtype == type && source.is_contiguous())
        return source;
    const Tensor result = call.allocate(shape, type);
    copy(call.queue(), source, result);
    return result;
}

// Parameters of a layer: one dtype for all, x's or, where they differ from each other, that of statistics.
DataType parameter_type(const Call& call, std::initializer_list<std::size_t> inputs, DataType x)
{
    DataType type = storage_type(call.type(*inputs.begin()));
    for (const std::size_t i : inputs)
        if (call.has(i) && storage_type(call.type(i)) != type)
            return statistics_type(x);
    return type;
}

Tensor channel_parameter(const Call& call, std::size_t i, std::int64_t channels, DataType type)
{
    call.check(call.shape(i) == Dims{channels}, "input ", i, " has shape ", to_string(call.shape(i)), ", expected [",
               channels, "]");
    return converted(call, call.tensor(i), {channels}, type);
}

// Training also moves the running statistics: old * momentum + batch's * (1 - momentum), with the variance of the batch
// itself, not its unbiased estimate.
void batch_statistics(Call& call, const Tensor& x, std::span<const std::size_t> mean_outputs,
                      std::span<const std::size_t> variance_outputs)
{
    Dims shape(x.dim(), 1);
    shape[1] = x.size(1);
    const DataType type = statistics_type(x.dtype);
    const Tensor statistics[] = {call.allocate(shape, type), call.allocate(shape, type)};   // variance, mean
    const Input input(x);
    const Scalar correction(0);
    reduce(call.queue(), reduce_row("var_mean"), {std::span(&input, 1), statistics, std::span(&correction, 1), type});
    const Scalar momentum(call.float_attribute("momentum", 0.9F));
    for (const bool mean : {true, false}) {
        const Tensor current = statistics[mean].reshape({x.size(1)});
        const auto outputs = mean ? mean_outputs : variance_outputs;
        const std::size_t source = mean ? 3 : 4;
        const Tensor inputs[] = {call.tensor(source), current};
        const Tensor moved = call.output_tensor(outputs[0], {x.size(1)}, call.type(source));
        const DataType number = DataType::float32;
        pointwise(call.queue(), inputs, std::span(&moved, 1), std::span(&momentum, 1), "y0 = x0 * w0 + x1 * (1 - w0);",
                  std::span(&number, 1));
        if (outputs.size() > 1 && call.wants(outputs[1]))
            call.output(outputs[1], Value(converted(call, current, {x.size(1)}, storage_type(call.type(source)))));
    }
}

void run_batch_norm(Call& call, bool training)
{
    check_floating(call);
    const Dims& shape = call.shape(0);
    call.check(shape.size() >= 2, "input 0 has shape ", to_string(shape), ", expected N, C, spatial axes");
    const Tensor x = dense_image(call, 0);
    BatchNorm problem;
    problem.x = x;
    problem.y = call.allocate_like(x);
    const DataType type = parameter_type(call, {1, 2, 3, 4}, x.dtype);
    problem.weight = channel_parameter(call, 1, shape[1], type);
    problem.bias = channel_parameter(call, 2, shape[1], type);
    problem.running_mean = channel_parameter(call, 3, shape[1], type);
    problem.running_var = channel_parameter(call, 4, shape[1], type);
    problem.training = training;
    problem.eps = epsilon(call);
    if (training) {
        problem.running_mean = problem.running_var = Tensor();
        problem.save_mean = call.allocate({shape[1]}, statistics_type(x.dtype));
        problem.save_invstd = call.allocate({shape[1]}, statistics_type(x.dtype));
    }
    call.output(0, Value(problem.y));
    if (x.numel())
        batch_norm(call.queue(), problem);
}

void batch_normalization(Call& call)
{
    const bool training = call.integer_attribute("training_mode", 0) != 0;
    run_batch_norm(call, training);
    if (training)
        batch_statistics(call, call.tensor(0), std::array<std::size_t, 1>{1}, std::array<std::size_t, 1>{2});
}

// Statistics per element of a sample, not per channel (`spatial` = 0 of operator set 7).
void per_element_normalization(Call& call)
{
    Tensor inputs[5];
    for (std::size_t i = 0; i < 5; ++i)
        inputs[i] = call.tensor(i);
    const Tensor y = call.allocate(inputs[0].shape, inputs[0].dtype);
    const Scalar eps(epsilon(call));
    pointwise(call.queue(), inputs, std::span(&y, 1), std::span(&eps, 1), "y0 = x1 * (x0 - x3) / sqrt(x4 + w0) + x2;");
    call.output(0, Value(y));
}

// Before operator set 14 more than one output asks for training, before 7 an attribute.
void old_batch_normalization(Call& call)
{
    const bool training = call.opset() < 7 ? call.integer_attribute("is_test", 0) == 0
                                           : call.wants(1) || call.wants(2) || call.wants(3) || call.wants(4);
    if (!training && call.integer_attribute("spatial", 1) == 0)
        return per_element_normalization(call);
    run_batch_norm(call, training);
    if (training)
        batch_statistics(call, call.tensor(0), std::array<std::size_t, 2>{1, 3}, std::array<std::size_t, 2>{2, 4});
}

// Groups of channels share mean and variance; the weights are per channel.
void run_group_norm(Call& call, std::int64_t groups, const Tensor& weight, const Tensor& bias)
{
    GroupNorm problem;
    problem.x = call.contiguous(0);
    problem.y = call.allocate(problem.x.shape, problem.x.dtype);
    problem.weight = weight;
    problem.bias = bias;
    const DataType type = statistics_type(problem.x.dtype);
    problem.mean = call.allocate({problem.x.size(0), groups}, type);
    problem.rstd = call.allocate({problem.x.size(0), groups}, type);
    problem.groups = groups;
    problem.eps = epsilon(call);
    call.output(0, Value(problem.y));
    if (problem.x.numel())
        group_norm(call.queue(), problem);
}

std::int64_t channels(const Call& call)
{
    check_floating(call);
    call.check(call.shape(0).size() >= 2, "input 0 has shape ", to_string(call.shape(0)),
               ", expected N, C, spatial axes");
    return call.shape(0)[1];
}

void instance_normalization(Call& call)
{
    const std::int64_t count = channels(call);
    const DataType type = parameter_type(call, {1, 2}, storage_type(call.type(0)));
    run_group_norm(call, count, channel_parameter(call, 1, count, type), channel_parameter(call, 2, count, type));
}

std::int64_t group_count(const Call& call)
{
    const std::int64_t count = channels(call), groups = call.attribute<std::int64_t>("num_groups");
    call.check(groups > 0 && count % groups == 0, count, " channels cannot be split into ", groups, " groups");
    return groups;
}

void group_normalization(Call& call)
{
    const std::int64_t groups = group_count(call), count = channels(call);
    const DataType type = parameter_type(call, {1, 2}, storage_type(call.type(0)));
    run_group_norm(call, groups, channel_parameter(call, 1, count, type), channel_parameter(call, 2, count, type));
}

// Operator set 18 gave a weight and a bias per group.
void old_group_normalization(Call& call)
{
    const std::int64_t groups = group_count(call), size = channels(call) / groups;
    const DataType type = parameter_type(call, {1, 2}, storage_type(call.type(0)));
    const auto per_channel = [&](std::size_t i) {
        const Tensor column = channel_parameter(call, i, groups, type).reshape({groups, 1});
        return converted(call, column, {groups, size}, type).reshape({groups * size});
    };
    run_group_norm(call, groups, per_channel(1), per_channel(2));
}

// Rows are the axes from `axis` on. Mean and 1 / standard deviation have the shape of x with these axes 1.
void run_layer_norm(Call& call, bool rms)
{
    check_floating(call);
    const Dims& shape = call.shape(0);
    const std::size_t axis = call.axis(call.integer_attribute("axis", -1), shape.size());
    const Dims row(std::span(shape.begin() + axis, shape.size() - axis));
    Dims outer = shape;
    std::fill(outer.begin() + axis, outer.end(), 1);
    LayerNorm problem;
    problem.x = call.contiguous(0);
    problem.y = call.allocate(shape, problem.x.dtype);
    problem.n = row.product();
    problem.rms = rms;
    problem.eps = epsilon(call);
    const DataType type = parameter_type(call, {1, 2}, problem.x.dtype);
    problem.weight = converted(call, call.tensor(1), row, type);
    if (call.has(2))
        problem.bias = converted(call, call.tensor(2), row, type);
    const DataType statistics = statistics_type(problem.x.dtype);
    if (!rms)
        problem.mean = call.allocate(outer, statistics);
    problem.rstd = call.allocate(outer, statistics);
    call.output(0, Value(problem.y));
    if (problem.x.numel())
        layer_norm(call.queue(), problem);
    if (rms) {                               // of SimplifiedLayerNormalization
        call.output(1, Value(problem.rstd));
        return;
    }
    const auto stash = static_cast<ElementType>(call.integer_attribute("stash_type", 1));
    if (call.wants(1))
        call.output(1, Value(converted(call, problem.mean, outer, storage_type(stash))));
    if (call.wants(2))
        call.output(2, Value(converted(call, problem.rstd, outer, storage_type(stash))));
}

void layer_normalization(Call& call) { run_layer_norm(call, false); }
void rms_normalization(Call& call) { run_layer_norm(call, true); }

// A fusion's norm of rows along the last axis: x, weight and bias, which may be absent. Operands of other shapes and
// types go through what it was made of.
void fused_layer_norm(Call& call)
{
    const Dims& shape = call.shape(0);
    const bool fits = !shape.empty() && call.type(0) == ElementType::float32 && call.type(1) == call.type(0) &&
                      call.shape(1) == Dims{shape.back()} && (!call.has(2) || call.shape(2) == call.shape(1));
    if (fits)
        return run_layer_norm(call, call.integer_attribute("rms", 0) != 0);
    std::vector<Value> arguments;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        arguments.push_back(call.has(i) ? call.input(i) : Value());
    call.output(0, call.run(*call.attribute<GraphRef>("operators"), arguments)[0]);
}

// y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta. The sum is a pooling along
// channels.
void lrn(Call& call)
{
    const std::int64_t count = channels(call), size = call.attribute<std::int64_t>("size");
    call.check(size > 0 && size < (1 << 30), "size is ", size, ", expected a positive number");
    const Tensor x = call.contiguous(0);
    const Tensor squares = call.allocate(x.shape, x.dtype), sums = call.allocate(x.shape, x.dtype);
    const Tensor y = call.allocate(x.shape, x.dtype);
    call.output(0, Value(y));
    if (x.numel() == 0)
        return;
    pointwise(call.queue(), std::span(&x, 1), std::span(&squares, 1), {}, "y0 = x0 * x0;");
    PoolWindow window;
    window.kernel[0] = static_cast<int>(size);
    window.padding[0] = static_cast<int>((size - 1) / 2);
    window.divisor_override = 1;
    const Dims planes{x.size(0), 1, count, x.numel() / (x.size(0) * count)};
    average_pool(call.queue(), squares.reshape(planes), sums.reshape(planes), window);
    const Scalar numbers[] = {call.float_attribute("bias", 1),
                              double(call.float_attribute("alpha", 1e-4F)) / static_cast<double>(size),
                              call.float_attribute("beta", 0.75F)};
    const Tensor inputs[] = {x, sums};
    pointwise(call.queue(), inputs, std::span(&y, 1), numbers, "y0 = x0 / pow(w0 + w1 * x1, w2);");
}

const OperatorRow normalization_rows[] = {
    {"BatchNormalization", 1, old_batch_normalization},
    {"BatchNormalization", 14, batch_normalization},
    {"InstanceNormalization", 1, instance_normalization},
    {"LayerNormalization", 1, layer_normalization},         // ONNX Runtime's before operator set 17
    {"SimplifiedLayerNormalization", 1, rms_normalization},   // ONNX Runtime's
    {"GroupNormalization", 18, old_group_normalization},
    {"GroupNormalization", 21, group_normalization},
    {"RMSNormalization", 23, rms_normalization},
    {"LayerNorm", 1, fused_layer_norm, nullptr, "clprim"},
    {"LRN", 1, lrn},
};

}  // namespace

std::span<const OperatorRow> normalization_operators() { return normalization_rows; }

}  // namespace clprim::onnx
