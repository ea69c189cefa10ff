// Products of eight-bit integers on GPUs (clprim/integer_matmul.hpp): dot products of four bytes, one instruction where
// the device has cl_khr_integer_dot_product or is NVIDIA's.
//
// Both operands are packed first: lines (rows of A, columns of B) of words of four numbers along k, filled with zeros
// up to whole slabs, as signed bytes: unsigned ones less 128, and so are their zero points. Beside each line stands its
// sum, for
//
//     sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + k za zb.
//
// A work-group of 16 x 16 owns 64 x 64 sums, a work-item 4 x 4 of them; slabs of 16 words pass through local memory.
//
// -DX=int8|uint8 (what is packed) -DPTX=0|1: whether NVIDIA's instruction is written as such
#include "core/dtype.cl"

#define TILE 64
#define SLAB 16   // words

#define FLIP_int8 0u
#define FLIP_uint8 0x80u
#define FLIP CLPRIM_CAT(FLIP_, X)

static inline int dot_of_bytes(uint a, uint b, int sum)
{
#if PTX
    int result;
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
#elif defined(cl_khr_integer_dot_product) && defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
    return sum + dot_4x8packed_ss_int(a, b);
#else
    const char4 x = as_char4(a), y = as_char4(b);
    return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
#endif
}

typedef struct {
    long lines, depth, line_step, k_step, batch_step, zero_step;   // zero_step -1: no zero points
} packed_matrix;

// A work-item packs a word; [batch][line][words]. `words` is a multiple of SLAB.
__kernel void pack_words(const __global storage_t(X)* from, ulong from_offset, __global uint* to, ulong to_offset,
                         packed_matrix p, long words)
{
    const long word = get_global_id(0), line = get_global_id(1), batch = get_global_id(2);
    if (word >= words)
        return;
    from += from_offset + batch * p.batch_step + line * p.line_step;
    uint value = 0;
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
        const long k = 4 * word + e;
        if (k < p.depth)
            value |= (((uint)from[k * p.k_step] & 0xffu) ^ FLIP) << 8 * e;
    }
    to[to_offset + (batch * p.lines + line) * words + word] = value;
}

// [batch][line][2]: a line's sum and its zero point, of signed bytes.
__kernel void sum_lines(const __global uint* words, ulong words_offset, const __global storage_t(X)* zeros,
                        ulong zeros_offset, __global int2* sums, ulong sums_offset, packed_matrix p, long count,
                        long all_lines)
{
    const long line = get_global_id(0);
    if (line >= all_lines)
        return;
    words += words_offset + line * count;
    int sum = 0;
    for (long i = 0; i < count; ++i)
        sum = dot_of_bytes(words[i], 0x01010101u, sum);
    const int shift = FLIP ? 128 : 0;
    const int zero = (p.zero_step < 0 ? 0 : (int)zeros[zeros_offset + line % p.lines * p.zero_step]) - shift;
    sums[sums_offset / 2 + line] = (int2)(sum, zero);
}

typedef struct {
    long m, n, k, words, c_row, c_column, c_batch;
} integer_product;

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void multiply(const __global uint* a, ulong a_offset, const __global int2* a_sums, ulong a_sums_offset,
              const __global uint* b, ulong b_offset, const __global int2* b_sums, ulong b_sums_offset,
              __global int* c, ulong c_offset, integer_product p)
{
    __local uint a_slab[SLAB][TILE + 4], b_slab[SLAB][TILE + 4];
    const int x = get_local_id(0), y = get_local_id(1), item = y * 16 + x;
    const long batch = get_group_id(2), i0 = (long)get_group_id(1) * TILE, j0 = (long)get_group_id(0) * TILE;
    // Four words of one line each; lines beyond the last repeat it.
    const int line = item / 4, word = item % 4 * 4;
    a += a_offset + (batch * p.m + min(i0 + line, p.m - 1)) * p.words + word;
    b += b_offset + (batch * p.n + min(j0 + line, p.n - 1)) * p.words + word;
    int sums[4][4];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            sums[i][j] = 0;
    for (long k = 0; k < p.words; k += SLAB) {
        const uint4 from_a = *(const __global uint4*)(a + k), from_b = *(const __global uint4*)(b + k);
        barrier(CLK_LOCAL_MEM_FENCE);
        a_slab[word][line] = from_a.x;
        a_slab[word + 1][line] = from_a.y;
        a_slab[word + 2][line] = from_a.z;
        a_slab[word + 3][line] = from_a.w;
        b_slab[word][line] = from_b.x;
        b_slab[word + 1][line] = from_b.y;
        b_slab[word + 2][line] = from_b.z;
        b_slab[word + 3][line] = from_b.w;
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int w = 0; w < SLAB; ++w) {
            const uint4 rows = *(const __local uint4*)&a_slab[w][4 * y];
            const uint4 columns = *(const __local uint4*)&b_slab[w][4 * x];
#define ROW(i, row)                                                                                         \
    sums[i][0] = dot_of_bytes(row, columns.x, sums[i][0]);                                                  \
    sums[i][1] = dot_of_bytes(row, columns.y, sums[i][1]);                                                  \
    sums[i][2] = dot_of_bytes(row, columns.z, sums[i][2]);                                                  \
    sums[i][3] = dot_of_bytes(row, columns.w, sums[i][3]);
            ROW(0, rows.x)
            ROW(1, rows.y)
            ROW(2, rows.z)
            ROW(3, rows.w)
        }
    }
    c += c_offset + batch * p.c_batch;
    a_sums += a_sums_offset / 2 + batch * p.m;
    b_sums += b_sums_offset / 2 + batch * p.n;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const long row = i0 + 4 * y + i;
        if (row >= p.m)
            break;
        const int2 of_row = a_sums[row];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const long column = j0 + 4 * x + j;
            if (column >= p.n)
                break;
            const int2 of_column = b_sums[column];
            c[row * p.c_row + column * p.c_column] = sums[i][j] - of_row.y * of_column.x - of_column.y * of_row.x +
                                                     (int)p.k * of_row.y * of_column.y;
        }
    }
}
