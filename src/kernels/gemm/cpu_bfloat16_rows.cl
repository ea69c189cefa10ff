// Products of bfloat16 on CPU devices with AVX-512 BF16, without AMX (bfloat16_rows.cl). One work-item owns a block of
// C: rows of A are read where they lie, or packed once for all columns where they do not lie along k; a panel of 32
// columns of B at a time, packed for all rows, or by split_b for all work-items, meets them twelve by twelve, over all
// of k at once. Sums are rounded to C in registers where nothing but a bias and relu follows.
// Options: -DX=bfloat16 -DREAL=float.
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"
#include "kernels/gemm/lanes.cl"
#include "kernels/gemm/bfloat16_words.cl"
#include "kernels/gemm/bfloat16_rows.cl"
DEFINE_TURN_COLUMNS(turn_columns, __private)

#define PANEL 32

typedef struct {
    long block_rows, block_columns;   // block_columns is a multiple of PANEL
    long length;                      // k rounded up to fours
    long pitch;                       // elements from one packed row of A to the next; 0: rows are read where they lie
    int shared;                       // panels were packed by split_b
    int plain;                        // C's rows lie along columns; no more than a bias, D's only row, and relu follow
} rows_plan;

// Words of 16 columns of B, `columns` of which are there, [pair of k] `pitch` words apart.
#define DEFINE_PACK_COLUMNS(name, SPACE)                                                                    \
    static inline void name(const __global ushort* b, matrix_layout layout, long columns, long depth,       \
                            long length, SPACE uint* words, int pitch)                                      \
    {                                                                                                       \
        if (layout.row == 1 && layout.column != 1) {                                                        \
            for (long k = 0; k < length; k += 32) {                                                         \
                uint block[256];                                                                            \
                turn_columns(b + k, layout.column, columns, depth - k, block);                              \
                for (int i = 0; i < min(16l, (length - k) / 2); ++i)                                        \
                    vstore16(vload16(i, block), 0, words + (k / 2 + i) * pitch);                            \
            }                                                                                               \
            return;                                                                                         \
        }                                                                                                   \
        for (long k = 0; k < length; k += 2, words += pitch, b += 2 * layout.row) {                         \
            if (layout.column == 1) {                                                                       \
                vstore16(as_uint16(two_lines(b, layout.row, depth - k, columns)), 0, words);                \
                continue;                                                                                   \
            }                                                                                               \
            uint values[16];                                                                                \
            for (int j = 0; j < 16; ++j) {                                                                  \
                const __global ushort* from = b + j * layout.column;                                        \
                const uint low = j < columns && k < depth ? from[0] : 0;                                    \
                values[j] = low | (j < columns && k + 1 < depth ? (uint)from[layout.row] << 16 : 0);        \
            }                                                                                               \
            vstore16(vload16(0, values), 0, words);                                                         \
        }                                                                                                   \
    }
DEFINE_PACK_COLUMNS(pack_columns_to_local, __local)
DEFINE_PACK_COLUMNS(pack_columns_to_global, __global)

static inline int panel_vectors(long columns) { return columns > 16 ? 2 : 1; }

// One work-item packs one panel, to [batch][panel].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void split_b(const __global ushort* b, ulong b_offset, __global uint* panels, ulong panels_offset, gemm_problem p,
             rows_plan plan)
{
    const long j = (long)get_group_id(0) * PANEL, batch = get_group_id(1);
    const int vectors = panel_vectors(p.n - j);
    b += b_offset + batch * p.b.batch + j * p.b.column;
    panels += panels_offset + (batch * get_num_groups(0) * PANEL + j) * (plan.length / 2);
    for (int side = 0; side < vectors; ++side)
        pack_columns_to_global(b + 16 * side * p.b.column, p.b, p.n - j - 16 * side, p.k, plan.length,
                               panels + 16 * side, 16 * vectors);
}

