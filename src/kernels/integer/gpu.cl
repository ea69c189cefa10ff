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
// -DX=int8|uint8 (what is packed) -DPTX=0|1 (whether NVIDIA's instruction is written as such)
// -DALONG_K=0|1 (numbers of a line are neighbours) -DALIGNED=0|1 (and begin at multiples of four)
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

// A work-group packs LINES lines, LANES work-items each: [batch][line][words], where `words` is a multiple of SLAB; and
// [batch][line][2]: a line's sum and its zero point, of signed bytes. Neighbours take what are neighbours in memory:
// words of a line, or lines.
#if ALONG_K
#define LANES 64
#else
#define LANES 16
#endif
#define LINES (256 / LANES)

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void pack_lines(const __global storage_t(X)* from, ulong from_offset, const __global storage_t(X)* zeros,
                ulong zeros_offset, __global uint* to, ulong to_offset, __global int2* sums, ulong sums_offset,
                packed_matrix p, int words)
{
    __local int parts[LANES][LINES];
    const int item = get_local_id(0);
    const int lane = ALONG_K ? item % LANES : item / LINES, own = ALONG_K ? item / LANES : item % LINES;
    const long line = (long)get_group_id(0) * LINES + own, batch = get_group_id(1);
    const int depth = (int)p.depth;
    from += from_offset + batch * p.batch_step + min(line, p.lines - 1) * p.line_step;
    to += to_offset + (batch * p.lines + line) * words;
    int sum = 0;
    for (int word = lane; line < p.lines && word < words; word += LANES) {
        const int k = 4 * word;
        uint value = 0;
#if ALIGNED
        if (k + 4 <= depth)
            value = *(const __global uint*)(from + k) ^ FLIP * 0x01010101u;
        else
#endif
            #pragma unroll
            for (int e = 0; e < 4; ++e)
                if (k + e < depth)
                    value |= (((uint)from[(k + e) * p.k_step] & 0xffu) ^ FLIP) << 8 * e;
        to[word] = value;
        sum = dot_of_bytes(value, 0x01010101u, sum);
    }
    parts[lane][own] = sum;
    for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_lanes)
            parts[lane][own] += parts[lane + half_lanes][own];
    }
    if (lane > 0 || line >= p.lines)
        return;
    const int zero = p.zero_step < 0 ? 0 : (int)zeros[zeros_offset + line * p.zero_step];
    sums[sums_offset / 2 + batch * p.lines + line] = (int2)(parts[0][own], zero - (FLIP ? 128 : 0));
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
