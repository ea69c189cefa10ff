// Validates, brings every call into the form of an ordinary three-dimensional convolution, chooses an implementation.
#include <algorithm>
#include <span>

#include <kernels/conv/problem.hpp>
#include <core/operands.hpp>

namespace clprim {
namespace conv {
namespace {

constexpr Implementation forward_list[] = {
    {"cpu_frames", rejects_cpu_frames, run_cpu_frames, true, cpu_frames_advises_against},
    {"cpu_depthwise", rejects_cpu_depthwise, run_cpu_depthwise, true, cpu_depthwise_advises_against},
    {"cpu_patches", rejects_cpu_patches, run_cpu_patches, true, cpu_patches_advises_against},
    {"cpu_amx", rejects_cpu_amx, run_cpu_amx, true, cpu_amx_advises_against},
    {"cpu_channels_bfloat16", rejects_cpu_channels_bfloat16, run_cpu_channels_bfloat16, true,
     cpu_channels_bfloat16_advises_against},
    {"cpu_bfloat16", rejects_cpu_bfloat16, run_cpu_amx, true, cpu_amx_advises_against},
    {"cpu_winograd", rejects_cpu_winograd, run_cpu_winograd, true, cpu_winograd_advises_against},
    {"cpu_grouped", rejects_cpu_grouped, run_cpu_grouped},
    {"cpu_channels", rejects_cpu_channels, run_cpu_channels, true, cpu_channels_advises_against},
    {"cpu_implicit", rejects_cpu_implicit, run_cpu_implicit},
    {"gpu_direct", rejects_gpu_direct, run_gpu_direct},
    {"gpu_matrix", rejects_gpu_matrix, run_gpu_matrix, true, gpu_matrix_advises_against, gpu_matrix_space,
     run_gpu_matrix_at},
    {"gpu_winograd", rejects_gpu_winograd, run_gpu_winograd, true, gpu_winograd_advises_against, gpu_winograd_space,
     run_gpu_winograd_at},
    {"gpu_implicit", rejects_gpu_implicit, run_gpu_implicit, true, nullptr, gpu_implicit_space, run_gpu_implicit_at},
    {"reference", rejects_reference, run_reference, false},
};
constexpr Implementation weight_list[] = {
    {"cpu_depthwise", rejects_cpu_depthwise, run_cpu_depthwise_weight},
    {"cpu_patches", rejects_cpu_patches, run_cpu_patches_weight, true, cpu_patches_advises_against},
    {"cpu_amx", rejects_cpu_amx_weight, run_cpu_amx_weight, true, cpu_amx_weight_advises_against},
    {"cpu_grouped", rejects_cpu_grouped, run_cpu_grouped_weight},
    {"cpu_channels", rejects_cpu_channels_weight, run_cpu_channels_weight, true, cpu_channels_weight_advises_against},
    {"cpu_implicit", rejects_cpu_implicit, run_cpu_implicit_weight},
    {"gpu_direct", rejects_gpu_direct, run_gpu_direct_weight, true, nullptr, gpu_direct_weight_space,
     run_gpu_direct_weight_at},
    {"gpu_matrix", rejects_gpu_matrix, run_gpu_matrix_weight, true, gpu_matrix_advises_against,
     gpu_matrix_weight_space, run_gpu_matrix_weight_at},
    {"gpu_winograd", rejects_gpu_winograd, run_gpu_winograd_weight, true, gpu_winograd_weight_advises_against,
     gpu_winograd_weight_space, run_gpu_winograd_weight_at},
    {"gpu_implicit", rejects_gpu_implicit, run_gpu_implicit_weight, true, nullptr, gpu_implicit_weight_space,
     run_gpu_implicit_weight_at},
    {"reference", rejects_reference, run_reference, false},
};

std::span<const Implementation> implementations(ConvPass pass)
{
    if (pass == ConvPass::backward_weight)
        return weight_list;
    return forward_list;
}

const char* name_of(ConvPass pass)
{
    return pass == ConvPass::forward         ? "forward"
           : pass == ConvPass::backward_data ? "backward_data"
                                             : "backward_weight";
}

std::int64_t entry(const Dims& list, std::size_t axis, std::int64_t fallback)
{
    return list.empty() ? fallback : list[axis];
}

// As epilogue.cl numbers them.
cl_long kernel_activation(Activation activation)
{
    switch (activation) {
    case Activation::none: return 0;
    case Activation::relu: return 1;
    case Activation::clip: case Activation::relu6: return 2;
    case Activation::leaky_relu: return 3;
    case Activation::silu: return 4;
    case Activation::hard_swish: return 5;
    case Activation::hard_sigmoid: return 6;
    case Activation::sigmoid: return 7;
    case Activation::gelu: return 8;
    case Activation::gelu_tanh: return 9;
    default: throw NotSupported("conv: an activation by tanh is not fused; apply it to the result");
    }
}

// Strides, paddings and dilations beyond are refused: products with them stay within 64 bits.
constexpr std::int64_t most_step = std::int64_t{1} << 31;

void check_lists(std::size_t spatial, const ConvOptions& options)
{
    for (const Dims* list : {&options.stride, &options.pad_begin, &options.pad_end, &options.dilation,
                             &options.output_padding})
        require(list->empty() || list->size() == spatial, "conv: expected ", spatial,
                " entries, one per spatial axis, got ", to_string(*list));
    for (std::size_t i = 0; i < spatial; ++i) {
        require(entry(options.stride, i, 1) > 0, "conv: stride ", to_string(options.stride), " must be positive");
        require(entry(options.dilation, i, 1) > 0, "conv: dilation ", to_string(options.dilation), " must be positive");
        for (const Dims* list : {&options.stride, &options.pad_begin, &options.pad_end, &options.dilation,
                                 &options.output_padding})
            require(entry(*list, i, 0) <= most_step && entry(*list, i, 0) >= -most_step, "conv: ", to_string(*list),
                    " has entries beyond 2^31");
    }
    require(options.groups > 0, "conv: groups must be positive, got ", options.groups);
}

// n, c, d, h, w. Spatial axes that are absent or of size 1 get the stride that a dense tensor would have.
void fill_strides(cl_long (&out)[5], const Tensor& tensor)
{
    const std::size_t spatial = tensor.dim() - 2;
    out[0] = tensor.stride(0);
    out[1] = tensor.stride(1);
    cl_long dense = tensor.size(1) == 1 || tensor.stride(1) != 1 ? 1 : tensor.size(1);
    for (std::size_t i = 5; i-- > 2;) {
        const bool present = i >= 5 - spatial && tensor.size(i + spatial - 3) != 1;
        out[i] = present ? tensor.stride(i + spatial - 3) : dense;
        dense = out[i] * (present ? tensor.size(i + spatial - 3) : 1);
    }
}

// x, w, y in the caller's sense; with `transposed` the caller's y is the ordinary convolution's x.
Call make_call(ConvPass pass, const Tensor& caller_x, const Tensor& w, const Tensor& caller_y,
               const ConvOptions& options)
{
    require(caller_x.dim() >= 3 && caller_x.dim() <= 5, "conv: x must have 3 to 5 dimensions, got ",
            to_string(caller_x.shape));
    require(w.dim() == caller_x.dim() && caller_y.dim() == caller_x.dim(), "conv: x ", to_string(caller_x.shape),
            ", w ", to_string(w.shape), " and y ", to_string(caller_y.shape),
            " must have the same number of dimensions");
    require(w.dtype == caller_x.dtype && caller_y.dtype == caller_x.dtype,
            "conv: x, w and y must have one dtype, got ", name_of(caller_x.dtype), ", ", name_of(w.dtype), ", ",
            name_of(caller_y.dtype));
    const Dims expected = conv_output_shape(caller_x.shape, w.shape, options);
    require(expected == caller_y.shape, "conv: y has shape ", to_string(caller_y.shape), ", expected ",
            to_string(expected));

    Call call;
    call.prepared = options.prepared;
    const bool swap = options.transposed;
    call.dtype = caller_x.dtype;
    call.epilogue = {0, kernel_activation(options.activation), options.accumulate, options.alpha, options.beta};
    if (options.activation == Activation::relu6)   // a clip of its own bounds
        call.epilogue.alpha = 0, call.epilogue.beta = 6;
    call.x = swap ? caller_y : caller_x;
    call.y = swap ? caller_x : caller_y;
    call.w = w;
    call.pass = pass;
    if (swap && pass != ConvPass::backward_weight)
        call.pass = pass == ConvPass::forward ? ConvPass::backward_data : ConvPass::forward;

    const std::size_t spatial = caller_x.dim() - 2;
    Problem& p = call.problem;
    p.batch = call.x.size(0);
    p.groups = options.groups;
    p.in_channels = w.size(1);
    p.out_channels = w.size(0) / options.groups;
    for (std::size_t i = 0; i < spatial; ++i) {
        const std::size_t axis = 3 - spatial + i;
        p.in[axis] = call.x.size(2 + i);
        p.out[axis] = call.y.size(2 + i);
        p.kernel[axis] = w.size(2 + i);
        // A step that is never taken is one: a data gradient would look for what lies between.
        p.stride[axis] = p.out[axis] == 1 ? 1 : entry(options.stride, i, 1);
        p.dilation[axis] = p.kernel[axis] == 1 ? 1 : entry(options.dilation, i, 1);
        p.pad[axis] = entry(options.pad_begin, i, 0);
    }
    fill_strides(p.x_strides, call.x);
    fill_strides(p.y_strides, call.y);
    fill_strides(p.w_strides, call.w);
    return call;
}

// The call with a result that tuning may overwrite: the same layout in memory of its own.
Call on_scratch(Queue& queue, const Call& call)
{
    Call trial = call;
    Tensor& result = call.pass == ConvPass::forward         ? trial.y
                     : call.pass == ConvPass::backward_data ? trial.x
                                                            : trial.w;
    std::int64_t size = 1;
    for (std::size_t i = 0; i < result.dim(); ++i)
        size += (result.size(i) - 1) * result.stride(i);
    const Tensor memory = queue.context().empty({size}, result.dtype, queue);
    result = Tensor(memory.memory, 0, result.dtype, result.shape, result.strides);
    return trial;
}

void run(Queue& queue, const Call& call, const std::string& wanted)
{
    if (call.result().numel() == 0)
        return;
    const std::span<const Implementation> list = implementations(call.pass);
    if (wanted.empty()) {
        choose("conv", list, call, queue, [&](const auto& one) { one.run(queue, on_scratch(queue, call)); })
            .run(queue, call);
        return;
    }
    const auto found = std::ranges::find(list, wanted, &Implementation::name);
    require<NotSupported>(found != list.end(), "conv ", name_of(call.pass), " has no implementation named ", wanted);
    const Rejection reason = found->rejects(call, queue.device());
    require<NotSupported>(!reason, "conv ", name_of(call.pass), ": ", wanted, " ", reason.value_or(""));
    found->run(queue, call);
}

}  // namespace

std::string describe(const Call& call)
{
    const Problem& p = call.problem;
    return detail::concat(name_of(call.pass), " ", clprim::name_of(call.dtype), " x", to_string(call.x.shape),
                          to_string(call.x.strides), " w", to_string(call.w.shape), to_string(call.w.strides), " y",
                          to_string(call.y.shape), to_string(call.y.strides), " groups=", p.groups, " stride=",
                          p.stride[0], ":", p.stride[1], ":", p.stride[2], " pad=", p.pad[0], ":", p.pad[1], ":",
                          p.pad[2], " dilation=", p.dilation[0], ":", p.dilation[1], ":", p.dilation[2]);
}

std::optional<Activation> product_activation(const Call& call)
{
    for (const Activation both : {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh})
        if (call.epilogue.activation == kernel_activation(both))
            return both;
    return std::nullopt;
}

std::string dtype_options(const Call& call)
{
    const bool gelu = call.epilogue.activation >= kernel_activation(Activation::gelu);
    return dtype_options(call.dtype) + (gelu ? " -DEPILOGUE_GELU" : "");
}

std::string dtype_options(DataType dtype)
{
    std::string options = "-DT=" + std::string(clprim::name_of(dtype));
    if (is_complex(dtype))
        options += " -DCLPRIM_COMPLEX";
    if (is_floating_point(dtype))
        options += " -DCLPRIM_ACTIVATIONS";
    return options;
}

}  // namespace conv

using namespace conv;

Dims conv_output_shape(const Dims& x, const Dims& w, const ConvOptions& options)
{
    require(x.size() >= 3 && x.size() <= 5 && w.size() == x.size(), "conv: x ", to_string(x), " and w ", to_string(w),
            " must have the same 3 to 5 dimensions");
    const std::size_t spatial = x.size() - 2;
    check_lists(spatial, options);
    require(w[0] % options.groups == 0, "conv: the first size of w ", to_string(w), " must be divisible by ",
            options.groups, " groups");
    const std::int64_t needed = options.transposed ? w[0] : w[1] * options.groups;
    require(x[1] == needed, "conv: w ", to_string(w), " with ", options.groups, " groups needs ", needed,
            " input channels, but x is ", to_string(x));
    Dims y(x.size(), 0);
    y[0] = x[0];
    y[1] = options.transposed ? w[1] * options.groups : w[0];
    for (std::size_t i = 0; i < spatial; ++i) {
        const std::int64_t stride = entry(options.stride, i, 1);
        const std::int64_t pad = entry(options.pad_begin, i, 0) + entry(options.pad_end, i, 0);
        const std::int64_t extent = entry(options.dilation, i, 1) * (w[2 + i] - 1) + 1;
        if (options.transposed) {
            y[2 + i] = (x[2 + i] - 1) * stride - pad + extent + entry(options.output_padding, i, 0);
        } else {
            const std::int64_t room = x[2 + i] + pad - extent;
            y[2 + i] = room < 0 ? 0 : room / stride + 1;
        }
    }
    return y;
}

void conv_forward(Queue& queue, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                  const ConvOptions& options)
{
    detail::check_operands("conv_forward", {{"x", x}, {"w", w}, {"bias", bias, detail::optional}, {"y", y}});
    Call call = make_call(ConvPass::forward, x, w, y, options);
    require(!bias.defined() || (bias.dim() == 1 && bias.size(0) == y.size(1) && bias.dtype == y.dtype &&
                                (bias.size(0) < 2 || bias.stride(0) == 1)),
            "conv: bias must be a contiguous vector of ", y.size(1), " values of dtype ", clprim::name_of(y.dtype));
    require(is_floating_point(y.dtype) || options.activation == Activation::none,
            "conv: ", clprim::name_of(y.dtype), " has no activation");
    call.bias = bias;
    call.epilogue.has_bias = bias.defined();
    run(queue, call, options.implementation);
}

void conv_backward_data(Queue& queue, const Tensor& dy, const Tensor& w, const Tensor& dx, const ConvOptions& options)
{
    detail::check_operands("conv_backward_data", {{"dy", dy}, {"w", w}, {"dx", dx}});
    ConvOptions plain = options;
    plain.activation = Activation::none;
    plain.accumulate = false;
    run(queue, make_call(ConvPass::backward_data, dx, w, dy, plain), options.implementation);
}

void conv_backward_weight(Queue& queue, const Tensor& x, const Tensor& dy, const Tensor& dw, const ConvOptions& options)
{
    detail::check_operands("conv_backward_weight", {{"x", x}, {"dy", dy}, {"dw", dw}});
    ConvOptions plain = options;
    plain.activation = Activation::none;
    plain.accumulate = false;
    run(queue, make_call(ConvPass::backward_weight, x, dw, dy, plain), options.implementation);
}

void conv_backward_bias(Queue& queue, const Tensor& dy, const Tensor& dbias)
{
    detail::check_operands("conv_backward_bias", {{"dy", dy}, {"dbias", dbias}});
    require(dy.dim() >= 3 && dy.dim() <= 5 && dbias.dim() == 1 && dbias.size(0) == dy.size(1) &&
                dbias.dtype == dy.dtype,
            "conv: the bias gradient of dy ", to_string(dy.shape), " is a vector of its channels, got ",
            to_string(dbias.shape));
    if (dbias.numel() == 0)
        return;
    Problem p;
    p.batch = dy.size(0);
    for (std::size_t i = 2; i < dy.dim(); ++i)
        p.out[5 - dy.dim() + i - 2] = dy.size(i);
    fill_strides(p.y_strides, dy);
    const cl_long channels = dy.size(1), rows = p.batch * p.out[0] * p.out[1];
    const cl_long parts = std::clamp<cl_long>(2048 / channels, 1, std::max<cl_long>(rows, 1));
    const DataType compute =
        clprim::is_floating_point(dy.dtype) && size_of(dy.dtype) < 4 ? DataType::float32 : dy.dtype;
    const Tensor partial = queue.context().empty({parts, channels}, compute, queue);
    const Program& program = queue.context().program("kernels/conv/reference.cl", dtype_options(dy.dtype));
    queue.launch(program.kernel("conv_bias_parts"), Range::linear(static_cast<std::size_t>(parts * channels), 16), dy,
                 partial, channels, parts, p);
    queue.launch(program.kernel("conv_bias_sum"), Range::linear(static_cast<std::size_t>(channels), 16), partial, dbias,
                 static_cast<cl_ulong>(dbias.stride(0)), channels, parts);
}

std::vector<std::string_view> conv_implementations(ConvPass pass)
{
    std::vector<std::string_view> names;
    for (const auto& candidate : implementations(pass))
        names.push_back(candidate.name);
    return names;
}

}  // namespace clprim
