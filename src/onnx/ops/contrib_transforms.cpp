// com.microsoft's transforms, rotations, crops and windows, mostly of ONNX's own operators.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/linalg.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// ---- products ----

// By elimination with partial pivoting.
void inverse(Call& call)
{
    const Dims shape = call.shape(0);
    call.check(shape.size() >= 2 && shape[shape.size() - 2] == shape.back(), "X has shape ", to_string(shape),
               ", expected square matrices");
    const DataType given = storage_type(call.type(0));
    call.check(is_floating_point(given), "X is ", name_of(call.type(0)), ", expected floating point");
    const DataType type = given == DataType::float64 ? given : DataType::float32;
    const std::int64_t n = shape.back(), batch = n ? shape.product() / (n * n) : 0;
    const Tensor y = call.allocate(shape, type);
    if (batch) {
        const Tensor matrices = call.allocate({batch, n, n}, type), result = y.reshape({batch, n, n});
        copy(call.queue(), call.contiguous(0).reshape({batch, n, n}), matrices);
        const Tensor pivots = call.allocate({batch, n}, DataType::int32),
                     info = call.allocate({batch}, DataType::int32);
        lu_factor(call.queue(), matrices, pivots, info);
        fill(call.queue(), result, 0);
        const Tensor diagonal{result.memory, result.offset, type, {batch, n}, {n * n, n + 1}};
        fill(call.queue(), diagonal, 1);
        lu_solve(call.queue(), matrices, pivots, result);
    }
    call.output(0, Value(converted(call, y, given)));
}

void fused_matmul_activation(Call& call)
{
    const Compose op(call);
    const Value y = op("com.microsoft.FusedMatMul", {call.input(0), call.input(1)},
                       op.attributes({"alpha", "transA", "transB", "transBatchA", "transBatchB"}));
    Attributes numbers;
    for (const char* number : {"alpha", "beta", "gamma"})
        if (const std::string given = std::string("activation_") + number; call.has_attribute(given))
            numbers[number] = call.float_attribute(given, 0);
    if (call.has_attribute("activation_axis"))
        numbers["axis"] = call.integer_attribute("activation_axis", 0);
    call.output(0, op(call.attribute<std::string>("activation"), {y}, std::move(numbers)));
}

// The numbers that four bits stand for in bitsandbytes' types, of which the largest is 1.
constexpr std::array<float, 16> fp4{0.0F,  5.208333333e-03F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,
                                    0.16666667F,  0.25F,  -0.0F, -5.208333333e-03F, -0.66666667F, -1.0F,
                                    -0.33333333F, -0.5F, -0.16666667F, -0.25F};
constexpr std::array<float, 16> nf4{-1.0F, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F,
                                    -0.28444138169288635F, -0.18477343022823334F, -0.09105003625154495F, 0.0F,
                                    0.07958029955625534F, 0.16093020141124725F, 0.24611230194568634F,
                                    0.33791524171829224F, 0.44070982933044434F, 0.5626170039176941F,
                                    0.7229568362236023F, 1.0F};

