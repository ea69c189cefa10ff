// Poolings: over sliding windows, over whole planes, unpooling.
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>
#include <clprim/pool.hpp>
#include <clprim/reduce.hpp>
#include <clprim/sequence.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"
#include "onnx/ops/windows.hpp"

namespace clprim::onnx {

namespace {

Windows pool_windows(const Call& call)
{
    const Dims& x = call.shape(0);
    call.check(x.size() >= 3 && x.size() <= 5, "input 0 has shape ", to_string(x),
               ", expected N, C and one to three spatial axes");
    Windows w = windows(call, x);
    w.ceil_mode = call.integer_attribute("ceil_mode", 0) != 0;
    return w;
}

PoolWindow pool_window(const Windows& w)
{
    PoolWindow result;
    for (std::size_t i = 0; i < w.kernel.size(); ++i) {
        result.kernel[i] = static_cast<int>(w.kernel[i]);
        result.stride[i] = static_cast<int>(w.stride[i]);
        result.dilation[i] = static_cast<int>(w.dilation[i]);
        result.padding[i] = static_cast<int>(w.pad_begin[i]);
        result.padding_end[i] = static_cast<int>(w.pad_end[i]);
    }
    return result;
}

// Kernels of pooling write dense images: where the place in a concatenation is none, `settle` copies the result there.
Tensor pooled_image(const Call& call, const Dims& shape, DataType dtype, bool channels_last)
{
    const Tensor placed = call.placed(shape, dtype, channels_last);
    const bool fits = placed.defined() && (channels_last ? placed.is_channels_last() : placed.is_contiguous());
    return fits ? placed : allocate_image(call, shape, dtype, channels_last);
}

void settle(Call& call, const Tensor& y, bool channels_last)
{
    const Tensor placed = call.placed(y.shape, y.dtype, channels_last);
    if (!placed.defined() || placed.memory == y.memory)
        return;
    copy(call.queue(), y, placed);
    call.output(0, Value(placed, call.type(0)));
}

Dims pooled_shape(const Call& call, const Windows& w)
{
    const Dims shape = w.output_shape(call.shape(0), call.shape(0)[1]);
    for (std::size_t i = 2; i < shape.size(); ++i)
        call.check(shape[i] > 0, "no window of ", to_string(w.kernel), " fits input ", to_string(call.shape(0)));
    return shape;
}

// A maximum of nothing has no position: every window must hold an element.
void check_windows_hold_elements(const Call& call, const Windows& w, const Dims& y)
{
    for (std::size_t i = 0; i < w.kernel.size(); ++i)
        for (std::int64_t o = 0; o < y[i + 2]; ++o) {
            const std::int64_t begin = o * w.stride[i] - w.pad_begin[i], d = w.dilation[i];
            const std::int64_t first = begin < 0 ? begin + (d - 1 - begin) / d * d : begin;
            call.check(first < std::min(begin + w.extent(i), call.shape(0)[i + 2]), "a window of ", to_string(w.kernel),
                       " with pads ", to_string(w.pad_begin), " and ", to_string(w.pad_end),
                       " holds no element of input ", to_string(call.shape(0)));
        }
}

// The number of the first element of each plane: [N, C, 1...].
Tensor plane_starts(const Call& call, const Dims& x)
{
    Dims shape(x.size(), 1);
    shape[0] = x[0];
    shape[1] = x[1];
    const Tensor starts = call.allocate({x[0] * x[1]}, DataType::int64);
    arange(call.queue(), starts, std::int64_t{0}, x.product() / std::max<std::int64_t>(1, x[0] * x[1]));
    return starts.reshape(shape);
}

// ONNX counts positions over the whole tensor, and along columns first where asked.
void number_positions(const Call& call, const Tensor& positions, const Dims& x, bool columns_first)
{
    Dims size(3, 1);                                  // z, y, x
    for (std::size_t i = 2; i < x.size(); ++i)
        size[i + 3 - x.size()] = x[i];
    const Tensor starts = plane_starts(call, x);
    const Scalar sizes[] = {size[0], size[1], size[2]};
    const Tensor inputs[] = {positions, starts};
    pointwise(call.queue(), inputs, std::span(&positions, 1), sizes,
              columns_first ? "long column = x0 % w2, line = x0 / w2 % w1, slice = x0 / w2 / w1;"
                              " y0 = x1 + slice + w0 * (line + w1 * column);"
                            : "y0 = x0 + x1;");
}

void max_pool(Call& call)
{
    const Windows w = pool_windows(call);
    const Dims shape = pooled_shape(call, w);
    check_windows_hold_elements(call, w, shape);
    const Tensor x = dense_image(call, 0);
    const bool channels_last = !x.is_contiguous();
    const Tensor y = pooled_image(call, shape, x.dtype, channels_last);
    call.output(0, Value(y, call.type(0)));
    Tensor positions;
    if (call.wants(1))
        positions = allocate_image(call, shape, DataType::int64, channels_last);
    clprim::max_pool(call.queue(), x, y, positions, pool_window(w));
    settle(call, y, channels_last);
    if (!call.wants(1))
        return;
    if (positions.numel())
        number_positions(call, positions, x.shape, call.integer_attribute("storage_order", 0) != 0);
    call.output(1, Value(positions));
}

void average_pool(Call& call)
{
    const Windows w = pool_windows(call);
    const Tensor x = dense_image(call, 0);
    const Tensor y = pooled_image(call, pooled_shape(call, w), x.dtype, !x.is_contiguous());
    PoolWindow window = pool_window(w);
    window.count_include_pad = call.integer_attribute("count_include_pad", 0) != 0;
    call.output(0, Value(y));
    clprim::average_pool(call.queue(), x, y, window);
    settle(call, y, !x.is_contiguous());
}

double norm_order(const Call& call)
{
    // Operator set 1 had a float here.
    const double p =
        call.opset() < 2 ? call.float_attribute("p", 2) : static_cast<double>(call.integer_attribute("p", 2));
    call.check(p > 0, "p is ", p, ", expected a positive number");
    return p;
}

// (sum of |x|^p over each window)^(1 / p); the sum is an average times the number of elements.
void lp_pool(Call& call)
{
    const Windows w = pool_windows(call);
    const double p = norm_order(call);
    const Dims shape = pooled_shape(call, w);
    const Tensor x = dense_image(call, 0);
    call.check(is_floating_point(x.dtype), "input 0 is ", name_of(call.type(0)), ", expected floating point");
    const bool channels_last = !x.is_contiguous();
    const Tensor powers = allocate_image(call, x.shape, x.dtype, channels_last);
    pointwise(call.queue(), std::span(&x, 1), std::span(&powers, 1), std::array{Scalar(p)}, "y0 = pow(fabs(x0), w0);");
    const Tensor y = allocate_image(call, shape, x.dtype, channels_last);
    PoolWindow window = pool_window(w);
    window.divisor_override = 1;
    clprim::average_pool(call.queue(), powers, y, window);
    pointwise(call.queue(), std::span(&y, 1), std::span(&y, 1), std::array{Scalar(1 / p)}, "y0 = pow(x0, w0);");
    call.output(0, Value(y));
}

// A reduction over all spatial axes, which stay with size 1.
void reduce_planes(Call& call, std::string_view row, std::span<const Scalar> numbers = {})
{
    const Tensor x = call.tensor(0);
    call.check(x.dim() >= 2, "input 0 has shape ", to_string(x.shape), ", expected N, C, spatial axes");
    Dims shape(x.dim(), 1);
    shape[0] = x.size(0);
    shape[1] = x.size(1);
    const Tensor y = call.allocate(shape, x.dtype);
    call.output(0, Value(y));
    const Input input(x);
    if (y.numel())
        reduce(call.queue(), reduce_row(row), {std::span(&input, 1), std::span(&y, 1), numbers, x.dtype});
}

constexpr float unit = 1;

// On CPUs means over pixels with channels innermost are a row of ones times a matrix, whose kernels read whole rows.
bool mean_as_product(Call& call)
{
    const Tensor x = call.tensor(0);
    if (call.queue().device().kind != DeviceKind::cpu || x.dtype != DataType::float32 || x.dim() != 4 ||
        !x.is_channels_last() || x.is_contiguous() || x.size(1) < 16 || x.size(2) * x.size(3) < 16)
        return false;
    const auto one = call.derived("one", [&] { return Value::copy_of(ElementType::float32, {1}, &unit); });
    const Tensor y = call.allocate({x.size(0), x.size(1), 1, 1}, x.dtype);
    GemmProblem problem;
    problem.batch = x.size(0);
    problem.m = 1;
    problem.n = x.size(1);
    problem.k = x.size(2) * x.size(3);
    problem.b = {x.stride(3), 1, x.stride(0)};
    problem.c = {problem.n, 1, problem.n};
    problem.alpha = 1.0 / static_cast<double>(problem.k);
    problem.beta = 0;
    gemm(call.queue(), problem, one->device(call.queue()), x, y);
    call.output(0, Value(y));
    return true;
}

void global_average_pool(Call& call)
{
    if (call.shape(0).size() < 3 || call.shape(0).product() == 0 || !mean_as_product(call))
        reduce_planes(call, "mean");
}
void global_max_pool(Call& call) { reduce_planes(call, "amax"); }
void global_lp_pool(Call& call) { reduce_planes(call, "norm_p", std::array{Scalar(norm_order(call))}); }

// Scatters x to where a MaxPool found it. Positions count over the whole tensor that the attributes imply; a given
// output shape only adds zeros behind.
void max_unpool(Call& call)
{
    const Dims& x = call.shape(0);
    call.check(x.size() >= 3 && x.size() <= 5, "input 0 has shape ", to_string(x),
               ", expected N, C and one to three spatial axes");
    call.check(call.shape(1) == x && call.type(1) == ElementType::int64, "the positions must be int64 of shape ",
               to_string(x));
    const Windows w = windows(call, x);
    Dims implied{x[0], x[1]};
    for (std::size_t i = 0; i + 2 < x.size(); ++i)
        implied.push_back((x[i + 2] - 1) * w.stride[i] - w.pad_begin[i] - w.pad_end[i] + w.kernel[i]);
    const Dims wanted = call.has(2) ? Dims(call.ints(2)) : implied;
    call.check(wanted.size() == x.size() && wanted[0] == x[0] && wanted[1] == x[1], "output_shape ", to_string(wanted),
               " does not fit input ", to_string(x));
    bool fits = true;
    for (std::size_t i = 2; i < x.size(); ++i) {
        call.check(implied[i] > 0, "the output would have shape ", to_string(implied));
        fits = fits && implied[i] == wanted[i];
        call.check(wanted[i] >= implied[i], "output_shape ", to_string(wanted), " is smaller than ",
                   to_string(implied));
    }
    const Tensor values = call.contiguous(0), y = call.allocate(implied, values.dtype);
    const Tensor positions = call.allocate(x, DataType::int64), starts = plane_starts(call, implied);
    const Tensor inputs[] = {call.tensor(1), starts};
    pointwise(call.queue(), inputs, std::span(&positions, 1), {}, "y0 = x0 - x1;");
    clprim::max_unpool(call.queue(), values, positions, y);
    if (fits)
        return call.output(0, Value(y, call.type(0)));
    const Tensor larger = call.allocate(wanted, y.dtype);
    fill(call.queue(), larger, 0);
    Tensor inner = larger;
    for (std::size_t i = 2; i < x.size(); ++i)
        inner = inner.slice(i, 0, implied[i]);
    copy(call.queue(), y, inner);
    call.output(0, Value(larger, call.type(0)));
}

const OperatorRow pooling_rows[] = {
    {"MaxPool", 1, max_pool},
    {"AveragePool", 1, average_pool},
    {"LpPool", 1, lp_pool},
    {"GlobalAveragePool", 1, global_average_pool},
    {"GlobalMaxPool", 1, global_max_pool},
    {"GlobalLpPool", 1, global_lp_pool},
    {"MaxUnpool", 9, max_unpool},
};

}  // namespace

std::span<const OperatorRow> pooling_operators() { return pooling_rows; }

}  // namespace clprim::onnx
