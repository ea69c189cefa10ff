// Determinants from LU factors (linalg/factor.cl): the product of U's diagonal, negated for every exchange of rows.
// A work-item owns a matrix. -DX: dtype of the result; -DACC: type of the factors.
#include "core/dtype.cl"

__kernel void determinant(const __global ACC* lu, ulong lu_offset, const __global int* pivots, ulong pivots_offset,
                          __global storage_t(X)* y, ulong y_offset, ulong matrices, int n)
{
    const ulong matrix = get_global_id(0);
    if (matrix >= matrices)
        return;
    lu += lu_offset + matrix * n * n;
    pivots += pivots_offset + matrix * n;
    ACC product = 1;
    for (int k = 0; k < n; ++k) {
        const ACC pivot = lu[(ulong)k * n + k];
        product *= pivots[k] == k + 1 ? pivot : -pivot;
    }
    store(X, y, y_offset + matrix, product);
}