// Weights [N, K] of four bits that stand for numbers of a table, times the largest of their block.
void matmul_bnb4(Call& call)
{
    const Compose op(call);
    const std::int64_t n = call.attribute<std::int64_t>("N"), k = call.attribute<std::int64_t>("K"),
                       block = call.attribute<std::int64_t>("block_size"),
                       kind = call.attribute<std::int64_t>("quant_type");
    call.check(n > 0 && k > 0 && n < (1 << 30) && k < (1 << 30) && block >= 16 && block < (1 << 30), "N is ", n, ", K ",
               k, " and block_size ", block);
    call.check(kind == 0 || kind == 1, "quant_type is ", kind, ", expected 0 (FP4) or 1 (NF4)");
    const std::int64_t count = n * k, bytes = (count + 1) / 2, blocks = (count + block - 1) / block;
    const Tensor packed = call.contiguous(1), largest = call.contiguous(2);
    call.check(packed.dtype == DataType::uint8 && packed.numel() == bytes && largest.numel() == blocks, "B ",
               to_string(packed.shape), " and absmax ", to_string(largest.shape), " do not fit ", n, " times ", k);
    // The high bits come first.
    const Tensor indices = call.allocate({bytes, 2}, DataType::int32);
    const Tensor parts[] = {indices.slice(1, 0, 1), indices.slice(1, 1, 2)}, source = packed.reshape({bytes, 1});
    pointwise(call.queue(), std::span(&source, 1), parts, {}, "y0 = (int)x0 >> 4; y1 = (int)x0 & 15;");
    const Value table = Value::copy_of(ElementType::float32, {16}, kind == 0 ? fp4.data() : nf4.data());
    const Tensor numbers = op("Gather", {table, Value(indices.reshape({2 * bytes}))}).device(call.queue());
    const Tensor whole = call.allocate({blocks * block}, DataType::float32);
    if (whole.numel() != count)
        fill(call.queue(), whole.slice(0, count, whole.numel()), 0);
    copy(call.queue(), numbers.slice(0, 0, count), whole.slice(0, 0, count));
    const Tensor inputs[] = {whole.reshape({blocks, block}), largest.reshape({blocks, 1})},
                 weights = call.allocate({blocks, block}, storage_type(call.type(0)));
    pointwise(call.queue(), inputs, std::span(&weights, 1), {}, "y0 = x0 * x1;");
    const Value b(weights.reshape({blocks * block}).slice(0, 0, count).reshape({n, k}));
    call.output(0, op("com.microsoft.FusedMatMul", {call.input(0), b},
                      {{"transB", call.integer_attribute("transB", 1)}}));
}

// ---- complex numbers and spectra ----

// Of pairs along the last axis; the second factor is conjugated where `conjugate`.
void complex_product(Call& call, bool conjugate)
{
    const Tensor a = call.tensor(0), b = call.tensor(1);
    call.check(a.dim() > 0 && b.dim() > 0 && a.shape.back() == 2 && b.shape.back() == 2 && a.dtype == b.dtype &&
                   is_floating_point(a.dtype), "A ", to_string(a.shape), " and B ", to_string(b.shape),
               " are not pairs of real numbers");
    const Tensor y = call.allocate(broadcast(a.shape, b.shape), a.dtype);
    const auto part = [](const Tensor& t, std::int64_t i) { return t.slice(t.dim() - 1, i, i + 1); };
    const Tensor inputs[] = {part(a, 0), part(a, 1), part(b, 0), part(b, 1)}, outputs[] = {part(y, 0), part(y, 1)};
    pointwise(call.queue(), inputs, outputs, {},
              conjugate ? "y0 = x0 * x2 + x1 * x3; y1 = x1 * x2 - x0 * x3;"
                        : "y0 = x0 * x2 - x1 * x3; y1 = x1 * x2 + x0 * x3;");
    call.output(0, Value(y));
}
void complex_mul(Call& call) { complex_product(call, false); }
void complex_mul_conj(Call& call) { complex_product(call, true); }

std::int64_t signal_axis(const Call& call, std::size_t dims)
{
    const std::int64_t count = call.integer_attribute("signal_ndim", 1);
    call.check(count == 1 && dims > 1, "signal_ndim is ", count, ", of ", dims, " axes only the last is supported");
    call.check(call.integer_attribute("onesided", 1) == 1 && call.integer_attribute("normalized", 0) == 0,
               "onesided must be 1 and normalized 0");
    return static_cast<std::int64_t>(dims) - 2;
}

// Transforms by ONNX's operator, whose numbers have an axis of their own for real and imaginary parts.
void rfft(Call& call)
{
    const Compose op(call);
    Dims shape = call.shape(0);
    shape.push_back(1);
    const Value axis = Value::scalar(signal_axis(call, shape.size()));
    const Value x = call.input(0).reshaped(shape, call.queue());
    call.output(0, op("DFT", {x, Value(), axis}, {{"onesided", std::int64_t{1}}}));
}

