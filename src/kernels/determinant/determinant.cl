// Determinants by Gaussian elimination with partial pivoting. A work-group owns one matrix of `work` and overwrites it;
// its work-items share the rows below the pivot. -DX: dtype of the result; -DACC: type of the matrices.
#include "core/dtype.cl"

__kernel void determinant(__global ACC* work, ulong work_offset, __global storage_t(X)* y, ulong y_offset, int n)
{
    const ulong matrix = get_group_id(0);
    const int self = get_local_id(0), team = get_local_size(0);
    __global ACC* a = work + work_offset + matrix * n * n;
    ACC product = 1;
    for (int k = 0; k < n; ++k) {
        // Every work-item searches the pivot itself: columns are short, and nothing needs to be shared.
        int pivot = k;
        for (int row = k + 1; row < n; ++row)
            if (fabs(a[row * n + k]) > fabs(a[pivot * n + k]))
                pivot = row;
        const ACC top = a[pivot * n + k];
        product *= pivot == k ? top : -top;
        if (top == 0 || top != top)
            break;                                    // the same for all work-items
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (pivot != k)
            for (int column = k + self; column < n; column += team) {
                const ACC held = a[k * n + column];
                a[k * n + column] = a[pivot * n + column];
                a[pivot * n + column] = held;
            }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int row = k + 1 + self; row < n; row += team) {
            const ACC factor = a[row * n + k] / top;
            for (int column = k + 1; column < n; ++column)
                a[row * n + column] -= factor * a[k * n + column];
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    if (self == 0)
        store(X, y, y_offset + matrix, product);
}