// Rows of A along k, zeros at their ends.
static inline void pack_rows(const __global ushort* a, matrix_layout layout, long rows, long depth,
                             const rows_plan* plan, __local uint* scratch, __local ushort* packed)
{
    if (layout.row == 1 && layout.column != 1) {
        for (long i = 0; i < rows; i += 16)
            for (long k = 0; k < plan->length; k += 32) {
                turn_rows(a + k * layout.column + i, layout.column, min(16l, rows - i), depth - k, scratch);
                __local uint* to = (__local uint*)(packed + i * plan->pitch + k);   // rows have room for whole blocks
                for (int r = 0; r < min(16l, rows - i); ++r, to += plan->pitch / 2)
                    vstore16(vload16(r, scratch), 0, to);
            }
        return;
    }
    for (long i = 0; i < rows; ++i, a += layout.row, packed += plan->pitch) {
        long k = 0;
        if (layout.column == 1)
            for (; k + 16 <= depth; k += 16)
                vstore16(vload16(0, a + k), 0, packed + k);
        for (; k < plan->length; ++k)
            packed[k] = k < depth ? a[k * layout.column] : 0;
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global ushort* a, ulong a_offset, const __global ushort* b, ulong b_offset,
              const __global uint* panels, ulong panels_offset, __global ushort* c, ulong c_offset,
              const __global ushort* d, ulong d_offset, gemm_problem p, rows_plan plan, float alpha, float beta,
              __local ulong* table, __local uint* panel, __local uint* scratch, __local ushort* packed)
{
    const long row_blocks = (p.m + plan.block_rows - 1) / plan.block_rows;
    const long column_blocks = (p.n + plan.block_columns - 1) / plan.block_columns;
    const long id = get_group_id(0), batch = id / column_blocks / row_blocks;
    const long i0 = id / column_blocks % row_blocks * plan.block_rows, j0 = id % column_blocks * plan.block_columns;
    const long rows = min(p.m - i0, plan.block_rows), columns = min(p.n - j0, plan.block_columns);
    a += a_offset + batch * p.a.batch + i0 * p.a.row;
    b += b_offset + batch * p.b.batch + j0 * p.b.column;
    c += c_offset + batch * p.c.batch + AT(p.c, i0, j0);
    d += d_offset + batch * p.d.batch + AT(p.d, i0, j0);
    panels += panels_offset + (batch * ((p.n + PANEL - 1) / PANEL) * PANEL + j0) * (plan.length / 2);

    ulong from = (ulong)a;
    long step = 2 * p.a.row;
    if (plan.pitch) {
        pack_rows(a, p.a, rows, p.k, &plan, scratch, packed);
        from = (ulong)packed;
        step = 2 * plan.pitch;
    }
    from += 2 * plan.length;
    __local ulong* place = table;
    for (long i = 0, some; i < rows; i += some) {
        some = rows_at_once(rows - i);
        for (long r = i; r < i + some; ++r, ++place) {
            place[0] = from + r * step;
            place[some] = (ulong)(c + r * p.c.row);
        }
        place += some;
    }

    float begin[PANEL], sums[ROWS_AT_ONCE * PANEL] __attribute__((aligned(64)));
    row_operands of = {.back = (ulong)(-2 * plan.length), .parts = 1, .bias = (ulong)begin,
                       .least = p.activation == ACTIVATION_RELU ? 0 : as_uint(-INFINITY)};
    for (long j = 0; j < columns; j += PANEL) {
        const long wanted = min(columns - j, (long)PANEL);
        const int vectors = panel_vectors(wanted), whole = plan.plain && wanted == 16 * vectors;
        if (plan.shared)
            of.weights = (ulong)(panels + j * (plan.length / 2));
        else {
            for (int side = 0; side < vectors; ++side)
                pack_columns_to_local(b + (j + 16 * side) * p.b.column, p.b, wanted - 16 * side, p.k, plan.length,
                                      panel + 16 * side, 16 * vectors);
            of.weights = (ulong)panel;
        }
        for (int i = 0; i < PANEL && whole; ++i)
            begin[i] = p.add_d && i < wanted ? load(bfloat16, d, j + i) : 0;
        of.table = (ulong)table;
        of.column = 2 * j;
        of.sums = whole ? 0 : (ulong)sums;
        for (long i = 0, done; i < rows; i += done) {
            const int some = rows_at_once(rows - i);
            of.groups = whole && some == ROWS_AT_ONCE ? (rows - i) / ROWS_AT_ONCE : 1;
            done = some * of.groups;
            multiply_rows(&of, some, vectors);
            of.table += 16 * done;
            for (int r = 0; r < some && !whole; ++r)
                for (int side = 0; side < vectors; ++side) {
                    const long column = j + 16 * side;
                    finish_row(vload16(r * vectors + side, sums), c + AT(p.c, i + r, column),
                               d + AT(p.d, i + r, column), &p, wanted - 16 * side, alpha, beta);
                }
        }
    }
}
