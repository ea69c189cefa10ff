// Convolutions with channels innermost as products of matrices, where products are much faster than anything that
// gathers: bfloat16 on CPUs with AMX, and large float32 ones of one tap, whose constant weights are split once. A row
// of the one matrix is a patch: the channels of all taps that a pixel of the result reads (im2col, after Chellapilla,
// Puri, Simard, "High Performance Convolutional Neural Networks for Document Processing", 2006); those of a
// convolution of one tap lie so already. Patches are copied for a few images at a time, so that they stay in a cache.
#include <kernels/conv/problem.hpp>

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long most_patch_bytes = 8 << 20, most_kept_patch_bytes = 64 << 20;

// One side of a convolution as images of pixels.
struct Side {
    Tensor tensor;
    cl_long channels = 0, sizes[3] = {}, strides[5] = {};   // n, c, d, h, w

    // Whether pixels of all images are rows of one matrix.
    bool in_rows(cl_long images) const
    {
        return strides[3] == sizes[2] * strides[4] && strides[2] == sizes[1] * strides[3] &&
               (images == 1 || strides[0] == sizes[0] * strides[2]);
    }
};

Side side(const Tensor& tensor, cl_long channels, const cl_long (&sizes)[3], const cl_long (&strides)[5])
{
    Side result{tensor, channels, {}, {}};
    std::ranges::copy(sizes, result.sizes);
    std::ranges::copy(strides, result.strides);
    return result;
}
Side x_side(const Call& call)
{
    return side(call.x, call.problem.in_channels, call.problem.in, call.problem.x_strides);
}
Side y_side(const Call& call)
{
    return side(call.y, call.problem.out_channels, call.problem.out, call.problem.y_strides);
}

// What a patch is made of: taps of a source, `pad` before the first pixel's.
struct Gather {
    Side source;
    cl_long out[3], kernel[3], stride[3], dilation[3], pad[3];

    cl_long taps() const { return kernel[0] * kernel[1] * kernel[2]; }
    cl_long length() const { return taps() * source.channels; }
    cl_long pixels() const { return out[0] * out[1] * out[2]; }
    cl_long reach(int i) const { return (out[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1; }
    bool pads() const
    {
        bool any = false;
        for (int i = 0; i < 3; ++i)
            any = any || pad[i] != 0 || reach(i) > source.sizes[i];
        return any;
    }
    bool is_source(cl_long images) const   // a tap, of every pixel
    {
        return taps() == 1 && !pads() && std::ranges::equal(out, source.sizes) && source.in_rows(images);
    }
};

// Of the data gradient, of strides 1: a convolution of dy whose taps go the other way.
Gather gather_of(const Call& call)
{
    const Problem& q = call.problem;
    const bool data = call.pass == ConvPass::backward_data;
    Gather g{data ? y_side(call) : x_side(call), {}, {}, {}, {}, {}};
    for (int i = 0; i < 3; ++i) {
        g.out[i] = data ? q.in[i] : q.out[i];
        g.kernel[i] = q.kernel[i];
        g.stride[i] = q.stride[i];
        g.dilation[i] = q.dilation[i];
        g.pad[i] = data ? (q.kernel[i] - 1) * q.dilation[i] - q.pad[i] : q.pad[i];
    }
    return g;
}

// A view without its axes of size 1.
Tensor view(const Tensor& of, cl_long offset, std::span<const cl_long> sizes, std::span<const cl_long> strides)
{
    Dims shape, steps;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] != 1) {
            shape.push_back(sizes[i]);
            steps.push_back(strides[i]);
        }
    if (shape.empty()) {
        shape.push_back(1);
        steps.push_back(1);
    }
    return Tensor(of.memory, of.offset + offset, of.dtype, shape, steps);
}

// `images` of the source from `first` on with zeros around them, as far as patches reach.
Side padded(Queue& queue, const Gather& g, cl_long first, cl_long images)
{
    const Side& from = g.source;
    Side to = from;
    cl_long begin[3], skipped[3], count[3];
    for (int i = 0; i < 3; ++i) {
        to.sizes[i] = g.reach(i);
        begin[i] = std::max<cl_long>(g.pad[i], 0);
        skipped[i] = std::max<cl_long>(-g.pad[i], 0);
        count[i] = std::max<cl_long>(std::min(to.sizes[i] - begin[i], from.sizes[i] - skipped[i]), 0);
    }
    to.strides[1] = 1;
    to.strides[4] = from.channels;
    to.strides[3] = to.sizes[2] * to.strides[4];
    to.strides[2] = to.sizes[1] * to.strides[3];
    to.strides[0] = to.sizes[0] * to.strides[2];
    to.tensor = queue.context().empty({images * to.strides[0]}, from.tensor.dtype, queue);
    fill(queue, to.tensor, 0.0);
    const cl_long sizes[] = {images, count[0], count[1], count[2], from.channels};
    if (std::ranges::find(sizes, 0) != std::end(sizes))
        return to;
    const auto part = [&](const Side& of, cl_long image, const cl_long (&at)[3]) {
        const cl_long strides[] = {of.strides[0], of.strides[2], of.strides[3], of.strides[4], of.strides[1]};
        return view(of.tensor, image * strides[0] + at[0] * strides[1] + at[1] * strides[2] + at[2] * strides[3], sizes,
                    strides);
    };
    copy(queue, part(from, first, skipped), part(to, 0, begin));
    return to;
}