void irfft(Call& call)
{
    const Compose op(call);
    const Value x = call.input(0);
    call.check(x.dim() >= 2 && x.shape().back() == 2, "X has shape ", to_string(x.shape()), ", expected pairs");
    const Value axis = Value::scalar(signal_axis(call, x.dim()));
    const Value y = op("DFT", {x, Value(), axis}, {{"onesided", std::int64_t{1}}, {"inverse", std::int64_t{1}}});
    Dims shape = y.shape();
    shape.resize(shape.size() - 1);
    call.output(0, y.reshaped(shape, call.queue()));
}

// ---- rotations ----

void gemma_rotary_embedding(Call& call)
{
    const Compose op(call);
    const Value sines = op.cast(op("Sin", {call.input(0)}), call.type(1)),
                cosines = op.cast(op("Cos", {call.input(0)}), call.type(1)),
                axis = Value::ints(std::array{std::int64_t{1}});
    const Value s = op("Unsqueeze", {sines, axis}), c = op("Unsqueeze", {cosines, axis});
    for (std::size_t i = 0; i < 2; ++i)
        call.output(i, op("Add", {op("Mul", {call.input(1 + 2 * i), c}), op("Mul", {call.input(2 + 2 * i), s})}));
}

// Rotations of which each angle follows from one of three positions: of time, height or width.
void multi_rotary_embedding(Call& call)
{
    const Compose op(call);
    call.check(call.float_attribute("scale", 1) == 1 && call.integer_attribute("is_packed_batching", 0) == 0,
               "scale and is_packed_batching are not supported");
    const auto sections = call.attribute<std::vector<std::int64_t>>("mrope_section");
    const std::int64_t layout = call.integer_attribute("mrope_layout", 0), half = call.shape(2).back();
    call.check(layout == 0 || layout == 1, "mrope_layout is ", layout);
    call.check(call.shape(1).size() == 3 && call.shape(1)[0] == 3, "position_ids has shape ", to_string(call.shape(1)),
               ", expected [3, batch, length]");
    call.check(sections.size() == 3 && std::ranges::min(sections) >= 0 && std::ranges::max(sections) <= half &&
                   std::accumulate(sections.begin(), sections.end(), std::int64_t{0}) == half,
               "mrope_section ", to_string(Dims(sections)), " does not sum up to ", half);
    std::array<Value, 2> masks{Value::zeros(ElementType::boolean, {half}), Value::zeros(ElementType::boolean, {half})};
    for (std::int64_t i = 0; i < half; ++i)
        for (std::int64_t which = 1; which < 3; ++which) {
            const std::int64_t begin = which == 1 ? sections[0] : sections[0] + sections[1];
            const auto section = static_cast<std::size_t>(which);
            masks[section - 1].mutable_host<std::uint8_t>()[static_cast<std::size_t>(i)] =
                layout == 0 ? i >= begin && i < begin + sections[section] : i % 3 == which && i < 3 * sections[section];
        }
    const auto angles = [&](std::size_t table) {
        std::array<Value, 3> by_position;
        for (std::int64_t which = 0; which < 3; ++which)
            by_position[static_cast<std::size_t>(which)] =
                op("Gather", {call.input(table), op("Gather", {call.input(1), Value::scalar(which)})});
        return op("Where", {masks[1], by_position[2], op("Where", {masks[0], by_position[1], by_position[0]})});
    };
    std::int64_t heads = call.integer_attribute("num_heads", 0);
    const Dims& shape = call.shape(0);
    if (heads == 0 && shape.size() == 3 && half > 0)
        heads = shape[2] / (2 * half);
    call.output(0, op("RotaryEmbedding", {call.input(0), angles(2), angles(3)},
                      {{"num_heads", heads},
                       {"interleaved", call.integer_attribute("interleaved", 0)},
                       {"rotary_embedding_dim", call.integer_attribute("rotary_embedding_dim", 0)}}));
}

// ---- windows and images ----

