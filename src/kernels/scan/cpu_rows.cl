// Cumulative sums and products on CPUs along many dense rows, each behind the other. Every step along a row waits for
// the step before, so a work-item takes eight rows at once: eight elements of each are turned, so that a vector has
// those of a column, and the results are turned back. Options: those of state.cl; -DFROM: the input's dtype; -DC8,
// -DV8: vectors of eight of compute_t(T) and of what sums are added up in.
#include "core/dtype.cl"
#include "kernels/scan/state.cl"

#define LOAD8(D, p) CLPRIM_CAT(LOAD8_, D)(p)
#define LOAD8_float32(p) vload8(0, p)
#define LOAD8_float64(p) vload8(0, p)
#define LOAD8_float16(p) vload_half8(0, (const __global half*)(p))
#define LOAD8_bfloat16(p) as_float8(convert_uint8(vload8(0, p)) << 16)
#define LOAD8_int8(p) vload8(0, p)
#define LOAD8_int16(p) vload8(0, p)
#define LOAD8_int32(p) vload8(0, p)
#define LOAD8_int64(p) vload8(0, p)
#define LOAD8_uint8(p) vload8(0, p)
#define LOAD8_boolean(p) min(vload8(0, p), (uchar8)(1))

#define STORE8(D, p, v) CLPRIM_CAT(STORE8_, D)(p, v)
#define STORE8_float32(p, v) vstore8(v, 0, p)
#define STORE8_float64(p, v) vstore8(v, 0, p)
#define STORE8_float16(p, v) vstore_half8_rte(v, 0, (__global half*)(p))
#define STORE8_bfloat16(p, v) vstore8(to_bfloat16_8(v), 0, p)
#define STORE8_int8(p, v) vstore8(v, 0, p)
#define STORE8_int16(p, v) vstore8(v, 0, p)
#define STORE8_int32(p, v) vstore8(v, 0, p)
#define STORE8_int64(p, v) vstore8(v, 0, p)
#define STORE8_uint8(p, v) vstore8(v, 0, p)

static inline ushort8 to_bfloat16_8(float8 v)
{
    const uint8 bits = as_uint8(v);
    const uint8 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return convert_ushort8(isnan(v) ? (uint8)0x7fc0u : rounded);
}

#ifdef SCAN_sum
#define COMBINE(a, b) ((a) + (b))
#define NOTHING (-(compute_t(T))0)   // -0 of floats, which leaves every number as it is
#else
#define COMBINE(a, b) ((a) * (b))
#define NOTHING 1
#endif
#define WIDEN8 CLPRIM_CAT(convert_, V8)
#define NARROW8 CLPRIM_CAT(convert_, C8)

enum { ROWS = 8 };

// v[i][j] becomes v[j][i].
static inline void turn(C8 v[ROWS])
{
    C8 t[ROWS];
#define PAIR_1(i)                                                                                                     \
    t[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);                                        \
    t[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
#define PAIR_2(i)                                                                                                     \
    v[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);                                         \
    v[i + 2] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
#define PAIR_4(i)                                                                                                     \
    t[i] = __builtin_shufflevector(v[i], v[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);                                         \
    t[i + 4] = __builtin_shufflevector(v[i], v[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    PAIR_1(0) PAIR_1(2) PAIR_1(4) PAIR_1(6)
    PAIR_2(0) PAIR_2(1) PAIR_2(4) PAIR_2(5)
    PAIR_4(0) PAIR_4(1) PAIR_4(2) PAIR_4(3)
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
        v[i] = t[i];
}

// Eight rows; memory behind them may be read.
static inline void scan_eight(const __global storage_t(FROM)* input, __global storage_t(T)* out, uint n)
{
    V8 sum = (V8)(NOTHING);
    for (uint i = 0; i < n; i += 8) {
        C8 v[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            v[k] = NARROW8(LOAD8(FROM, input + k * (ulong)n + i));
        turn(v);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            sum = COMBINE(sum, WIDEN8(v[k]));
            v[k] = NARROW8(sum);
        }
        turn(v);
        const uint count = min(n - i, 8u);
        if (count == 8) {
#pragma unroll
            for (int k = 0; k < ROWS; ++k)
                STORE8(T, out + k * (ulong)n + i, v[k]);
        } else if (n == 4) {
#pragma unroll
            for (int k = 0; k < ROWS / 2; ++k)
                STORE8(T, out + 8 * k, ((C8)(v[2 * k].lo, v[2 * k + 1].lo)));
        } else {
            compute_t(T) line[ROWS][8];
#pragma unroll
            for (int k = 0; k < ROWS; ++k)
                vstore8(v[k], 0, line[k]);
            for (int k = 0; k < ROWS; ++k)
                for (uint j = 0; j < count; ++j)
                    store(T, out, k * (ulong)n + i + j, line[k][j]);
        }
    }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void scan_rows(const __global storage_t(FROM)* input, ulong input_offset, __global storage_t(T)* out,
                        ulong out_offset, ulong rows, uint n, uint rows_each)
{
    const ulong begin = get_global_id(0) * (ulong)rows_each, end = min(begin + rows_each, rows);
    input += input_offset;
    out += out_offset;
    for (ulong row = begin; row < end; row += ROWS) {
        const ulong behind = row + ROWS < rows ? (rows - row - ROWS) * n : 0;
        if (behind >= 8 || (row + ROWS == rows && n % 8 == 0)) {
            scan_eight(input + row * n, out + row * n, n);
            continue;
        }
        for (ulong last = row; last < min(row + ROWS, end); ++last) {
            value_t sum = NOTHING;
            for (ulong i = last * n; i < last * n + n; ++i) {
                sum = COMBINE(sum, WIDEN((compute_t(T))load(FROM, input, i)));
                store(T, out, i, NARROW(sum));
            }
        }
    }
}
