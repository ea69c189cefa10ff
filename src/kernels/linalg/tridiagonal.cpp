// Eigenvalues of symmetric and Hermitian matrices on CPUs.
#include <clprim/copy.hpp>

#include "kernels/linalg/linalg.hpp"

namespace clprim::detail {

bool takes_tridiagonal(const Device& device) { return device.kind == DeviceKind::cpu; }

void tridiagonal_eigh(Queue& queue, const Tensor& a, const Tensor& vectors, const Tensor& values)
{
    const std::int64_t batch = a.size(0), n = a.size(1);
    Context& context = queue.context();
    const auto empty = [&](const Dims& shape, DataType dtype) { return context.empty(shape, dtype, queue); };
    const bool complex = is_complex(a.dtype);
    const DataType real = real_type(a.dtype);
    const Program& program = context.program("kernels/linalg/cpu_tridiagonal.cl", cpu_options(a.dtype));
    const Tensor w = empty(a.shape, a.dtype), diagonal = empty(values.shape, real), beside = empty(values.shape, real),
                 tau = empty(values.shape, real), exponents = empty({batch}, DataType::int32),
                 lines = empty({batch, 2, n}, a.dtype), phases = complex ? empty(values.shape, a.dtype) : Tensor();
    copy(queue, a, w);
    fill(queue, lines, 0);
    const auto size = static_cast<cl_int>(n);
    const auto with_phases = [&](Launch& launch) -> Launch& { return complex ? launch.arg(phases) : launch; };
    {
        Launch reduce(queue, program.kernel("tridiagonalise"));
        reduce.arg(w).arg(diagonal).arg(beside).arg(tau).arg(exponents).arg(lines);
        with_phases(reduce).arg(size).run(Range::groups(static_cast<std::size_t>(batch)));
    }
    // Few matrices are shared out by columns of their vectors.
    constexpr std::int64_t chunk = 32;   // real numbers
    const std::int64_t columns = complex ? chunk / 2 : chunk, all = vectors.defined() ? divide_up(n, columns) : 1,
                       wanted = divide_up(std::int64_t{2} * queue.device().compute_units, batch),
                       chunks = divide_up(all, std::min(all, wanted)), parts = divide_up(all, chunks);
    const DataType scalar = queue.device().fp64 ? DataType::float64 : DataType::float32;
    const Tensor z = vectors.defined() ? empty({batch, parts, chunks, n, chunk}, real) : Tensor(),
                 numbers = empty({batch, parts, 2, n}, scalar), turns = empty({batch, parts, 2, n}, real);
    Launch steps(queue, program.kernel("ql"));
    steps.arg(w).arg(diagonal).arg(beside).arg(tau).arg(exponents).arg(z).arg(numbers).arg(turns).arg(vectors);
    with_phases(steps.arg(values)).arg(size).arg(static_cast<cl_int>(chunks));
    steps.run(Range::groups({static_cast<std::size_t>(parts), static_cast<std::size_t>(batch), 1}, {1, 1, 1}));
}

}  // namespace clprim::detail
