// Launches conv_matrix.cl.
#include <kernels/integer/conv_matrix.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <kernels/conv/gpu_tables.hpp>
#include <kernels/gemm/gpu_matrix.hpp>
#include <kernels/integer/gpu.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {
namespace {

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

// As the kernels for floats see it, channels of x in pairs.
conv::ImplicitProblem in_pairs(const integer_conv_problem& q)
{
    conv::ImplicitProblem p{};
    p.batch = q.batch;
    p.groups = 1;
    p.rows = q.outputs;
    p.depth = q.channels / 2;
    for (int i = 0; i < 3; ++i) {
        p.taps[i] = p.kernel[i] = q.window[i];
        p.in[i] = q.in[i];
        p.out[i] = q.out[i];
        p.scale[i] = q.stride[i];
        p.shift[i] = -q.pad[i];
        p.step[i] = q.dilation[i];
    }
    for (int i = 0; i < 5; ++i) {
        p.source_strides[i] = q.x_strides[i] / 2;
        p.result_strides[i] = q.y_strides[i];
    }
    p.source_strides[1] = 1;
    return p;
}

// Whether weights are what their bytes are, so that sums of x are not needed: quantised models have zero points that
// are 0. Where they never change they are read once, which waits for the device.
bool without_zero_points(Queue& queue, const IntegerConvTensors& t, const IntegerConv& c)
{
    if (t.w.dtype == DataType::uint8)
        return false;
    if (!c.w_zero.defined() || !c.options.prepared)
        return !c.w_zero.defined();
    const Tensor found = c.options.prepared->get(queue, "integer conv zero points", [&] {
        std::vector<std::int8_t> zeros(size(c.w_zero.numel()));
        queue.read(*c.w_zero.memory, c.w_zero.offset * sizeof zeros[0], zeros.data(), zeros.size());
        const bool none = std::ranges::all_of(zeros, [](std::int8_t zero) { return zero == 0; });
        return queue.context().empty({none ? 1 : 2}, DataType::int8, queue);   // its size is the answer
    });
    return found.numel() == 1;
}

std::int64_t beyond(const Tensor& t) { return static_cast<std::int64_t>(t.buffer_offset()) + conv::span_of(t); }

}  // namespace

Rejection conv_matrix_rejects(const integer_conv_problem& p, const IntegerConvTensors& t, const Device& device)
{
    if (p.groups > 1 || p.channels % 16 || t.x.buffer_offset() % 16)
        return "groups, or channels that are no multiple of 16";
    for (const int i : {0, 2, 3, 4})
        if (p.x_strides[i] % 16)
            return "positions of x that are no multiple of 16 apart";
    if (p.window[0] > MOST_TAPS_Z || p.window[1] > MOST_TAPS_Y || p.window[2] > MOST_TAPS_X)
        return fmt::format("kernels beyond {} x {} x {}", MOST_TAPS_Z, MOST_TAPS_Y, MOST_TAPS_X);
    constexpr std::int64_t longest = std::int64_t{1} << 31;
    const std::int64_t pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    if (std::max({beyond(t.x), beyond(t.y), pixels, t.w.numel()}) >= longest)
        return "tensors of 2^31 elements";
    if (auto reason = matrix_engine_rejects_bytes(device))
        return reason;
    return matrix_engine_advises_against(static_cast<double>(pixels), static_cast<double>(p.outputs), device);
}

void conv_matrix(Queue& queue, const integer_conv_problem& q, const IntegerConvTensors& t, const Tensor& lines,
                 const IntegerConv& c)
{
    const conv::ImplicitProblem p = in_pairs(q);
    const conv::gpu_conv_problem problem = conv::gpu_problem(p);
    // Weights as the second factor of a product, packed once if they never change.
    const std::int64_t depth = 2 * p.total_depth();
    IntegerProduct product;
    product.n = q.outputs;
    product.k = depth;
    product.b = {1, depth, 0};
    const IntegerLines weights =
        pack_columns(queue, product, {{}, lines.transpose(0, 1), {}, {{}, c.w_zero, c.options.prepared}});

    const MatrixEngineChoice engine = matrix_engine(queue.device());
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const auto tiles = [&](const MatrixTile& tile) {
        return std::pair{divide_up(p.pixels(), shape.rows(tile)), divide_up(p.rows, shape.columns(tile))};
    };
    const auto [large_x, large_y] = tiles(shape.large);
    const MatrixTile& tile = matrix_tile(engine, large_x * large_y, queue.device());
    const auto [groups_x, groups_y] = tiles(tile);
    const bool mfma = engine.engine == MatrixEngine::mfma, is_unsigned = t.x.dtype == DataType::uint8;
    const std::int64_t* const s = q.y_strides;
    const bool quads = s[1] == 1 && (q.outputs | s[0] | s[2] | s[3] | s[4] |
                                     static_cast<std::int64_t>(t.y.buffer_offset())) % 4 == 0;
    const Program& program = queue.context().program(
        "kernels/integer/conv_matrix.cl",
        fmt::format("-DX=int8 -DREAL=int -DOFFSET=uint -DA_ALONG_K=1 -DB_ALONG_K=1 -DALIGNED=1 -DBLOCKS=0{} "
                    "-DONE_TAP={:d} -DINSIDE={:d} -DPLANES={:d} -DFROM={} -DY={} -DA_UNSIGNED={:d} -DFLIP={:d} "
                    "-DROW_SUMS={:d} -DQUADS={:d}",
                    matrix_tile_options(engine, tile), p.taps[0] * p.taps[1] * p.taps[2] == 1, conv::always_inside(p),
                    conv::has_planes(p), name_of(t.x.dtype), name_of(t.y.dtype), is_unsigned && !mfma,
                    is_unsigned && mfma, !without_zero_points(queue, t, c), quads));
    const Tensor table = conv::matrix_table(queue, problem, conv::has_planes(p), 8);
    const auto or_any = [](const Tensor& given, const Tensor& any) -> const Tensor& {
        return given.defined() ? given : any;
    };
    queue.launch(program.kernel("conv_matrix"),
                 Range::groups({size(groups_x), size(groups_y), 1}, {size(shape.items(tile)), 1, 1}), t.x,
                 or_any(c.x_zero, t.x), weights.all, weights.sums, or_any(c.bias, t.w), or_any(c.scale, t.w),
                 or_any(c.y_zero, t.y), t.y, table, problem, q, static_cast<cl_uint>(words_of_line(depth)));
}

}  // namespace clprim::detail
