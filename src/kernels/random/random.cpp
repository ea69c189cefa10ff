#include <clprim/random.hpp>

#include <iterator>
#include <string>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/error_hook.hpp>
#include <clprim/sort.hpp>
#include <core/lie_alike.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

constexpr const char* distribution_names[] = {"uniform",   "normal",     "exponential", "geometric",
                                              "cauchy",    "log_normal", "bernoulli"};

std::string dtype_option(const char* name, DataType dtype)
{
    return std::string(" -D") + name + "=" + std::string(name_of(dtype));
}

void require_dense(const Tensor& tensor, const char* what)
{
    require(tensor.is_non_overlapping_and_dense(), what, ": the tensor must be dense");
}

void require_same_layout(const Tensor& a, const Tensor& b, const char* what)
{
    require_dense(a, what);
    require(detail::lie_alike(a, b), what, ": tensors must have the same shape and strides");
}

// Each work-item makes `lanes` elements.
Range blocks(std::int64_t n, int lanes) { return Range::linear((n + lanes - 1) / lanes, 64); }

}  // namespace

void random_fill(Queue& queue, const Tensor& out, Distribution distribution, double a, double b, PhiloxState state)
{
    detail::check_operands("random_fill", {{"out", out}});
    require(static_cast<std::size_t>(distribution) < std::size(distribution_names),
            "random_fill: no such distribution");
    const char* name = distribution_names[static_cast<int>(distribution)];
    require_dense(out, name);
    detail::require_dtype(!is_complex(out.dtype), name, ": not for ", name_of(out.dtype));
    const cl_ulong n = out.numel();
    if (n == 0)
        return;
    const bool wide = out.dtype == DataType::float64;
    std::string options = "-DDRAW_" + std::string(name) + dtype_option("OUT", out.dtype);
    if (wide)
        options += " -DWIDE";
    if (out.dtype == DataType::float16 || out.dtype == DataType::bfloat16)
        options += out.dtype == DataType::float16 ? " -DBITS=11" : " -DBITS=8";
    Kernel& kernel = queue.context().program("kernels/random/random.cl", options).kernel("fill");
    const cl_ulong seed = state.seed, stream = state.offset;
    if (wide)
        queue.launch(kernel, blocks(n, 2), out, n, seed, stream, a, b);
    else
        queue.launch(kernel, blocks(n, 4), out, n, seed, stream, static_cast<float>(a), static_cast<float>(b));
}

void random_bernoulli(Queue& queue, const Tensor& out, const Tensor& probability, PhiloxState state)
{
    detail::check_operands("random_bernoulli", {{"out", out}, {"probability", probability}});
    require_same_layout(out, probability, "bernoulli");
    const cl_ulong n = out.numel();
    if (n == 0)
        return;
    Kernel& kernel = queue.context()
                         .program("kernels/random/choose.cl",
                                  dtype_option("OUT", out.dtype) + dtype_option("IN", probability.dtype))
                         .kernel("bernoulli");
    queue.launch(kernel, blocks(n, 4), out, probability, n, cl_ulong(state.seed), cl_ulong(state.offset),
                 queue.error_buffer(), Queue::error_code("bernoulli"));
    queue.expect_errors();
}

void random_variates(Queue& queue, const Tensor& out, Variate variate, const Tensor& first, const Tensor& second,
                     PhiloxState state)
{
    detail::check_operands("random_variates", {{"out", out}, {"first", first}, {"second", second}});
    static constexpr const char* names[] = {"poisson", "gamma", "binomial"};
    require(static_cast<std::size_t>(variate) < std::size(names), "random_variates: no such variate");
    const char* name = names[static_cast<int>(variate)];
    require(is_floating_point(out.dtype), name, ": not for ", name_of(out.dtype));
    for (const Tensor* tensor : {&first, &second})
        require(tensor->dtype == out.dtype && tensor->shape == out.shape && tensor->is_contiguous() &&
                    out.is_contiguous(),
                name, ": parameters and output must be contiguous, of one dtype and shape");
    const cl_ulong n = out.numel();
    if (n == 0)
        return;
    const std::string options = dtype_option("T", out.dtype) + " -DVARIATE_" + name +
                                (out.dtype == DataType::float64 ? " -DWIDE -DSMALLEST=0x1p-1022" :
                                 out.dtype == DataType::float16 ? " -DSMALLEST=0x1p-14f" : " -DSMALLEST=0x1p-126f");
    queue.launch(queue.context().program("kernels/random/variates.cl", options).kernel("variates"),
                 Range::linear(n, 64), out, first, second, n, cl_ulong(state.seed), cl_ulong(state.offset),
                 queue.error_buffer(),
                 Queue::error_code("invalid Poisson rate, expected rate to be non-negative"));
    if (variate == Variate::poisson)
        queue.expect_errors();
}

