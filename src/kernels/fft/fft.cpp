#include <clprim/error_hook.hpp>
#include <clprim/fft.hpp>

#include <cmath>
#include <vector>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {

namespace {

// Prime factors, with pairs of twos as fours: half as many passes.
std::vector<cl_uint> factors_of(cl_uint n)
{
    std::vector<cl_uint> factors;
    for (; n % 4 == 0; n /= 4)
        factors.push_back(4);
    for (cl_uint p = 2; p * static_cast<std::uint64_t>(p) <= n; ++p)
        for (; n % p == 0; n /= p)
            factors.push_back(p);
    if (n > 1 || factors.empty())
        factors.push_back(n);
    return factors;
}

template <class R>
Tensor roots_of_unity(Queue& queue, cl_uint n, DataType type)
{
    std::vector<R> table(2 * static_cast<std::size_t>(n));
    for (std::size_t j = 0; j < n; ++j) {
        const double angle = -2 * 3.14159265358979323846 * static_cast<double>(j) / n;
        table[2 * j] = static_cast<R>(std::cos(angle));
        table[2 * j + 1] = static_cast<R>(std::sin(angle));
    }
    Tensor roots = queue.context().empty({static_cast<std::int64_t>(n)}, type, queue);
    queue.write(*roots.memory, 0, table.data(), table.size() * sizeof(R));
    return roots;
}

}  // namespace

void fft(Queue& queue, const Tensor& input, bool inverse, const Tensor& output, double scale)
{
    detail::check_operands("fft", {{"input", input}, {"output", output}});
    const bool wide = input.dtype == DataType::complex128;
    detail::require_dtype(wide || input.dtype == DataType::complex64,
                          "fft: expected complex64 or complex128, got ", name_of(input.dtype));
    require(output.dtype == input.dtype && output.shape == input.shape && input.dim() == 2 && input.is_contiguous() &&
                output.is_contiguous(),
            "fft: input and output are contiguous tensors [lines, n] of one dtype, got ", to_string(input.shape),
            " and ", to_string(output.shape));
    require<NotSupported>(!wide || queue.device().fp64, "fft: the device ", queue.device().name, " has no float64");
    require(input.size(1) < (std::int64_t{1} << 31), "fft: lines of 2^31 elements or more are not supported");
    if (input.numel() == 0)
        return;
    const auto n = static_cast<cl_uint>(input.size(1));
    const std::vector<cl_uint> factors = factors_of(n);
    const Tensor roots =
        wide ? roots_of_unity<double>(queue, n, input.dtype) : roots_of_unity<float>(queue, n, input.dtype);
    Kernel& kernel =
        queue.context().program("kernels/fft/fft.cl", wide ? "-DR=double" : "-DR=float").kernel("fft_pass");
    Range range;
    range.dims = 2;
    range.local = {64, 1, 1};
    range.global = {(static_cast<std::size_t>(n) + 63) / 64 * 64, static_cast<std::size_t>(input.size(0)), 1};
    // The passes go back and forth between two tensors, of which the last one is the output.
    const Tensor other = factors.size() > 1 ? queue.context().empty(input.shape, input.dtype, queue) : Tensor();
    Tensor from = input;
    cl_uint done = 1, rest = n;
    for (std::size_t pass = 0; pass < factors.size(); ++pass) {
        const Tensor to = (factors.size() - pass) % 2 ? output : other;
        const detail::AccScalar factor{pass + 1 == factors.size() ? scale : 1,
                                       wide ? DataType::float64 : DataType::float32};
        detail::launch(queue, kernel, range, from, to, roots, n, done, rest, factors[pass], cl_int(inverse), factor);
        done *= factors[pass];
        rest /= factors[pass];
        from = to;
    }
}

}  // namespace clprim
