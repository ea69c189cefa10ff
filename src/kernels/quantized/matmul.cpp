#include <clprim/quantized.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/gemm.hpp>
#include <core/host_processor.hpp>
#include <core/operands.hpp>
#include <kernels/quantized/cpu_int4.hpp>
#include <kernels/rounding.hpp>

namespace clprim {
namespace {

constexpr std::int64_t block = 32;       // BLOCK of matmul.cl
constexpr std::int64_t most_rows = 16;   // that stream the weights as they are
constexpr std::int64_t least_cpu_rows = 3, most_cpu_rows = 64;   // of cpu_rows.cl

// quantized_problem of matmul.cl.
struct Problem {
    std::int64_t rows, columns, depth, x_row, y_row, group, scale_group, scale_column, zero_group, zero_column;
};

void require_weights(const QuantizedWeights& w)
{
    require(w.bits == 8 || w.bits == 4, "quantized weights: bits must be 8 or 4, got ", w.bits);
    require(w.values.dim() == 2 && w.values.is_contiguous() &&
                w.values.dtype == (w.bits == 8 && !w.format ? DataType::int8 : DataType::uint8),
            "quantized weights: values must be a contiguous matrix of ", w.bits == 8 && !w.format ? "int8" : "uint8");
    require(!w.format || (w.bits == 8 && *w.format != Float8::e8m0fnu),
            "quantized weights: a floating-point format has eight bits and a fraction");
    require(w.values.buffer_offset() % 16 == 0, "quantized weights: values must begin at a multiple of 16 bytes");
    const std::int64_t k = w.inputs();
    require(k % block == 0, "quantized weights: the number of inputs must be a multiple of 32, got ", k);
    require<NotSupported>(k < std::int64_t{1} << 31, "quantized weights: less than 2^31 inputs are supported, got ", k);
    require(w.group > 0 && w.group % block == 0 && k % w.group == 0,
            "quantized weights: a group must be a multiple of 32 that divides ", k, ", got ", w.group);
    const Dims shape{k / w.group, w.outputs()};
    require(w.scales.shape == shape, "quantized weights: scales must have shape ", to_string(shape), ", got ",
            to_string(w.scales.shape));
    require(!w.zeros.defined() || (w.zeros.shape == shape && w.zeros.dtype == w.scales.dtype),
            "quantized weights: zeros must be like scales");
    require<NotSupported>(w.scales.dtype == DataType::float32 || w.scales.dtype == DataType::float16 ||
                              w.scales.dtype == DataType::bfloat16,
                          "quantized weights: no kernel for ", name_of(w.scales.dtype));
}

Problem problem_of(const QuantizedWeights& w)
{
    Problem p{0, w.outputs(), w.inputs(), 0, 0, w.group, w.scales.stride(0), w.scales.stride(1), 0, 0};
    if (w.zeros.defined()) {
        p.zero_group = w.zeros.stride(0);
        p.zero_column = w.zeros.stride(1);
    }
    return p;
}

// -DSUB_GROUP of matmul.cl: the smallest that Intel's GPUs have, whose work-items have the most registers.
std::string sub_group(const Device& device, int rows)
{
    if (device.kind != DeviceKind::gpu || rows > 1 || device.sub_group_sizes.empty() ||
        !device.has_extension("cl_intel_required_subgroup_size"))
        return {};
    return fmt::format(" -DSUB_GROUP={}", std::ranges::min(device.sub_group_sizes));
}

const Program& program_for(Queue& queue, const QuantizedWeights& w, int rows, int columns, int team)
{
    return queue.context().program(
        "kernels/quantized/matmul.cl",
        fmt::format("-DX={} -DBITS={} -DROWS={} -DCOLUMNS={} -DTEAM={}{}{}{}{}{}", name_of(w.scales.dtype), w.bits,
                    rows, columns, team, w.zeros.defined() ? " -DZEROS" : "",
                    w.bits == 8 && !w.zeros.defined() && w.group == w.inputs() ? " -DONE_GROUP" : "",
                    w.format ? detail::concat(" -DFLOAT8 -DFORMAT_", name_of(*w.format)) : "",
                    sub_group(queue.device(), rows),
                    prefetch_option(queue.device())));
}

std::size_t groups(std::int64_t count, std::int64_t of) { return static_cast<std::size_t>((count + of - 1) / of); }

// Up to so many rows weights are not written out as numbers. Products of bfloat16, and of float16 by tile registers,
// gain by it sooner.
std::int64_t streamed_rows(const Device& device, DataType type)
{
    const bool by_vectors = type == DataType::float32 || (type == DataType::float16 && !device.amx);
    return device.kind == DeviceKind::cpu && by_vectors ? most_cpu_rows : most_rows;
}

std::string cpu_options(const QuantizedWeights& w)
{
    return fmt::format("-DX={} -DBITS={}{}{}{}", name_of(w.scales.dtype), w.bits, w.zeros.defined() ? " -DZEROS" : "",
                       w.bits == 8 && !w.zeros.defined() && w.group == w.inputs() ? " -DONE_GROUP" : "",
                       w.format ? detail::concat(" -DFLOAT8 -DFORMAT_", name_of(*w.format)) : "");
}

void multiply_rows(Queue& queue, const Tensor& x, const QuantizedWeights& w, const Tensor& y)
{
    constexpr std::int64_t columns = 8;   // COLUMNS of cpu_rows.cl
    Problem problem = problem_of(w);
    problem.rows = x.size(0);
    problem.x_row = x.stride(0);
    problem.y_row = y.stride(0);
    // Some work-items for each core.
    const std::int64_t items = 4 * std::max<std::int64_t>(1, queue.device().compute_units);
    const std::int64_t item = detail::round_up(detail::divide_up(problem.columns, items), columns);
    const Program& program = queue.context().program("kernels/quantized/cpu_rows.cl", cpu_options(w));
    queue.launch(program.kernel("multiply_rows"),
                 Range::groups({groups(problem.columns, item), groups(problem.rows, most_cpu_rows), 1}, {1, 1, 1}), x,
                 w.values, w.scales, w.zeros.defined() ? w.zeros : w.scales, y, problem, static_cast<cl_long>(item));
}

// Floats of cpu_row.cl, in local memory.
std::size_t row_memory(const QuantizedWeights& w)
{
    return static_cast<std::size_t>(w.inputs() + w.inputs() / block) * sizeof(float);
}

bool takes_row(const Device& device, const QuantizedWeights& w)
{
    return device.kind == DeviceKind::cpu && device.vnni_bytes == 64 && row_memory(w) <= device.local_memory;
}

void multiply_row(Queue& queue, const Tensor& x, const QuantizedWeights& w, const Tensor& y)
{
    const std::int64_t item =
        detail::divide_up(w.outputs(), detail::reading_items(w.values.numel(), queue.device().compute_units));
    // One stream of memory to a core keeps fewer lines on the way than Xeons with AMX need (two cores, weights beyond
    // the caches: 16 GB/s, and 28 by four streams that are asked for ahead); measured on others one does.
    const Program& program = queue.context().program(
        "kernels/quantized/cpu_row.cl",
        cpu_options(w) + (queue.device().amx ? " -DSTREAMS=4 -DX86_PREFETCH" : " -DSTREAMS=1"));
    queue.launch(program.kernel("multiply_row"), Range::groups(groups(w.outputs(), item)), x, w.values, w.scales,
                 w.zeros.defined() ? w.zeros : w.scales, y, problem_of(w), static_cast<cl_long>(item),
                 LocalMemory{row_memory(w)});
}

}  // namespace

void pack_int4(Queue& queue, const Tensor& bytes, const Tensor& packed, bool even_high)
{
    detail::check_operands("pack_int4", {{"bytes", bytes}, {"packed", packed}});
    require(bytes.dim() == 2 && bytes.dtype == DataType::uint8 && bytes.is_contiguous(),
            "pack_int4: a contiguous matrix of uint8 is expected");
    require(bytes.size(1) % (block / 2) == 0, "pack_int4: the number of inputs must be a multiple of 32, got ",
            2 * bytes.size(1));
    require(packed.dtype == DataType::uint8 && packed.is_contiguous() &&
                packed.numel() == bytes.numel(),
            "pack_int4: the result must be contiguous, uint8 and of ", bytes.numel(), " bytes");
    const auto blocks = static_cast<std::uint64_t>(bytes.numel() / (block / 2));
    if (blocks == 0)
        return;
    const Program& program = queue.context().program("kernels/quantized/matmul.cl",
                                                     "-DX=float32 -DBITS=4 -DROWS=1 -DCOLUMNS=1 -DTEAM=1");
    queue.launch(program.kernel("pack_int4"), Range::linear(blocks, 64), bytes, packed, blocks, cl_int(even_high));
}

void dequantize(Queue& queue, const QuantizedWeights& weights, const Tensor& w)
{
    detail::check_operands("dequantize", {{"weights.values", weights.values}, {"weights.scales", weights.scales},
                                          {"weights.zeros", weights.zeros, detail::optional}, {"w", w}});
    require_weights(weights);
    const Dims shape{weights.outputs(), weights.inputs()};
    require(w.shape == shape && w.is_contiguous() && w.dtype == weights.scales.dtype,
            "dequantize: the result must be contiguous, ", name_of(weights.scales.dtype), " and of shape ",
            to_string(shape));
    if (w.numel() == 0)
        return;
    const Range range = Range::groups({groups(weights.inputs() / block, 16), groups(weights.outputs(), 4), 1},
                                      {16, 4, 1});
    queue.launch(program_for(queue, weights, 1, 1, 1).kernel("dequantize"), range, weights.values, weights.scales,
                 weights.zeros.defined() ? weights.zeros : weights.scales, w, problem_of(weights));
}

void quantized_matmul(Queue& queue, const Tensor& x, const QuantizedWeights& weights, const Tensor& y, Inputs inputs)
{
    detail::check_operands("quantized_matmul", {{"x", x}, {"weights.values", weights.values},
                                                {"weights.scales", weights.scales},
                                                {"weights.zeros", weights.zeros, detail::optional}, {"y", y}});
    require_weights(weights);
    const std::int64_t n = weights.outputs(), k = weights.inputs();
    require(x.dim() == 2 && x.size(1) == k && x.dtype == weights.scales.dtype,
            "quantized_matmul: x must be ", name_of(weights.scales.dtype), " [m, ", k, "]");
    const std::int64_t m = x.size(0);
    require(y.dim() == 2 && y.size(0) == m && y.size(1) == n && y.dtype == x.dtype,
            "quantized_matmul: y must be ", name_of(x.dtype), " [", m, ", ", n, "]");
    require((k <= 1 || x.stride(1) == 1) && (n <= 1 || y.stride(1) == 1),
            "quantized_matmul: rows of x and y must be contiguous");
    if (m == 0 || n == 0)
        return;
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    if (m > streamed_rows(queue.device(), x.dtype)) {
        const Tensor w = queue.context().empty({n, k}, x.dtype, queue);
        dequantize(queue, weights, w);
        const Tensor turned = w.transpose(0, 1);
        return gemm(queue, gemm_problem(x, turned, y), x, turned, y);
    }
    if (weights.bits == 4 && detail::cpu_int4(queue, x, weights, y, inputs))
        return;
    if (cpu && m >= least_cpu_rows)
        return multiply_rows(queue, x, weights, y);
    if (m == 1 && takes_row(queue.device(), weights))
        return multiply_row(queue, x, weights, y);
    // A GPU's team is no larger than there are blocks of inputs, so that nobody idles.
    std::int64_t team = 1;
    while (!cpu && team < 64 && 2 * team <= static_cast<std::int64_t>(queue.device().max_work_group_size) &&
           2 * team * block <= k)
        team *= 2;
    const int rows = m == 1 ? 1 : m == 2 ? 2 : 4, columns = rows == 1 ? 4 : 1;
    Problem problem = problem_of(weights);
    problem.rows = m;
    problem.x_row = x.stride(0);
    problem.y_row = y.stride(0);
    queue.launch(program_for(queue, weights, rows, columns, static_cast<int>(team)).kernel("quantized_matmul"),
                 Range::groups({groups(n, columns), groups(m, rows), 1}, {static_cast<std::size_t>(team), 1, 1}), x,
                 weights.values, weights.scales, weights.zeros.defined() ? weights.zeros : weights.scales, y, problem);
}

}  // namespace clprim
