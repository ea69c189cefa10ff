// Products of eight-bit integers on GPUs by matrix instructions (gemm/matrix_tiles.cl), whose numbers are pairs of
// bytes along k: a work-group owns a block of C over one of some parts of k.
//
// An operand is read as it lies, rows of A or columns of B along k at multiples of 16 bytes, or as pack_lines of gpu.cl
// leaves it, as words of signed bytes. What is known of its lines beside it (A_FACTS, B_FACTS) is nothing, their zero
// points, or their sums and zero points: where one operand has zero points, the other one has sums.
//
// Options: those of matrix_tiles.cl (-DX=int8 -DA_ALONG_K=1 -DB_ALONG_K=1 -DALIGNED=1), -DA_UNSIGNED, -DB_UNSIGNED, and
//   -DA_FACTS=none|sums|int8|uint8 -DB_FACTS=..   int8, uint8: zero points of that type
//   -DWHOLE_SLABS=0|1                             whether k is made of them
//   -DALIGNED_C=0|1                               four neighbours in a row of C are stored at once
//   -DPARTS=0|1                                   parts of k are added to C, which is 0
#include "core/dtype.cl"
#include "core/quad.cl"
#include "kernels/gemm/matrix_tiles.cl"
#if BLOCKS
#include "kernels/gemm/fragments_blocks.cl"
#endif
#if STAGES
#include "kernels/gemm/matrix_stages.cl"
#endif

typedef struct {
    long m, n, k, a_line, a_batch, b_line, b_batch;   // of A and B in bytes
    long c_row, c_column, c_batch, a_zero, b_zero;    // a_zero, b_zero: from one line's zero point to the next
    int pairs, part_pairs, parts;                     // of bytes along k, in all and in a part
} integer_product;

#define FACT_none uchar
#define FACT_sums int
#define FACT_int8 char
#define FACT_uint8 uchar
#define FACT(of) CLPRIM_CAT(FACT_, of)
#define HAS_SUMS_none 0
#define HAS_SUMS_sums 1
#define HAS_SUMS_int8 0
#define HAS_SUMS_uint8 0
#define HAS_SUMS(of) CLPRIM_CAT(HAS_SUMS_, of)
// The sum of a line and its zero point.
#define FACTS_none(facts, line, step) (int2)(0, 0)
#define FACTS_sums(facts, line, step) (*(const __global int2*)((facts) + 2 * (line)))
#define FACTS_int8(facts, line, step) (int2)(0, (facts)[(line) * (step)])
#define FACTS_uint8 FACTS_int8
#define FACTS(of, facts, line, step) CLPRIM_CAT(FACTS_, of)(facts, line, step)

