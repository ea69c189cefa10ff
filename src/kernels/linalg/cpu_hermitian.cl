// cpu_tridiagonal.cl's reduction for complex Hermitian matrices: A = Q T Q^H with a complex T, whose phases a diagonal
// matrix D takes, so that D^H T D is real. -DX, -DREAL, -DCOMPLEX: see number.cl; -DNAME: the type of real elements.
// Needs cpu_rows.cl. Vectors v of reflectors 1 - tau v v^H (tau real) and w of updates A - v w^H - w v^H are kept
// conjugated.
typedef struct {
    const __global T* v;
    const __global T* w;
} update_t;

// Elements of a row, from its place `at` in the vectors on, of which `own` is the row's.
static inline void update_row(__global T* row, update_t before, int own, int at, int count)
{
    const T v = conjugate(before.v[own]), w = conjugate(before.w[own]);
    for (int j = 0; j < count; ++j)
        row[j] -= times(v, before.w[at + j]) + times(w, before.v[at + j]);
}

// The same, and the sum of row[j] conj(x[j]) afterwards.
static inline T update_and_multiply(__global T* row, update_t before, int own, int at, const __global T* x, int count)
{
    const T v = conjugate(before.v[own]), w = conjugate(before.w[own]);
    __global R* r = (__global R*)row;
    const __global R* a = (const __global R*)(before.v + at);
    const __global R* b = (const __global R*)(before.w + at);
    const __global R* c = (const __global R*)x;
    vec real = 0, imaginary = 0;
    int j = 0;
    for (; j + 16 <= 2 * count; j += 16) {
        const vec y = LOAD(r + j) - multiple(v, LOAD(b + j)) - multiple(w, LOAD(a + j)), z = LOAD(c + j);
        STORE(y, r + j);
        real += y * z;
        imaginary += y * turned(z);
    }
    T sum = (T)(sum_of(real), sum_of(imaginary));
    for (j /= 2; j < count; ++j) {
        row[j] -= times(v, before.w[at + j]) + times(w, before.v[at + j]);
        sum += times(row[j], conjugate(x[j]));
    }
    return sum;
}

static inline T direction(T a, R size) { return size > 0 ? a / size : from_real(1); }

// Work-item: a matrix. As tridiagonalise of cpu_tridiagonal.cl; phases [n]: D.
__kernel void tridiagonalise(__global T* a, ulong a_offset, __global R* diagonal, ulong diagonal_offset,
                             __global R* beside, ulong beside_offset, __global R* tau, ulong tau_offset,
                             __global int* exponents, ulong exponents_offset, __global T* lines, ulong lines_offset,
                             __global T* phases, ulong phases_offset, int n)
{
    const ulong matrix = get_global_id(0);
    a += a_offset + matrix * n * n;
    diagonal += diagonal_offset + matrix * n;
    beside += beside_offset + matrix * n;
    tau += tau_offset + matrix * n;
    phases += phases_offset + matrix * n;
    lines += lines_offset + matrix * 2 * n;
    __global R* numbers = (__global R*)a;
    R largest = 0;
    for (long i = 0; i < (long)n * n * 2; ++i)
        largest = fmax(largest, fabs(numbers[i]));
    const int found = largest > 0 && isfinite(largest) ? ilogb(largest) : 0;
    const int exponent = found > 30 || found < -30 ? found : 0;   // squares stay within range otherwise
    exponents[exponents_offset + matrix] = exponent;
    for (long i = 0; exponent != 0 && i < (long)n * n * 2; ++i)
        numbers[i] = ldexp(numbers[i], -exponent);
    update_t before = {lines, lines};   // zeros: nothing is left to do
    __global T* w = lines;
    phases[0] = from_real(1);
    for (int k = 0; k < n; ++k) {
        __global T* row = a + (long)k * n;
        const int first = k + 1, count = n - first;
        update_row(row + k, before, k, k, n - k);
        diagonal[k] = real_part(row[k]);
        tau[k] = 0;
        if (count == 0)
            break;
        __global T* v = row + first;
        const T head = v[0];
        const R size = magnitude(head), rest = square_of(v + 1, count - 1);
        const bool nothing = rest <= (sizeof(R) == 8 ? (R)1e-290 : (R)1e-34f);   // beside elements of about 1
        const T turn = direction(conjugate(head), size);
        if (count == 1) {
            beside[k] = size;
            phases[first] = times(phases[k], turn);
            continue;
        }
        const R norm = sqrt(size * size + rest);
        beside[k] = nothing ? size : norm;
        phases[first] = times(phases[k], nothing ? turn : -turn);
        v[0] = head + norm * conjugate(turn);
        const R scale = nothing ? 0 : 2 / (square(v[0]) + rest);
        tau[k] = scale;
        // The vector w of the step before is read while that of this one is written.
        __global T* next = k == 0 || w == lines ? lines + n : lines;
        for (int i = first; i < n; ++i)
            next[i] = scale * conjugate(update_and_multiply(a + (long)i * n + first, before, i, first, v, count));
        const R half_product = (R)0.5 * scale * real_part(dot_of(next + first, v, count));
        for (int j = 0; j < count; ++j)
            next[first + j] = nothing ? from_real(0) : next[first + j] - half_product * v[j];
        before = (update_t){row, next};
        w = next;
    }
}

// Rows of z [n, CHUNK], real parts before imaginary ones, times the reflectors, from the unit matrix's elements of
// columns `from` on, and times conj(D).
static inline void unit_reflected(__global R* z, const __global T* a, const __global R* tau, const __global T* phases,
                                  int from, int n)
{
    for (int j = 0; j < n; ++j)
        for (int c = 0; c < CHUNK; ++c)
            z[j * CHUNK + c] = c < CHUNK / 2 && j == from + c;
    for (int k = 0; k + 2 < n; ++k) {
        if (tau[k] == 0)
            continue;
        const __global T* v = a + (long)k * n;   // conjugated
        vec real = 0, imaginary = 0;
        for (int j = k + 1; j < n; ++j) {
            const vec x = LOAD(z + j * CHUNK), y = LOAD(z + j * CHUNK + 16);
            real += v[j].x * x - v[j].y * y;
            imaginary += v[j].x * y + v[j].y * x;
        }
        real *= tau[k];
        imaginary *= tau[k];
        for (int j = k + 1; j < n; ++j) {
            STORE(LOAD(z + j * CHUNK) - (v[j].x * real + v[j].y * imaginary), z + j * CHUNK);
            STORE(LOAD(z + j * CHUNK + 16) - (v[j].x * imaginary - v[j].y * real), z + j * CHUNK + 16);
        }
    }
    for (int j = 0; j < n; ++j) {
        const T d = phases[j];
        const vec x = LOAD(z + j * CHUNK), y = LOAD(z + j * CHUNK + 16);
        STORE(d.x * x + d.y * y, z + j * CHUNK);
        STORE(d.x * y - d.y * x, z + j * CHUNK + 16);
    }
}
