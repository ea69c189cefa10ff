// The register tile of CPU devices: TILE_ROWS x TILE_COLUMNS accumulators held in vector registers, written out by the
// preprocessor so that every compiler keeps them there. gemm, conv and deform_conv are built on it.
//
//                     B panel: depth x TILE_COLUMNS, row after row (depth outermost)
//                     +--------+--------+
//        k = 0..depth |  low   |  high  |   two vectors of TILE_LANES
//                     +--------+--------+
//     A: one scalar   | c0_low | c0_high|   one row of the tile
//     per row and k   | c1_low | c1_high|   ...
//
// The accumulators are twenty-four registers of 64 bytes, or as much of narrower ones as a pass over k holds at a time:
// where vectors have 32 bytes and sixteen registers (CLPRIM_VECTOR_BYTES of the device), a tile is multiplied in passes
// of at most 6 rows by one vector of TILE_LANES, which is 12 registers, and the other sums wait in memory meanwhile.
//
// Options, all -D and all optional:
//   REAL   element of the product: float (default), double, uint, ulong
//   TILE_ROWS   12 (default), 8, 6 or 4
// Use, inside a function (one tile at a time; the names c0_low... live in its scope):
//     TILE_DECLARE                                     accumulators, all zero
//     TILE_LOAD(C, ld)                                 or from memory: row r at C + r * ld
//     TILE_MULTIPLY(A, row_step, k_step, B, depth)     c[r][j] += A[r * row_step + k * k_step]
//                                                                 * B[k * TILE_COLUMNS + j]
//     TILE_STORE(C, ld)
//     TILE_LOAD_OF(N, half, ...), TILE_MULTIPLY_OF(N, half, ...), TILE_STORE_OF(N, half, ...)
//                                                      the first N rows: 12, 8, 6 or 4; half is BOTH_HALVES of the
//                                                      columns or LOW_HALF
//     TILE_FOR(rows, columns, X, a, b, c)              X(N, half, a, b, c) for the fewest N and half that hold so many
//     TILE_UPDATE(rows, columns, INITIAL, C, ld, A, row_step, k_step, B, depth)
//                                                      for so many: what INITIAL(address, 0 or 1 for the half) makes of
//                                                      C, or TILE_ZERO, plus the product, without TILE_DECLARE; narrow
//                                                      vectors need one piece of code for all of them
// Steps that are compile-time constants become immediate offsets: prefer them. A, B, C may be __local, __global or
// private pointers to REAL; A needs all rows that are multiplied to be readable.

#ifndef REAL
#define REAL float
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 12
#endif

// Kernels whose groups are one work-item. Intel's compiler would try vectors of work-items, for half of its time. Not
// for all of them: gradients of convolutions' weights took a twentieth longer so.
#ifdef cl_intel_vec_len_hint
#define TILE_TASK __attribute__((reqd_work_group_size(1, 1, 1), intel_vec_len_hint(1)))
#else
#define TILE_TASK __attribute__((reqd_work_group_size(1, 1, 1)))
#endif

// Which vector holds a row's half, and how a product is added. Integers wrap, so their order does not matter.
#define REAL_IS_float 1
#define REAL_IS_double 2
#define REAL_IS_uint 3
#define REAL_IS_ulong 4
#define REAL_KIND_(R) REAL_IS_##R
#define REAL_KIND(R) REAL_KIND_(R)
#define VECTOR_OF_(R, N) R##N
#define VECTOR_OF(R, N) VECTOR_OF_(R, N)

#if REAL_KIND(REAL) == 2 || REAL_KIND(REAL) == 4
#define TILE_LANES 8
#define TILE_VLOAD vload8
#define TILE_VSTORE vstore8
#else
#define TILE_LANES 16
#define TILE_VLOAD vload16
#define TILE_VSTORE vstore16
#endif
#if REAL_KIND(REAL) == 2
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#if REAL_KIND(REAL) <= 2
#define TILE_ADD_PRODUCT(a, b, c) fma(a, b, c)
#else
#define TILE_ADD_PRODUCT(a, b, c) ((a) * (b) + (c))
#endif
#define TILE_COLUMNS (2 * TILE_LANES)
typedef VECTOR_OF(REAL, TILE_LANES) tile_vector;