// The patches of `images` from `first` on as rows of a matrix, and that matrix's layout.
struct Rows {
    Tensor tensor;
    MatrixLayout layout;
};
Rows patches(Queue& queue, const Gather& g, cl_long first, cl_long images, cl_long all)
{
    const Side& source = g.source;
    if (g.is_source(all)) {
        Tensor tensor = source.tensor;
        tensor.offset += first * source.strides[0];
        return {tensor, {source.strides[4], source.strides[1], 0}};
    }
    const bool pads = g.pads();
    const Side from = pads ? padded(queue, g, first, images) : source;
    const cl_long sizes[] = {images, g.out[0], g.out[1], g.out[2], g.kernel[0], g.kernel[1], g.kernel[2],
                             source.channels};
    const cl_long strides[] = {from.strides[0], g.stride[0] * from.strides[2], g.stride[1] * from.strides[3],
                               g.stride[2] * from.strides[4], g.dilation[0] * from.strides[2],
                               g.dilation[1] * from.strides[3], g.dilation[2] * from.strides[4], from.strides[1]};
    const Tensor taken = view(from.tensor, pads ? 0 : first * from.strides[0], sizes, strides);
    const Tensor rows = queue.context().empty(taken.shape, taken.dtype, queue);
    copy(queue, taken, rows);
    return {rows, {g.length(), 1, 0}};
}

bool weights_are_rows(const Problem& q)   // taps outermost, then channels
{
    const cl_long c = q.in_channels;
    return (c == 1 || q.w_strides[1] == 1) && (q.kernel[2] == 1 || q.w_strides[4] == c) &&
           (q.kernel[1] == 1 || q.w_strides[3] == c * q.kernel[2]) &&
           (q.kernel[0] == 1 || q.w_strides[2] == c * q.kernel[2] * q.kernel[1]);
}

// Weights with their taps in the order of patches: [outputs][taps][inputs].
Tensor weight_rows(const Call& call, const Tensor& rows)
{
    const Problem& q = call.problem;
    const cl_long sizes[] = {q.out_channels, q.kernel[0], q.kernel[1], q.kernel[2], q.in_channels};
    const cl_long strides[] = {q.w_strides[0], q.w_strides[2], q.w_strides[3], q.w_strides[4], q.w_strides[1]};
    if (!rows.defined())
        return view(call.w, 0, sizes, strides);
    cl_long dense[5] = {0, 0, 0, 0, 1};
    for (int i = 3; i >= 0; --i)
        dense[i] = dense[i + 1] * sizes[i + 1];
    return view(rows, 0, sizes, dense);
}

// B of the product: columns are the result's channels.
Rows weight_matrix(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    const cl_long taps = q.taps(), inputs = q.in_channels, outputs = q.out_channels;
    const bool data = call.pass == ConvPass::backward_data;
    if (data && taps == 1)
        return {call.w, {q.w_strides[0], q.w_strides[1], 0}};
    if (!data && weights_are_rows(q))
        return {call.w, {1, q.w_strides[0], 0}};
    const MatrixLayout layout = data ? MatrixLayout{inputs, 1, 0} : MatrixLayout{1, taps * inputs, 0};
    const auto ordered = [&] {
        const Tensor made = queue.context().empty({outputs * taps * inputs}, call.dtype, queue);
        if (!data) {
            copy(queue, weight_rows(call, {}), weight_rows(call, made));
            return made;
        }
        const cl_long sizes[] = {outputs, inputs}, strides[] = {q.w_strides[0], q.w_strides[1]}, dense[] = {inputs, 1};
        for (cl_long t = 0; t < taps; ++t) {
            const cl_long at = t / (q.kernel[1] * q.kernel[2]) * q.w_strides[2] +
                               t / q.kernel[2] % q.kernel[1] * q.w_strides[3] + t % q.kernel[2] * q.w_strides[4];
            copy(queue, view(call.w, at, sizes, strides),
                 view(made, (taps - 1 - t) * outputs * inputs, sizes, dense));
        }
        return made;
    };
    if (!call.prepared)
        return {ordered(), layout};
    const std::string key =
        fmt::format("conv_patches {} {} {} {} {}", static_cast<int>(call.pass), outputs, inputs, taps, call.w.offset);
    return {call.prepared->get(queue, key, ordered), layout};
}

