// com.microsoft's GatherPacked and MatMulPacked: rows of a table in the block formats of GGUF, as real numbers, and
// products with them.
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// Blocks [B, bytes] as they lie in the gathered rows, and the numbers [B, elements] that they stand for.
struct Blocks {
    Queue& queue;
    Tensor packed, numbers;

    // One element of `type` in each block, at a byte of it.
    Tensor one(DataType type, std::int64_t byte) const { return run(type, byte, 1); }
    // `count` elements in a row; blocks have even sizes, so that pairs of bytes lie at whole places.
    Tensor run(DataType type, std::int64_t byte, std::int64_t count) const
    {
        const auto size = static_cast<std::int64_t>(size_of(type));
        return {packed.memory, (packed.offset + byte) / size, type, {packed.shape[0], count},
                {packed.strides[0] / size, 1}};
    }
    void write(std::int64_t begin, std::int64_t count, std::initializer_list<Tensor> inputs,
               const std::string& code) const
    {
        const Tensor out = numbers.slice(1, begin, begin + count);
        pointwise(queue, std::span(inputs.begin(), inputs.size()), std::span(&out, 1), {}, code);
    }
};

constexpr DataType u8 = DataType::uint8, i8 = DataType::int8, half = DataType::float16;

// A scale, then sixteen bytes with elements i and i + 16 in the low and the high bits.
void four_bits(const Blocks& b)
{
    const Tensor scale = b.one(half, 0), nibbles = b.run(u8, 2, 16);
    b.write(0, 16, {nibbles, scale}, "y0 = (((int)x0 & 15) - 8) * x1;");
    b.write(16, 16, {nibbles, scale}, "y0 = (((int)x0 >> 4) - 8) * x1;");
}

// The same with a fifth bit of each element in 32 bits of their own.
void five_bits(const Blocks& b)
{
    const Tensor scale = b.one(half, 0), nibbles = b.run(u8, 6, 16);
    for (std::int64_t i = 0; i < 32; ++i) {
        const Tensor low = nibbles.slice(1, i % 16, i % 16 + 1);
        b.write(i, 1, {low, b.one(u8, 2 + i / 8), scale},
                detail::concat("y0 = (((int)x0 >> ", i / 16 * 4, " & 15 | ((int)x1 >> ", i % 8,
                               " & 1) << 4) - 16) * x2;"));
    }
}

void eight_bits(const Blocks& b) { b.write(0, 32, {b.run(i8, 2, 32), b.one(half, 0)}, "y0 = x0 * x1;"); }

// Eight runs of 32 with scales and least values of six bits, which share twelve bytes.
void five_bits_in_runs(const Blocks& b)
{
    for (std::int64_t s = 0; s < 8; ++s) {
        const bool whole = s < 4;                                  // within one byte each; else in pieces
        const std::string numbers =
            whole ? "int scale = (int)x4 & 63, least = (int)x5 & 63;"
                  : "int scale = (int)x6 & 15 | (int)x4 >> 6 << 4, least = (int)x6 >> 4 | (int)x5 >> 6 << 4;";
        const std::int64_t at = whole ? s : s - 4;
        b.write(32 * s, 32,
                {b.run(u8, 48 + 32 * (s / 2), 32), b.run(u8, 16, 32), b.one(half, 0), b.one(half, 2),
                 b.one(u8, 4 + at), b.one(u8, 8 + at), b.one(u8, 4 + (whole ? at : s + 4))},
                detail::concat(numbers, "int q = ((int)x0 >> ", s % 2 * 4, " & 15) + ((int)x1 >> ", s,
                               " & 1) * 16; y0 = x2 * scale * q - x3 * least;"));
    }
}

// Sixteen runs of 16 with scales of a byte; two more bits of each element lie behind the four.
void six_bits_in_runs(const Blocks& b)
{
    for (std::int64_t s = 0; s < 16; ++s) {
        const std::int64_t of_128 = s / 8, quarter = s % 8 / 2, within = 16 * (s % 2);
        b.write(16 * s, 16,
                {b.run(u8, 64 * of_128 + 32 * (quarter % 2) + within, 16), b.run(u8, 128 + 32 * of_128 + within, 16),
                 b.one(i8, 192 + s), b.one(half, 208)},
                detail::concat("int q = ((int)x0 >> ", quarter / 2 * 4, " & 15 | ((int)x1 >> ", 2 * quarter,
                               " & 3) << 4) - 32; y0 = x3 * x2 * q;"));
    }
}

// Four bits that name one of sixteen numbers, which lie closer around zero.
constexpr const char* uneven = "const char of[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, "
                               "89, 113};";

void uneven_four_bits(const Blocks& b)
{
    const Tensor scale = b.one(half, 0), nibbles = b.run(u8, 2, 16);
    b.write(0, 16, {nibbles, scale}, std::string(uneven) + "y0 = of[(int)x0 & 15] * x1;");
    b.write(16, 16, {nibbles, scale}, std::string(uneven) + "y0 = of[(int)x0 >> 4] * x1;");
}

// The same in runs of 32 with scales of six bits.
void uneven_four_bits_in_runs(const Blocks& b)
{
    for (std::int64_t s = 0; s < 16; ++s) {
        const std::int64_t run = s / 2;
        b.write(16 * s, 16,
                {b.run(u8, 8 + 16 * run, 16), b.one(half, 0), b.one(u8, 4 + run / 2), b.one(u8, 2 + run / 4)},
                detail::concat(uneven, "int scale = ((int)x2 >> ", run % 2 * 4, " & 15 | ((int)x3 >> ", run % 4 * 2,
                               " & 3) << 4) - 32; y0 = x1 * scale * of[(int)x0 >> ", s % 2 * 4, " & 15];"));
    }
}