static inline int without_zeros(int sum, int2 row, int2 column, int k)
{
    return sum - row.y * column.x - column.y * row.x + k * row.y * column.y;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void multiply(const __global uchar* restrict a, ulong a_offset, const __global FACT(A_FACTS)* a_facts,
              ulong a_facts_offset, const __global uchar* restrict b, ulong b_offset,
              const __global FACT(B_FACTS)* b_facts, ulong b_facts_offset, __global int* c, ulong c_offset,
              integer_product p)
{
    BEGIN_MATRIX_TILE
    const int row_blocks = (int)((p.m + BLOCK_M - 1) / BLOCK_M);
    const long j0 = (long)get_group_id(0) * BLOCK_N, i0 = (long)(get_group_id(1) % row_blocks) * BLOCK_M;
    const int piece = get_group_id(1) / row_blocks;
    const long batch = get_group_id(2);
    const int k_begin = piece * p.part_pairs, k_end = min(p.pairs, k_begin + p.part_pairs);
    const int last_row = (int)min(p.m - i0, (long)BLOCK_M) - 1, last_column = (int)min(p.n - j0, (long)BLOCK_N) - 1;
    const long a_origin = a_offset * (HAS_SUMS(A_FACTS) ? 4 : 1) + batch * p.a_batch;
    const long b_origin = b_offset * (HAS_SUMS(B_FACTS) ? 4 : 1) + batch * p.b_batch;

#if BLOCKS
    const surface from_a = {(const __global ushort*)(a + a_origin), 2 * p.pairs, (int)p.m, (int)p.a_line};
    const surface from_b = {(const __global ushort*)(b + b_origin), 2 * p.pairs, (int)p.n, (int)p.b_line};
    const prefetched ahead = prefetched_by(team, from_a, from_b, (int)i0, (int)j0);
    for (int k = k_begin; k < k_end; k += BLOCK_K) {
        PREFETCH(ahead.from, ahead.along_x ? k + PREFETCHED : ahead.x, ahead.along_x ? ahead.y : k + PREFETCHED);
        multiply_blocks(g, sums, from_a, from_b, (int)i0 + row, (int)j0 + column, k);
    }
#else
    const slab_source from_a = {p.a_line, 2, last_row, 1, BLOCK_M}, from_b = {p.b_line, 2, last_column, 1, BLOCK_N};
    const long a_first_byte = a_origin + i0 * p.a_line + 2 * (long)k_begin;
    const long b_first_byte = b_origin + j0 * p.b_line + 2 * (long)k_begin;
#if OFFSET_IS_WHOLE
    OFFSET a_far = (OFFSET)a_first_byte, b_far = (OFFSET)b_first_byte;
#else
    OFFSET a_far = 0, b_far = 0;
    a += a_first_byte;
    b += b_first_byte;
#endif
#if STAGES
    BEGIN_STAGES
#define COPY COPY_SLABS
#else
    BEGIN_SLABS
#define FETCH(count)                                                                                                  \
    {                                                                                                                 \
        FETCH_SLAB(a_next, A_LOADS, a, a_far, from_a, a_line, a_k, count)                                             \
        FETCH_SLAB(b_next, B_LOADS, b, b_far, from_b, b_line, b_k, count)                                             \
        a_far += 2 * count;                                                                                           \
        b_far += 2 * count;                                                                                           \
    }
#endif
#if WHOLE_SLABS
    MULTIPLY_DEPTH((k_end - k_begin) / SLAB_K * SLAB_K)
#else
    MULTIPLY_DEPTH(k_end - k_begin)
#endif
#endif

    c += c_offset + batch * p.c_batch + i0 * p.c_row + j0 * p.c_column;
    const long a_first = batch * p.m + i0, b_first = batch * p.n + j0;
    a_facts += a_facts_offset;
    b_facts += b_facts_offset;
    // Zero points alone are the same for every batch.
#define OF_ROW(i) FACTS(A_FACTS, a_facts, (HAS_SUMS(A_FACTS) ? a_first : i0) + (i), p.a_zero)
#define OF_COLUMN(j) FACTS(B_FACTS, b_facts, (HAS_SUMS(B_FACTS) ? b_first : j0) + (j), p.b_zero)
    EACH_QUAD_OF_SUMS(i, j, v, {
        const int count = last_column + 1 - j;
        if (i <= last_row && count > 0) {
            const int2 of_row = piece ? (int2)(0, 0) : OF_ROW(i);
            FOUR_VALUES(int, values, v);
            UNROLL for (int e = 0; e < 4; ++e)
                values[e] = without_zeros(values[e], of_row, OF_COLUMN(j + min(e, count - 1)), (int)p.k);
            __global int* to = c + i * (OFFSET)p.c_row + j * (OFFSET)p.c_column;
#if ALIGNED_C
            store_quad(int32, to, (int4)(values[0], values[1], values[2], values[3]));
#else
            UNROLL for (int e = 0; e < 4; ++e)
                if (e < count) {
#if PARTS
                    atomic_add(to + e * (OFFSET)p.c_column, values[e]);
#else
                    to[e * (OFFSET)p.c_column] = values[e];
#endif
                }
#endif
        }
    })
}
