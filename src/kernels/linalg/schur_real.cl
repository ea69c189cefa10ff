// Eigenvalues of real Hessenberg matrices by Francis' double-shift QR, and eigenvectors of the quasi-triangular result.
// Method, shifts and deflation as in LAPACK's dlahqr and dlanv2 (Golub and Van Loan, 7.5; Ahues and Tisseur 1997), so
// that eigenvalues come in the same order. Options as for eigen.cl.
#include "kernels/linalg/deflation.cl"

typedef compute_t(CX) C;   // complex

typedef struct { T v[3]; T tau; } reflector_t;

// (1 - tau w w^T) v = (beta, 0, 0) with w = (1, v[1], v[2]); v[0] becomes beta.
static inline reflector_t reflect(T x, T y, T z)
{
    reflector_t r = {{x, 0, 0}, 0};
    const T largest = fmax(fabs(x), fmax(fabs(y), fabs(z)));
    if (y == 0 && z == 0)
        return r;
    const T a = x / largest, b = y / largest, c = z / largest;
    const T length = largest * sqrt(a * a + b * b + c * c), beta = x >= 0 ? -length : length;
    r.tau = (beta - x) / beta;
    r.v[0] = beta;
    r.v[1] = y / (x - beta);
    r.v[2] = z / (x - beta);
    return r;
}

static inline T signed_as(T size, T sign) { return copysign(fabs(size), sign); }

// The rotation (c, s) that brings (a b; c d) to standard form: upper triangular, or equal diagonal elements and
// off-diagonal ones of opposite signs.
typedef struct { T a, b, c, d, cosine, sine; } block_t;
static inline block_t standardise(T a, T b, T c, T d)
{
    block_t r = {a, b, c, d, 1, 0};
    if (c == 0)
        return r;
    if (b == 0) {
        r.cosine = 0, r.sine = 1;
        r.a = d, r.d = a, r.b = -c, r.c = 0;
        return r;
    }
    const T difference = a - d;
    if (difference == 0 && (b < 0) != (c < 0))
        return r;
    const T p = difference / 2, most = fmax(fabs(b), fabs(c));
    const T least = fmin(fabs(b), fabs(c)) * ((b < 0) == (c < 0) ? 1 : -1), scale = fmax(fabs(p), most);
    T z = p / scale * p + most / scale * least;
    if (z >= 4 * (T)EPSILON) {   // two real eigenvalues
        z = p + signed_as(sqrt(scale) * sqrt(z), p);
        const T tau = hypot(c, z);
        r.a = d + z;
        r.d = d - most / z * least;
        r.cosine = z / tau, r.sine = c / tau;
        r.b = b - c, r.c = 0;
        return r;
    }
    const T sigma = b + c, tau = hypot(sigma, difference);
    T cosine = sqrt((1 + fabs(sigma) / tau) / 2), sine = -(p / (tau * cosine)) * signed_as(1, sigma);
    const T aa = a * cosine + b * sine, bb = -a * sine + b * cosine, cc = c * cosine + d * sine,
            dd = -c * sine + d * cosine;
    r.a = aa * cosine + cc * sine;
    r.b = bb * cosine + dd * sine;
    r.c = -aa * sine + cc * cosine;
    r.d = -bb * sine + dd * cosine;
    const T middle = (r.a + r.d) / 2;
    r.a = r.d = middle;
    if (r.c != 0 && r.b == 0) {
        r.b = -r.c, r.c = 0;
        const T held = cosine;
        cosine = -sine, sine = held;
    }
    else if (r.c != 0 && (r.b < 0) == (r.c < 0)) {   // real after all
        const T root_b = sqrt(fabs(r.b)), root_c = sqrt(fabs(r.c)), half_gap = signed_as(root_b * root_c, r.c);
        const T norm = 1 / sqrt(fabs(r.b + r.c));
        r.a = middle + half_gap, r.d = middle - half_gap;
        r.b -= r.c, r.c = 0;
        const T c1 = root_b * norm, s1 = root_c * norm, held = cosine * c1 - sine * s1;
        sine = cosine * s1 + sine * c1;
        cosine = held;
    }
    r.cosine = cosine, r.sine = sine;
    return r;
}