// A format by its number in GGUF; `unpack` is null where elements lie as they are.
struct Format {
    std::int64_t id, elements, bytes;
    void (*unpack)(const Blocks&);
    DataType plain = DataType::uint8;
};

const Format formats[] = {
    {0, 1, 4, nullptr, DataType::float32},
    {1, 1, 2, nullptr, DataType::float16},
    {30, 1, 2, nullptr, DataType::bfloat16},
    {2, 32, 18, four_bits},
    {6, 32, 22, five_bits},
    {8, 32, 34, eight_bits},
    {13, 256, 176, five_bits_in_runs},
    {14, 256, 210, six_bits_in_runs},
    {20, 32, 18, uneven_four_bits},
    {23, 256, 136, uneven_four_bits_in_runs},
};

// What is no row of the table stands for the first.
Value rows_within(const Call& call, std::int64_t count)
{
    const Compose op(call);
    const Value indices = op.cast(call.input(1), ElementType::int64), none = Value::scalar(std::int64_t{0});
    const Value good = op("And", {op("GreaterOrEqual", {indices, none}), op("Less", {indices, Value::scalar(count)})});
    return op("Where", {good, indices, none});
}

// Of the table that is that input, whose rows have K elements.
const Format& format_of(const Call& call, std::size_t input)
{
    const std::int64_t id = call.attribute<std::int64_t>("packed_type"), size = call.attribute<std::int64_t>("K");
    const auto* format = std::ranges::find(formats, id, &Format::id);
    if (format == std::end(formats))
        throw NotSupported(detail::concat(call.node().op_type, ": packed_type ", id, " is none of 0, 1, 2, 6, 8, 13, "
                                          "14, 20, 23 and 30"));
    const Dims& table = call.shape(input);
    call.check(table.size() == 2 && call.type(input) == ElementType::uint8, "input ", input, " is ",
               name_of(call.type(input)), " ", to_string(table), ", expected bytes [rows, bytes]");
    call.check(size > 0 && size % format->elements == 0 && size / format->elements <= table[1] / format->bytes &&
                   table[1] == size / format->elements * format->bytes,
               "rows of ", table[1], " bytes do not hold ", size, " elements of packed_type ", id);
    return *format;
}

void unpack_rows(Queue& queue, const Format& format, const Tensor& rows, const Tensor& numbers)
{
    if (numbers.numel() == 0)
        return;
    const std::int64_t blocks = numbers.numel() / format.elements;
    const Blocks work{queue, rows.reshape({blocks, format.bytes}), numbers.reshape({blocks, format.elements})};
    if (format.unpack)
        format.unpack(work);
    else
        copy(queue, work.run(format.plain, 0, 1), work.numbers);
}

void gather_packed(Call& call)
{
    const Compose op(call);
    const Format& format = format_of(call, 0);
    const Dims& table = call.shape(0);
    const auto type = static_cast<ElementType>(call.integer_attribute("output_dtype", 16));
    call.check(type == ElementType::float32 || type == ElementType::float16 || type == ElementType::bfloat16,
               "output_dtype is ", name_of(type));
    Dims shape = call.shape(1);
    call.check(table[0] > 0 || shape.product() == 0, "the table has no rows");
    shape.push_back(call.attribute<std::int64_t>("K"));
    const Tensor y = call.output_tensor(0, shape, type);
    if (y.numel() == 0)
        return;
    const Tensor gathered = op("Gather", {call.input(0), rows_within(call, table[0])}, {{"axis", std::int64_t{0}}})
                                .device(call.queue());
    unpack_rows(call.queue(), format, gathered, y);
}

// Weights are made numbers of A's type, once where they never change.
void matmul_packed(Call& call)
{
    const Compose op(call);
    const Format& format = format_of(call, 1);
    const std::int64_t n = call.attribute<std::int64_t>("N"), k = call.attribute<std::int64_t>("K");
    call.check(n > 0 && call.shape(1)[0] == n, "B has ", call.shape(1)[0], " rows, expected ", n);
    call.check(!call.shape(0).empty() && call.shape(0).back() == k, "A has shape ", to_string(call.shape(0)),
               ", expected [..., ", k, "]");
    call.check(!call.has(2), "global_scale is for formats of NVFP4, which are not supported");
    const std::string activation = call.string_attribute("activation_type", "none");
    const bool squares = activation == "relu2" || activation == "relu_squared", silu = activation == "silu";
    call.check(squares || silu || activation == "none", "activation_type is '", activation,
               "', expected none, relu2, relu_squared or silu");
    const DataType type = storage_type(call.type(0));
    const auto numbers = [&] {
        const Tensor all = call.allocate({n, k}, type);
        unpack_rows(call.queue(), format, call.contiguous(1), all);
        return all;
    };
    Prepared* place = call.prepared(1);
    const std::string key = detail::concat("packed ", format.id, " ", name_of(type));
    const Tensor b = place ? place->get(call.queue(), key, numbers) : numbers();
    const Value y = op("MatMul", {call.input(0), Value(b.transpose(0, 1))});
    if (!squares && !silu)
        return call.output(0, y);
    const Tensor x = y.device(call.queue()), result = call.output_tensor(0, y.shape(), call.type(0));
    if (x.numel())
        pointwise(call.queue(), std::span(&x, 1), std::span(&result, 1), {},
                  squares ? "T p = x0 > 0 ? x0 : 0; y0 = p * p;" : "y0 = x0 / (1 + exp(-x0));");
}

const OperatorRow contrib_packed_row_rows[] = {
    {"GatherPacked", 1, gather_packed, nullptr, microsoft},
    {"MatMulPacked", 1, matmul_packed, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_packed_row_operators() { return contrib_packed_row_rows; }

}  // namespace clprim::onnx