// All windows of an axis as a new last axis: a view that overlaps itself.
void unfold_tensor(Call& call)
{
    const Tensor x = call.contiguous(0);
    const std::size_t axis = call.axis(call.integer_attribute("dim", -1), x.dim());
    const std::int64_t size = call.attribute<std::int64_t>("size"), step = call.integer_attribute("step", 1);
    call.check(size > 0 && step > 0 && size <= x.size(axis), "size is ", size, " and step ", step, " of ",
               x.size(axis), " elements");
    Tensor windows = x;
    windows.shape[axis] = (x.size(axis) - size) / step + 1;
    windows.strides[axis] = x.stride(axis) * step;
    windows.shape.push_back(size);
    windows.strides.push_back(x.stride(axis));
    const Tensor y = call.output_tensor(0, windows.shape, call.type(0));
    copy(call.queue(), windows, y);
}

void conv_transpose_with_pads(Call& call)
{
    const Compose op(call);
    Attributes attributes =
        op.attributes({"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"});
    if (call.has(2))
        attributes["pads"] = call.ints(2);
    call.output(0, op("ConvTranspose", {call.input(0), call.input(1), op.input(3)}, std::move(attributes)));
}

// Where pixels of a crop lie along an axis of `size`: from -1 to 1 as GridSample has it, and whether that is within.
struct Lines {
    std::vector<float> places;
    std::vector<bool> within;
};

Lines lines_of(const std::array<double, 2>& ends, std::int64_t count, std::int64_t size, bool nearest)
{
    Lines lines;
    for (std::int64_t i = 0; i < count; ++i) {
        const float first = static_cast<float>(ends[0]), last = static_cast<float>(ends[1]),
                    extent = static_cast<float>(size - 1);
        const float step = count > 1 ? (last - first) * extent / static_cast<float>(count - 1) : 0.0F;
        float at = count == 1       ? 0.5F * (first + last) * extent
                   : i == count - 1 ? last * extent
                                    : first * extent + static_cast<float>(i) * step;
        lines.within.push_back(at >= 0 && at <= extent);
        if (nearest)
            at = std::round(at);
        lines.places.push_back(size > 1 ? 2 * at / extent - 1 : 0.0F);
    }
    return lines;
}

void crop_and_resize(Call& call)
{
    const Compose op(call);
    const std::string mode = call.string_attribute("mode", "bilinear");
    call.check(mode == "bilinear" || mode == "nearest", "mode is '", mode, "', expected bilinear or nearest");
    const auto size = call.ints(3);
    const auto boxes = call.input(1).to_doubles(call.queue());
    const Dims& x = call.shape(0);
    const std::int64_t count = call.shape(2).product();
    call.check(x.size() == 4 && x.product() > 0 && size.size() == 2 && size[0] > 0 && size[1] > 0 &&
                   size[0] < (1 << 20) && size[1] < (1 << 20) && static_cast<std::int64_t>(boxes.size()) == 4 * count,
               "X ", to_string(x), ", rois ", to_string(call.shape(1)), ", batch_indices ", to_string(call.shape(2)),
               " and crop_size do not fit");
    Value grid = Value::zeros(ElementType::float32, {count, size[0], size[1], 2}),
          within = Value::zeros(ElementType::boolean, {count, 1, size[0], size[1]});
    const auto places = grid.mutable_host<float>();
    const auto inside = within.mutable_host<std::uint8_t>();
    std::size_t at = 0;
    for (std::size_t box = 0; box < static_cast<std::size_t>(count); ++box) {
        const Lines rows = lines_of({boxes[4 * box], boxes[4 * box + 2]}, size[0], x[2], mode == "nearest"),
                    columns = lines_of({boxes[4 * box + 1], boxes[4 * box + 3]}, size[1], x[3], mode == "nearest");
        for (std::size_t r = 0; r < rows.places.size(); ++r)
            for (std::size_t c = 0; c < columns.places.size(); ++c, ++at) {
                inside[at] = rows.within[r] && columns.within[c];
                places[2 * at] = columns.places[c];
                places[2 * at + 1] = rows.places[r];
            }
    }
    const Value images = op("Gather", {call.input(0), call.input(2)});
    const Value y = op("GridSample", {images, grid},
                       {{"align_corners", std::int64_t{1}},
                        {"padding_mode", std::string("border")},
                        {"mode", std::string(mode == "nearest" ? "nearest" : "linear")}});
    call.output(0, op("Where", {within, y, op.number(call.float_attribute("extrapolation_value", 0), call.type(0))}));
}

