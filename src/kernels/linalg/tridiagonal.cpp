// Eigenvalues of real symmetric matrices on CPUs.
#include <clprim/copy.hpp>

#include "kernels/linalg/linalg.hpp"

namespace clprim::detail {

bool takes_tridiagonal(const Device& device, DataType dtype)
{
    return device.kind == DeviceKind::cpu && !is_complex(dtype);
}

void tridiagonal_eigh(Queue& queue, const Tensor& a, const Tensor& vectors, const Tensor& values)
{
    const std::int64_t batch = a.size(0), n = a.size(1);
    Context& context = queue.context();
    const auto empty = [&](const Dims& shape, DataType dtype) { return context.empty(shape, dtype, queue); };
    const Program& program = context.program("kernels/linalg/cpu_tridiagonal.cl", cpu_options(a.dtype));
    const Tensor w = empty(a.shape, a.dtype), diagonal = empty(values.shape, a.dtype),
                 beside = empty(values.shape, a.dtype), tau = empty(values.shape, a.dtype),
                 exponents = empty({batch}, DataType::int32), lines = empty({batch, 2, n}, a.dtype);
    copy(queue, a, w);
    fill(queue, lines, 0);
    const auto size = static_cast<cl_int>(n);
    queue.launch(program.kernel("tridiagonalise"), Range::groups(static_cast<std::size_t>(batch)), w, diagonal, beside,
                 tau, exponents, lines, size);
    // Few matrices are shared out by columns of their vectors.
    constexpr std::int64_t chunk = 32;
    const std::int64_t all = vectors.defined() ? divide_up(n, chunk) : 1,
                       wanted = divide_up(std::int64_t{2} * queue.device().compute_units, batch),
                       chunks = divide_up(all, std::min(all, wanted)), parts = divide_up(all, chunks);
    const DataType scalar = queue.device().fp64 ? DataType::float64 : DataType::float32;
    const Tensor z = vectors.defined() ? empty({batch, parts, chunks, n, chunk}, a.dtype) : Tensor(),
                 numbers = empty({batch, parts, 2, n}, scalar), turns = empty({batch, parts, 2, n}, a.dtype);
    const Range range = Range::groups({static_cast<std::size_t>(parts), static_cast<std::size_t>(batch), 1}, {1, 1, 1});
    const auto count = static_cast<cl_int>(chunks);
    if (vectors.defined())
        queue.launch(program.kernel("ql"), range, w, diagonal, beside, tau, exponents, z, numbers, turns, vectors,
                     values, size, count);
    else
        queue.launch(program.kernel("ql"), range, w, diagonal, beside, tau, exponents, NoTensor{}, numbers, turns,
                     NoTensor{}, values, size, count);
}

}  // namespace clprim::detail