Side result_side(const Call& call) { return call.pass == ConvPass::backward_data ? x_side(call) : y_side(call); }

}  // namespace

Rejection rejects_cpu_patches(const Call& call, const Device& device)
{
    if (!device.amx)
        return "for CPUs with AMX";
    const Problem& q = call.problem;
    const Gather g = gather_of(call);
    const bool in_place = call.dtype == DataType::float32 && call.pass == ConvPass::forward && call.prepared &&
                          g.is_source(q.batch);
    if (call.dtype != DataType::bfloat16 && !in_place)
        return "computes bfloat16, and float32 with constant weights of one tap for every pixel";
    const auto innermost = [](const cl_long (&strides)[5], cl_long channels) {
        return channels == 1 || strides[1] == 1;
    };
    if (q.groups != 1 || !innermost(q.x_strides, q.in_channels) || !innermost(q.y_strides, q.out_channels))
        return "needs channels innermost, of one group";
    const bool weight = call.pass == ConvPass::backward_weight;
    if (!(weight ? y_side(call) : result_side(call)).in_rows(q.batch))
        return "needs pixels that are rows of a matrix";
    if (!product_activation(call) || (call.epilogue.accumulate && call.epilogue.has_bias))
        return "adds a bias or what is there, and activates as products do";
    if (call.pass == ConvPass::backward_data && (q.stride[0] > 1 || q.stride[1] > 1 || q.stride[2] > 1))
        return "has strides of 1 in the data gradient";
    if (q.batch * q.in_pixels() * q.out_pixels() * q.in_channels * q.out_channels == 0)
        return "has nothing to compute";
    const cl_long bytes = 2 * g.pixels() * g.length() * (weight ? q.batch : 1);
    if (!g.is_source(q.batch) && bytes > most_kept_patch_bytes)
        return "would copy too much at once";
    return {};
}

// A patch is worth its copy where enough products are made of it.
Rejection cpu_patches_advises_against(const Call& call, const Device&)
{
    constexpr cl_long least_products = 24, least_columns = 256, least_depth = 512, least_results = 192 * 512;
    const Problem& q = call.problem;
    if (call.dtype == DataType::float32 &&
        (q.out_channels < least_columns || q.in_channels < least_depth ||
         q.batch * q.out_pixels() * q.out_channels < least_results))
        return "would split more to bfloat16 than it multiplies";
    const cl_long products = call.pass == ConvPass::backward_data ? q.in_channels : q.out_channels;
    if (!gather_of(call).is_source(q.batch) && products < least_products)
        return "would copy patches for few products";
    return {};
}

void run_cpu_patches(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    const Gather g = gather_of(call);
    const Side result = result_side(call);
    const Rows weights = weight_matrix(queue, call);
    const cl_long bytes = 2 * g.pixels() * g.length();
    const cl_long some = g.is_source(q.batch) ? q.batch : std::clamp<cl_long>(most_patch_bytes / bytes, 1, q.batch);
    for (cl_long first = 0; first < q.batch; first += some) {
        const cl_long images = std::min(some, q.batch - first);
        const Rows rows = patches(queue, g, first, images, q.batch);
        Tensor to = result.tensor;
        to.offset += first * result.strides[0];
        GemmProblem p;
        p.m = images * g.pixels(), p.n = result.channels, p.k = g.length();
        p.dtype = call.dtype;
        p.a = rows.layout, p.b = weights.layout;
        p.c = {result.strides[4], 1, 0};
        p.add_d = call.epilogue.has_bias || call.epilogue.accumulate;
        p.d = call.epilogue.accumulate ? p.c : MatrixLayout{0, 1, 0};
        p.activation = *product_activation(call);
        p.prepared_b = call.prepared;
        gemm(queue, p, rows.tensor, weights.tensor, to, call.epilogue.accumulate ? to : call.bias);
    }
}

// One product, whose sums run over the pixels of all images: dw = dy' patches.
void run_cpu_patches_weight(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    const Gather g = gather_of(call);
    const Rows rows = patches(queue, g, 0, q.batch, q.batch);
    const bool in_place = weights_are_rows(q);
    const Tensor to = in_place ? call.w : queue.context().empty({q.out_channels * g.length()}, call.dtype, queue);
    GemmProblem p;
    p.m = q.out_channels, p.n = g.length(), p.k = q.batch * g.pixels();
    p.dtype = call.dtype;
    p.a = {1, q.y_strides[4], 0};
    p.b = rows.layout;
    p.c = {in_place ? q.w_strides[0] : g.length(), 1, 0};
    gemm(queue, p, call.y, rows.tensor, to);
    if (!in_place)
        copy(queue, weight_rows(call, to), weight_rows(call, {}));
}

}  // namespace clprim::conv