void random_integers(Queue& queue, const Tensor& out, std::int64_t base, std::uint64_t range, PhiloxState state)
{
    detail::check_operands("random_integers", {{"out", out}});
    require_dense(out, "random_");
    const cl_ulong n = out.numel();
    if (n == 0)
        return;
    Kernel& kernel =
        queue.context().program("kernels/random/integers.cl", dtype_option("OUT", out.dtype)).kernel("integers");
    const cl_ulong reciprocal = range ? ~cl_ulong(0) / range : 0;
    queue.launch(kernel, blocks(n, 2), out, n, cl_long(base), cl_ulong(range), reciprocal, cl_ulong(state.seed),
                 cl_ulong(state.offset));
}

void random_permutation(Queue& queue, const Tensor& out, PhiloxState state)
{
    detail::check_operands("random_permutation", {{"out", out}});
    require(out.dim() == 1 && out.is_contiguous(), "random_permutation: out must be a contiguous row, got ",
            to_string(out.shape));
    detail::require_dtype(!is_complex(out.dtype) && out.dtype != DataType::boolean, "random_permutation: not for ",
                          name_of(out.dtype));
    const std::int64_t n = out.numel();
    if (n == 0)
        return;
    constexpr std::int64_t longest_shuffle = 1 << 20;   // beyond, caches miss, and all cores of a CPU sort sooner
    if (queue.device().kind == DeviceKind::cpu && n <= longest_shuffle) {
        Kernel& kernel = queue.context()
                             .program("kernels/random/cpu_shuffle.cl", dtype_option("OUT", out.dtype))
                             .kernel("shuffle_row");
        queue.launch(kernel, Range::groups(1), out, cl_uint(n), cl_ulong(state.seed), cl_ulong(state.offset));
        return;
    }
    // The order of 64 random bits per element; equal keys keep the order of their positions.
    const Tensor keys = queue.context().empty({n}, DataType::int64, queue),
                 sorted = queue.context().empty({n}, DataType::int64, queue);
    const Tensor order = out.dtype == DataType::int64 ? out : queue.context().empty({n}, DataType::int64, queue);
    random_integers(queue, keys, 0, 0, state);
    sort(queue, keys, 0, false, sorted, order);
    if (out.dtype != DataType::int64)
        copy(queue, order, out);
}

namespace {

bool dropped_in_quads(DataType type, const Device& device)
{
    return device.kind == DeviceKind::gpu && is_floating_point(type);
}

std::string dropout_options(DataType type, const Device& device)
{
    return dtype_option("IN", type) + dtype_option("OUT", type) + (dropped_in_quads(type, device) ? " -DQUADS" : "");
}

}  // namespace

void dropout(Queue& queue, const Tensor& input, double p, PhiloxState state, const Tensor& out, const Tensor& mask)
{
    detail::check_operands("dropout", {{"input", input}, {"out", out}, {"mask", mask}});
    require_same_layout(input, out, "dropout");
    require_same_layout(input, mask, "dropout");
    require(mask.dtype == DataType::boolean && out.dtype == input.dtype, "dropout: out must have the input's dtype, ",
            name_of(input.dtype), ", and mask be boolean; got ", name_of(out.dtype), " and ", name_of(mask.dtype));
    detail::require_dtype(!is_complex(input.dtype), "dropout: not implemented for ", name_of(input.dtype));
    require(is_floating_point(input.dtype), "dropout: input has dtype ", name_of(input.dtype));
    const cl_ulong n = input.numel();
    if (n == 0)
        return;
    const std::string options = dropout_options(input.dtype, queue.device());
    Kernel& kernel = queue.context().program("kernels/random/choose.cl", options).kernel("dropout");
    queue.launch(kernel, blocks(n, 4), input, out, mask, n, static_cast<float>(1 - p),
                 static_cast<float>(p == 1 ? 0.0 : 1 / (1 - p)), cl_ulong(state.seed), cl_ulong(state.offset));
}

void dropout_backward(Queue& queue, const Tensor& gradient, const Tensor& mask, double scale,
                      const Tensor& input_gradient)
{
    detail::check_operands("dropout_backward", {{"gradient", gradient}, {"mask", mask},
                                                {"input_gradient", input_gradient}});
    require_same_layout(gradient, mask, "dropout_backward");
    require_same_layout(gradient, input_gradient, "dropout_backward");
    require(mask.dtype == DataType::boolean && input_gradient.dtype == gradient.dtype,
            "dropout_backward: input_gradient must have the gradient's dtype, ", name_of(gradient.dtype),
            ", and mask be boolean; got ", name_of(input_gradient.dtype), " and ", name_of(mask.dtype));
    const cl_ulong n = gradient.numel();
    if (n == 0)
        return;
    const bool quads = dropped_in_quads(gradient.dtype, queue.device());
    const std::string options = dropout_options(gradient.dtype, queue.device());
    Kernel& kernel = queue.context().program("kernels/random/choose.cl", options).kernel("dropout_backward");
    queue.launch(kernel, Range::linear(quads ? (n + 3) / 4 : n, 64), gradient, mask, input_gradient, n,
                 static_cast<float>(scale));
}

}  // namespace clprim
