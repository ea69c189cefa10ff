// Factorisations of symmetric and Hermitian matrices that need not be definite.
#include "kernels/linalg/linalg.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

using namespace detail;

constexpr const char* file = "kernels/linalg/ldl.cl";

}  // namespace

void ldl_factor(Queue& queue, const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian)
{
    detail::check_operands("ldl_factor", {{"a", a}, {"pivots", pivots}, {"info", info}});
    check_matrices(a, "ldl_factor");
    const std::int64_t batch = a.size(0), n = a.size(1);
    check_dense(a, {batch, n, n}, a.dtype, "ldl_factor: a");
    check_dense(pivots, {batch, n}, DataType::int32, "ldl_factor: pivots");
    check_dense(info, {batch}, DataType::int32, "ldl_factor: info");
    if (batch != 0)
        queue.launch(linalg_kernel(queue, file, "ldl_factor", a.dtype),
                     Range::groups(static_cast<std::size_t>(batch), linalg_team(queue.device())), a, pivots, info,
                     cl_int(n), cl_int(hermitian));
}

void ldl_solve(Queue& queue, const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian)
{
    detail::check_operands("ldl_solve", {{"ld", ld}, {"pivots", pivots}, {"b", b}});
    check_matrices(ld, "ldl_solve");
    check_matrices(b, "ldl_solve");
    const std::int64_t batch = ld.size(0), n = ld.size(1);
    check_dense(ld, {batch, n, n}, ld.dtype, "ldl_solve: ld");
    check_dense(pivots, {batch, n}, DataType::int32, "ldl_solve: pivots");
    check_dense(b, {batch, n, b.size(2)}, ld.dtype, "ldl_solve: b");
    if (b.numel() != 0)
        queue.launch(linalg_kernel(queue, file, "ldl_solve", ld.dtype), over_columns(queue, b.size(2), batch), ld,
                     pivots, b, cl_int(n), cl_int(b.size(2)), cl_int(hermitian));
}

}  // namespace clprim
