#include <clprim/pointwise.hpp>

#include <cmath>
#include <limits>

#include <core/operands.hpp>

namespace clprim {
namespace {

template <class Limit>
void launch_within(Queue& queue, const Tensor& x, Limit low, Limit high, std::string_view message)
{
    const char* limit = std::is_same_v<Limit, cl_long> ? "long" : std::is_same_v<Limit, cl_double> ? "double" : "float";
    Kernel& kernel = queue.context()
                         .program("kernels/pointwise/within.cl",
                                  detail::concat("-DX=", name_of(x.dtype), " -DLIMIT=", limit))
                         .kernel("within");
    queue.launch(kernel, Range::linear(static_cast<std::size_t>(x.numel()), 64), x, cl_ulong(x.numel()), low, high,
                 queue.error_buffer(), Queue::error_code(message));
    queue.expect_errors();
}

cl_long whole(double limit)
{
    constexpr double end = 0x1p63;
    return limit >= end ? std::numeric_limits<cl_long>::max()
           : limit <= -end ? std::numeric_limits<cl_long>::min()
                           : static_cast<cl_long>(limit);
}

}  // namespace

void require_within(Queue& queue, const Tensor& x, double low, double high, std::string_view message)
{
    detail::check_operands("require_within", {{"x", x}});
    require(x.is_contiguous(), "require_within: x must be contiguous");
    require<NotSupported>(!is_complex(x.dtype), "require_within: not for ", name_of(x.dtype));
    if (x.numel() == 0)
        return;
    if (x.dtype == DataType::float64)
        launch_within<cl_double>(queue, x, low, high, message);
    else if (is_floating_point(x.dtype))
        launch_within<cl_float>(queue, x, static_cast<float>(low), static_cast<float>(high), message);
    else
        launch_within<cl_long>(queue, x, whole(std::ceil(low)), whole(std::floor(high)), message);
}

}  // namespace clprim
