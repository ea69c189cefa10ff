// com.microsoft's GatherBlockQuantized: rows of a table of block-quantised numbers.
#include <algorithm>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/narrow_type.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// How a table is quantised: bytes that hold numbers of `bits`, integers of four bits, or narrow floats without zero
// points.
struct Table {
    bool bytes, real;
    std::int64_t bits;
    std::size_t axis, quantized;               // which axis is gathered, along which blocks lie
    std::int64_t block;
};

Table table_of(const Call& call)
{
    const ElementType type = call.type(0);
    const Dims& data = call.shape(0);
    Table t{};
    t.bytes = type == ElementType::uint8;
    t.real = is_narrow(type) && narrow_format(type)->mantissa >= 0;
    call.check(t.bytes || t.real || type == ElementType::int4 || type == ElementType::uint4, "data is ", name_of(type),
               ", expected uint8, int4, uint4, a float of 8 bits or float4e2m1");
    call.check(!t.real || !call.has(3), "data is ", name_of(type), ", which has no zero points");
    t.bits = t.bytes ? block_bits(call) : 4;
    t.axis = call.axis(call.integer_attribute("gather_axis", 0), data.size());
    t.quantized = call.axis(call.integer_attribute("quantize_axis", 1), data.size());
    call.check(!t.bytes || t.axis != t.quantized, "gather_axis and quantize_axis are both ", t.axis);
    call.check(!t.bytes || t.axis + 1 != data.size(), "data packed along its last axis cannot be gathered along it");
    t.block = call.integer_attribute("block_size", 128);
    call.check(t.block > 0 || (t.block == 0 && t.real), "block_size is ", t.block);
    Dims scales = data;
    if (t.bytes)
        scales[data.size() - 1] *= 8 / t.bits;
    if (t.block == 0)
        t.block = std::max<std::int64_t>(1, data[t.quantized]);
    scales[t.quantized] = scales[t.quantized] / t.block + (scales[t.quantized] % t.block != 0);
    bool fits = call.shape(2).size() == scales.size();
    for (std::size_t d = 0; fits && d < scales.size(); ++d)
        fits = call.shape(2)[d] == scales[d] || (t.real && d != t.quantized && call.shape(2)[d] == 1);
    call.check(fits, "scales have shape ", to_string(call.shape(2)), ", expected ", to_string(scales),
               " for data of shape ", to_string(data), " in blocks of ", t.block);
    return t;
}

// Indices along an axis of `size`, with 0 for those outside, and which are inside.
struct CheckedRows {
    Value index;
    Tensor inside;
};

CheckedRows checked_rows(const Call& call, std::int64_t size)
{
    const Tensor given = call.contiguous(1);
    call.check(given.dtype == DataType::int64 || given.dtype == DataType::int32, "indices are ", name_of(given.dtype),
               ", expected int32 or int64");
    const Tensor index = call.allocate(given.shape, DataType::int64),
                 inside = call.allocate(given.shape, DataType::boolean);
    const Tensor outputs[] = {index, inside};
    const Scalar count = size;
    const DataType type = DataType::int64;
    pointwise(call.queue(), std::span(&given, 1), outputs, std::span(&count, 1),
              "bool found = x0 >= -w0 && x0 < w0; y0 = found ? x0 : 0; y1 = found;", std::span(&type, 1));
    return {Value(index), inside};
}

// Scales of narrow floats, which stay the same along axes of size 1, as DequantizeLinear has them.
Value spread_scales(const Call& call, const Value& scales, const Dims& x, const Table& t)
{
    Dims shape = x;
    shape[t.quantized] = scales.shape()[t.quantized];
    if (scales.shape() == shape)
        return scales;
    return Compose(call)("Expand", {scales, Value::ints(std::span(shape.begin(), shape.size()))});
}

// Numbers of bytes that hold several each, with the zero points that they have, or the middle.
void unpack_bytes(const Call& call, std::int64_t bits, const Value& scales, Value& x, Value& zeros)
{
    const Compose op(call);
    const auto unpack = [&](const Value& v) {
        const Tensor t = v.device(call.queue());
        call.check(t.is_contiguous(), "rows are not dense");
        return unpacked(call, t, bits);
    };
    x = Value(unpack(x));
    if (zeros.is_none()) {
        zeros = op("Expand", {op.number(1 << (bits - 1), ElementType::uint8),
                              Value::ints(std::span(scales.shape().begin(), scales.dim()))});
        return;
    }
    const Tensor whole = unpack(zeros);
    const std::size_t last = whole.dim() - 1;
    zeros = Value(whole.slice(last, 0, std::min(whole.size(last), scales.shape()[last])));
}

Value real_numbers(const Call& call, const Table& t, Value x, Value scales, Value zeros)
{
    if (t.bytes)
        unpack_bytes(call, t.bits, scales, x, zeros);
    else if (t.real)
        scales = spread_scales(call, scales, x.shape(), t);
    return Compose(call)("DequantizeLinear", {x, scales, zeros},
                         {{"axis", static_cast<std::int64_t>(t.quantized)}, {"block_size", t.block}});
}

// Rows are gathered first, with their scales and zero points, and made numbers then, unless blocks lie along the rows.
void gather_block_quantized(Call& call)
{
    const Compose op(call);
    Table t = table_of(call);
    const Dims& data = call.shape(0);
    const CheckedRows at = checked_rows(call, data[t.axis]);
    call.check(data[t.axis] > 0 || call.input(1).numel() == 0, "data of shape ", to_string(data), " has no rows");
    const auto rows = [&](const Value& v) {
        if (v.is_none())
            return v;
        if (t.real && v.shape()[t.axis] == 1 && data[t.axis] != 1) {     // a scale that all rows share
            Dims shape;
            for (std::size_t d = 0; d < data.size(); ++d)
                for (std::size_t i = 0; i < (d == t.axis ? call.input(1).dim() : 1); ++i)
                    shape.push_back(v.shape()[d]);
            return v.reshaped(shape, call.queue());
        }
        return op("Gather", {v, at.index}, {{"axis", static_cast<std::int64_t>(t.axis)}});
    };
    Value y;
    if (t.axis == t.quantized) {
        y = rows(real_numbers(call, t, call.input(0), call.input(2), op.input(3)));
    } else {
        const auto more = static_cast<std::int64_t>(call.input(1).dim()) - 1;
        Table gathered = t;
        if (t.quantized > t.axis)
            gathered.quantized = static_cast<std::size_t>(static_cast<std::int64_t>(t.quantized) + more);
        y = real_numbers(call, gathered, rows(call.input(0)), rows(call.input(2)), rows(op.input(3)));
    }
    // What lies outside is 0.
    Dims shape = at.inside.shape;
    for (std::size_t d = t.axis + 1; d < data.size(); ++d)
        shape.push_back(1);
    call.output(0, op("Where", {Value(at.inside.reshape(shape)), y, op.number(0, y.type())}));
}

const OperatorRow contrib_gather_block_rows[] = {
    {"GatherBlockQuantized", 1, gather_block_quantized, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_gather_block_operators() { return contrib_gather_block_rows; }

}  // namespace clprim::onnx