// X(r, u, v, w) for each row r of the tile. (OpenCL C has no variadic macros, so every X takes three more arguments.)
#define TILE_EACH_4(X, a, b, c) X(0, a, b, c) X(1, a, b, c) X(2, a, b, c) X(3, a, b, c)
#define TILE_EACH_6(X, a, b, c) TILE_EACH_4(X, a, b, c) X(4, a, b, c) X(5, a, b, c)
#define TILE_EACH_8(X, a, b, c) TILE_EACH_6(X, a, b, c) X(6, a, b, c) X(7, a, b, c)
#define TILE_EACH_12(X, a, b, c)                                                                            \
    TILE_EACH_8(X, a, b, c) X(8, a, b, c) X(9, a, b, c) X(10, a, b, c) X(11, a, b, c)
#define TILE_EACH_OF_(N, X, a, b, c) TILE_EACH_##N(X, a, b, c)
#define TILE_EACH_OF(N, X, a, b, c) TILE_EACH_OF_(N, X, a, b, c)

// Rows named by EACH, and of each the low or high half of its columns, or both.
#define TILE_DECLARE_ROW(r, u, v, w) tile_vector c##r##_low = 0, c##r##_high = 0;
#define TILE_LOAD_LOW_HALF(r, C, ld, u) c##r##_low = TILE_VLOAD(0, (C) + r * (ld));
#define TILE_LOAD_BOTH_HALVES(r, C, ld, u)                                                                  \
    TILE_LOAD_LOW_HALF(r, C, ld, u) c##r##_high = TILE_VLOAD(0, (C) + r * (ld) + TILE_LANES);
