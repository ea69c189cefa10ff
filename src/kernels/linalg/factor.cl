// Panels of LU and Cholesky factorisations, and Householder QR: a work-group of TEAM work-items owns a matrix of m rows
// and n columns, row-major. -DX, -DREAL, -DCOMPLEX: see number.cl.
#include "kernels/linalg/number.cl"

typedef struct { int m, n, begin, end; } panel_t;

// Columns [begin, end). Rows are exchanged as a whole; columns behind the panel are updated by the caller.
__kernel void lu_panel(__global T* a, ulong a_offset, __global int* pivots, ulong pivots_offset, __global int* info,
                       ulong info_offset, panel_t p, int pivoting)
{
    __local R best[TEAM];
    __local int place[TEAM];
    const int self = get_local_id(0), n = p.n;
    const ulong matrix = get_group_id(0);
    a += a_offset + matrix * p.m * n;
    pivots += pivots_offset + matrix * min(p.m, n);
    info += info_offset + matrix;
    for (int k = p.begin; k < p.end; ++k) {
        int chosen = k;
        if (pivoting) {
            R largest = -1;
            int own = k;
            for (int i = k + self; i < p.m; i += TEAM) {
                const R size = pivot_size(a[(long)i * n + k]);
                if (size > largest) {
                    largest = size;
                    own = i;
                }
            }
            best[self] = largest;
            place[self] = own;
            barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);   // all have read the column, too
            R most = -1;
            for (int i = 0; i < TEAM; ++i)   // the same for all; of equal ones the first row
                if (best[i] > most || (best[i] == most && place[i] < chosen)) {
                    most = best[i];
                    chosen = place[i];
                }
        }
        if (self == 0)
            pivots[k] = chosen + 1;
        for (int j = self; chosen != k && j < n; j += TEAM) {
            const T held = a[(long)k * n + j];
            a[(long)k * n + j] = a[(long)chosen * n + j];
            a[(long)chosen * n + j] = held;
        }
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        const T top = a[(long)k * n + k];
        const bool singular = magnitude(top) == 0;
        if (singular && self == 0 && *info == 0)
            *info = k + 1;
        const T factor = inverse(top);
        for (int i = k + 1 + self; !singular && i < p.m; i += TEAM)
            a[(long)i * n + k] = times(a[(long)i * n + k], factor);
        barrier(CLK_GLOBAL_MEM_FENCE);
        const int columns = p.end - k - 1;
        for (long at = self; !singular && at < (long)(p.m - k - 1) * columns; at += TEAM) {
            const long i = k + 1 + at / columns, j = k + 1 + at % columns;
            a[i * n + j] -= times(a[i * n + k], a[(long)k * n + j]);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

// Columns [begin, end) of the lower triangle.
__kernel void cholesky_panel(__global T* a, ulong a_offset, __global int* info, ulong info_offset, panel_t p)
{
    const int self = get_local_id(0), n = p.n;
    const ulong matrix = get_group_id(0);
    a += a_offset + matrix * n * n;
    info += info_offset + matrix;
    if (*info != 0)
        return;
    for (int k = p.begin; k < p.end; ++k) {
        const R square = real_part(a[(long)k * n + k]);
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (!(square > 0)) {   // for all work-items
            if (self == 0)
                *info = k + 1;
            return;
        }
        const R root = sqrt(square);
        for (int i = k + self; i < n; i += TEAM)
            a[(long)i * n + k] = i == k ? from_real(root) : a[(long)i * n + k] / root;
        barrier(CLK_GLOBAL_MEM_FENCE);
        const int columns = p.end - k - 1;
        for (long at = self; at < (long)(n - k - 1) * columns; at += TEAM) {
            const long i = k + 1 + at / columns, j = k + 1 + at % columns;
            if (j <= i)
                a[i * n + j] -= times(a[i * n + k], conjugate(a[j * n + k]));
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

// H^H (alpha, x) = (beta, 0) with H = 1 - tau v v^H, v = (1, x / (alpha - beta)), beta real of the opposite sign of
// alpha.
__kernel void householder(__global T* a, ulong a_offset, __global T* tau, ulong tau_offset, panel_t p)
{
    __local R partial[TEAM];
    const int self = get_local_id(0), n = p.n;
    const ulong matrix = get_group_id(0);
    a += a_offset + matrix * p.m * n;
    tau += tau_offset + matrix * p.end;
    for (int k = 0; k < p.end; ++k) {
        R largest = 0;
        for (int i = k + self; i < p.m; i += TEAM)
            largest = fmax(largest, magnitude(a[(long)i * n + k]));
        partial[self] = largest;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < TEAM; ++i)
            largest = fmax(largest, partial[i]);
        barrier(CLK_LOCAL_MEM_FENCE);
        R sum = 0;   // of squares below the diagonal, scaled so that they neither overflow nor vanish
        for (int i = k + 1 + self; largest > 0 && i < p.m; i += TEAM)
            sum += square(a[(long)i * n + k] / largest);
        partial[self] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        R below = 0;
        for (int i = 0; i < TEAM; ++i)
            below += partial[i];
        const T alpha = a[(long)k * n + k];
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        if (below == 0 && is_real(alpha)) {   // nothing to annihilate; for all work-items
            if (self == 0)
                tau[k] = from_real(0);
            continue;
        }
        // All in units of the largest, whose inverse is infinite where it is very small.
        const T ratio = alpha / largest;
        const R length = sqrt(below + square(ratio)), turned = real_part(alpha) >= 0 ? -length : length,   // as LAPACK
                beta = largest * turned;
        const T own_tau = (from_real(turned) - ratio) / turned, factor = inverse(ratio - from_real(turned));
        for (int i = k + 1 + self; i < p.m; i += TEAM)
            a[(long)i * n + k] = times(a[(long)i * n + k] / largest, factor);
        if (self == 0) {
            tau[k] = own_tau;
            a[(long)k * n + k] = from_real(beta);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int j = k + 1 + self; j < n; j += TEAM) {
            T product = a[(long)k * n + j];
            for (int i = k + 1; i < p.m; ++i)
                product += times(conjugate(a[(long)i * n + k]), a[(long)i * n + j]);
            product = times(product, conjugate(own_tau));
            a[(long)k * n + j] -= product;
            for (int i = k + 1; i < p.m; ++i)
                a[(long)i * n + j] -= times(a[(long)i * n + k], product);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