// Words [n, length] of characters, 0 behind each: of windows over their embeddings the largest tanh of each filter; a
// word without characters has zeros.
void word_conv_embedding(Call& call)
{
    const Compose op(call);
    const Dims &words = call.shape(0), &filters = call.shape(1), &table = call.shape(3);
    call.check(words.size() == 2 && filters.size() == 4 && table.size() == 2 && filters[1] == 1 &&
                   filters[3] == table[1] && filters[2] <= words[1] && words[0] > 0,
               "shapes ", to_string(words), ", ", to_string(filters), " and ", to_string(table), " do not fit");
    constexpr ElementType real = ElementType::float32;
    const std::int64_t window = filters[2], places = words[1] - window + 1;
    const Value embedded = op("Gather", {call.input(3), call.input(0)});
    const Value image = embedded.reshaped({words[0], 1, words[1], table[1]}, call.queue());
    const Value y = op("Tanh", {op("Conv", {image, call.input(1), call.input(2)})});
    const auto characters = [&](const Value& some, std::vector<std::int64_t> axes) {
        const Value there = op.cast(op("Greater", {some, op.number(0, some.type())}), real);
        return op("ReduceSum", {there, Value::ints(axes)}).reshaped({words[0], 1, 1, 1}, call.queue());
    };
    const std::int64_t first[] = {0}, second[] = {1};
    const Value begins = op("Slice", {call.input(0), Value::ints(first), Value::ints(second), Value::ints(second)});
    const Value count = op("Mul", {characters(call.input(0), {1}), characters(begins, {1})});
    const Value place = op("Range", {op.number(0, real), op.number(static_cast<double>(places), real),
                                     op.number(1, real)}).reshaped({1, 1, places, 1}, call.queue());
    const Value end = op("Sub", {op("Max", {count, op.number(static_cast<double>(window), real)}),
                                 op.number(static_cast<double>(window), real)});
    const Value seen = op("Where", {op("LessOrEqual", {place, end}), y, op.number(-2, real)});
    const std::int64_t spatial[] = {2, 3};
    const Value most = op("ReduceMax", {seen, Value::ints(spatial)});
    call.output(0, op("Where", {op("Greater", {count, op.number(0, real)}), most, op.number(0, real)})
                       .reshaped({words[0], filters[0]}, call.queue()));
}

void torch_embedding(Call& call)
{
    call.output(0, Compose(call)("Gather", {call.input(0), call.input(1)}));
}

void echo(Call& call) { call.output(0, call.input(0)); }

const OperatorRow contrib_transform_rows[] = {
    {"Inverse", 1, inverse, nullptr, microsoft},
    {"FusedMatMulActivation", 1, fused_matmul_activation, nullptr, microsoft},
    {"MatMulBnb4", 1, matmul_bnb4, nullptr, microsoft},
    {"ComplexMul", 1, complex_mul, nullptr, microsoft},
    {"ComplexMulConj", 1, complex_mul_conj, nullptr, microsoft},
    {"Rfft", 1, rfft, nullptr, microsoft},
    {"Irfft", 1, irfft, nullptr, microsoft},
    {"GemmaRotaryEmbedding", 1, gemma_rotary_embedding, nullptr, microsoft},
    {"MRotaryEmbedding", 1, multi_rotary_embedding, nullptr, microsoft},
    {"UnfoldTensor", 1, unfold_tensor, nullptr, microsoft},
    {"ConvTransposeWithDynamicPads", 1, conv_transpose_with_pads, nullptr, microsoft},
    {"CropAndResize", 1, crop_and_resize, nullptr, microsoft},
    {"WordConvEmbedding", 1, word_conv_embedding, nullptr, microsoft},
    {"TorchEmbedding", 1, torch_embedding, nullptr, microsoft},
    {"SampleOp", 1, echo, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_transform_operators() { return contrib_transform_rows; }

}  // namespace clprim::onnx
