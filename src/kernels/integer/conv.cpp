#include <clprim/integer_conv.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <clprim/integer_matmul.hpp>
#include <clprim/pointwise.hpp>
#include <core/host_processor.hpp>
#include <core/operands.hpp>
#include <kernels/conv/implicit.hpp>
#include <kernels/integer/conv_matrix.hpp>
#include <kernels/integer/cpu.hpp>
#include <kernels/rounding.hpp>

namespace clprim {
namespace detail {
namespace {

constexpr std::int64_t columns = 16, most_pixels = 48, most_panels = 16;   // of conv_cpu.cl
constexpr std::int64_t depthwise_lanes = 16, most_taps = 128;              // LANES, MOST_TAPS of conv_depthwise.cl

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

bool is_byte(DataType type) { return type == DataType::int8 || type == DataType::uint8; }

std::int64_t step_of(const Tensor& t) { return !t.defined() ? -1 : t.numel() == 1 ? 0 : 1; }

std::int64_t pixels_of(const integer_conv_problem& p) { return p.batch * p.out[0] * p.out[1] * p.out[2]; }
std::int64_t taps_of(const integer_conv_problem& p) { return p.window[0] * p.window[1] * p.window[2]; }

void check(const Tensor& x, const Tensor& w, const Tensor& y, const IntegerConv& c)
{
    check_operands("integer_conv", {{"x", x}, {"w", w}, {"y", y}, {"x_zero", c.x_zero, optional},
                                    {"w_zero", c.w_zero, optional}, {"bias", c.bias, optional},
                                    {"scale", c.scale, optional}, {"y_zero", c.y_zero, optional},
                                    {"factor", c.factor, optional}});
    require(is_byte(x.dtype) && is_byte(w.dtype), "integer_conv: x and w must be int8 or uint8, got ",
            name_of(x.dtype), " and ", name_of(w.dtype));
    require(y.dtype == DataType::int32 || y.dtype == DataType::float32 || is_byte(y.dtype),
            "integer_conv: y must be int32, float32, int8 or uint8, got ",
            name_of(y.dtype));
    require(!c.options.transposed, "integer_conv: transposed convolutions are not computed");
    const Dims expected = conv_output_shape(x.shape, w.shape, c.options);
    require(y.shape == expected, "integer_conv: y must have shape ", to_string(expected), ", got ",
            to_string(y.shape));
    const auto check_one = [](const char* name, const Tensor& t, DataType type, std::int64_t most, bool whole) {
        require(!t.defined() || (t.dtype == type && t.is_contiguous() &&
                                 (t.numel() == most || (!whole && t.numel() == 1))),
                "integer_conv: ", name, " must be contiguous, ", name_of(type), " and of ",
                whole ? "" : "one or ", most, " elements");
    };
    check_one("x_zero", c.x_zero, x.dtype, 1, true);
    check_one("w_zero", c.w_zero, w.dtype, w.size(0), false);
    check_one("bias", c.bias, DataType::int32, w.size(0), true);
    const bool real = y.dtype == DataType::float32;
    check_one("y_zero", c.y_zero, y.dtype, real ? w.size(0) : 1, !real);
    check_one("scale", c.scale, DataType::float32, w.size(0), false);
    check_one("factor", c.factor, DataType::float32, 1, true);
    require(real || !c.factor.defined(), "integer_conv: a factor is for results of float32");
    require(y.dtype == DataType::int32 || c.scale.defined(), "integer_conv: results but int32 need a scale");
}

integer_conv_problem problem_of(const Tensor& x, const Tensor& w, const Tensor& y, const IntegerConv& c)
{
    integer_conv_problem p{};
    p.batch = x.size(0);
    p.groups = c.options.groups;
    p.channels = w.size(1);
    p.outputs = w.size(0) / p.groups;
    const std::size_t spatial = x.dim() - 2, missing = 3 - spatial;
    const auto of = [](const Dims& dims, std::size_t i, std::int64_t otherwise) {
        return dims.size() ? dims[i] : otherwise;
    };
    for (std::size_t i = 0; i < 2; ++i) {
        p.x_strides[i] = x.stride(i);
        p.w_strides[i] = w.stride(i);
        p.y_strides[i] = y.stride(i);
    }
    for (std::size_t i = 0; i < 3; ++i) {
        p.in[i] = p.out[i] = p.window[i] = p.stride[i] = p.dilation[i] = 1;
        if (i < missing)
            continue;
        const std::size_t from = i - missing;
        p.in[i] = x.size(from + 2);
        p.out[i] = y.size(from + 2);
        p.window[i] = w.size(from + 2);
        p.stride[i] = of(c.options.stride, from, 1);
        p.dilation[i] = of(c.options.dilation, from, 1);
        p.pad[i] = of(c.options.pad_begin, from, 0);
        p.x_strides[i + 2] = x.stride(from + 2);
        p.w_strides[i + 2] = w.stride(from + 2);
        p.y_strides[i + 2] = y.stride(from + 2);
    }
    p.x_zero = step_of(c.x_zero);
    p.w_zero = step_of(c.w_zero);
    p.bias = c.bias.defined() ? 1 : -1;
    p.scale = step_of(c.scale);
    p.y_zero = step_of(c.y_zero);
    const bool is_signed = y.dtype == DataType::int8;
    p.readable = x.numel() ? conv::span_of(x) : 0;
    p.low = std::max<cl_int>(c.low, is_signed ? -128 : 0);
    p.high = std::min<cl_int>(c.high, is_signed ? 127 : 255);
    return p;
}

// What multiplies bytes in conv_cpu.cl: vectors of pairs of int16 that were made of them, vectors of bytes, or tile
// registers.
enum class Numbers { pairs, bytes, tiles };

bool has_tiles(const Device& device) { return device.amx && host_has_amx_int8(); }

// What multiplies weights that stay bytes: tile registers, but for shorter sums, where gathering and ending are most of
// the work, by vectors of 64 bytes, which read rows in place and end in registers (two cores of a Xeon: 56 x 56 x 64 ->
// 256 348 and 202 us, 28 x 28 x 128 -> 512 161 and 117, 14 x 14 x 256 -> 1024 alike, 28 x 28 x 512 -> 128 70 and 107).
Numbers narrow_numbers(const Device& device, const integer_conv_problem& p)
{
    constexpr std::int64_t long_sum = 256;
    return has_tiles(device) && (device.vnni_bytes != 64 || p.runs * p.run >= long_sum) ? Numbers::tiles
                                                                                        : Numbers::bytes;
}

const Program& program_for(Queue& queue, const char* file, DataType x, DataType y, Numbers numbers = Numbers::pairs)
{
    std::string options = fmt::format("-DX={} -DY={}", name_of(x), name_of(y));
    if (numbers != Numbers::pairs)
        options += " -DNARROW";
    if (numbers == Numbers::tiles)
        options += " -DAMX";
    else if (numbers == Numbers::bytes && queue.device().vnni_bytes)
        options += " " + dot_options(queue.device());
    return queue.context().program(file, options);
}

// Whether bytes as they are take fewer instructions than pairs of int16: with VNNI, and with AVX2 alone, while AVX-512
// has registers for more pairs.
bool narrow_pays(const Device& device)
{
    if (device.vnni_bytes || has_tiles(device))
        return true;
#if defined(__x86_64__)
    static const bool pays = __builtin_cpu_supports("avx2") && !__builtin_cpu_supports("avx512f");
    return pays;
#else
    return false;
#endif
}

// The weights as bytes where that is exact (conv_cpu.cl), else the same words. Waits for the device.
Tensor narrowed(Queue& queue, const Tensor& words, std::int64_t panels, const integer_conv_problem& p)
{
    const Program& program = program_for(queue, "kernels/integer/conv_cpu.cl", DataType::int8, DataType::int32,
                                         narrow_numbers(queue.device(), p));
    const Tensor wide = queue.context().empty({panels}, DataType::int32, queue);
    const Range range = Range::groups({size(panels), 1, 1}, {1, 1, 1});
    queue.launch(program.kernel("check_narrow"), range, words, wide, p);
    std::vector<std::int32_t> found(size(panels));
    queue.read(*wide.memory, 0, found.data(), wide.nbytes());
    if (std::ranges::find(found, 1) != found.end())
        return words;
    constexpr std::int64_t tile = 1024;   // the last panel's last one may be read to its end
    const Tensor bytes =
        queue.context().empty({2 * words.numel() + 4 * panels * columns + tile}, DataType::int8, queue);
    queue.launch(program.kernel("make_narrow"), range, words, bytes, p);
    return bytes;
}

// What kernels get for tensors that are not there: any other.
const Tensor& or_any(const Tensor& t, const Tensor& any) { return t.defined() ? t : any; }

// The same with a factor within the scale, for kernels that take none.
IntegerConv without_factor(Queue& queue, IntegerConv conv)
{
    if (!conv.factor.defined())
        return conv;
    const Tensor scale = queue.context().empty({conv.scale.numel()}, DataType::float32, queue);
    const Tensor inputs[] = {conv.scale.reshape({conv.scale.numel()}), conv.factor.reshape({1})};
    pointwise(queue, inputs, std::span(&scale, 1), {}, "y0 = x0 * x1;");
    conv.scale = scale;
    conv.factor = {};
    return conv;
}

// x with channels innermost.
Tensor with_channels_innermost(Queue& queue, const Tensor& x)
{
    if (x.size(1) == 1 || x.stride(1) == 1)
        return x;
    Dims strides = x.shape;
    std::int64_t step = x.size(1);
    for (std::size_t i = x.dim() - 1; i >= 2; --i) {
        strides[i] = step;
        step *= x.size(i);
    }
    strides[0] = step;
    strides[1] = 1;
    Tensor turned = queue.context().empty(x.shape, x.dtype, queue);
    turned.strides = strides;
    copy(queue, x, turned);
    return turned;
}

// Whether elements with the same channel lie a step apart in the order of positions.
bool positions_in_steps(const cl_long* strides, const cl_long* sizes, cl_long batch)
{
    const cl_long row = sizes[2] * strides[4], plane = sizes[1] * row;
    return strides[1] == 1 && (sizes[1] == 1 || strides[3] == row) && (sizes[0] == 1 || strides[2] == plane) &&
           (batch == 1 || strides[0] == sizes[0] * plane);
}

// A kernel of one tap that meets all of x reads it in place.
bool one_tap_everywhere(const integer_conv_problem& p)
{
    return taps_of(p) == 1 && std::equal(p.in, p.in + 3, p.out) && p.pad[0] == 0 && p.pad[1] == 0 && p.pad[2] == 0 &&
           positions_in_steps(p.x_strides, p.in, p.batch);
}

// Whether conv_depthwise_rows.cl takes a depthwise convolution.
bool by_rows(const integer_conv_problem& p)
{
    return p.groups >= depthwise_lanes && p.y_strides[1] == 1 && p.in[0] == 1 && p.window[0] == 1 && p.pad[0] == 0 &&
           p.out[0] == 1 && p.window[1] == p.window[2] && (p.window[2] == 3 || p.window[2] == 5) &&
           p.dilation[2] == 1 && p.stride[2] <= 2;
}

void depthwise(Queue& queue, const Tensor& x, const Tensor& w, const Tensor& y, const IntegerConv& c,
               const integer_conv_problem& p)
{
    const bool rows = by_rows(p);
    const bool vnni = rows && p.window[2] == 3 && is_byte(y.dtype) && queue.device().vnni_bytes == 64;
    const char* file = vnni   ? "kernels/integer/conv_depthwise_vnni.cl"
                       : rows ? "kernels/integer/conv_depthwise_rows.cl"
                              : "kernels/integer/conv_depthwise.cl";
    const std::int64_t blocks = divide_up(p.groups, depthwise_lanes);
    const auto pack = [&] {
        const std::int64_t words = vnni   ? p.window[1] * (p.window[2] + 1)
                                   : rows ? divide_up(p.window[1], 2) * p.window[2]
                                          : divide_up(taps_of(p), 2) + 1;
        const Tensor result = queue.context().empty({blocks * words * depthwise_lanes}, DataType::int32, queue);
        queue.launch(program_for(queue, file, w.dtype, DataType::int32).kernel("pack_depthwise"),
                     Range::groups({size(blocks), 1, 1}, {1, 1, 1}), w, or_any(c.w_zero, w), result, p);
        return result;
    };
    const Tensor weights = !c.options.prepared
                               ? pack()
                               : c.options.prepared->get(queue, fmt::format("integer depthwise {} {} {} {}", file,
                                                                            p.w_strides[0], p.w_strides[4], w.offset),
                                                         pack, Prepared::Keeps::all);
    const std::string kernel = rows ? fmt::format("depthwise_{}_{}", p.window[2], p.stride[2]) : "depthwise";
    queue.launch(program_for(queue, file, x.dtype, y.dtype).kernel(kernel),
                 Range::groups({size(blocks), size(p.batch * p.out[0] * p.out[1]), 1}, {1, 1, 1}), x,
                 or_any(c.x_zero, x), weights, or_any(c.bias, weights), or_any(c.scale, weights),
                 or_any(c.y_zero, y), y, p);
}

Tensor packed(Queue& queue, const Tensor& w, const IntegerConv& c, const integer_conv_problem& p)
{
    const auto pack = [&] {
        const std::int64_t blocks = divide_up(p.outputs, columns), words = p.groups * blocks * p.runs * p.run / 2;
        const Tensor result = queue.context().empty({words * columns}, DataType::int32, queue);
        queue.launch(program_for(queue, "kernels/integer/conv_cpu.cl", w.dtype, DataType::int32)
                         .kernel("pack_weights"),
                     Range::groups({size(blocks), size(p.groups), 1}, {1, 1, 1}), w, or_any(c.w_zero, w), result, p);
        return c.options.prepared && narrow_pays(queue.device()) ? narrowed(queue, result, p.groups * blocks, p)
                                                                 : result;
    };
    if (!c.options.prepared)
        return pack();
    return c.options.prepared->get(queue, fmt::format("integer conv {} {} {} {} {}", p.run, p.runs, p.w_strides[0],
                                                      p.w_strides[1], w.offset), pack, Prepared::Keeps::all);
}

void on_cpu(Queue& queue, const Tensor& given, const Tensor& w, const Tensor& y, const IntegerConv& c)
{
    const Tensor x = with_channels_innermost(queue, given);
    integer_conv_problem p = problem_of(x, w, y, c);
    if (p.channels == 1 && p.outputs == 1 && taps_of(p) <= most_taps)
        return depthwise(queue, x, w, y, without_factor(queue, c), p);
    const bool merged = p.groups == 1 && p.dilation[2] == 1 && (p.window[2] == 1 || p.x_strides[4] == p.channels);
    p.run_taps = merged ? p.window[2] : 1;
    p.run = round_up(p.run_taps * p.channels, 8);
    p.runs = taps_of(p) / p.run_taps;
    const Tensor weights = packed(queue, w, c, p);
    const Numbers numbers =
        weights.dtype == DataType::int8 ? narrow_numbers(queue.device(), p) : Numbers::pairs;
    const std::int64_t pixels = pixels_of(p), panels = divide_up(p.outputs, columns);
    // Blocks of like size, whole tiles of pixels but for the last; some work-items for each core.
    const bool by_vectors = numbers == Numbers::bytes && queue.device().vnni_bytes == 64;
    p.rows_of_results = by_vectors && positions_in_steps(p.y_strides, p.out, p.batch);
    p.rows_in_place = p.rows_of_results && x.dtype == DataType::uint8 && p.groups == 1 && p.channels % 8 == 0 &&
                      one_tap_everywhere(p);
    const std::int64_t tile_pixels =
        numbers == Numbers::pairs ? 6 : numbers == Numbers::tiles ? 16 : by_vectors ? 8 : 4;
    // Those read in place should stay near for all panels.
    const std::int64_t most = p.rows_in_place
                                  ? std::clamp<std::int64_t>(32768 / p.channels / 8 * 8, 32, 256) : most_pixels;
    p.block_pixels = std::min(most, round_up(divide_up(pixels, divide_up(pixels, most)), tile_pixels));
    const std::int64_t pixel_blocks = divide_up(pixels, p.block_pixels) * p.groups;
    const std::int64_t wanted = 4 * std::max(1u, queue.device().compute_units);
    p.block_panels = std::clamp<std::int64_t>(panels * pixel_blocks / wanted, 1, std::min(panels, most_panels));
    p.block_panels = divide_up(panels, divide_up(panels, p.block_panels));
    if (by_vectors)
        p.block_panels = round_up(p.block_panels, 2);   // two at once
    queue.launch(program_for(queue, "kernels/integer/conv_cpu.cl", x.dtype, y.dtype, numbers).kernel("conv"),
                 Range::groups({size(divide_up(pixels, p.block_pixels)), size(divide_up(panels, p.block_panels)),
                                size(p.groups)}, {1, 1, 1}),
                 x, or_any(c.x_zero, x), weights, or_any(c.bias, weights), or_any(c.scale, weights),
                 or_any(c.y_zero, y), or_any(c.factor, weights), static_cast<cl_int>(c.factor.defined()), y, p);
}

// Weights [o][tap][channel] of one group.
Tensor weight_lines(Queue& queue, const Tensor& w)
{
    Tensor lines = queue.context().empty({w.numel()}, w.dtype, queue), view = lines;
    view.shape = w.shape;
    view.strides = w.shape;
    const std::int64_t taps = w.numel() / (w.size(0) * w.size(1));
    view.strides[0] = taps * w.size(1);
    view.strides[1] = 1;
    std::int64_t step = w.size(1);
    for (std::size_t i = w.dim() - 1; i >= 2; --i) {
        view.strides[i] = step;
        step *= w.size(i);
    }
    copy(queue, w, view);
    lines.shape = {w.size(0), taps * w.size(1)};
    lines.strides = contiguous_strides(lines.shape);
    return lines;
}

void on_gpu(Queue& queue, const Tensor& given, const Tensor& w, const Tensor& y, const IntegerConv& c)
{
    Prepared* prepared = c.options.prepared;
    const auto lines_of_weights = [&] {
        return prepared ? prepared->get(queue, fmt::format("integer conv lines {}", w.offset),
                                        [&] { return weight_lines(queue, w); })
                        : weight_lines(queue, w);
    };
    Tensor x = given;
    if (c.options.groups == 1 && w.size(1) % 16 == 0) {
        const Tensor turned = with_channels_innermost(queue, x);
        const integer_conv_problem q = problem_of(turned, w, y, c);
        if (!conv_matrix_rejects(q, {turned, w, y}, queue.device()))
            return conv_matrix(queue, q, {turned, w, y}, lines_of_weights(), c);
    }
    const integer_conv_problem p = problem_of(x, w, y, c);
    const Program& program = queue.context().program(
        "kernels/integer/conv_gpu.cl",
        fmt::format("-DX={} -DW={} -DY={}", name_of(x.dtype), name_of(w.dtype), name_of(y.dtype)));
    const Tensor &bias = or_any(c.bias, w), &scale = or_any(c.scale, w), &y_zero = or_any(c.y_zero, y);
    const std::int64_t pixels = pixels_of(p), depth = p.channels * taps_of(p);
    if (p.groups > 1) {
        queue.launch(program.kernel("direct"), Range::linear(size(pixels * w.size(0)), 64), x, or_any(c.x_zero, x), w,
                     or_any(c.w_zero, w), bias, scale, y_zero, y, p);
        return;
    }
    const Tensor patches = queue.context().empty({pixels, depth}, x.dtype, queue);
    queue.launch(program.kernel("patches"), Range::linear(size(patches.numel()), 64), x, or_any(c.x_zero, x), patches,
                 p);
    const Tensor lines = lines_of_weights();
    const Tensor sums = queue.context().empty({pixels, w.size(0)}, DataType::int32, queue);
    integer_matmul(queue, patches, lines.transpose(0, 1), sums, {c.x_zero, c.w_zero, prepared});
    queue.launch(program.kernel("end_sums"), Range::linear(size(sums.numel()), 64), sums, bias, scale, y_zero, y, p);
}

}  // namespace
}  // namespace detail

void integer_conv(Queue& queue, const Tensor& x, const Tensor& w, const Tensor& y, const IntegerConv& conv)
{
    detail::check(x, w, y, conv);
    if (y.numel() == 0)
        return;
    if (detail::has_cpu_integer_conv(queue.device()) && w.numel())
        return detail::on_cpu(queue, x, w, y, conv);
    if (y.dtype != DataType::float32 || !conv.y_zero.defined())
        return detail::on_gpu(queue, x, w, y, detail::without_factor(queue, conv));
    IntegerConv without = detail::without_factor(queue, conv);
    without.y_zero = {};
    detail::on_gpu(queue, x, w, y, without);
    Dims line(y.dim(), 1);
    line[1] = conv.y_zero.numel();
    const Tensor inputs[] = {y, conv.y_zero.reshape(line)};
    pointwise(queue, inputs, std::span(&y, 1), {}, "y0 = x0 + x1;");
}

}  // namespace clprim