#define TILE_STORE_LOW_HALF(r, C, ld, u) TILE_VSTORE(c##r##_low, 0, (C) + r * (ld));
#define TILE_STORE_BOTH_HALVES(r, C, ld, u)                                                                 \
    TILE_STORE_LOW_HALF(r, C, ld, u) TILE_VSTORE(c##r##_high, 0, (C) + r * (ld) + TILE_LANES);
#define TILE_ADD_LOW_HALF(r, A, row_step, k_step)                                                           \
    c##r##_low = TILE_ADD_PRODUCT((tile_vector)((A)[r * (row_step) + tile_k * (k_step)]), tile_low, c##r##_low);
#define TILE_ADD_HIGH_HALF(r, A, row_step, k_step)                                                          \
    c##r##_high = TILE_ADD_PRODUCT((tile_vector)((A)[r * (row_step) + tile_k * (k_step)]), tile_high, c##r##_high);
#define TILE_ADD_BOTH_HALVES(r, A, row_step, k_step)                                                        \
    {                                                                                                       \
        const tile_vector tile_a = (tile_vector)((A)[r * (row_step) + tile_k * (k_step)]);                  \
        c##r##_low = TILE_ADD_PRODUCT(tile_a, tile_low, c##r##_low);                                        \
        c##r##_high = TILE_ADD_PRODUCT(tile_a, tile_high, c##r##_high);                                     \
    }
#define TILE_GET_LOW_HALF(B) const tile_vector tile_low = TILE_VLOAD(0, (B) + tile_k * TILE_COLUMNS);
#define TILE_GET_HIGH_HALF(B) const tile_vector tile_high = TILE_VLOAD(0, (B) + tile_k * TILE_COLUMNS + TILE_LANES);
#define TILE_GET_BOTH_HALVES(B) TILE_GET_LOW_HALF(B) TILE_GET_HIGH_HALF(B)
#define TILE_PASS(EACH, half, A, row_step, k_step, B, depth)                                                \
    for (int tile_k = 0; tile_k < (depth); ++tile_k) {                                                      \
        TILE_GET_##half(B)                                                                                  \
        EACH(TILE_ADD_##half, A, row_step, k_step)                                                          \
    }

#define TILE_DECLARE_OF(N) TILE_EACH_OF(N, TILE_DECLARE_ROW, 0, 0, 0)
#define TILE_DECLARE TILE_DECLARE_OF(TILE_ROWS)
#define TILE_LOAD_OF(N, half, C, ld) TILE_EACH_OF(N, TILE_LOAD_##half, C, ld, 0)
#define TILE_STORE_OF(N, half, C, ld) TILE_EACH_OF(N, TILE_STORE_##half, C, ld, 0)

#if TILE_ROWS == 12
#define TILE_FOR_HALF(rows, half, X, a, b, c)                                                               \
    if ((rows) > 8) {                                                                                       \
        X(12, half, a, b, c)                                                                                \
    } else if ((rows) > 4) {                                                                                \
        X(8, half, a, b, c)                                                                                 \
    } else {                                                                                                \
        X(4, half, a, b, c)                                                                                 \
    }
#else
#define TILE_FOR_HALF(rows, half, X, a, b, c) X(TILE_ROWS, half, a, b, c)
#endif
#define TILE_FOR(rows, columns, X, a, b, c)                                                                 \
    if ((columns) > TILE_LANES) {                                                                           \
        TILE_FOR_HALF(rows, BOTH_HALVES, X, a, b, c)                                                        \
    } else {                                                                                                \
        TILE_FOR_HALF(rows, LOW_HALF, X, a, b, c)                                                           \
    }

#define TILE_ZERO(address, half) ((tile_vector)0)

#if !defined(CLPRIM_VECTOR_BYTES) || CLPRIM_VECTOR_BYTES >= 64

#define TILE_MULTIPLY_OF_(N, half, A, row_step, k_step, B, depth)                                           \
    TILE_PASS(TILE_EACH_##N, half, A, row_step, k_step, B, depth)
#define TILE_MULTIPLY_OF(N, half, A, row_step, k_step, B, depth)                                            \
    TILE_MULTIPLY_OF_(N, half, A, row_step, k_step, B, depth)

#define TILE_INITIAL_LOW_HALF(r, INITIAL, C, ld) c##r##_low = INITIAL((C) + r * (ld), 0);
#define TILE_INITIAL_BOTH_HALVES(r, INITIAL, C, ld)                                                         \
    TILE_INITIAL_LOW_HALF(r, INITIAL, C, ld) c##r##_high = INITIAL((C) + r * (ld) + TILE_LANES, 1);
#define TILE_UPDATE(rows, columns, INITIAL, C, ld, A, row_step, k_step, B, depth)                           \
    if ((columns) > TILE_LANES) {                                                                           \
        TILE_UPDATE_HALF(rows, BOTH_HALVES, INITIAL, C, ld, A, row_step, k_step, B, depth)                  \
    } else {                                                                                                \
        TILE_UPDATE_HALF(rows, LOW_HALF, INITIAL, C, ld, A, row_step, k_step, B, depth)                     \
    }
#define TILE_UPDATE_HALF(rows, half, INITIAL, C, ld, A, row_step, k_step, B, depth)                         \
    if ((rows) > 8) {                                                                                       \
        TILE_UPDATE_OF(12, half, INITIAL, C, ld, A, row_step, k_step, B, depth)                             \
    } else if ((rows) > 4) {                                                                                \
        TILE_UPDATE_OF(8, half, INITIAL, C, ld, A, row_step, k_step, B, depth)                              \
    } else {                                                                                                \
        TILE_UPDATE_OF(4, half, INITIAL, C, ld, A, row_step, k_step, B, depth)                              \
    }
#define TILE_UPDATE_OF(N, half, INITIAL, C, ld, A, row_step, k_step, B, depth)                              \
    {                                                                                                       \
        TILE_DECLARE_OF(N)                                                                                  \
        TILE_EACH_OF(N, TILE_INITIAL_##half, INITIAL, C, ld)                                                \
        TILE_MULTIPLY_OF(N, half, A, row_step, k_step, B, depth)                                            \
        TILE_STORE_OF(N, half, C, ld)                                                                       \
    }

#else

#define TILE_EACH_4_TO_8(X, a, b, c) X(4, a, b, c) X(5, a, b, c) X(6, a, b, c) X(7, a, b, c)
#define TILE_EACH_6_TO_12(X, a, b, c)                                                                       \
    X(6, a, b, c) X(7, a, b, c) X(8, a, b, c) X(9, a, b, c) X(10, a, b, c) X(11, a, b, c)
#define TILE_PASSES_4(half, A, row_step, k_step, B, depth) TILE_PASS(TILE_EACH_4, half, A, row_step, k_step, B, depth)
#define TILE_PASSES_6(half, A, row_step, k_step, B, depth) TILE_PASS(TILE_EACH_6, half, A, row_step, k_step, B, depth)
#define TILE_PASSES_8(half, A, row_step, k_step, B, depth)                                                  \
    TILE_PASS(TILE_EACH_4, half, A, row_step, k_step, B, depth)                                             \
    TILE_PASS(TILE_EACH_4_TO_8, half, A, row_step, k_step, B, depth)
#define TILE_PASSES_12(half, A, row_step, k_step, B, depth)                                                 \
    TILE_PASS(TILE_EACH_6, half, A, row_step, k_step, B, depth)                                             \
    TILE_PASS(TILE_EACH_6_TO_12, half, A, row_step, k_step, B, depth)
#define TILE_MULTIPLY_LOW_HALF(N, A, row_step, k_step, B, depth)                                            \
    TILE_PASSES_##N(LOW_HALF, A, row_step, k_step, B, depth)
#define TILE_MULTIPLY_BOTH_HALVES(N, A, row_step, k_step, B, depth)                                         \
    TILE_PASSES_##N(LOW_HALF, A, row_step, k_step, B, depth)                                                \
    TILE_PASSES_##N(HIGH_HALF, A, row_step, k_step, B, depth)
#define TILE_MULTIPLY_OF_(N, half, A, row_step, k_step, B, depth)                                           \
    TILE_MULTIPLY_##half(N, A, row_step, k_step, B, depth)
#define TILE_MULTIPLY_OF(N, half, A, row_step, k_step, B, depth)                                            \
    TILE_MULTIPLY_OF_(N, half, A, row_step, k_step, B, depth)

#define TILE_INITIAL(r, INITIAL, C, ld)                                                                     \
    tile_vector c##r##_low = INITIAL((C) + (tile_row + r) * (ld) + tile_half * TILE_LANES, tile_half);
#define TILE_RESULT(r, C, ld, u) TILE_VSTORE(c##r##_low, tile_half, (C) + (tile_row + r) * (ld));
#define TILE_UPDATE_PASS(EACH, INITIAL, C, ld, A, row_step, k_step, B, depth)                               \
    {                                                                                                       \
        EACH(TILE_INITIAL, INITIAL, C, ld)                                                                  \
        TILE_PASS(EACH, LOW_HALF, (A) + tile_row * (row_step), row_step, k_step,                            \
                  (B) + tile_half * TILE_LANES, depth)                                                      \
        EACH(TILE_RESULT, C, ld, 0)                                                                         \
    }
#define TILE_UPDATE(rows, columns, INITIAL, C, ld, A, row_step, k_step, B, depth)                           \
    for (int tile_half = 0; tile_half < ((columns) > TILE_LANES ? 2 : 1); ++tile_half)                      \
        if ((rows) > 8)                                                                                     \
            for (int tile_row = 0; tile_row < 12; tile_row += 6)                                            \
                TILE_UPDATE_PASS(TILE_EACH_6, INITIAL, C, ld, A, row_step, k_step, B, depth)                \
        else                                                                                                \
            for (int tile_row = 0; tile_row < (rows); tile_row += 4)                                        \
                TILE_UPDATE_PASS(TILE_EACH_4, INITIAL, C, ld, A, row_step, k_step, B, depth)

#endif

#define TILE_LOAD(C, ld) TILE_LOAD_OF(TILE_ROWS, BOTH_HALVES, C, ld)
#define TILE_STORE(C, ld) TILE_STORE_OF(TILE_ROWS, BOTH_HALVES, C, ld)
#define TILE_MULTIPLY(A, row_step, k_step, B, depth)                                                        \
    TILE_MULTIPLY_OF(TILE_ROWS, BOTH_HALVES, A, row_step, k_step, B, depth)
