#include <clprim/keyed_random.hpp>

#include <string>

#include <clprim/context.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

void require_keys(const Tensor& keys, const char* what)
{
    require(keys.dtype == DataType::uint64 && keys.is_contiguous() && keys.shape.size() >= 2 && keys.shape.back() == 2,
            what, ": expected contiguous keys of uint64, [..., 2]");
}

void derive(Queue& queue, const Tensor& keys, std::uint64_t first, const Tensor* more, const Tensor& out)
{
    require_keys(keys, "derive_keys");
    require_keys(out, "derive_keys");
    const cl_ulong n = keys.numel() / 2, total = out.numel() / 2;
    require(n == 0 ? total == 0 : total % n == 0, "derive_keys: out must hold whole copies of the keys");
    if (total == 0)
        return;
    Kernel& kernel = queue.context().program("kernels/random/keyed.cl", "").kernel("derive");
    if (more)
        queue.launch(kernel, Range::linear(total, 64), keys, out, total / n, n, cl_ulong(first), *more);
    else
        queue.launch(kernel, Range::linear(total, 64), keys, out, total / n, n, cl_ulong(first), NoTensor{});
}

}  // namespace

void derive_keys(Queue& queue, const Tensor& keys, std::uint64_t first, const Tensor& out)
{
    detail::check_operands("derive_keys", {{"keys", keys}, {"out", out}});
    derive(queue, keys, first, nullptr, out);
}

void derive_keys(Queue& queue, const Tensor& keys, const Tensor& first, const Tensor& out)
{
    detail::check_operands("derive_keys", {{"keys", keys}, {"first", first}, {"out", out}});
    require(first.dtype == DataType::uint64 && first.numel() == 1, "derive_keys: expected one number of uint64");
    require(out.numel() == keys.numel(), "derive_keys: out must have the shape of the keys");
    derive(queue, keys, 0, &first, out);
}

void keyed_fill(Queue& queue, const Tensor& out, const Tensor& keys, Distribution distribution, double a, double b)
{
    detail::check_operands("keyed_fill", {{"out", out}, {"keys", keys}});
    require_keys(keys, "keyed_fill");
    require(distribution == Distribution::uniform || distribution == Distribution::normal,
            "keyed_fill: only uniform and normal numbers come of keys");
    require(is_floating_point(out.dtype) && out.is_contiguous() && out.shape.size() == 2 &&
                2 * out.shape[0] == keys.numel(),
            "keyed_fill: expected a contiguous output of floating point, a row for each key");
    if (out.numel() == 0)
        return;
    const bool wide = out.dtype == DataType::float64;
    const int lanes = wide ? 2 : 4;
    const int bits = wide ? 53 : out.dtype == DataType::float16 ? 11 : out.dtype == DataType::bfloat16 ? 8 : 24;
    std::string options = "-DOUT=" + std::string(name_of(out.dtype)) + " -DBITS=" + std::to_string(bits);
    if (wide)
        options += " -DWIDE";
    if (distribution == Distribution::normal)
        options += " -DNORMAL";
    const cl_ulong n = out.shape[0], length = out.shape[1];
    const Range range = Range::linear(n * ((length + lanes - 1) / lanes), 64);
    Kernel& kernel = queue.context().program("kernels/random/keyed.cl", options).kernel("fill");
    if (wide)
        queue.launch(kernel, range, out, keys, n, length, a, b);
    else
        queue.launch(kernel, range, out, keys, n, length, static_cast<float>(a), static_cast<float>(b));
}

}  // namespace clprim
