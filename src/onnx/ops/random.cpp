// Random numbers and dropout. A node with a seed draws the same numbers in every new session.
#include <bit>
#include <cmath>
#include <random>

#include <clprim/copy.hpp>
#include <clprim/random.hpp>
#include <clprim/scan.hpp>
#include <clprim/softmax.hpp>
#include <clprim/sort.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

std::uint64_t seed_of(const Call& call)
{
    static const std::uint64_t process = std::random_device{}() | std::uint64_t{std::random_device{}()} << 32;
    const auto attribute = call.node().attributes.find("seed");
    if (attribute == call.node().attributes.end())
        return process;
    if (const auto* real = std::get_if<float>(&attribute->second))
        return std::bit_cast<std::uint32_t>(*real);
    return static_cast<std::uint64_t>(call.attribute<std::int64_t>("seed"));
}

PhiloxState next_state(const Call& call) { return {seed_of(call), call.engine().draws.fetch_add(1)}; }

ElementType dtype_of(const Call& call, ElementType otherwise, unsigned accepts)
{
    const std::int64_t given = call.integer_attribute("dtype", static_cast<std::int64_t>(otherwise));
    call.check(given > 0 && given <= static_cast<std::int64_t>(ElementType::int2), "dtype is ", given,
               ", which is no element type");
    const auto type = static_cast<ElementType>(given);
    call.check(type != ElementType::string && !is_narrow(type) && (accepts & class_of(storage_type(type))),
               "cannot draw ", name_of(type));
    return type;
}

void draw(Call& call, const Dims& shape, ElementType otherwise)
{
    const bool normal = call.node().op_type.starts_with("RandomNormal");
    const Tensor y = call.output_tensor(0, shape, dtype_of(call, otherwise, floating));
    const PhiloxState state = next_state(call);
    if (normal)
        random_fill(call.queue(), y, Distribution::normal, call.float_attribute("mean", 0),
                    call.float_attribute("scale", 1), state);
    else
        random_fill(call.queue(), y, Distribution::uniform, call.float_attribute("low", 0),
                    call.float_attribute("high", 1), state);
}

void random(Call& call)
{
    const auto sizes = call.attribute<std::vector<std::int64_t>>("shape");
    for (const std::int64_t size : sizes)
        call.check(size >= 0, "shape has a size of ", size);
    draw(call, Dims(std::span<const std::int64_t>(sizes)), ElementType::float32);
}

void random_like(Call& call) { draw(call, call.shape(0), call.type(0)); }

void bernoulli(Call& call)
{
    check_type(call, 0, floating);
    const Tensor p = call.tensor(0);
    const Tensor y = call.output_tensor(0, p.shape, dtype_of(call, call.type(0), any_real));
    random_bernoulli(call.queue(), y, p, next_state(call));
}

// Draws by the inverse of each row's cumulative distribution.
void multinomial(Call& call)
{
    check_type(call, 0, floating);
    const ElementType type = dtype_of(call, ElementType::int32, integral);
    call.check(type == ElementType::int32 || type == ElementType::int64, "dtype is ", name_of(type),
               ", expected int32 or int64");
    call.check(call.shape(0).size() == 2 && call.shape(0)[1] > 0, "input has shape ", to_string(call.shape(0)),
               ", expected [batch_size, class_size]");
    const Tensor x = call.contiguous(0);
    const std::int64_t batch = x.size(0), classes = x.size(1), samples = call.integer_attribute("sample_size", 1);
    call.check(samples >= 0, "sample_size is ", samples);
    const Tensor y = call.output_tensor(0, {batch, samples}, type);
    if (y.numel() == 0)
        return;
    const DataType wide = x.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    const Tensor cumulated = call.allocate(x.shape, wide), points = call.allocate(y.shape, wide);
    softmax(call.queue(), x, cumulated, 1);
    cumulative(call.queue(), cumulated, 1, Scan::sum, cumulated);
    random_fill(call.queue(), points, Distribution::uniform, 0, 1, next_state(call));
    const Tensor scale[] = {points, cumulated.slice(1, classes - 1, classes)};
    pointwise(call.queue(), scale, {&points, 1}, {}, "y0 = x0 * x1;");
    searchsorted(call.queue(), {cumulated, {}, true}, points, y);
    const Scalar last(classes - 1);
    pointwise(call.queue(), {&y, 1}, {&y, 1}, {&last, 1}, "y0 = min(x0, w0);");
}

void pass_through(Call& call)
{
    call.output(0, call.input(0));
    if (call.wants(1))                       // the mask was of the data's type once
        fill(call.queue(),
             call.output_tensor(1, call.shape(0), call.opset() < 10 ? call.type(0) : ElementType::boolean), 1);
}

void dropout(Call& call)
{
    check_type(call, 0, floating);
    const bool training = call.opset() >= 12 && call.has(2) && call.integer(2) != 0;
    const double ratio = training && call.has(1) ? call.number(1) : 0.5;
    if (!training || ratio == 0)
        return pass_through(call);
    call.check(ratio > 0 && ratio < 1, "ratio is ", ratio, ", expected [0, 1)");
    const Tensor x = call.contiguous(0);
    const Tensor y = call.output_tensor(0, x.shape, call.type(0)),
                 mask = call.output_tensor(1, x.shape, ElementType::boolean);
    if (x.numel())
        clprim::dropout(call.queue(), x, ratio, next_state(call), y, mask);
}

const OperatorRow random_rows[] = {
    {"RandomNormal", 1, random}, {"RandomUniform", 1, random},
    {"RandomNormalLike", 1, random_like}, {"RandomUniformLike", 1, random_like},
    {"Bernoulli", 15, bernoulli}, {"Multinomial", 7, multinomial},
    {"Dropout", 1, dropout},
};

}  // namespace

std::span<const OperatorRow> random_operators() { return random_rows; }

}  // namespace clprim::onnx
