// Determinants from LU factors (linalg/factor.cl): the product of U's diagonal, negated for every exchange of rows.
// A work-item owns a matrix; `batch` and `step` lead from matrix to matrix and along diagonals. -DX: dtype of the
// result; -DACC: type of the factors; -DCOMPLEX for complex ones.
#include "core/dtype.cl"

__kernel void determinant(const __global ACC* lu, ulong lu_offset, const __global int* pivots, ulong pivots_offset,
                          __global storage_t(X)* y, ulong y_offset, ulong matrices, int n, long batch, long step)
{
    const ulong matrix = get_global_id(0);
    if (matrix >= matrices)
        return;
    lu += lu_offset + matrix * batch;
    pivots += pivots_offset + matrix * n;
#ifdef COMPLEX
    ACC product = (ACC)(1, 0);
#else
    ACC product = 1;
#endif
    for (int k = 0; k < n; ++k) {
        const ACC pivot = lu[k * step], factor = pivots[k] == k + 1 ? pivot : -pivot;
#ifdef COMPLEX
        product = (ACC)(product.x * factor.x - product.y * factor.y, product.x * factor.y + product.y * factor.x);
#else
        product *= factor;
#endif
    }
    store(X, y, y_offset + matrix, product);
}