// Rows `rows` of columns k and k + 1 (and k + 2) from the right.
static inline void reflect_columns(__global T* h, int n, int k, int size, int first, int last, reflector_t r)
{
    for (int j = first + get_local_id(0); j <= last; j += TEAM) {
        const T third = size == 3 ? H(j, k + 2) : 0;
        const T sum = (H(j, k) + r.v[1] * H(j, k + 1) + r.v[2] * third) * r.tau;
        H(j, k) -= sum;
        H(j, k + 1) -= sum * r.v[1];
        if (size == 3)
            H(j, k + 2) = third - sum * r.v[2];
    }
}

static inline void rotate_columns(__global T* h, int n, int k, int count, T c, T s)
{
    for (int j = get_local_id(0); j < count; j += TEAM) {
        const T x = H(j, k), y = H(j, k + 1);
        H(j, k) = c * x + s * y;
        H(j, k + 1) = c * y - s * x;
    }
}

// h becomes quasi-triangular and z takes the transformations; with z null only what eigenvalues need is computed. info:
// 0, -1 where the matrix is not finite, or how many eigenvalues were not found.
__kernel void schur(__global T* h, ulong h_offset, __global T* z, ulong z_offset, __global C* values,
                    ulong values_offset, const __global int* range, ulong range_offset, __global int* info,
                    ulong info_offset, int n)
{
    const int self = get_local_id(0);
    const ulong matrix = get_group_id(0);
    const bool vectors = z != 0;
    h += h_offset + matrix * n * n;
    z += z_offset + matrix * n * n;
    values += values_offset + matrix * n;
    range += range_offset + matrix * 3;
    const int low = range[0], high = range[1], limit = 30 * max(10, high - low + 1);
    const bool finite = range[2];
    if (self == 0)
        info[info_offset + matrix] = finite ? 0 : -1;
    for (int i = self; i < n; i += TEAM)
        if (!finite || i < low || i > high)
            values[i] = (C)(finite ? H(i, i) : (T)NAN, 0);
    int i = high, steps = 0, since = 0;
    while (finite && i >= low) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        const int l = split(h, n, low, i, range);
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (self == 0 && l > low)
            H(l, l - 1) = 0;
        if (l == i) {
            if (self == 0)
                values[i] = (C)(H(i, i), 0);
            i = l - 1, steps = since = 0;
            continue;
        }
        if (l == i - 1) {
            const block_t b = standardise(H(l, l), H(l, i), H(i, l), H(i, i));
            const T root = b.c == 0 ? 0 : sqrt(fabs(b.b)) * sqrt(fabs(b.c));
            barrier(CLK_GLOBAL_MEM_FENCE);
            for (int j = i + 1 + self; vectors && j < n; j += TEAM) {
                const T x = H(l, j), y = H(i, j);
                H(l, j) = b.cosine * x + b.sine * y;
                H(i, j) = b.cosine * y - b.sine * x;
            }
            if (vectors) {
                rotate_columns(h, n, l, l, b.cosine, b.sine);
                rotate_columns(z, n, l, n, b.cosine, b.sine);
            }
            if (self == 0) {
                H(l, l) = b.a, H(l, i) = b.b, H(i, l) = b.c, H(i, i) = b.d;
                values[l] = (C)(b.a, root);
                values[i] = (C)(b.d, -root);
            }
            i = l - 1, steps = since = 0;
            continue;
        }
        if (steps++ > limit) {
            for (int j = low + self; j <= i; j += TEAM)
                values[j] = (C)(NAN, NAN);
            if (self == 0)
                info[info_offset + matrix] = i + 1;
            break;
        }
        ++since;
        T h11 = H(i - 1, i - 1), h12 = H(i - 1, i), h21 = H(i, i - 1), h22 = H(i, i);
        if (since % 10 == 0) {   // exceptional shifts, at the bottom and at the top by turns
            const bool bottom = since % 20 == 0;
            const T s = bottom ? fabs(H(i, i - 1)) + fabs(H(i - 1, i - 2)) : fabs(H(l + 1, l)) + fabs(H(l + 2, l + 1));
            h11 = h22 = (T)0.75 * s + (bottom ? H(i, i) : H(l, l));
            h12 = (T)-0.4375 * s;
            h21 = s;
        }
        T rt1 = 0, rt2 = 0, imaginary = 0;
        const T s = fabs(h11) + fabs(h12) + fabs(h21) + fabs(h22);
        if (s != 0) {
            h11 /= s, h12 /= s, h21 /= s, h22 /= s;
            const T middle = (h11 + h22) / 2, det = (h11 - middle) * (h22 - middle) - h12 * h21, root = sqrt(fabs(det));
            if (det >= 0) {
                rt1 = rt2 = middle * s;
                imaginary = root * s;
            }
            else {   // two real shifts: the one nearer to the corner twice
                const T a = middle + root, b = middle - root;
                rt1 = rt2 = (fabs(a - h22) <= fabs(b - h22) ? a : b) * s;
            }
        }
        int m = i - 2;
        T v0, v1, v2;
        for (;; --m) {   // two consecutive small subdiagonal elements
            const T below = fabs(H(m + 1, m)), size = fabs(H(m, m) - rt2) + fabs(imaginary) + below;
            const T ratio = H(m + 1, m) / size;
            v0 = ratio * H(m, m + 1) + (H(m, m) - rt1) * ((H(m, m) - rt2) / size) + imaginary * (imaginary / size);
            v1 = ratio * (H(m, m) + H(m + 1, m + 1) - rt1 - rt2);
            v2 = ratio * H(m + 2, m + 1);
            const T sum = fabs(v0) + fabs(v1) + fabs(v2);
            v0 /= sum, v1 /= sum, v2 /= sum;
            if (m == l || fabs(H(m, m - 1)) * (fabs(v1) + fabs(v2)) <=
                              (T)EPSILON * fabs(v0) * (fabs(H(m - 1, m - 1)) + fabs(H(m, m)) + fabs(H(m + 1, m + 1))))
                break;
        }
        const int first_row = vectors ? 0 : l, last_column = vectors ? n - 1 : i;
        for (int k = m; k < i; ++k) {
            const int size = min(3, i - k + 1);
            if (k > m) {
                v0 = H(k, k - 1);
                v1 = H(k + 1, k - 1);
                v2 = size == 3 ? H(k + 2, k - 1) : 0;
            }
            else if (size == 2)
                v2 = 0;
            const reflector_t r = reflect(v0, v1, v2);
            barrier(CLK_GLOBAL_MEM_FENCE);
            if (self == 0 && k > m) {
                H(k, k - 1) = r.v[0];
                H(k + 1, k - 1) = 0;
                if (size == 3)
                    H(k + 2, k - 1) = 0;
            }
            else if (self == 0 && m > l)
                H(k, k - 1) *= 1 - r.tau;
            for (int j = k + self; j <= last_column; j += TEAM) {
                const T third = size == 3 ? H(k + 2, j) : 0;
                const T sum = (H(k, j) + r.v[1] * H(k + 1, j) + r.v[2] * third) * r.tau;
                H(k, j) -= sum;
                H(k + 1, j) -= sum * r.v[1];
                if (size == 3)
                    H(k + 2, j) = third - sum * r.v[2];
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
            reflect_columns(h, n, k, size, first_row, min(k + 3, i), r);
            if (vectors)
                reflect_columns(z, n, k, size, 0, n - 1, r);
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
    }
}

static inline C quotient(C a, C b)   // Smith's division
{
    if (fabs(b.x) > fabs(b.y)) {
        const R r = b.y / b.x, d = b.x + r * b.y;
        return (C)(a.x + r * a.y, a.y - r * a.x) / d;
    }
    const R r = b.x / b.y, d = b.y + r * b.x;
    return (C)(r * a.x + a.y, r * a.y - a.x) / d;
}

// Row k of x becomes the eigenvector k of the quasi-triangular h, rows k and k + 1 real and imaginary part of that of a
// complex eigenvalue k, by back substitution (Wilkinson and Reinsch, hqr2). A work-item owns an eigenvalue or pair.
__kernel void schur_vectors(const __global T* h, ulong h_offset, const __global C* values, ulong values_offset,
                            __global T* x, ulong x_offset, int n, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const ulong matrix = item / n;
    h += h_offset + matrix * n * n;
    values += values_offset + matrix * n;
    const C value = values[item % n];
    if (value.y > 0)
        return;   // its partner below does both
    const bool pair = value.y < 0;
    const int last = item % n;
    __global T* imaginary = x + x_offset + item * n;
    __global T* xr = pair ? imaginary - n : imaginary;
    T norm = 0;
    for (int i = 0; i <= last; ++i)
        norm = fmax(norm, fabs(H(i, last)) + (i > 0 ? fabs(H(i, i - 1)) : 0) + fabs(H(i, i)));
    for (int i = 0; i < n; ++i) {
        xr[i] = i == last && !pair;
        if (pair)
            imaginary[i] = i == last;
    }
    const T p = value.x, q = value.y, smallest = fmax((T)EPSILON * norm, (T)TINY);
    int from = last;   // elements [from, last] are known
    T z = 0, r = 0, s = 0;
    if (pair) {
        from = last - 1;
        if (fabs(H(last, last - 1)) > fabs(H(last - 1, last))) {
            xr[last - 1] = q / H(last, last - 1);
            imaginary[last - 1] = -(H(last, last) - p) / H(last, last - 1);
        }
        else {
            const C t = quotient((C)(0, -H(last - 1, last)), (C)(H(last - 1, last - 1) - p, q));
            xr[last - 1] = t.x;
            imaginary[last - 1] = t.y;
        }
        xr[last] = 0;
    }
    for (int i = from - 1; i >= 0; --i) {
        const T w = H(i, i) - p, e = values[i].y;
        T ra = 0, sa = 0;
        for (int j = from; j <= last; ++j) {
            ra += H(i, j) * xr[j];
            if (pair)
                sa += H(i, j) * imaginary[j];
        }
        if (e < 0) {   // the lower row of a block: solved with the upper one
            z = w, r = ra, s = sa;
            continue;
        }
        from = i;
        const bool block = e > 0;
        const T right = block ? H(i, i + 1) : 0, below = block ? H(i + 1, i) : 0, d = values[i].x - p;
        T most;
        if (!pair) {
            if (!block)
                xr[i] = -ra / (fabs(w) < smallest ? smallest : w);
            else {
                xr[i] = (right * r - z * ra) / (d * d + e * e);
                xr[i + 1] = fabs(right) > fabs(z) ? (-ra - w * xr[i]) / right : (-r - below * xr[i]) / z;
            }
            most = fabs(xr[i]);
        }
        else {
            C t;
            if (!block) {
                const C divisor = (C)(w, q);
                t = quotient((C)(-ra, -sa), fabs(w) + fabs(q) < smallest ? (C)(smallest, 0) : divisor);
            }
            else {
                C divisor = (C)(d * d + e * e - q * q, d * 2 * q);
                if (divisor.x == 0 && divisor.y == 0)
                    divisor.x = smallest * (fabs(w) + fabs(q) + fabs(right) + fabs(below) + fabs(z));
                t = quotient((C)(right * r - z * ra + q * sa, right * s - z * sa - q * ra), divisor);
            }
            xr[i] = t.x;
            imaginary[i] = t.y;
            if (block) {
                const C u = fabs(right) > fabs(z) + fabs(q)
                                ? (C)(-ra - w * t.x + q * t.y, -sa - w * t.y - q * t.x) / right
                                : quotient((C)(-r - below * t.x, -s - below * t.y), (C)(z, q));
                xr[i + 1] = u.x;
                imaginary[i + 1] = u.y;
            }
            most = fmax(fabs(t.x), fabs(t.y));
        }
        if ((T)EPSILON * most * most > 1)
            for (int j = i; j <= last; ++j) {
                xr[j] /= most;
                if (pair)
                    imaginary[j] /= most;
            }
    }
}
